//! State of this end's paths. A path is waiting until it has a socket; from then on it is open.

use crate::action::TlsPath;
use crate::config::{PathSpec, Prio};
use dccp_proto::{Ports, Route};
use mpdccp_proto::{PathConfig, PathName, SessionId};
use mpdccp_units::{Time, source};
use std::net::{IpAddr, SocketAddr};

/// A path that is not open yet.
#[derive(Clone, Debug)]
pub(crate) struct WaitingPath {
    pub(crate) spec: PathSpec,
    /// Why the path is waiting: its interface or its address is missing, or its name has not been resolved.
    pub(crate) why: String,
    /// The address that failed last, if the path's remote or proxy is a name.
    pub(crate) failed: Option<IpAddr>,
    /// The request to the host, while the host opens the path.
    pub(crate) opening: Option<Opening>,
    /// Number of the command to answer when the path opens or fails.
    pub(crate) reply: Option<u64>,
    /// Whether the next socket starts with TLS, because UDP did not answer on the previous socket.
    pub(crate) over_tls: bool,
    /// Whether the quota was used up when the previous socket was closed.
    pub(crate) exhausted: bool,
}

/// A pending request to the host to open a path.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(crate) request: u64,
    pub(crate) interface: Option<String>,
    pub(crate) remote: SocketAddr,
    pub(crate) tls: Option<TlsPath>,
}

impl WaitingPath {
    pub(crate) fn new(spec: PathSpec) -> WaitingPath {
        WaitingPath {
            spec,
            why: String::new(),
            failed: None,
            opening: None,
            reply: None,
            over_tls: false,
            exhausted: false,
        }
    }

    /// Creates a waiting path from an open path whose socket was closed. The next socket starts with the same
    /// transport, UDP or TLS.
    pub(crate) fn again(path: &OpenPath) -> WaitingPath {
        let OpenPath { over_tls, exhausted, .. } = *path;
        WaitingPath { over_tls, exhausted, ..WaitingPath::new(path.spec.clone()) }
    }
}

/// A path of this end that has a socket.
#[derive(Clone, Debug)]
pub(crate) struct OpenPath {
    pub(crate) spec: PathSpec,
    /// The interface of the path, by name or by pattern.
    pub(crate) interface: Option<String>,
    pub(crate) socket: u32,
    pub(crate) remote: SocketAddr,
    /// Address of the HTTP proxy.
    pub(crate) proxy: Option<IpAddr>,
    /// Source address on this host.
    pub(crate) source: Option<IpAddr>,
    pub(crate) mtu: u16,
    pub(crate) overhead: u16,
    /// Since when the path has been down.
    pub(crate) bad_since: Option<Time>,
    /// Whether the path has been up. Used for paths to advertised addresses.
    pub(crate) proved: bool,
    /// Number of the socket's bytes that were already charged to the quota.
    pub(crate) charged: u64,
    /// Whether the quota is used up.
    pub(crate) exhausted: bool,
    /// Whether packets are sent over TLS.
    pub(crate) over_tls: bool,
    /// The addresses that the server advertises, and whether the path is up, as the socket was told last.
    /// `None` if the path may not use TLS.
    pub(crate) knows: Option<(Vec<IpAddr>, bool)>,
}

/// A session with a former server, and its paths.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) session: SessionId,
    pub(crate) paths: Vec<OpenPath>,
    /// The session ends no later than this time.
    pub(crate) until: Time,
}

/// Returns whether an address of a path has moved to another network. An IPv6 host may change its address
/// within a /64 at any time.
pub(crate) fn is_elsewhere(before: IpAddr, now: IpAddr) -> bool {
    source(before) != source(now)
}

impl OpenPath {
    /// Returns the priority that this end is using.
    pub(crate) fn prio(&self) -> Prio {
        let prio = self.spec.prio();
        if self.exhausted { prio.min(Prio::STANDBY) } else { prio }
    }

    /// Returns whether this path can still switch to TLS if UDP does not answer.
    pub(crate) fn may_move(&self) -> bool {
        self.knows.is_some() && !self.over_tls
    }

    pub(crate) fn config(&self, local: u16) -> PathConfig {
        PathConfig {
            route: Route { socket: self.socket, local: None, remote: self.remote },
            ports: Ports { local, remote: dccp_wire::DCCP_UDP_PORT },
            name: PathName::of(&self.spec.name),
            prio: self.prio().0,
            mtu: self.mtu,
            overhead: self.overhead,
        }
    }
}
