//! Links of a kind: `model = "lte"`.

use mpdccp_linkem::{LinkConfig, MODELS, Model, State};

/// A model in one direction at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Modelled {
    /// Which.
    pub model: &'static Model,
    /// From server to client.
    pub reverse: bool,
    /// What it is like now.
    pub state: State,
}

impl Modelled {
    /// One of those that there are, in its usual state.
    ///
    /// # Errors
    /// Names those that there are.
    pub fn named(name: &str, reverse: bool) -> Result<Modelled, String> {
        let model = Model::named(name).ok_or_else(|| {
            let known: Vec<&str> = MODELS.iter().map(|model| model.name).collect();
            format!("there is no model `{name}`; there are {}", known.join(", "))
        })?;
        let state = State::of(&model.usual()[usize::from(reverse)]);
        Ok(Modelled { model, reverse, state })
    }

    /// The same from server to client.
    pub fn behind(&self) -> Modelled {
        let state = State::of(&self.model.usual()[1]);
        Modelled { model: self.model, reverse: true, state }
    }

    /// For the emulator.
    pub fn config(&self) -> LinkConfig {
        let [forward, reverse] = self.model.usual();
        self.state.applied(if self.reverse { reverse } else { forward })
    }
}
