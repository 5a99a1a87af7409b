//! What the host tells the tunnel.

use mpdccp_units::Duration;
use std::net::{IpAddr, SocketAddr};

/// Something that happened on this host, or an answer to an [`crate::Action`].
#[derive(Clone, Debug, PartialEq)]
pub enum HostEvent {
    /// A path has its socket.
    PathOpened {
        /// That of [`crate::OpenPath`].
        request: u64,
        /// Number of the socket in [`dccp_proto::Route`]; with encryption it stands for the channel.
        socket: u32,
        /// What the system knows of the size of packets there.
        sizes: Sizes,
        /// Bytes of headers around each DCCP packet, encryption included.
        overhead: u16,
    },
    /// A path has no socket.
    PathFailed {
        /// That of [`crate::OpenPath`].
        request: u64,
        /// Its interface or address is not there, but may come. Otherwise something has to be fixed.
        absent: bool,
        /// What is wrong and how to fix it.
        why: String,
    },
    /// What the system knows of a destination.
    Looked(Looked),
    /// All interfaces that are up.
    Interfaces(Vec<Interface>),
    /// Addresses of a host name, or why there are none.
    Resolved {
        /// The name.
        name: String,
        /// Its addresses.
        answer: Result<Vec<IpAddr>, String>,
    },
    /// Interfaces, addresses or routes of this host changed.
    Changed,
    /// The interface has its addresses, or why it does not.
    AddressesSet(Result<(), String>),
    /// The interface has this MTU, or why it does not.
    MtuSet(u16, Result<(), String>),
    /// Sending to a destination stopped or started to work.
    Link {
        /// The socket.
        socket: u32,
        /// The peer at its other end, if channels tell.
        peer: Option<u32>,
        /// The destination.
        remote: SocketAddr,
        /// Why it does not work; `None` if it works again.
        error: Option<String>,
    },
    /// The peer at the other end of a channel is at another address now.
    Moved {
        /// The socket that stands for the channel.
        socket: u32,
        /// The peer.
        peer: Option<u32>,
        /// Its address now.
        remote: SocketAddr,
    },
    /// The interface was deleted.
    InterfaceGone(String),
}

/// Largest IP packets to a destination, bytes, as far as the system knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Of the whole way. Whoever can forge ICMP has a say in it.
    pub path: Option<u16>,
    /// Of the interface that packets leave through.
    pub device: Option<u16>,
}

/// What the system knows of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The socket.
    pub socket: u32,
    /// The destination.
    pub remote: SocketAddr,
    /// Largest packets.
    pub sizes: Sizes,
    /// Why nothing can leave there, if it is a path of this end.
    pub fault: Option<String>,
    /// Address of this host that packets leave from, if it is a path of this end.
    pub source: Option<IpAddr>,
    /// IP bytes that the socket sent and received.
    pub carried: u64,
    /// Whether the peer ever proved its key.
    pub heard: bool,
    /// Time since 1970 of the newest handshake that this end began.
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
