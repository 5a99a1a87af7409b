//! What the tunnel's owner asks of it while it runs.

use crate::config::{Config, PathSpec, Prio};
use dccp_secure::{PresharedKey, PrivateKey, PublicKey};
use mpdccp_proto::sched::SchedulerKind;

/// A request. Each is answered by one [`crate::Action::Reply`].
#[derive(Clone, Debug)]
pub enum Command {
    /// Add a path to a client.
    PathAdd {
        /// Name of the peer, if there are several.
        peer: Option<String>,
        /// The path.
        path: PathSpec,
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
    /// Choose another scheduler for what this end sends.
    Scheduler {
        /// Name of the peer, if there are several.
        peer: Option<String>,
        /// The scheduler.
        kind: SchedulerKind,
    },
    /// Take no new clients, and ask those that are here to go to another server.
    Drain,
    /// Follow another configuration, which [`Config::check_change`] has accepted.
    Reload(Box<Config>, Keys),
    /// Close all sessions, then stop.
    ShutDown,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Done.
    Done,
    /// Draining; so many clients are still here.
    Clients(usize),
    /// What a reload changed, in words.
    Reloaded(String),
    /// What is wrong with the request, or went wrong.
    Error(String),
}

/// The keys of a peer; `None` without encryption.
pub type PeerKeys = Option<(PublicKey, PresharedKey)>;

/// All keys of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Keys {
    /// This end's; `None` without encryption.
    pub own: Option<PrivateKey>,
    /// Of each peer, in the order of the configuration.
    pub peers: Vec<PeerKeys>,
}
