//! Events that the host reports to the tunnel.

use mpdccp_units::Duration;
use std::net::{IpAddr, SocketAddr};

/// A clock that shows a time before 2020, in seconds since 1970, has not been set. The clocks of routers
/// without a battery start in 1970.
pub(crate) const CLOCK_IS_SET: u64 = 1_577_836_800;

/// An event on this host, or the result of an [`crate::Action`].
#[derive(Clone, Debug, PartialEq)]
pub enum HostEvent {
    /// The host opened the socket of a path.
    PathOpened {
        /// Number of the [`crate::OpenPath`] request.
        request: u64,
        /// Number of the socket in [`dccp_proto::Route`]; with encryption it identifies the channel.
        socket: u32,
        /// MTUs that the system knows for the destination.
        sizes: Sizes,
        /// Bytes of headers around each DCCP packet, including encryption.
        overhead: u16,
    },
    /// The host could not open the socket of a path.
    PathFailed {
        /// Number of the [`crate::OpenPath`] request.
        request: u64,
        /// Whether the interface or address is only missing for now and may appear later. If not, the user
        /// must fix the cause.
        absent: bool,
        /// The error, with advice on how to fix it.
        why: String,
    },
    /// Facts about a destination, in answer to [`crate::Action::Look`].
    Looked(Looked),
    /// All interfaces that are up.
    Interfaces(Vec<Interface>),
    /// Addresses of a host name, or the error of the lookup.
    Resolved {
        /// The name.
        name: String,
        /// Addresses of the name, or the error.
        answer: Result<Vec<IpAddr>, String>,
    },
    /// Interfaces, addresses or routes of this host changed.
    Changed,
    /// The interface was switched on. When it was switched off, the kernel deleted its routes and its IPv6
    /// addresses.
    SwitchedOn,
    /// The interface has the new addresses, or setting them failed.
    AddressesSet(Result<(), String>),
    /// The interface has the new MTU, or setting it failed.
    MtuSet(u16, Result<(), String>),
    /// Sending to a destination has started to fail, or works again.
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
    /// The peer has answered a channel's handshake, so packets get through in both directions.
    Answered {
        /// The socket that identifies the channel.
        socket: u32,
    },
    /// The peer at the other end of a channel moved to another address.
    Moved {
        /// The socket that identifies the channel.
        socket: u32,
        /// The peer, if the channel identifies one.
        peer: Option<u32>,
        /// New address of the peer.
        remote: SocketAddr,
    },
    /// The host can no longer run the tunnel, for this reason.
    Failed(String),
}

/// Size in bytes of the largest IP packets to a destination, as far as the system knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Size of the largest packet that the whole path carries. Forged ICMP messages can change this value.
    pub path: Option<u16>,
    /// Largest packet of the outgoing interface.
    pub device: Option<u16>,
}

/// Facts about a socket and a destination, in answer to [`crate::Action::Look`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The socket.
    pub socket: u32,
    /// The destination.
    pub remote: SocketAddr,
    /// Largest packets to the destination.
    pub sizes: Sizes,
    /// Why no packet can be sent to the destination. Set only if the socket belongs to a path of this end.
    pub error: Option<String>,
    /// Source address on this host. Set only if the socket belongs to a path of this end.
    pub source: Option<IpAddr>,
    /// Whether packets are sent over TLS.
    pub over_tls: bool,
    /// Number of IP bytes that the socket has sent and received.
    pub carried: u64,
    /// Whether the peer has ever proved its key.
    pub heard: bool,
    /// Start time of the newest handshake that this end started, in seconds since 1970.
    pub handshake: Option<Duration>,
    /// Time on this host's clock, in seconds since 1970.
    pub unix: u64,
}

/// A network interface whose link is up (Linux: carrier).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name of the interface.
    pub name: String,
    /// Whether the interface has an IPv4 address.
    pub v4: bool,
    /// Whether the interface has an IPv6 address.
    pub v6: bool,
}
