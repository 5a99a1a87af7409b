/// Longest header of a stream, bytes.
pub const MAX_HEADER: usize = 1024;

/// Bytes a peer may send on a stream before it is told of more (docs/streams.md).
pub(crate) const INITIAL_WINDOW: u64 = 64 << 10;
/// Bytes a peer may send on all streams before it is told of more (docs/streams.md).
pub(crate) const INITIAL_SESSION_WINDOW: u64 = 1 << 20;
/// Streams a peer may open before it is told of more (docs/streams.md).
pub(crate) const INITIAL_STREAMS: u64 = 128;

/// Which end of the session this is. It decides the identifiers of the streams that this end opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opens even identifiers.
    Client,
    /// Opens odd identifiers.
    Server,
}

/// Limits of one end. The peer needs no knowledge of them: it is told what it may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Most bytes of all streams that wait to be read, at least 1 MiB.
    pub receive_memory: u64,
    /// Most bytes of one stream that wait to be read, at least 64 KiB. The window grows up to it as the bandwidth-delay product needs.
    pub stream_window: u64,
    /// Bytes of all streams that were written and not yet sent once.
    pub send_memory: u64,
    /// Most streams the peer has open at once, at least 128.
    pub max_streams: u64,
    /// Most streams of the peer that were neither accepted nor reset.
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

/// What happened since the start. All are counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets sent, those without a number included.
    pub packets_sent: u64,
    /// Packets sent that carry nothing but acknowledgements.
    pub acks_sent: u64,
    /// Packets that arrived.
    pub packets_received: u64,
    /// Numbered packets taken for lost.
    pub packets_lost: u64,
    /// Packets taken for lost, because later ones of their path had arrived, that arrived after all.
    pub losses_taken_back: u64,
    /// Probe timeouts.
    pub probe_timeouts: u64,
    /// Bytes of streams sent, repairs included.
    pub bytes_sent: u64,
    /// Bytes of streams sent again.
    pub bytes_repaired: u64,
    /// Bytes of streams sent on further paths at once.
    pub bytes_copied: u64,
    /// Bytes of streams that arrived and were new.
    pub bytes_received: u64,
    /// Packets dropped: not in the format.
    pub malformed: u64,
    /// Packets dropped: an acknowledgement of what was not sent, data beyond a window or an end, a stream beyond the limit.
    pub violations: u64,
    /// Packets not acknowledged: a stream had as many gaps as it may.
    pub too_many_gaps: u64,
    /// Streams reset since too many were half open.
    pub half_open_refused: u64,
}

/// One stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStats {
    /// Bytes written that were not sent once.
    pub unsent: u64,
    /// Bytes sent that were not acknowledged.
    pub in_flight: u64,
    /// Bytes that arrived and were not read, those behind gaps included.
    pub unread: u64,
    /// How far beyond what was read the peer may send, bytes.
    pub window: u64,
}
