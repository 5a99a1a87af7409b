use crate::ids::{PathId, PathName};
use dccp_cc::Amount;
use dccp_proto::Gate;
use dccp_proto::ccid::Late;
use mpdccp_units::{Duration, Rate, Time};

mpdccp_units::named! {
    /// State of a path. Code, log, status and metrics use the same words for it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum PathState {
        /// The handshake is under way.
        Connecting = "connecting",
        /// The path carries data.
        Up = "up",
        /// A packet and the probe that followed it were not acknowledged in time, or the link was reported
        /// down. Only probes are sent on the path.
        Suspect = "suspect",
        /// Closed. The path manager may reconnect the path.
        Down = "down",
        /// The path is up and has priority 0 or 1. With priority 1, it carries data only while no other path
        /// can; with priority 0, never (RFC 9897 section 3.2.10).
        Standby = "standby",
    }
}

impl PathState {
    /// Returns whether the path answers, so that data may be sent on it.
    pub const fn is_up(self) -> bool {
        matches!(self, PathState::Up | PathState::Standby)
    }
}

/// A path as a scheduler sees it.
#[derive(Clone, Debug)]
pub struct PathRow {
    /// Identifier.
    pub id: PathId,
    /// State of the path. Schedulers use only paths that [are up](PathState::is_up).
    pub state: PathState,
    /// Name.
    pub name: PathName,
    /// Priority: 0 never, 1 standby, 2 secondary (overflow), 3 to 15 primary. If both this end and the peer
    /// (MP_PRIO) have set a priority, the smaller one applies. Some schedulers prefer primary paths with
    /// larger values.
    pub prio: u8,
    /// The peer's priority; 3 if the peer has not set one.
    pub peer_prio: u8,
    /// Whether one more packet may be sent on the path now, or when that will be possible.
    pub gate: Gate,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// RTT deviation.
    pub rttvar: Duration,
    /// Smallest RTT of the last two minutes.
    pub min_rtt: Option<Duration>,
    /// Extra delay of all packets compared with the packets that give RTT samples. If packets overtake each
    /// other, only the fastest give samples.
    pub late: Late,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Data in flight.
    pub inflight: Amount,
    /// Pacing rate.
    pub pacing: Option<Rate>,
    /// Estimated capacity: the bottleneck bandwidth if the congestion control knows it, otherwise one window
    /// per round trip.
    pub rate: Rate,
    /// Whether the rate is limited only by the application.
    pub app_limited: bool,
    /// [`rate`](Self::rate) without the assumption that an application-limited path is as fast as its pacer.
    pub seen: Rate,
    /// Recent packet loss, 0 to 1.
    pub loss: f32,
    /// Largest payload of a packet on the path.
    pub max_payload: usize,
    /// Time at which the path last came up.
    pub up_since: Time,
    /// Time at which data was last sent on the path.
    pub last_sent: Option<Time>,
    /// Whether the path has been idle for so long that the estimates of its queue are out of date.
    pub idle: bool,
}

impl PathRow {
    /// Returns whether one more packet may be sent on the path now.
    pub fn is_open(&self) -> bool {
        matches!(self.gate, Gate::Open { .. })
    }

    /// Returns the estimated one-way delay: half the RTT plus the mean of [`late`](Self::late). On an idle
    /// path, the minimum RTT replaces the smoothed RTT, because the path's queue has drained.
    pub fn one_way(&self) -> Duration {
        let rtt = if self.idle { self.min_rtt.or(self.srtt) } else { self.srtt };
        rtt.map_or(UNKNOWN, |rtt| rtt / 2 + self.late.mean)
    }

    /// Returns the expected time until the path's gate opens. If the window is full, the gate opens as
    /// packets are delivered.
    pub fn wait(&self, now: Time) -> Duration {
        match self.gate {
            Gate::Open { .. } => Duration::ZERO,
            Gate::At(at, _) => at.since(now),
            Gate::Closed(_) => self.rate.time_for(self.max_payload as u64),
        }
    }

    /// Returns the expected time until the path has sent another `bytes` bytes.
    pub fn drained(&self, now: Time, bytes: u64) -> Duration {
        self.wait(now).saturating_add(self.rate.time_for(bytes))
    }
}

/// Assumed delay of a path without a round-trip measurement: finite, but longer than usual delays.
const UNKNOWN: Duration = Duration::from_millis(500);
