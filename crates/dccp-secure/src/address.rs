use core::net::{IpAddr, SocketAddr};

/// The two addresses of a datagram: that of this host and that of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Number of the socket. The driver assigns the numbers.
    pub socket: u32,
    /// The local address. `None` if the socket is bound to an address.
    pub local: Option<IpAddr>,
    /// The peer's address and UDP port.
    pub remote: SocketAddr,
}
