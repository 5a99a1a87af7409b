//! The paths of this end, waiting or open.

use crate::action::TlsPath;
use crate::config::{PathSpec, Prio};
use dccp_proto::{Ports, Route};
use mpdccp_proto::{PathConfig, PathName, SessionId};
use mpdccp_units::Time;
use std::net::{IpAddr, SocketAddr};

/// A path that is not open yet.
#[derive(Clone, Debug)]
pub(crate) struct WaitingPath {
    pub(crate) spec: PathSpec,
    /// The reason why the path waits: its interface, address or name is missing.
    pub(crate) why: String,
    /// The last address that failed, if the path's remote is a name.
    pub(crate) failed: Option<IpAddr>,
    /// The request to the host, while the host opens the path.
    pub(crate) opening: Option<Opening>,
    /// Number of the command to answer once the path is open or has failed.
    pub(crate) reply: Option<u64>,
    /// Whether the next socket starts with TLS, because UDP did not answer on the last one.
    pub(crate) over_tls: bool,
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
        WaitingPath { spec, why: String::new(), failed: None, opening: None, reply: None, over_tls: false }
    }

    /// Returns a waiting path in place of one whose socket was closed. The next socket starts with the same
    /// transport, UDP or TLS.
    pub(crate) fn again(path: &OpenPath) -> WaitingPath {
        WaitingPath { over_tls: path.over_tls, ..WaitingPath::new(path.spec.clone()) }
    }
}

/// A path of this end with a socket.
#[derive(Clone, Debug)]
pub(crate) struct OpenPath {
    pub(crate) spec: PathSpec,
    /// The interface of the path, by name or by pattern.
    pub(crate) interface: Option<String>,
    pub(crate) socket: u32,
    pub(crate) remote: SocketAddr,
    /// Source address on this host.
    pub(crate) source: Option<IpAddr>,
    pub(crate) mtu: u16,
    pub(crate) overhead: u16,
    /// Time since which the path has not worked.
    pub(crate) bad_since: Option<Time>,
    /// Whether a path to an advertised address has been up.
    pub(crate) proved: bool,
    /// Bytes of the socket that were charged to the quota so far.
    pub(crate) charged: u64,
    /// Whether the quota is used up.
    pub(crate) exhausted: bool,
    /// Whether packets are sent over TLS.
    pub(crate) over_tls: bool,
    /// Last message to the socket, if the path may use TLS: the addresses that the server advertises, and
    /// whether the path is up.
    pub(crate) knows: Option<(Vec<IpAddr>, bool)>,
}

/// A session with a former server, and its paths.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) session: SessionId,
    pub(crate) paths: Vec<OpenPath>,
    /// When the session ends at the latest.
    pub(crate) until: Time,
}

impl OpenPath {
    /// Priority that this end currently uses.
    pub(crate) fn prio(&self) -> Prio {
        let prio = self.spec.prio();
        if self.exhausted { prio.min(Prio::STANDBY) } else { prio }
    }

    /// Whether this path may switch to TLS if UDP does not answer.
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
