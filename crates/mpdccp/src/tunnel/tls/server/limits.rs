//! Limits on the connections at one listening address of a shard.

use mpdccp_units::Duration;

/// Limits for one listening address of a shard. A stranger is a connection on which the tunnel has not
/// answered yet. A source is an IPv4 address or an IPv6 /64. The number of connections per source is limited
/// only for strangers, because many peers may share a NAT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum number of connections, of strangers, and of strangers per source.
    pub(super) all: usize,
    pub(super) strangers: usize,
    pub(super) of_source: usize,
    /// A stranger's connection ends after this time or after receiving this many bytes.
    pub(super) patience: Duration,
    pub(super) bytes: usize,
    /// A connection ends after this long without packets in both directions. This is also the lifetime of a
    /// silent channel.
    pub(super) idle: Duration,
    /// Maximum number of accepted connections per second, and the largest burst. Each handshake takes about
    /// 0.1 ms of CPU time.
    pub(super) per_second: u64,
    pub(super) at_once: u64,
}

pub(super) const LIMITS: Limits = Limits {
    all: 8_192,
    strangers: 1_024,
    of_source: 64,
    patience: Duration::from_secs(15),
    bytes: 64 << 10,
    idle: Duration::from_secs(1_800),
    per_second: 200,
    at_once: 400,
};

/// Number of connections, and of strangers, from one source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) all: usize,
    pub(super) strangers: usize,
}

impl Count {
    pub(super) fn of(&self, strangers: bool) -> usize {
        if strangers { self.strangers } else { self.all }
    }
}
