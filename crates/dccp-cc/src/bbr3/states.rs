//! The states of BBR, and their variables. `transitions.rs` moves between the states.

use crate::RateSample;
use mpdccp_units::{Duration, Time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Startup => "startup",
            State::Drain => "drain",
            State::Down => "probe_bw_down",
            State::Cruise => "probe_bw_cruise",
            State::Refill => "probe_bw_refill",
            State::Up => "probe_bw_up",
            State::ProbeRtt => "probe_rtt",
        }
    }

    /// Returns the pacing gain and window gain (section 5.6.1).
    pub(super) fn gains(self) -> (f64, f64) {
        match self {
            State::Startup => (2.77, 2.0),
            State::Drain => (0.5, 2.0),
            State::Down => (0.9, 2.0),
            State::Cruise | State::Refill => (1.0, 2.0),
            State::Up => (1.25, 2.25),
            State::ProbeRtt => (1.0, 0.5),
        }
    }

    pub(super) fn in_probe_bw(self) -> bool {
        matches!(self, State::Down | State::Cruise | State::Refill | State::Up)
    }

    /// Implements IsProbingBW: returns whether this state searches for more bandwidth.
    pub(super) fn probing_bw(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }
}

/// State of the bandwidth probe that incoming acknowledgements reflect (section 2.11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AckPhase {
    #[default]
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The full-pipe estimator (section 5.3.1.2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullBw {
    /// Whether the pipe has ever been full.
    pub(super) reached: bool,
    /// Whether the pipe has become full since the sender last began to accelerate.
    pub(super) now: bool,
    pub(super) bw: f64,
    pub(super) count: u8,
}

impl FullBw {
    /// Implements ResetFullBW. `bw` is the new baseline.
    pub(super) fn reset(&mut self, bw: f64) {
        *self = FullBw { reached: self.reached, now: false, bw, count: 0 };
    }
}

/// Variables of ProbeRTT (section 5.3.4.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeRtt {
    /// Whether another path of the session is in ProbeRTT. If so, this path delays its own ProbeRTT.
    pub(super) hold: bool,
    /// Tuned variant: lowest RTT of the last round before ProbeRTT.
    pub(super) before: Option<Duration>,
    pub(super) done: Option<Time>,
    pub(super) round_done: bool,
    /// MarkConnectionAppLimited: packets sent while the delivered count was in this range give low rate
    /// samples, because ProbeRTT was limiting the sender.
    pub(super) low_rate: (u64, u64),
}

impl ProbeRtt {
    pub(super) fn marks(&self, rs: &RateSample) -> bool {
        (self.low_rate.0..self.low_rate.1).contains(&rs.prior_delivered.packets)
    }
}

/// Variables of ProbeBW (section 2.11).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    pub(super) acks: AckPhase,
    /// Whether the packets being acknowledged were sent while probing, and the probe has no result yet.
    pub(super) sampling: bool,
    pub(super) up_acked: u64,
    pub(super) acked_per_inc: u64,
    pub(super) up_rounds: u32,
    pub(super) wait: Duration,
    pub(super) stamp: Time,
    pub(super) too_high: bool,
    /// Tuned variant: number of packets lost beyond the path's own losses and 2 % of all packets. The share
    /// of the path's own losses has no upper limit here. Otherwise this number would keep growing on a path
    /// that loses more, and would delay probes.
    pub(super) unpaid: f64,
    pub(super) precautionary: bool,
}
