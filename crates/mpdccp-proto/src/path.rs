use crate::ids::{PathId, PathName};
use dccp_cc::Amount;
use dccp_proto::Gate;
use dccp_proto::ccid::Late;
use mpdccp_units::{Duration, Rate, Time};

/// State of a path: the words of code, log, status and metrics alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathState {
    /// The handshake is under way.
    Connecting,
    /// Carries data.
    Up,
    /// A packet and the probe after it were not acknowledged in time, or the link was reported down: only probes are sent.
    Suspect,
    /// Closed; the path manager may connect it again.
    Down,
    /// As `Up`, but of priority 0 or 1: carries data only while no other path can (RFC 9897 section 3.2.10).
    Standby,
}

impl PathState {
    /// Its name for people and for programs.
    pub const fn name(self) -> &'static str {
        match self {
            PathState::Connecting => "connecting",
            PathState::Up => "up",
            PathState::Suspect => "suspect",
            PathState::Down => "down",
            PathState::Standby => "standby",
        }
    }

    /// Data may leave on the path: it answers.
    pub const fn is_up(self) -> bool {
        matches!(self, PathState::Up | PathState::Standby)
    }
}

/// What a scheduler sees of a path.
#[derive(Clone, Debug)]
pub struct PathRow {
    /// Which path.
    pub id: PathId,
    /// Schedulers use only paths that [are up](PathState::is_up).
    pub state: PathState,
    /// What it is called.
    pub name: PathName,
    /// 0 never, 1 standby, 2 overflow, 3 to 15 primary, larger preferred; the smaller of ours and what the peer set by MP_PRIO.
    pub prio: u8,
    /// What the peer set; 3 if nothing.
    pub peer_prio: u8,
    /// Whether one more packet may leave on it now.
    pub gate: Gate,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// RTT deviation.
    pub rttvar: Duration,
    /// Smallest RTT.
    pub min_rtt: Option<Duration>,
    /// What packets take beyond the round-trip times.
    pub late: Late,
    /// Window, bytes.
    pub cwnd: u64,
    /// Outstanding.
    pub inflight: Amount,
    /// Pacing rate.
    pub pacing: Option<Rate>,
    /// What it can carry, as far as known: the bottleneck's bandwidth if the congestion control knows it, or a window per round trip.
    pub rate: Rate,
    /// Limited by the application alone.
    pub app_limited: bool,
    /// What it was seen to carry; [`rate`](Self::rate) without what it may turn out to carry beyond that.
    pub seen: Rate,
    /// Share of packets lost of late, 0 to 1.
    pub loss: f32,
    /// Largest payload a packet on it may carry.
    pub max_payload: usize,
    /// When it last came up.
    pub up_since: Time,
    /// When data last left on it.
    pub last_sent: Option<Time>,
    /// Nothing was sent for so long that what its figures say of queues is out of date.
    pub idle: bool,
}

impl PathRow {
    /// Whether one more packet may leave on it now.
    pub fn is_open(&self) -> bool {
        matches!(self.gate, Gate::Open { .. })
    }

    /// How long a packet is thought to travel: half a round trip, and what most packets take longer than those that tell round-trip times. Of
    /// an idle path the least one, for its queue has drained.
    pub fn one_way(&self) -> Duration {
        let rtt = if self.idle { self.min_rtt.or(self.srtt) } else { self.srtt };
        rtt.map_or(UNKNOWN, |rtt| rtt / 2 + self.late.mean)
    }

    /// How long until its gate opens, if nothing unexpected happens: a full window opens as packets are delivered.
    pub fn wait(&self, now: Time) -> Duration {
        match self.gate {
            Gate::Open { .. } => Duration::ZERO,
            Gate::At(at, _) => at.since(now),
            Gate::Closed(_) => self.rate.time_for(self.max_payload as u64),
        }
    }

    /// How long until it has taken `bytes` more.
    pub fn drained(&self, now: Time, bytes: u64) -> Duration {
        self.wait(now).saturating_add(self.rate.time_for(bytes))
    }
}

/// The delay of a path on which nothing was acknowledged yet: worse than any that is known, and finite.
const UNKNOWN: Duration = Duration::from_millis(500);
