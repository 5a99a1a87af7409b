//! What BBRv3 believes about the path: bandwidth, RTT, aggregation, and the short-term bounds set by congestion (section 5.5).

use super::Bbr3;
use super::state::State;
use crate::{AckEvent, RateSample, WindowedMax};
use mpdccp_units::{Duration, Time};

/// BBR.Beta (section 2.6).
pub(super) const BETA: f64 = 0.7;
/// Tuned: a path that loses more than this whatever is sent is a policer, and its bucket is what let more through.
const MOST_LOST: f64 = 0.03;
/// Tuned: packets per round trip below which that is not judged.
const FEW: u64 = 50;
/// BBR.MinRTTFilterLen (section 2.13.1).
const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
/// BBR.ProbeRTTInterval (section 2.13.2).
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// BBR.ExtraAckedFilterLen, rounds (section 2.10).
const EXTRA_ACKED_ROUNDS: u64 = 10;

/// Maximum over the last and the running ProbeBW cycle (section 5.5.6).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxBw {
    cycles: [f64; 2],
}

impl MaxBw {
    /// One sample.
    pub(super) fn of(bw: f64) -> MaxBw {
        MaxBw { cycles: [0.0, bw] }
    }

    pub(super) fn get(&self) -> f64 {
        self.cycles[0].max(self.cycles[1])
    }

    fn update(&mut self, bw: f64) {
        self.cycles[1] = self.cycles[1].max(bw);
    }

    /// AdvanceMaxBwFilter: a cycle without a sample does not push out the last one.
    pub(super) fn advance(&mut self) {
        if self.cycles[1] > 0.0 {
            self.cycles = [self.cycles[1], 0.0];
        }
    }
}

/// Packet-timed rounds (section 5.5.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    next_delivered: u64,
    /// The acknowledgement at hand ends one.
    pub(super) start: bool,
    pub(super) count: u64,
    pub(super) since_probe_up: u64,
}

impl Rounds {
    fn update(&mut self, prior_delivered: u64, delivered: u64) {
        self.start = prior_delivered >= self.next_delivered;
        if self.start {
            self.next_delivered = delivered;
            self.count += 1;
            self.since_probe_up += 1;
        }
    }

    /// StartRound.
    pub(super) fn restart(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }
}

/// Delivery in the running round, and whether congestion came in it (section 5.5.10.3).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signals {
    round_delivered: u64,
    /// The acknowledgement at hand ends the round that [`Self::congestion`] is about.
    pub(super) round_start: bool,
    /// A loss or mark in the round.
    pub(super) congestion: bool,
    /// Acknowledgements that reported a loss or mark in the round.
    pub(super) events: u32,
    /// Bytes marked in the round.
    pub(super) marked: u64,
    bw_latest: f64,
    pub(super) inflight_latest: u64,
}

impl Signals {
    /// ResetCongestionSignals.
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
    stamp: Time,
    probe_delay: Option<Duration>,
    pub(super) probe_stamp: Time,
    pub(super) probe_expired: bool,
}

impl MinRtt {
    /// UpdateMinRTT; while another path probes, ours waits.
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
    delivered: u64,
    filter: WindowedMax<u64>,
}

impl ExtraAcked {
    pub(super) fn new() -> ExtraAcked {
        ExtraAcked { start: Time::ZERO, delivered: 0, filter: WindowedMax::new() }
    }

    pub(super) fn get(&self) -> u64 {
        self.filter.get()
    }

