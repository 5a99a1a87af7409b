//! BBRv3's path model: bandwidth, RTT, aggregation (section 5.5).

use super::states::State;
use crate::WindowedMax;
use mpdccp_units::{Duration, Time};

/// BBR.MinRTTFilterLen (section 2.13.1).
const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
/// BBR.ProbeRTTInterval (section 2.13.2).
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);

/// max_bw: the maximum delivery rate in the previous and the running ProbeBW cycle (section 5.5.6).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxBw {
    pub(super) cycles: [f64; 2],
}

impl MaxBw {
    /// Creates a filter with one sample.
    pub(super) fn of(bw: f64) -> MaxBw {
        MaxBw { cycles: [0.0, bw] }
    }

    pub(super) fn get(&self) -> f64 {
        self.cycles[0].max(self.cycles[1])
    }

    pub(super) fn update(&mut self, bw: f64) {
        self.cycles[1] = self.cycles[1].max(bw);
    }

    /// Implements AdvanceMaxBwFilter: starts a new cycle. If the running cycle has no sample, it continues
    /// instead.
    pub(super) fn advance(&mut self) {
        if self.cycles[1] > 0.0 {
            self.cycles = [self.cycles[1], 0.0];
        }
    }
}

/// Packet-timed rounds (section 5.5.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    pub(super) next_delivered: u64,
    /// Whether the current acknowledgement ends a round.
    pub(super) start: bool,
    pub(super) count: u64,
    pub(super) since_probe_up: u64,
}

impl Rounds {
    pub(super) fn update(&mut self, prior_delivered: u64, delivered: u64) {
        self.start = prior_delivered >= self.next_delivered;
        if self.start {
            self.next_delivered = delivered;
            self.count += 1;
            self.since_probe_up += 1;
        }
    }

    /// Implements StartRound: a new round begins now.
    pub(super) fn restart(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }
}

/// Delivery and congestion in the running round (section 5.5.10.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signals {
    pub(super) round_delivered: u64,
    /// Whether the current acknowledgement ends the round to which [`Self::congestion`] refers.
    pub(super) round_start: bool,
    /// Whether the round had a loss or a mark.
    pub(super) congestion: bool,
    /// Number of acknowledgements that reported a loss or a mark in the round.
    pub(super) events: u32,
    /// Bytes marked in the round.
    pub(super) marked: u64,
    pub(super) bw_latest: f64,
    pub(super) inflight_latest: u64,
}

impl Signals {
    /// Implements ResetCongestionSignals.
    pub(super) fn reset(&mut self) {
        self.congestion = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0;
    }
}

/// min_rtt and the schedule of ProbeRTT (section 5.3.4.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MinRtt {
    pub(super) value: Option<Duration>,
    pub(super) stamp: Time,
    pub(super) probe_delay: Option<Duration>,
    pub(super) probe_stamp: Time,
    pub(super) probe_expired: bool,
}

impl MinRtt {
    /// Implements UpdateMinRTT. `hold` delays ProbeRTT, because another path of the session is in ProbeRTT.
    pub(super) fn update(&mut self, now: Time, rtt: Option<Duration>, hold: bool) {
        self.probe_expired =
            self.probe_delay.is_some() && !hold && now > self.probe_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = rtt
            && (self.probe_expired || self.probe_delay.is_none_or(|d| rtt < d))
        {
            self.probe_delay = Some(rtt);
            self.probe_stamp = now;
        }
        let expired = now > self.stamp + MIN_RTT_FILTER;
        if let Some(delay) = self.probe_delay
            && (expired || self.value.is_none_or(|m| delay < m))
        {
            self.value = Some(delay);
            self.stamp = self.probe_stamp;
        }
    }
}

/// Aggregation of acknowledgements (section 5.5.9).
#[derive(Clone, Debug)]
pub(super) struct ExtraAcked {
    pub(super) start: Time,
    pub(super) delivered: u64,
    pub(super) filter: WindowedMax<u64>,
}

impl ExtraAcked {
    pub(super) fn new() -> ExtraAcked {
        ExtraAcked { start: Time::ZERO, delivered: 0, filter: WindowedMax::new() }
    }

    pub(super) fn get(&self) -> u64 {
        self.filter.get()
    }

    pub(super) fn update(&mut self, now: Time, bw: f64, acked: u64, cwnd: u64, round: u64, window: u64) {
        let mut expected = (bw * now.since(self.start).as_secs_f64()) as u64;
        if self.delivered <= expected {
            self.delivered = 0;
            self.start = now;
            expected = 0;
        }
        self.delivered = self.delivered.saturating_add(acked);
        let extra = self.delivered.saturating_sub(expected).min(cwnd);
        self.filter.update(window, round, extra);
    }
}

/// State restored after spurious losses (section 5.5.11).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// Whether the state was saved in the running round.
    pub(super) open: bool,
    pub(super) state: Option<State>,
    pub(super) bw_shortterm: f64,
    pub(super) inflight_shortterm: u64,
    pub(super) inflight_longterm: u64,
}
