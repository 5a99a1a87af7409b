use core::net::{IpAddr, SocketAddr};

/// Both ends of a channel's datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The driver's socket; the driver assigns the numbers.
    pub socket: u32,
    /// The local address, if the socket is not bound to one.
    pub local: Option<IpAddr>,
    /// The peer's address and UDP port.
    pub remote: SocketAddr,
}
