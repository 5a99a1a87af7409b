//! Paths of a connection, and what carries its packets.

use std::net::{IpAddr, SocketAddr};

/// The carrier of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encapsulation {
    /// DCCP in UDP (RFC 6773): passes NATs, needs no privilege.
    #[default]
    Udp,
    /// Native DCCP, IP protocol 33; needs CAP_NET_RAW. The port of an address is then the DCCP port.
    Raw,
}

/// A path of a multipath connection: from a local address to an address of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub(crate) local: Option<IpAddr>,
    pub(crate) interface: Option<String>,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) priority: u8,
}

impl Path {
    /// From this local address to the address that the connection was made to. See [`Path::interface`], too:
    /// an address alone does not select the line.
    pub fn from(local: IpAddr) -> Path {
        Path { local: Some(local), ..Path::unbound() }
    }

    /// Through this network interface, such as `eth0`, from one of its addresses that the system chooses. For a
    /// local address use [`Path::from`].
    pub fn on(interface: &str) -> Path {
        Path::unbound().interface(interface)
    }

    /// Leaves through this network interface only (SO_BINDTODEVICE). Without it, the system's routes choose
    /// the interface even if the path has an address, and may choose another path's interface.
    pub fn interface(self, name: &str) -> Path {
        Path { interface: Some(name.to_owned()), ..self }
    }

    /// From the address that the system chooses.
    pub(crate) fn unbound() -> Path {
        Path { local: None, interface: None, remote: None, priority: 3 }
    }

    /// To another address of the peer.
    pub fn to(self, remote: SocketAddr) -> Path {
        Path { remote: Some(remote), ..self }
    }

    /// 0 never, 1 standby, 2 overflow, 3 to 15 primary (RFC 9897 section 3.2.10); 3 by default. Among primaries,
    /// only the schedulers `cpf`, `acpf`, `weighted-rr` and `handover` prefer larger values.
    pub fn priority(self, priority: u8) -> Path {
        Path { priority: priority.min(15), ..self }
    }
}
