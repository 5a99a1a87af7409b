//! Events that the host reports to the tunnel.

use mpdccp_units::Duration;
use std::net::{IpAddr, SocketAddr};

/// An event on this host, or the answer to an [`crate::Action`].
#[derive(Clone, Debug, PartialEq)]
pub enum HostEvent {
    /// A path has its socket.
    PathOpened {
        /// Number of the [`crate::OpenPath`] request.
        request: u64,
        /// Number of the socket in [`dccp_proto::Route`]; with encryption it identifies the channel.
        socket: u32,
        /// MTUs known to the system.
        sizes: Sizes,
        /// Bytes of headers around each DCCP packet, encryption included.
        overhead: u16,
    },
    /// A path could not get a socket.
    PathFailed {
        /// Number of the [`crate::OpenPath`] request.
        request: u64,
        /// Its interface or address does not exist now, but may appear. Otherwise the user has to
        /// fix something.
        absent: bool,
        /// The error, and how to fix it.
        why: String,
    },
    /// The system's information about a destination.
    Looked(Looked),
    /// All interfaces that are up.
    Interfaces(Vec<Interface>),
    /// Addresses of a host name, or the lookup error.
    Resolved {
        /// The name.
        name: String,
        /// Its addresses.
        answer: Result<Vec<IpAddr>, String>,
    },
    /// Interfaces, addresses or routes of this host changed.
    Changed,
    /// The interface has its addresses, or setting them failed.
    AddressesSet(Result<(), String>),
    /// The interface has this MTU, or setting it failed.
    MtuSet(u16, Result<(), String>),
    /// Sending to a destination started to fail or works again.
    Link {
        /// The socket.
        socket: u32,
        /// The peer, if the channel identifies one.
        peer: Option<u32>,
        /// The destination.
        remote: SocketAddr,
        /// The error; `None` if sending works again.
        error: Option<String>,
    },
    /// The peer answered the handshake of a channel, so packets pass in both directions.
    Answered {
        /// The socket that identifies the channel.
        socket: u32,
    },
    /// The peer at the other end of a channel moved to another address.
    Moved {
        /// The socket that identifies the channel.
        socket: u32,
        /// The peer.
        peer: Option<u32>,
        /// Its new address.
        remote: SocketAddr,
    },
    /// The interface was deleted.
    InterfaceGone(String),
}

/// Largest IP packets to a destination, bytes, as far as the system knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Of the whole path. Forged ICMP can influence it.
    pub path: Option<u16>,
    /// Of the outgoing interface.
    pub device: Option<u16>,
}

/// The system's information about a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The socket.
    pub socket: u32,
    /// The destination.
    pub remote: SocketAddr,
    /// Largest packets.
    pub sizes: Sizes,
    /// Why nothing can be sent there, if it is a path of this end.
    pub fault: Option<String>,
    /// Source address on this host, if it is a path of this end.
    pub source: Option<IpAddr>,
    /// Its packets take TLS.
    pub over_tls: bool,
    /// IP bytes that the socket sent and received.
    pub carried: u64,
    /// Whether the peer ever proved its key.
    pub heard: bool,
    /// Time of the newest handshake started by this end, since 1970.
    pub handshake: Option<Duration>,
    /// Seconds since 1970 by this host's clock.
    pub unix: u64,
}

/// An interface that has a carrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Has an IPv4 address.
    pub v4: bool,
    /// Has an IPv6 address.
    pub v6: bool,
}
