use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
pub use mpdccp_units::Ecn;
use mpdccp_units::Time;

/// Where a packet comes from or goes to: one of the driver's sockets and the two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Route {
    /// The driver's number for the socket.
    pub socket: u32,
    /// The local address, for a socket that is not bound to one. If it is `None` for such a socket, the
    /// system chooses an address.
    pub local: Option<IpAddr>,
    /// The peer: for UDP, its address and UDP port; for native DCCP, its address and port 0.
    pub remote: SocketAddr,
}

/// Receives outgoing packets. An implementation may batch them.
pub trait Sink {
    /// Reserves room for one packet of exactly `len` bytes, all of which the caller must write. The packet
    /// leaves with the next flush.
    fn reserve(&mut self, route: &Route, ecn: Ecn, len: usize) -> &mut [u8];

    /// Separates the packets before this call from those after it. A sink that sends several packets of a
    /// route in one system call must not combine packets across this point. A connection calls this before
    /// and after a path MTU probe, because virtual devices accept a segmented send even if they would reject
    /// one of its packets as too large.
    fn separate(&mut self, _route: &Route) {}
}

/// Collects packets in memory, for simulators and tests: route, ECN field, bytes. Bytes that the caller did
/// not write are 0xee.
pub type Outbox = Vec<(Route, Ecn, Vec<u8>)>;

impl Sink for Outbox {
    fn reserve(&mut self, route: &Route, ecn: Ecn, len: usize) -> &mut [u8] {
        self.push((*route, ecn, alloc::vec![0xee; len]));
        self.last_mut().map_or(&mut [], |(_, _, bytes)| bytes)
    }
}

/// Whether one more data packet may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Yes: up to `burst` bytes of IP packets, and in any case at least one packet.
    Open {
        /// Largest burst in bytes.
        burst: u32,
    },
    /// Not before this time, for this reason.
    At(Time, Why),
    /// Not until something arrives or changes.
    Closed(Why),
}

/// Reason for a closed gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The connection is not open yet.
    Handshake,
    /// The congestion window is full.
    Window,
    /// The pacer has not released the next packet.
    Pacing,
    /// The peer's application no longer receives (RFC 4340 section 11.7.2, Drop Code 1).
    NotListening,
    /// The connection is closing or closed.
    Closing,
}
