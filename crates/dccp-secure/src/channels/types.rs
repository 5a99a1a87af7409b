use crate::channel::ChannelId;
use crate::drops::Reason;
use mpdccp_units::Time;

/// Result of handling a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The datagram contains a packet of a peer: `len` bytes after the first [`HEADER`](crate::HEADER).
    Packet {
        /// The channel.
        channel: ChannelId,
        /// The peer's number, as given to [`Channels::add_peer`](crate::Channels::add_peer).
        peer: u32,
        /// Bytes.
        len: usize,
    },
    /// The datagram was a message for the channels.
    Handled,
    /// The header names this other shard of the server; the datagram was not processed.
    Elsewhere(u8),
    /// The datagram was dropped, without an answer or at most with a cookie.
    Dropped(Reason),
}

/// An event of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A channel got its first key, or a new key after it had none.
    Ready(ChannelId),
    /// The peer has a new address.
    Moved(ChannelId),
    /// A channel that the peer started was dropped.
    Gone(ChannelId),
}

/// State of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStats {
    /// Number of its channels.
    pub channels: usize,
    /// When the last message arrived on any of them.
    pub heard: Option<Time>,
}
