//! Link models by name, for example `model = "lte"`.

use mpdccp_linkem::{LinkConfig, MODELS, Model, State};

/// A model in one direction, with its state at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Modelled {
    /// The model.
    pub model: &'static Model,
    /// Whether the direction is from server to client.
    pub reverse: bool,
    /// The model's current state.
    pub state: State,
}

impl Modelled {
    /// Returns the model with this name, in its usual state.
    ///
    /// # Errors
    /// Fails if the name is unknown. The error lists the known models.
    pub fn named(name: &str, reverse: bool) -> Result<Modelled, String> {
        let model = Model::named(name).ok_or_else(|| {
            let known: Vec<&str> = MODELS.iter().map(|model| model.name).collect();
            format!("unknown model `{name}`; expected one of: {}", known.join(", "))
        })?;
        Ok(Modelled { model, reverse, state: usual(model, reverse) })
    }

    /// Returns the model's usual state.
    pub fn usual(&self) -> State {
        usual(self.model, self.reverse)
    }

    /// Returns the same model in the direction from server to client.
    pub fn behind(&self) -> Modelled {
        Modelled { model: self.model, reverse: true, state: usual(self.model, true) }
    }

    /// Returns the emulator's configuration for the model.
    pub fn config(&self) -> LinkConfig {
        let [forward, reverse] = self.model.usual();
        self.state.applied(if self.reverse { reverse } else { forward })
    }
}

fn usual(model: &Model, reverse: bool) -> State {
    State::of(&model.usual()[usize::from(reverse)])
}
