use dccp_cc::Amount;
use dccp_proto::Gate;
use units::{Duration, Rate, Time};

/// Index of a path within its session; not reused during a session's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

/// How a path fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Handshake under way.
    Probing,
    /// Carries data.
    Up,
    /// Silent for longer than its retransmission timeout, or its link reported down: only probes are sent.
    Stale,
    /// Closed; the path manager may try again.
    Down,
}

/// What a scheduler sees of a path.
#[derive(Clone, Debug)]
pub struct PathRow {
    /// Which path.
    pub id: PathId,
    /// Schedulers use only [`Health::Up`].
    pub health: Health,
    /// 0 never, 1 standby, 2 overflow, 3 to 15 primary, larger preferred; the smaller of ours and what the peer set by MP_PRIO.
    pub prio: u8,
    /// Whether one more packet may leave on it now.
    pub gate: Gate,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// RTT deviation.
    pub rttvar: Duration,
    /// Smallest RTT.
    pub min_rtt: Option<Duration>,
    /// Window, bytes.
    pub cwnd: u64,
    /// Outstanding.
    pub inflight: Amount,
    /// Pacing rate.
    pub pacing: Option<Rate>,
    /// Newest delivery rate.
    pub delivery_rate: Rate,
    /// Limited by the application alone.
    pub app_limited: bool,
    /// Lost of sent so far.
    pub lost: Amount,
    /// Largest payload a packet on it may carry.
    pub max_payload: usize,
    /// When data last left on it.
    pub last_sent: Option<Time>,
}
