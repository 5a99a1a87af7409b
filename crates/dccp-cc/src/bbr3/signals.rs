//! Updates the path model for each acknowledgement, and sets bounds after congestion (section 5.5).

use super::bbr::Bbr3;
use super::path_model::Undo;
use super::states::State;
use crate::losses::LOSS_THRESH;
use crate::{AckEvent, RateSample};
use mpdccp_units::Time;

/// BBR.Beta (section 2.6).
const BETA: f64 = 0.7;
/// Tuned variant: number of standard deviations by which the path's own losses may exceed their expected
/// number. Random variation exceeds this limit in about one window in a hundred.
const DEVIATIONS: f64 = 2.5;
/// BBR.ExtraAckedFilterLen, rounds (section 2.10).
const EXTRA_ACKED_ROUNDS: u64 = 10;

impl Bbr3 {
    /// Implements UpdateLatestDeliverySignals, UpdateCongestionSignals and UpdateACKAggregation.
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
            self.undo.open = false;
            self.adapt_lower_bounds();
        }
        let window = if self.full_bw.reached { EXTRA_ACKED_ROUNDS } else { 1 };
        self.extra_acked.update(ev.now, self.bw, ev.acked.bytes, self.cwnd, self.rounds.count, window);
    }

    /// Implements AdaptLowerBoundsFromCongestion and LossLowerBounds: after a round with congestion, lowers
    /// the short-term bounds of bandwidth and data in flight.
    fn adapt_lower_bounds(&mut self) {
        let congestion = self.signals.congestion;
        if congestion && !self.state.probing_bw() {
            let bw = if self.bw_shortterm.is_finite() { self.bw_shortterm } else { self.max_bw.get() };
            let inflight =
                if self.inflight_shortterm == u64::MAX { self.cwnd } else { self.inflight_shortterm };
            self.bw_shortterm = self.signals.bw_latest.max(BETA * bw);
            self.inflight_shortterm = self.signals.inflight_latest.max((BETA * inflight as f64) as u64);
        }
        self.signals.congestion = false;
    }

    /// Tuned variant: returns how many of `packets` the path loses regardless of the sending rate. The share
    /// is limited to the loss threshold, because a higher share comes from a policer whose bucket let an
    /// earlier burst pass.
    fn own_losses(&self, packets: f64) -> f64 {
        if self.tuned { self.losses.own_share().min(LOSS_THRESH) * packets } else { 0.0 }
    }

    /// Returns an upper bound for the path's own losses, including random variation.
    pub(super) fn own_losses_at_most(&self, packets: f64) -> f64 {
        let expected = self.own_losses(packets);
        expected + DEVIATIONS * libm::sqrt(expected)
    }

    /// Tuned variant: increases `excused` by the losses that the path itself causes in `packets` packets, up
    /// to the upper bound for one window. Also reduces `unpaid`, the number of losses due to sending too
    /// much.
    pub(super) fn earn(&mut self, packets: u64) {
        let paid = (LOSS_THRESH + self.losses.own_share()) * packets as f64;
        self.probe.unpaid = (self.probe.unpaid - paid).max(0.0);
        let window = (self.max_bdp(1.0) / self.mtu()) as f64;
        let earned = self.excused + self.own_losses(packets as f64);
        self.excused = earned.min(self.own_losses_at_most(window));
    }

    /// Returns whether a lost packet counts as one of the path's own losses, and if so, deducts it from the
    /// allowance.
    pub(super) fn excuse(&mut self) -> bool {
        let excused = self.excused >= 1.0;
        if excused {
            self.excused -= 1.0;
        }
        excused
    }

    /// Implements AdvanceLatestDeliverySignals and BoundBWForModel. Also resets the counts of the round.
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

    /// Implements ResetShortTermModel: removes the short-term bounds.
    pub(super) fn reset_short_term(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = u64::MAX;
    }

    /// Implements NoteLoss, for marks too: records congestion, and saves the state once per round.
    pub(super) fn note_congestion(&mut self, delivered: u64) {
        if !self.signals.congestion {
            self.signals.round_delivered = delivered;
        }
        // Save the state once per round with losses. Checking `signals.congestion` is not enough: the end of
        // a probe resets it, and the next loss of the same burst would save the reduced state.
        if !self.undo.open {
            self.save_state_upon_loss();
        }
        self.signals.congestion = true;
    }

    /// Implements SaveStateUponLoss: saves the state to restore if the losses prove spurious.
    pub(super) fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo = Undo {
            open: true,
            state: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// Implements HandleInflightTooHigh (section 5.5.10.2): sets `inflight_longterm`, and ends a running
    /// probe.
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

    /// Implements TargetInflight: the BDP, or the window if congestion has reduced it below the BDP.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp(1.0).min(self.cwnd)
    }
}
