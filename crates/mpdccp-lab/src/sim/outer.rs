//! The tunnel's outer addresses: the addresses of its UDP datagrams.

use std::net::{IpAddr, SocketAddr};

/// Addresses of one of the tunnel's UDP datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outer {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
}

impl Outer {
    /// Returns the index of the path to the destination.
    pub(super) fn path(&self) -> usize {
        path_to(self.to.ip())
    }

    /// Returns the identifier by which queues distinguish flows.
    pub(super) fn flow(&self) -> u32 {
        u32::from(self.from.port()) << 16 | u32::from(self.to.port())
    }
}

/// Returns the index of the path to which an outer address belongs.
pub(super) fn path_to(ip: IpAddr) -> usize {
    match ip {
        IpAddr::V4(ip) => ip.octets()[2].into(),
        IpAddr::V6(_) => 0,
    }
}
