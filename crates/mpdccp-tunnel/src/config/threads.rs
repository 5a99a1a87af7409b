use serde::{Deserialize, Deserializer};

/// Whether helper threads assist the thread that runs the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// `"auto"`: helper threads if there are enough cores.
    Auto,
    /// `true`: always.
    On,
    /// `false`: never.
    #[default]
    Off,
}

impl<'de> Deserialize<'de> for Threads {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Threads, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected \"auto\", true or false")]
        enum Text {
            Bool(bool),
            Word(String),
        }
        match Text::deserialize(d)? {
            Text::Bool(true) => Ok(Threads::On),
            Text::Bool(false) => Ok(Threads::Off),
            Text::Word(word) if word == "auto" => Ok(Threads::Auto),
            Text::Word(_) => Err(serde::de::Error::custom("expected \"auto\", true or false")),
        }
    }
}
