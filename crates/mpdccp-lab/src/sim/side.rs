use serde::Deserialize;

/// One of the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The host that connects.
    Client,
    /// The host that the client connects to.
    Server,
}

impl Side {
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    pub(crate) fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Side::Client => "client",
            Side::Server => "server",
        }
    }
}