    fn update(&mut self, now: Time, bw: f64, acked: u64, cwnd: u64, round: u64, window: u64) {
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

/// What spurious losses give back (section 5.5.11).
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    pub(super) state: Option<State>,
    pub(super) bw_shortterm: f64,
    pub(super) inflight_shortterm: u64,
    pub(super) inflight_longterm: u64,
}

impl Bbr3 {
    /// UpdateLatestDeliverySignals, UpdateCongestionSignals, UpdateACKAggregation.
    pub(super) fn update_signals(&mut self, ev: &AckEvent<'_>, rs: &RateSample, app_limited: bool) {
        let bw = rs.rate.bytes_per_sec();
        let prior = rs.prior_delivered.packets;
        let s = &mut self.signals;
        s.bw_latest = s.bw_latest.max(bw);
        s.inflight_latest = s.inflight_latest.max(rs.delivered.bytes);
        s.round_start = prior >= s.round_delivered;
        if s.round_start {
            s.round_delivered = ev.delivered.packets;
        }
        self.rounds.update(prior, ev.delivered.packets);
        if bw > 0.0 && (bw >= self.max_bw.get() || !app_limited) {
            self.max_bw.update(bw);
        }
        if self.signals.round_start {
            self.adapt_lower_bounds(ev.now);
        }
        let window = if self.full_bw.reached { EXTRA_ACKED_ROUNDS } else { 1 };
        self.extra_acked.update(ev.now, self.bw, ev.acked.bytes, self.cwnd, self.rounds.count, window);
    }

    /// AdaptLowerBoundsFromCongestion, LossLowerBounds.
    fn adapt_lower_bounds(&mut self, now: Time) {
        let mut congestion = self.signals.congestion;
        let excess = self.losses.on_round_end(now).is_some();
        if self.loses_anyhow() {
            congestion = excess;
        }
        if congestion && !self.state.probing_bw() {
            let bw = if self.bw_shortterm.is_finite() { self.bw_shortterm } else { self.max_bw.get() };
            let inflight =
                if self.inflight_shortterm == u64::MAX { self.cwnd } else { self.inflight_shortterm };
            self.bw_shortterm = self.signals.bw_latest.max(BETA * bw);
            self.inflight_shortterm = self.signals.inflight_latest.max((BETA * inflight as f64) as u64);
        }
        self.signals.congestion = false;
    }

    /// Tuned: the path loses packets however little is sent, but no more than makes sense to put up with. Where a round trip has few packets, one
    /// that TCP's full queue takes is as large a share as that, and who does not mind it starves TCP.
    pub(super) fn loses_anyhow(&self) -> bool {
        let share = self.losses.own_share();
        let known = share > 0.0 && share < MOST_LOST && self.max_bdp(1.0) >= FEW * self.mtu();
        self.tuned && known
    }

    /// AdvanceLatestDeliverySignals, BoundBWForModel; the counts of the round start anew.
    pub(super) fn advance_signals(&mut self, rs: &RateSample) {
        let s = &mut self.signals;
        if s.round_start {
            s.bw_latest = rs.rate.bytes_per_sec();
            s.inflight_latest = rs.delivered.bytes;
            s.events = 0;
            s.marked = 0;
        }
        self.bound_bw();
    }

    pub(super) fn bound_bw(&mut self) {
        self.bw = self.max_bw.get().min(self.bw_shortterm);
    }

    /// ResetShortTermModel.
    pub(super) fn reset_short_term(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = u64::MAX;
    }

    /// NoteLoss, for marks too.
    pub(super) fn note_congestion(&mut self, delivered: u64) {
        if !self.signals.congestion {
            self.signals.round_delivered = delivered;
            self.save_state_upon_loss();
        }
        self.signals.congestion = true;
    }

    /// SaveStateUponLoss.
    pub(super) fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo = Undo {
            state: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// HandleInflightTooHigh (section 5.5.10.2).
    pub(super) fn inflight_too_high(&mut self, now: Time, inflight: u64, app_limited: bool) {
        self.probe.too_high = true;
        self.probe.sampling = false;
        if !app_limited {
            self.inflight_longterm = inflight.max((BETA * self.target_inflight() as f64) as u64);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down(now);
        }
    }

    /// TargetInflight: the BDP, unless congestion cut the window.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp(1.0).min(self.cwnd)
    }
}
