//! Actions that the host executes for the tunnel. An action is a value: the program executes it, the
//! simulator and tests read it.

use crate::command::Answer;
use crate::config::{Config, PathSpec, Secret, TlsCheck};
use crate::log_limit::LogLimit;
use crate::packet::marking::Marker;
use crate::shards::ShardMessage;
use crate::tcp::LINE;
use crate::tls::Over;
use dccp_secure::{PresharedKey, PrivateKey, PublicKey};
use ipnet::IpNet;
use mpdccp_units::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// An action for the host, in the order of [`crate::Tunnel::poll_action`].
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Open a socket for a path, and with encryption a channel over it. Answered by
    /// [`crate::HostEvent::PathOpened`] or [`crate::HostEvent::PathFailed`].
    OpenPath(OpenPath),
    /// Close a socket and its channel.
    CloseSocket(u32),
    /// Query the system about a destination. Answered by [`crate::HostEvent::Looked`].
    Look {
        /// The socket.
        socket: u32,
        /// The destination.
        remote: SocketAddr,
        /// The socket belongs to a path of this end: report to the endpoint if its link is down.
        own: bool,
    },
    /// The path over this socket does not answer: it may try another encapsulation.
    Suspect(u32),
    /// Connect by TLS to an address that the session's server advertises, if there is one.
    TellServer {
        /// The socket of a path.
        socket: u32,
        /// Addresses that the server advertises.
        advertised: Vec<IpAddr>,
        /// The path is up: its connection stays.
        up: bool,
    },
    /// List the interfaces. Answered by [`crate::HostEvent::Interfaces`].
    ListInterfaces,
    /// Resolve a host name. Answered by [`crate::HostEvent::Resolved`].
    Resolve(String),
    /// Route a network into the interface.
    AddRoute {
        /// The network.
        net: IpNet,
        /// The route may exist already.
        replace: bool,
    },
    /// Delete a route that [`AddRoute`](Self::AddRoute) added; it may not exist any more.
    DeleteRoute(IpNet),
    /// Change the inner addresses of the interface. Answered by [`crate::HostEvent::AddressesSet`].
    SetAddresses {
        /// Addresses to remove.
        remove: Vec<IpNet>,
        /// Addresses to add.
        add: Vec<IpNet>,
    },
    /// Change the interface's MTU, bytes. Answered by [`crate::HostEvent::MtuSet`].
    SetMtu(u16),
    /// Make the kernel assign packets to these networks to the queues of these shards, replacing earlier
    /// assignments.
    AssignQueues(Vec<(IpNet, u8)>),
    /// As [`AssignQueues`](Self::AssignQueues), for one more address.
    AssignQueue(IpAddr, u8),
    /// Write a file of the state directory atomically.
    Save(StateFile, String),
    /// Write a line at [`line_start`], in a file whose lines have equal length.
    SaveLine(StateFile, u32, String),
    /// Mark outer headers this way from now on.
    SetMarking(Marker),
    /// Admit a peer with these keys.
    AddPeer {
        /// Its number.
        peer: u32,
        /// Its public key.
        key: PublicKey,
        /// The preshared secret of both ends.
        preshared: PresharedKey,
    },
    /// Drop a peer's channels, and all its packets from now on.
    RemovePeer(u32),
    /// Change this end's key.
    SetPrivateKey(PrivateKey),
    /// The peer may be another machine now, or may have lost its keys in a restart: packets wait for a new
    /// handshake.
    StartOver(u32),
    /// This end leaves the peer's server. Further channels may open at any server; existing channels
    /// stay with the old one.
    LeaveServer(u32),
    /// Pass a message to another shard.
    ToShard(u8, ShardMessage),
    /// Use these name servers for all names; an empty list restores the earlier ones.
    SetDns(Vec<IpAddr>),
    /// Run the owner's program.
    RunHook(Hook),
    /// Pass a command to the proxy's sockets.
    Tcp(mpdccp_proxy::Command),
    /// Write a packet to the interface.
    WriteInner(Vec<u8>),
    /// Answer the command with this number.
    Reply(u64, Answer),
    /// Log an event.
    Log(Level, String),
    /// All shards are alive: tell the service manager.
    Alive,
    /// Everything is closed: stop.
    Stop,
}

/// A path to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPath {
    /// Identifies the answer.
    pub request: u64,
    /// Number of the peer.
    pub peer: u32,
    /// Address of this host to send from.
    pub local: Option<IpAddr>,
    /// Interface to send through.
    pub interface: Option<String>,
    /// The peer's address; the port is that of TLS without UDP, and 0 without both.
    pub remote: SocketAddr,
    /// How it may use TLS, if at all.
    pub tls: Option<TlsPath>,
}

/// A path that uses TLS over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPath {
    /// Use TLS only while UDP does not answer; the value is the transport at the start. `None`: TLS only.
    pub auto: Option<Over>,
    /// TCP port of the server.
    pub port: u16,
    /// Name of the server.
    pub name: Option<String>,
    /// Check of the server's certificate.
    pub check: TlsCheck,
    /// HTTP proxy on the way, with user and password.
    pub proxy: Option<(SocketAddr, Option<Secret>)>,
    /// Addresses that the server of the current session advertises.
    pub advertised: Vec<IpAddr>,
}

impl TlsPath {
    /// The connection of a path of the file.
    pub fn of(
        cfg: &Config,
        spec: &PathSpec,
        proxy: Option<(SocketAddr, Option<Secret>)>,
        auto: Option<Over>,
        advertised: Vec<IpAddr>,
    ) -> TlsPath {
        TlsPath {
            auto,
            port: spec.tls_port.unwrap_or(cfg.tls_port),
            name: spec.tls_name.clone().or_else(|| spec.remote.name().map(str::to_owned)),
            check: spec.tls_check,
            proxy,
            advertised,
        }
    }
}

/// Message to the owner's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// The event.
    pub event: HookEvent,
    /// Name of the peer.
    pub peer: String,
    /// Name of the path that the event concerns, if any; on a server, the client's name for its path.
    pub path: Option<String>,
    /// The reason, or empty.
    pub why: String,
}

/// Kind of event.
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
    /// Name passed to hooks.
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
    /// Volumes of paths this month.
    Volumes,
    /// Addresses leased to peers.
    Leases,
    /// Time of the newest handshake.
    Timestamp,
    /// TCP connections that travel as streams, per shard. Obsolete after a restart of the host.
    Connections,
    /// Measured capacities of paths.
    Capacities,
}

impl StateFile {
    /// Suffix of the file's name, after the interface.
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

/// Offset of a line in a [`StateFile::Connections`] file, bytes.
pub fn line_start(line: u32) -> u64 {
    u64::from(line) * LINE as u64
}

/// Executes [`Action::SaveLine`] on a file's text.
pub fn put_line(file: &mut String, line: u32, text: &str) {
    let start = line_start(line) as usize;
    while file.len() < start + LINE {
        file.push_str(&format!("{:<width$}\n", "", width = LINE - 1));
    }
    file.replace_range(start..start + LINE, text);
}

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Level {
    Info,
    Warn,
    Error,
}

/// Actions that wait for the host to execute them.
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

    /// Sets the time of the following log lines.
    pub(crate) fn at(&mut self, now: Time) -> &mut Actions {
        self.now = now;
        self
    }

    /// Lines about a peer begin with `peer NAME:` and are rate-limited per peer.
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
            Err(e) => self.warn(format!("cannot save {}: {e}", file.suffix())),
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
