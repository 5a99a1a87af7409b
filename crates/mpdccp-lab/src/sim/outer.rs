//! Outer addresses of the tunnel.

use std::net::{IpAddr, SocketAddr};

/// A UDP datagram of the tunnel on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outer {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
}

impl Outer {
    /// The path that leads there.
    pub(super) fn path(&self) -> usize {
        path_to(self.to.ip())
    }

    /// What queues tell flows apart by.
    pub(super) fn flow(&self) -> u32 {
        u32::from(self.from.port()) << 16 | u32::from(self.to.port())
    }
}

/// The path that an outer address of a host is on.
pub(super) fn path_to(ip: IpAddr) -> usize {
    match ip {
        IpAddr::V4(ip) => ip.octets()[2].into(),
        IpAddr::V6(_) => 0,
    }
}
