use crate::channel::ChannelId;
use crate::drops::Reason;
use mpdccp_units::Time;

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
    /// A channel opened by the peer was dropped.
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
