use core::net::{IpAddr, SocketAddr};

/// The addresses of a datagram at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Number of the socket. The driver assigns the numbers.
    pub socket: u32,
    /// The local address, if the socket is not bound to an address.
    pub local: Option<IpAddr>,
    /// The peer's address and UDP port.
    pub remote: SocketAddr,
}
