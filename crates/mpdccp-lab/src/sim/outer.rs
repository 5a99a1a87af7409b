//! Outer addresses of the tunnel.

use std::net::{IpAddr, SocketAddr};

/// Addresses of a UDP datagram of the tunnel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outer {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
}

impl Outer {
    /// Index of the path to the destination.
    pub(super) fn path(&self) -> usize {
        path_to(self.to.ip())
    }

    /// Identifier by which queues distinguish flows.
    pub(super) fn flow(&self) -> u32 {
        u32::from(self.from.port()) << 16 | u32::from(self.to.port())
    }
}

/// Index of the path that an outer address belongs to.
pub(super) fn path_to(ip: IpAddr) -> usize {
    match ip {
        IpAddr::V4(ip) => ip.octets()[2].into(),
        IpAddr::V6(_) => 0,
    }
}
