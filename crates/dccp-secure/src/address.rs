use core::net::{IpAddr, SocketAddr};

/// Where datagrams of a channel go and come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Which of the driver's sockets; the driver gives the numbers.
    pub socket: u32,
    /// The address on this host, where the socket is not bound to one.
    pub local: Option<IpAddr>,
    /// The peer's address and UDP port.
    pub remote: SocketAddr,
}
