use crate::channel::ChannelId;
use crate::ciphers::Aead;
use crate::drops::Reason;
use crate::keys::PrivateKey;
use mpdccp_units::{Duration, Time};

/// Settings of a [`Channels`](crate::Channels).
#[derive(Clone, Debug)]
pub struct Settings {
    /// Private key of this host.
    pub private_key: PrivateKey,
    /// Whether this end answers handshakes, rather than only starting them.
    pub accepts: bool,
    /// Number of this server, 24 bits, which peers write into messages for this server. 0 if no load balancer
    /// uses it.
    pub server: u32,
    /// Number of this shard of the server.
    pub shard: u8,
    /// Ciphers for records in order of preference, see [`Aead::preferred`].
    pub aeads: Vec<Aead>,
    /// Time since 1970 at [`Time::ZERO`].
    pub unix: Duration,
    /// Random bytes from the system.
    pub seed: [u8; 32],
}

impl Settings {
    /// Creates settings with the recommended ciphers, without a load balancer and with only one shard.
    pub fn new(private_key: PrivateKey, accepts: bool, unix: Duration, seed: [u8; 32]) -> Settings {
        Settings { private_key, accepts, server: 0, shard: 0, aeads: Aead::preferred(), unix, seed }
    }
}

/// Result of handling a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The datagram contains a packet from a peer. The packet starts after [`HEADER`](crate::HEADER) bytes.
    Packet {
        /// The channel.
        channel: ChannelId,
        /// Number of the peer, as given to [`Channels::add_peer`](crate::Channels::add_peer).
        peer: u32,
        /// Length of the packet in bytes.
        len: usize,
    },
    /// The datagram was a message for the channels themselves.
    Handled,
    /// The header names a different shard of this server. The datagram was not processed.
    Elsewhere(u8),
    /// The datagram was dropped. No answer is sent, except in some cases a cookie reply.
    Dropped(Reason),
}

/// An event of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A channel has its first key, or a new key after a time without one.
    Ready(ChannelId),
    /// The peer has a new address.
    Moved(ChannelId),
    /// A channel opened by the peer was dropped, or the channel's peer was removed.
    Gone(ChannelId),
}

/// State of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStats {
    /// Number of channels of the peer.
    pub channels: usize,
    /// Time at which the last message arrived on any of the peer's channels.
    pub heard: Option<Time>,
}
