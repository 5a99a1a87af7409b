//! Commands that the owner gives a running tunnel.

use crate::config::{Config, PathSpec, Prio};
use dccp_secure::{PresharedKey, PrivateKey, PublicKey};

/// A command. The tunnel answers each command with one [`crate::Action::Reply`].
#[derive(Clone, Debug)]
pub enum Command {
    /// Add a path. Client only.
    PathAdd {
        /// Name of the peer, if there are several.
        peer: Option<String>,
        /// The path.
        path: Box<PathSpec>,
    },
    /// Close a path. Client only.
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
    /// The server is draining. The value is the number of clients that are still connected.
    Clients(usize),
    /// The configuration was reloaded. The value describes the changes.
    Reloaded(String),
    /// The command is invalid or failed.
    Error(String),
}

/// Public key of a peer and the preshared key; `None` without encryption.
pub type PeerKeys = Option<(PublicKey, PresharedKey)>;

/// All keys of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys {
    /// Private key of this end; `None` without encryption.
    pub own: Option<PrivateKey>,
    /// Keys of each peer, in the order of the configuration.
    pub peers: Vec<PeerKeys>,
}
