//! Actions that the host executes for the tunnel. Each action is plain data: the program executes it, and
//! the simulator and tests inspect it.

use crate::command::Answer;
use crate::config::{Config, PathSpec, Secret, TlsCheck};
use crate::log_limit::LogLimit;
use crate::packet::dscp_ecn::Marker;
use crate::shards::ShardMessage;
use crate::tcp::LINE;
use crate::tls::Over;
use dccp_secure::{PresharedKey, PrivateKey, PublicKey};
use ipnet::IpNet;
use mpdccp_units::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// An action for the host. Execute actions in the order in which [`crate::Tunnel::poll_action`] returns them.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Open a socket for a path and, with encryption, a channel over the socket. The host answers with
    /// [`crate::HostEvent::PathOpened`] or [`crate::HostEvent::PathFailed`].
    OpenPath(OpenPath),
    /// Close a socket and its channel.
    CloseSocket(u32),
    /// Ask the operating system for the MTU, source address and errors of a destination. The host answers
    /// with [`crate::HostEvent::Looked`].
    Look {
        /// The socket.
        socket: u32,
        /// The destination.
        remote: SocketAddr,
        /// Whether the socket belongs to a path of this end. If so, tell the endpoint whether the path's link
        /// is down.
        own: bool,
    },
    /// The path over this socket does not respond. Tell the socket, which may then switch to another
    /// encapsulation.
    Suspect(u32),
    /// Tell a socket which addresses the server of the session advertises. The socket opens its next TLS
    /// connection to one of them.
    TellServer {
        /// The socket of a path.
        socket: u32,
        /// Addresses that the server advertises.
        advertised: Vec<IpAddr>,
        /// Whether the path is up. If it is not, the socket may replace its TLS connection with one to an
        /// advertised address.
        up: bool,
    },
    /// List the interfaces. The host answers with [`crate::HostEvent::Interfaces`].
    ListInterfaces,
    /// Resolve a host name. The host answers with [`crate::HostEvent::Resolved`].
    Resolve(String),
    /// Route a network into the interface.
    AddRoute {
        /// The network.
        net: IpNet,
        /// Whether to replace an existing route to the network.
        replace: bool,
    },
    /// Delete a route that [`AddRoute`](Self::AddRoute) added. The route may be gone already.
    DeleteRoute(IpNet),
    /// Change the inner addresses of the interface. The host answers with [`crate::HostEvent::AddressesSet`].
    SetAddresses {
        /// Addresses to remove.
        remove: Vec<IpNet>,
        /// Addresses to add.
        add: Vec<IpNet>,
    },
    /// Change the interface's MTU, in bytes. The host answers with [`crate::HostEvent::MtuSet`].
    SetMtu(u16),
    /// Make the kernel deliver packets for each network to the interface queue of the given shard. The list
    /// replaces all earlier assignments.
    AssignQueues(Vec<(IpNet, u8)>),
    /// Add an address to the assignments that [`AssignQueues`](Self::AssignQueues) made.
    AssignQueue(IpAddr, u8),
    /// Write a file of the state directory atomically.
    Save(StateFile, String),
    /// Write a line at [`line_start`] into a file whose lines all have the same length.
    SaveLine(StateFile, u32, String),
    /// From now on, mark all outer headers (DSCP and ECN) in this way.
    SetMarking(Marker),
    /// Admit a peer with these keys.
    AddPeer {
        /// Number of the peer.
        peer: u32,
        /// Public key of the peer.
        key: PublicKey,
        /// Preshared key of both ends.
        preshared: PresharedKey,
    },
    /// Send the packets that the endpoint has ready. Then drop the peer's channels and, from now on, all
    /// packets from the peer.
    RemovePeer(u32),
    /// Change this end's key.
    SetPrivateKey(PrivateKey),
    /// Hold packets to this peer until a new handshake has completed. The peer may now be another machine, or
    /// may have restarted and lost its keys.
    StartOver(u32),
    /// Leave this peer's current server. New channels may open to any server, but existing channels stay with
    /// the old one.
    LeaveServer(u32),
    /// Pass a message to another shard.
    ToShard(u8, ShardMessage),
    /// Use these name servers for all names. An empty list restores the earlier name servers.
    SetDns(Vec<IpAddr>),
    /// Run the configured hook program.
    RunHook(Hook),
    /// Pass a command to the proxy's sockets.
    Tcp(mpdccp_proxy::Command),
    /// Write a packet to the interface.
    WriteInner(Vec<u8>),
    /// Answer the command with this number.
    Reply(u64, Answer),
    /// Log an event.
    Log(Level, String),
    /// Report to the service manager that all shards of the server are alive.
    Alive,
    /// Everything is closed. Stop the program.
    Stop,
}

