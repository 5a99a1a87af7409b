use crate::channel::ChannelId;
use crate::drops::Reason;
use mpdccp_units::Time;

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// It holds a packet of a peer, `len` bytes behind the first [`HEADER`](crate::HEADER).
    Packet {
        /// On which channel.
        channel: ChannelId,
        /// From whom: the number given to [`Channels::add_peer`](crate::Channels::add_peer).
        peer: u32,
        /// Bytes.
        len: usize,
    },
    /// It was for the channels itself.
    Handled,
    /// It is for this shard of the server, as its header says; nothing was done with it.
    Elsewhere(u8),
    /// It was dropped, without an answer, or with a cookie at most.
    Dropped(Reason),
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A channel got its first key, or a new one after it had none.
    Ready(ChannelId),
    /// The peer answers from another address now.
    Moved(ChannelId),
    /// A channel that the peer had begun is forgotten.
    Gone(ChannelId),
}

/// What is known of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStats {
    /// Its channels.
    pub channels: usize,
    /// When it was last heard of on any of them, if it was.
    pub heard: Option<Time>,
}
