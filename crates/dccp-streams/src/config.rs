/// Longest header of a stream, bytes.
pub const MAX_HEADER: usize = 1024;

/// Initial limit of the peer's bytes on a stream (docs/streams.md).
pub(crate) const INITIAL_WINDOW: u64 = 64 << 10;
/// Initial limit of the peer's bytes on all streams (docs/streams.md).
pub(crate) const INITIAL_SESSION_WINDOW: u64 = 1 << 20;
/// Initial limit of the peer's streams (docs/streams.md).
pub(crate) const INITIAL_STREAMS: u64 = 128;

/// This end's role in the session. It determines the identifiers of the streams that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opens even identifiers.
    Client,
    /// Opens odd identifiers.
    Server,
}

/// Limits of one end. Frames tell the peer how much it may send and open, so the two ends may have different
/// limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Maximum number of unread bytes of all streams, at least 1 MiB.
    pub receive_memory: u64,
    /// Maximum number of unread bytes of one stream, at least 64 KiB. The window grows up to this value if
    /// the bandwidth-delay product requires it.
    pub stream_window: u64,
    /// Maximum number of bytes of all streams that were written but not sent yet.
    pub send_memory: u64,
    /// Maximum number of open streams of the peer, at least 128.
    pub max_streams: u64,
    /// Maximum number of streams of the peer that were neither accepted nor reset.
    pub half_open: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            receive_memory: 64 << 20,
            stream_window: 32 << 20,
            send_memory: 16 << 20,
            max_streams: 16_384,
            half_open: 1_024,
        }
    }
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets sent, including those without a number.
    pub packets_sent: u64,
    /// Packets sent that carry only acknowledgements.
    pub acks_sent: u64,
    /// Packets that arrived.
    pub packets_received: u64,
    /// Numbered packets declared lost.
    pub packets_lost: u64,
    /// Packets that were declared lost because later packets of their path arrived, and that arrived after
    /// all.
    pub losses_taken_back: u64,
    /// Probe timeouts.
    pub probe_timeouts: u64,
    /// Stream bytes sent, including retransmissions.
    pub bytes_sent: u64,
    /// Stream bytes retransmitted.
    pub bytes_repaired: u64,
    /// Stream bytes copied to further paths.
    pub bytes_copied: u64,
    /// New stream bytes received.
    pub bytes_received: u64,
    /// Packets dropped: malformed.
    pub malformed: u64,
    /// Packets dropped because they violate the protocol: an acknowledgement of an unsent packet, data beyond
    /// a window or after the end of a stream, a stream beyond the limit.
    pub violations: u64,
    /// Packets not acknowledged because a stream reached its limit of gaps.
    pub too_many_gaps: u64,
    /// Streams reset because too many were half open.
    pub half_open_refused: u64,
}

/// Statistics of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Bytes written but not sent yet.
    pub unsent: u64,
    /// Bytes sent but not acknowledged.
    pub in_flight: u64,
    /// Bytes received but not read, including those after gaps.
    pub unread: u64,
    /// How far beyond the read offset the peer may send, bytes.
    pub window: u64,
}
