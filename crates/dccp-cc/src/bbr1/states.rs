//! The states of BBR, and their variables. `transitions.rs` moves between the states.

use crate::RateSample;
use mpdccp_units::{Duration, Time};

/// Gains of the ProbeBW phases (section 4.3.4.3).
pub(super) const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
    /// Tuned variant: capacity has fallen, so the sender drains the queue until only one BDP is in flight.
    CapacityDrain,
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            State::Startup => "startup",
            State::Drain | State::CapacityDrain => "drain",
            State::ProbeBw => "probe_bw",
            State::ProbeRtt => "probe_rtt",
        }
    }
}

/// Losses that may be the path's own. ProbeRTT finds out, because its rate is too low to build a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    /// BtlBw before the response to the losses, in units per second.
    pub(super) bw: f64,
    /// Rate at which packets were delivered, in units per second.
    pub(super) rate: f64,
}

/// Variables of ProbeRTT (section 4.3.5).
#[derive(Debug, Default)]
pub(super) struct ProbeRtt {
    /// If set, ProbeRTT also measures the path's own losses.
    pub(super) doubt: Option<Doubt>,
    /// Whether another path of the session is in ProbeRTT.
    pub(super) hold: bool,
    /// Earliest end of the phase, set once the amount in flight is low enough.
    pub(super) done: Option<Time>,
    /// Number of packets delivered when the amount in flight became low enough. ProbeRTT then lasts for at
    /// least a round, which ends when a packet sent after this point is acknowledged.
    pub(super) round: u64,
    pub(super) round_done: bool,
    /// Minimum RTT since the amount in flight became low enough.
    pub(super) least: Option<Duration>,
    /// Time at which the last ProbeRTT ended.
    pub(super) ended: Option<Time>,
    /// Packets sent while the delivered count was in this range give low rate samples, because ProbeRTT was
    /// limiting the sender.
    pub(super) low_rate: (u64, u64),
}

/// Tuned variant: state for the check that follows [`State::CapacityDrain`].
#[derive(Debug)]
pub(super) struct Drained {
    /// BtlBw before the drain.
    pub(super) old_bw: f64,
    /// Minimum RTT of the period in which capacity appeared to fall.
    pub(super) old_rtt: Duration,
    /// The round in which to check whether the queue is gone. Set when the drain ends.
    pub(super) look_at_round: Option<u64>,
}

impl ProbeRtt {
    /// Returns whether a sample counts as application-limited because of ProbeRTT.
    pub(super) fn marks(&self, rs: &RateSample) -> bool {
        (self.low_rate.0..self.low_rate.1).contains(&rs.prior_delivered.packets)
    }
}

/// Loss recovery (section 4.2.3.4). DCCP does not retransmit, so recovery lasts until a round passes without
/// a loss.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    /// Whether the sender sends no more than is delivered, as it does in the first round of recovery.
    pub(super) conservation: bool,
    /// Whether a loss occurred in the running round.
    pub(super) lost: bool,
}

impl Recovery {
    pub(super) fn after_timeout() -> Recovery {
        Recovery { conservation: false, lost: false }
    }
}