/// A path to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenPath {
    /// Number of this request, to be repeated in the answer.
    pub request: u64,
    /// Number of the peer.
    pub peer: u32,
    /// Address on this host to send from.
    pub local: Option<IpAddr>,
    /// Interface to send through.
    pub interface: Option<String>,
    /// The peer's address. The port is the UDP port for a path that can use UDP, the TCP port for a path that
    /// uses only TLS, and 0 for native DCCP.
    pub remote: SocketAddr,
    /// How the path may use TLS; `None` if it may not.
    pub tls: Option<TlsPath>,
}

/// How a path uses TLS over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPath {
    /// `Some`: use TLS only while UDP gets no answer, starting with the given transport. `None`: always use
    /// TLS.
    pub auto: Option<Over>,
    /// TCP port of the server.
    pub port: u16,
    /// Name of the server.
    pub name: Option<String>,
    /// How to check the server's certificate.
    pub check: TlsCheck,
    /// HTTP proxy for the connection, with user and password.
    pub proxy: Option<(SocketAddr, Option<Secret>)>,
    /// Addresses that the server of the current session advertises.
    pub advertised: Vec<IpAddr>,
}

impl TlsPath {
    /// Returns how a path from the configuration file connects over TLS.
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

/// A message to the configured hook program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// The event.
    pub event: HookEvent,
    /// Name of the peer.
    pub peer: String,
    /// Name of the path, if the event concerns a path. On a server, this is the name that the client gave the
    /// path.
    pub path: Option<String>,
    /// The reason; may be empty.
    pub why: String,
}

mpdccp_units::named! {
    /// Kind of event.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    pub enum HookEvent {
        /// A session opened.
        SessionUp = "session-up",
        /// A session ended.
        SessionDown = "session-down",
        /// A path works.
        PathUp = "path-up",
        /// A path failed or was closed.
        PathDown = "path-down",
    }
}

mpdccp_units::named! {
    /// Files of the state directory. Each tunnel has its own files. The name of a file begins with the name
    /// of the interface.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum StateFile {
        /// How much data the paths have carried this month.
        Volumes = "volumes.json",
        /// Addresses leased to peers.
        Leases = "leases.json",
        /// Time of the newest handshake.
        Timestamp = "handshake.json",
        /// TCP connections that the tunnel carries as streams. Each shard has its own file. After a reboot of
        /// the host, the contents are obsolete.
        Connections = "connections",
        /// Measured capacities of paths.
        Capacities = "capacities.json",
    }
}

/// Returns the byte offset of a line in a [`StateFile::Connections`] file.
pub fn line_start(line: u32) -> u64 {
    u64::from(line) * LINE as u64
}

/// Executes [`Action::SaveLine`] by writing a line into the text of a file.
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

/// Actions waiting for the host to execute them.
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

    /// Sets the time for the log lines that follow.
    pub(crate) fn at(&mut self, now: Time) -> &mut Actions {
        self.now = now;
        self
    }

    /// Logs a line. Lines about a peer begin with `peer NAME: ` and are rate-limited per peer. A name may
    /// contain spaces and colons.
    fn log(&mut self, level: Level, line: String) {
        let peer = line.strip_prefix("peer ").and_then(|rest| rest.split(": ").next()).map(str::to_owned);
        let line = match peer {
            Some(peer) => self.limit.pass(self.now, &peer, line),
            None => Some(line),
        };
        self.waiting.extend(line.map(|line| Action::Log(level, line)));
    }

    pub(crate) fn save(&mut self, file: StateFile, what: &impl serde::Serialize) {
        match serde_json::to_string_pretty(what) {
            Ok(text) => self.push(Action::Save(file, text)),
            Err(e) => self.warn(format!("cannot save {}: {e}", file.name())),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_whose_names_begin_with_the_same_word_have_limits_of_their_own() {
        let mut out = Actions::default();
        (0..100).for_each(|n| out.info(format!("peer office a: line {n}")));
        out.waiting.clear();
        out.info("peer office b: path dsl is up");
        assert_eq!(out.waiting.len(), 1);
    }
}
