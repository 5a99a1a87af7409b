//! A path of this end, waiting or open.

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
    /// Reason for waiting: its interface, address or name.
    pub(crate) why: String,
    /// The address of its name that failed last.
    pub(crate) failed: Option<IpAddr>,
    /// The host is opening it.
    pub(crate) opening: Option<Opening>,
    /// The command to answer once the path is open or has failed.
    pub(crate) reply: Option<u64>,
    /// UDP did not answer on its last socket, so the next one begins with TLS.
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

    /// A path whose socket was closed. The next socket begins with the same transport, UDP or TLS.
    pub(crate) fn again(path: &OpenPath) -> WaitingPath {
        WaitingPath { over_tls: path.over_tls, ..WaitingPath::new(path.spec.clone()) }
    }
}

/// A path of this end with a socket.
#[derive(Clone, Debug)]
pub(crate) struct OpenPath {
    pub(crate) spec: PathSpec,
    /// Its interface, by name or by pattern.
    pub(crate) interface: Option<String>,
    pub(crate) socket: u32,
    pub(crate) remote: SocketAddr,
    /// Source address on this host.
    pub(crate) source: Option<IpAddr>,
    pub(crate) mtu: u16,
    pub(crate) overhead: u16,
    /// Since when it does not work.
    pub(crate) bad_since: Option<Time>,
    /// For a path to an advertised address: whether it has been up.
    pub(crate) proved: bool,
    /// Bytes of its socket charged to its quota so far.
    pub(crate) charged: u64,
    /// Its quota is used up.
    pub(crate) exhausted: bool,
    /// Its packets take TLS.
    pub(crate) over_tls: bool,
    /// Last message to its socket, if the path may use TLS: the addresses that the server advertises, and `true` if the path is up.
    pub(crate) knows: Option<(Vec<IpAddr>, bool)>,
}

/// A session with a former server, and its paths.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) session: SessionId,
    pub(crate) paths: Vec<OpenPath>,
    /// Latest time of its end.
    pub(crate) until: Time,
}

impl OpenPath {
    /// Priority in force at this end.
    pub(crate) fn prio(&self) -> Prio {
        let prio = self.spec.prio();
        if self.exhausted { prio.min(Prio::STANDBY) } else { prio }
    }

    /// Whether this path may switch to TLS if UDP does not answer.
    pub(crate) fn may_move(&self) -> bool {
        self.knows.is_some() && !self.over_tls
    }

    pub(crate) fn config(&self, local: u16, remote: u16) -> PathConfig {
        PathConfig {
            route: Route { socket: self.socket, local: None, remote: self.remote },
            ports: Ports { local, remote },
            name: PathName::of(&self.spec.name),
            prio: self.prio().0,
            mtu: self.mtu,
            overhead: self.overhead,
        }
    }
}
