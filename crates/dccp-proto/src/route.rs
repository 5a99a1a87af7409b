use core::net::{IpAddr, SocketAddr};
use units::Time;

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Ecn {
    #[default]
    NotEct,
    Ect1,
    Ect0,
    Ce,
}

impl Ecn {
    /// From the low two bits of the traffic class.
    pub const fn from_bits(tos: u8) -> Ecn {
        match tos & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        self as u8
    }
}

/// Where a packet goes or came from: a socket of the driver and the two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Route {
    /// Which of the driver's carrier sockets; the driver gives the numbers.
    pub socket: u32,
    /// The address on this host, where the socket is not bound to one; `None` lets the system choose.
    pub local: Option<IpAddr>,
    /// The peer: for UDP its address and UDP port, for native DCCP its address and port 0.
    pub remote: SocketAddr,
}

/// Where packets go. Batches form behind it.
pub trait Sink {
    /// Room for one packet of exactly `len` bytes; the caller fills all of it, and it leaves with the next flush.
    fn reserve(&mut self, route: &Route, ecn: Ecn, len: usize) -> &mut [u8];
}

/// Whether one more data packet may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Now: up to `burst` bytes of IP packets, at least one packet.
    Open {
        /// Bytes.
        burst: u32,
    },
    /// Not before this time.
    At(Time, Why),
    /// Not until something arrives or changes.
    Closed(Why),
}

/// What keeps a gate shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Not yet open.
    Handshake,
    /// The congestion window is full.
    Window,
    /// The pacer has not released the next packet.
    Pacing,
    /// Closing or closed.
    Closing,
}
