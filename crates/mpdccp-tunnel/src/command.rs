//! Commands that the tunnel's owner gives at run time.

use crate::config::{Config, PathSpec, Prio};
use dccp_secure::{PresharedKey, PrivateKey, PublicKey};

/// A command. The answer is one [`crate::Action::Reply`].
#[derive(Clone, Debug)]
pub enum Command {
    /// Add a path to a client.
    PathAdd {
        /// Name of the peer, if there are several.
        peer: Option<String>,
        /// The path.
        path: Box<PathSpec>,
    },
    /// Close a path of a client.
    PathDel {
        /// Name of the peer, if there are several.
        peer: Option<String>,
        /// Name of the path.
        name: String,
    },
    /// Change the priority of a path at both ends.
    PathPrio {
        /// Name of the peer, if there are several.
        peer: Option<String>,
        /// Name of the path.
        name: String,
        /// The priority.
        priority: Prio,
    },
    /// Accept no new clients, and ask connected clients to use another server.
    Drain,
    /// Apply another configuration, which [`Config::check_change`] has accepted.
    Reload(Box<Config>, Keys),
    /// Close all sessions, then stop.
    ShutDown,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The command is done.
    Done,
    /// The server is draining; the value is the number of remaining clients.
    Clients(usize),
    /// The file was reloaded; the value describes the changes.
    Reloaded(String),
    /// The command is invalid or failed.
    Error(String),
}

/// The keys of a peer; `None` without encryption.
pub type PeerKeys = Option<(PublicKey, PresharedKey)>;

/// All keys of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys {
    /// Private key of this end; `None` without encryption.
    pub own: Option<PrivateKey>,
    /// Keys of each peer, in the order of the configuration.
    pub peers: Vec<PeerKeys>,
}
