//! The paths of a connection, and the encapsulation of its packets.

use std::net::{IpAddr, SocketAddr};

/// The encapsulation of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encapsulation {
    /// DCCP in UDP (RFC 6773), which passes NATs and needs no privileges.
    #[default]
    Udp,
    /// Native DCCP (IP protocol 33). It needs CAP_NET_RAW. The port in an address is then the DCCP port.
    Raw,
}

/// A path of a multipath connection, from a local address to one of the peer's addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    pub(crate) local: Option<IpAddr>,
    pub(crate) interface: Option<String>,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) priority: u8,
}

impl Path {
    /// Creates a path from this local address to the address that the connection was made to. The local
    /// address alone does not select the interface; see [`Path::interface`].
    pub fn from(local: IpAddr) -> Path {
        Path { local: Some(local), ..Path::unbound() }
    }

    /// Creates a path through this network interface, such as `eth0`. The system chooses one of the
    /// interface's addresses. To select the local address, use [`Path::from`].
    pub fn on(interface: &str) -> Path {
        Path::unbound().interface(interface)
    }

    /// Sends only through this network interface (SO_BINDTODEVICE). Without this setting, the system's routes
    /// choose the interface, even if the path has a local address. They may choose another path's interface.
    pub fn interface(self, name: &str) -> Path {
        Path { interface: Some(name.to_owned()), ..self }
    }

    /// Creates a path from the address that the system chooses.
    pub(crate) fn unbound() -> Path {
        Path { local: None, interface: None, remote: None, priority: 3 }
    }

    /// Directs the path to a different address of the peer.
    pub fn to(self, remote: SocketAddr) -> Path {
        Path { remote: Some(remote), ..self }
    }

    /// Sets the path's priority (RFC 9897 section 3.2.10): 0 means never, 1 standby, 2 overflow, and 3 to 15
    /// primary. The default is 3. Among primary paths, only the schedulers `cpf`, `acpf`, `weighted-rr` and
    /// `handover` prefer higher values.
    pub fn priority(self, priority: u8) -> Path {
        Path { priority: priority.min(15), ..self }
    }
}
