/// Maximum length of a stream's header, in bytes.
pub const MAX_HEADER: usize = 1024;

/// Initial limit for the bytes that the peer sends on a stream (docs/streams.md).
pub(crate) const INITIAL_WINDOW: u64 = 64 << 10;
/// Initial limit for the bytes that the peer sends on all streams together (docs/streams.md).
pub(crate) const INITIAL_SESSION_WINDOW: u64 = 1 << 20;
/// Initial limit for the number of streams that the peer opens (docs/streams.md).
pub(crate) const INITIAL_STREAMS: u64 = 128;

/// Role of this end in the session. It determines the identifiers of the streams that this end opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opens even identifiers.
    Client,
    /// Opens odd identifiers.
    Server,
}

/// Limits of one end. The two ends may have different limits, because frames tell the peer how much it may
/// send and how many streams it may open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Maximum number of unread bytes on all streams together, at least 1 MiB.
    pub receive_memory: u64,
    /// Maximum number of unread bytes on one stream, at least 64 KiB. The window grows up to this limit if
    /// the bandwidth-delay product requires it.
    pub stream_window: u64,
    /// Maximum number of bytes on all streams together that have been written but not sent.
    pub send_memory: u64,
    /// Maximum number of bytes on all streams together that have been sent but not acknowledged. A smaller
    /// window of the peer also limits them.
    pub in_flight_memory: u64,
    /// Maximum number of open streams that were opened by the peer, at least 128.
    pub max_streams: u64,
    /// Maximum number of the peer's streams that have been neither accepted nor reset.
    pub half_open: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            receive_memory: 64 << 20,
            stream_window: 32 << 20,
            send_memory: 16 << 20,
            in_flight_memory: 128 << 20,
            max_streams: 16_384,
            half_open: 1_024,
        }
    }
}

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Numbered packets declared lost.
    pub packets_lost: u64,
    /// Packets that were declared lost because later packets of their path had arrived, but that still
    /// arrived.
    pub losses_taken_back: u64,
    /// Number of times that the probe timer expired.
    pub probe_timeouts: u64,
    /// Stream bytes sent, including retransmissions.
    pub bytes_sent: u64,
    /// Stream bytes retransmitted.
    pub bytes_repaired: u64,
    /// Stream bytes sent as copies on additional paths.
    pub bytes_copied: u64,
    /// New stream bytes received.
    pub bytes_received: u64,
    /// Malformed packets. They were dropped.
    pub malformed: u64,
    /// Packets dropped because they violate the protocol: an acknowledgement of a packet that was not sent,
    /// data beyond a window or after the end of a stream, or a stream beyond the limit.
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
    /// Bytes received but not read, including bytes after gaps.
    pub unread: u64,
    /// Number of bytes beyond the read offset that the peer may send.
    pub window: u64,
}
