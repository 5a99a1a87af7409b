//! What the host does for the tunnel. An action is a value: the program executes it, the simulator and tests read it.

use crate::command::Answer;
use crate::log_limit::LogLimit;
use crate::packet::marking::Marker;
use crate::shards::ShardMessage;
use crate::tcp::LINE;
use dccp_secure::{PresharedKey, PrivateKey, PublicKey};
use ipnet::IpNet;
use mpdccp_units::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Something the host has to do, in the order of [`crate::Tunnel::poll_action`].
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Open a socket for a path, and with encryption a channel over it. [`crate::HostEvent::PathOpened`] or
    /// [`crate::HostEvent::PathFailed`] answers.
    OpenPath(OpenPath),
    /// Close a socket, and the channel it stands for.
    CloseSocket(u32),
    /// Look at what the system knows of a destination. [`crate::HostEvent::Looked`] answers.
    Look {
        /// The socket.
        socket: u32,
        /// The destination.
        remote: SocketAddr,
        /// The socket is a path's of this end: tell the endpoint if its link is down.
        own: bool,
    },
    /// List the interfaces. [`crate::HostEvent::Interfaces`] answers.
    ListInterfaces,
    /// Look a host name up. [`crate::HostEvent::Resolved`] answers.
    Resolve(String),
    /// Route a network into the interface.
    AddRoute {
        /// The network.
        net: IpNet,
        /// It may be there already.
        replace: bool,
    },
    /// Delete such a route; it may be gone already.
    DeleteRoute(IpNet),
    /// Change the inner addresses of the interface. [`crate::HostEvent::AddressesSet`] answers.
    SetAddresses {
        /// To take away.
        remove: Vec<IpNet>,
        /// To add.
        add: Vec<IpNet>,
    },
    /// Change the interface's MTU, bytes. [`crate::HostEvent::MtuSet`] answers.
    SetMtu(u16),
    /// Have the kernel put packets to these networks into the interface's queues of these shards, and no others.
    AssignQueues(Vec<(IpNet, u8)>),
    /// As [`AssignQueues`](Self::AssignQueues), for one address more.
    AssignQueue(IpAddr, u8),
    /// Write a file of the state directory, whole or not at all.
    Save(StateFile, String),
    /// Write a line of a file whose lines have one length, at [`line_start`].
    SaveLine(StateFile, u32, String),
    /// Mark outer headers so from now on.
    SetMarking(Marker),
    /// Let a peer in that has these keys.
    AddPeer {
        /// Its number.
        peer: u32,
        /// Its public key.
        key: PublicKey,
        /// The secret that both ends share besides.
        preshared: PresharedKey,
    },
    /// Drop a peer's channels, and whatever comes from it.
    RemovePeer(u32),
    /// This end has another key.
    SetPrivateKey(PrivateKey),
    /// The peer may be another machine from now on, or have lost its keys in a restart: packets wait for a new handshake.
    StartOver(u32),
    /// Hand a message to another shard.
    ToShard(u8, ShardMessage),
    /// Ask these name servers for all names; none: as before the tunnel began.
    SetDns(Vec<IpAddr>),
    /// Run the owner's program.
    RunHook(Hook),
    /// Tell the proxy's sockets.
    Tcp(mpdccp_proxy::Command),
    /// Write a packet to the interface.
    WriteInner(Vec<u8>),
    /// Answer the command with this number.
    Reply(u64, Answer),
    /// Log an event.
    Log(Level, String),
    /// All shards live: tell the service manager.
    Alive,
    /// Everything is closed: end.
    Stop,
}

/// A path to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPath {
    /// Comes back with the answer.
    pub request: u64,
    /// Number of the peer.
    pub peer: u32,
    /// Address of this host to send from.
    pub local: Option<IpAddr>,
    /// Interface to send through.
    pub interface: Option<String>,
    /// The peer's address; the port is 0 without UDP.
    pub remote: SocketAddr,
}

/// What the owner's program is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// What happened.
    pub event: HookEvent,
    /// Name of the peer.
    pub peer: String,
    /// Name of the path, if it is about one; a client's at a server is what the client calls it.
    pub path: Option<String>,
    /// Why, if there is a reason.
    pub why: String,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HookEvent {
    /// A session opened.
    SessionUp,
    /// A session ended.
    SessionDown,
    /// A path works.
    PathUp,
    /// A path failed or was closed.
    PathDown,
}

impl HookEvent {
    /// As hooks are told.
    pub fn name(self) -> &'static str {
        match self {
            HookEvent::SessionUp => "session-up",
            HookEvent::SessionDown => "session-down",
            HookEvent::PathUp => "path-up",
            HookEvent::PathDown => "path-down",
        }
    }
}

/// Files of the state directory, each of one tunnel by its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StateFile {
    /// What paths carried this month.
    Volumes,
    /// Addresses leased to peers.
    Leases,
    /// Time of the newest handshake.
    Timestamp,
    /// TCP connections that travel as streams; of each shard. Worth nothing once the host has restarted.
    Connections,
    /// What paths were seen to carry.
    Capacities,
}

impl StateFile {
    /// End of the file's name, behind that of the interface.
    pub fn suffix(self) -> &'static str {
        match self {
            StateFile::Volumes => "volumes.json",
            StateFile::Leases => "leases.json",
            StateFile::Timestamp => "handshake.json",
            StateFile::Connections => "connections",
            StateFile::Capacities => "capacities.json",
        }
    }
}

/// Where a line of a [`StateFile::Connections`] begins, bytes.
pub fn line_start(line: u32) -> u64 {
    u64::from(line) * LINE as u64
}

/// Does [`Action::SaveLine`] to a file's text.
pub fn put_line(file: &mut String, line: u32, text: &str) {
    let start = line_start(line) as usize;
    while file.len() < start + LINE {
        file.push_str(&format!("{:<width$}\n", "", width = LINE - 1));
    }
    file.replace_range(start..start + LINE, text);
}

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Level {
    Info,
    Warn,
    Error,
}

/// Actions that wait for the host.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    pub(crate) waiting: VecDeque<Action>,
    now: Time,
    limit: LogLimit,
}

impl Actions {
    pub(crate) fn push(&mut self, action: Action) {
        self.waiting.push_back(action);
    }

    /// What is logged from now on happens now.
    pub(crate) fn at(&mut self, now: Time) -> &mut Actions {
        self.now = now;
        self
    }

    /// Lines about a peer begin with `peer NAME:`; nobody fills the log with them.
    fn log(&mut self, level: Level, line: String) {
        let peer =
            line.strip_prefix("peer ").and_then(|rest| rest.split([':', ' ']).next()).map(str::to_owned);
        let line = match peer {
            Some(peer) => self.limit.pass(self.now, &peer, line),
            None => Some(line),
        };
        self.waiting.extend(line.map(|line| Action::Log(level, line)));
    }

    pub(crate) fn save(&mut self, file: StateFile, what: &impl serde::Serialize) {
        match serde_json::to_string_pretty(what) {
            Ok(text) => self.push(Action::Save(file, text)),
            Err(e) => self.warn(format!("{} is not saved: {e}", file.suffix())),
        }
    }

    pub(crate) fn info(&mut self, message: impl Into<String>) {
        self.log(Level::Info, message.into());
    }

    pub(crate) fn warn(&mut self, message: impl Into<String>) {
        self.log(Level::Warn, message.into());
    }

    pub(crate) fn error(&mut self, message: impl Into<String>) {
        self.log(Level::Error, message.into());
    }
}
