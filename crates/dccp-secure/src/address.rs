use core::net::{IpAddr, SocketAddr};

/// The two addresses of a datagram: this host's and the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Number of the socket, assigned by the driver.
    pub socket: u32,
    /// The local address, or `None` if the socket is bound to one.
    pub local: Option<IpAddr>,
    /// The peer's address and UDP port.
    pub remote: SocketAddr,
}
