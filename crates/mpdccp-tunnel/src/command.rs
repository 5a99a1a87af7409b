//! Commands of the tunnel's owner at run time.

use crate::config::{Config, PathSpec, Prio};
use dccp_secure::{PresharedKey, PrivateKey, PublicKey};
use mpdccp_proto::sched::SchedulerKind;

/// A command. One [`crate::Action::Reply`] answers it.
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
    /// Change a path's priority, here and at the peer.
    PathPrio {
        /// Name of the peer, if there are several.
        peer: Option<String>,
        /// Name of the path.
        name: String,
        /// The priority.
        priority: Prio,
    },
    /// Change the scheduler of this end.
    Scheduler {
        /// Name of the peer, if there are several.
        peer: Option<String>,
        /// The scheduler.
        kind: SchedulerKind,
    },
    /// Accept no new clients, and ask the present ones to use another server.
    Drain,
    /// Apply another configuration, which [`Config::check_change`] has accepted.
    Reload(Box<Config>, Keys),
    /// Close all sessions, then stop.
    ShutDown,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// Draining; number of remaining clients.
    Clients(usize),
    /// Changes made by a reload, in words.
    Reloaded(String),
    /// An error in the command or its execution.
    Error(String),
}

/// The keys of a peer; `None` without encryption.
pub type PeerKeys = Option<(PublicKey, PresharedKey)>;

/// All keys of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys {
    /// This end's key; `None` without encryption.
    pub own: Option<PrivateKey>,
    /// Keys of each peer, in the order of the configuration.
    pub peers: Vec<PeerKeys>,
}
