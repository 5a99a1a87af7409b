//! BBR version 1, for CCID 5.
//!
//! Section numbers refer to draft-cardwell-iccrg-bbr-congestion-control-00. [`Tuning`] lists the deviations
//! of the default variant from this draft.

mod aggregation;
mod bbr;
mod competitors;
mod long_term;
mod path_model;
mod states;
mod transitions;
mod tuning;
mod window;

use crate::losses::LOSS_THRESH;
use crate::{AckEvent, Controller, Inherited, Limits, Lost, Part, RateSample, Sent, Window};
pub use bbr::{Bbr1, WITHOUT};
use long_term::Look;
use mpdccp_units::{Duration, Rate, Time};
use path_model::RTPROP_FILTER;
use states::{Doubt, Drained, Recovery, State};
pub use tuning::Tuning;
pub(crate) use tuning::{NEAR, UNDRAINED};

impl Bbr1 {
    /// Implements BBRUpdateModelAndState (section 3.5.2).
    fn update_model_and_state(&mut self, ev: &AckEvent<'_>) {
        let now = ev.now;
        if let Some(rtt) = ev.rtt {
            self.path.on_rtt(now, rtt);
        }
        self.window_limited |= self.units.of(ev.inflight_before) + self.units.packet() > self.cwnd;
        let round_rtt = if ev.round_end {
            self.path.on_round_end(core::mem::take(&mut self.window_limited))
        } else {
            None
        };
        if let Some(rs) = &ev.rate {
            self.path.jitter.on_ages(rs.ages);
            let app_limited = rs.app_limited || self.probe_rtt.marks(rs);
            self.long_term.on_delivered(now, ev.delivered);
            self.check_policer(now, ev.lost.packets > 0, ev.round_end, app_limited);
            let rate = self.units.rate(rs).min(self.paced_most(ev.round_end));
            self.path.on_bandwidth(rate, app_limited, rs.sent_at);
            self.check_capacity(ev, rs);
        }
        if let Some(least) = round_rtt {
            self.check_drained(now, least);
        }
        if self.tuning.bound_by_losses {
            self.check_losses(ev);
        }
        if self.tuning.heed_competitors {
            self.heed_competitors(ev);
        }
        self.check_cycle_phase(ev);
        self.check_full_pipe(ev, round_rtt);
        self.check_drain(now, self.units.of(ev.inflight));
        self.update_rtprop_and_probe_rtt(ev);
        // As in Linux, bandwidth probes do not exceed the rate of a detected policer.
        if self.state == State::ProbeBw && self.long_term.rate().is_some() {
            self.pacing_gain = 1.0;
        }
    }

    /// With the switch `detect_policers`, looks for a policer. When a detected rate expires, starts a new
    /// ProbeBW cycle.
    fn check_policer(&mut self, now: Time, lost: bool, round_end: bool, app_limited: bool) {
        let look = Look { lost, round_end, app_limited, probe_bw: self.state == State::ProbeBw };
        if self.tuning.detect_policers && self.long_term.look(look) {
            self.enter_probe_bw(now);
        }
    }

    /// Returns the bandwidth on which pacing rate and window are based: BtlBw, or the rate of a detected
    /// policer.
    pub(super) fn bw(&self) -> f64 {
        self.long_term.rate().map_or_else(|| self.path.bw(), |rate| rate / self.units.bytes())
    }

    /// Tuned variant: once capacity has fallen, drops the old estimate and drains the excess in flight.
    fn check_capacity(&mut self, ev: &AckEvent<'_>, rs: &RateSample) {
        if !self.tuning.expire_bandwidth
            || self.drained.is_some()
            || self.state == State::ProbeRtt
            || ev.now < self.no_expiry_until
            || self.competitors.rules()
        {
            return;
        }
        let Some(rtt) = ev.rtt else { return };
        if let Some((old_bw, old_rtt)) =
            self.path.capacity_fell(ev.now, rtt, rs, &self.units, self.units.of(ev.delivered))
        {
            self.filled_pipe = true;
            self.state = State::CapacityDrain;
            self.pacing_gain = 1.0;
            self.cwnd_gain = 1.0;
            self.drained = Some(Drained { old_bw, old_rtt, look_at_round: None });
        }
    }

    /// Tuned variant: limits BtlBw to the delivered rate and delays the next probe if more packets are lost
    /// than the path's own losses explain. If nothing but the path's own losses can explain the losses,
    /// measures them again.
    fn check_losses(&mut self, ev: &AckEvent<'_>) {
        let units = self.units.of(ev.acked);
        let sent_at = ev.rate.as_ref().map(|rs| rs.sent_at);
        self.losses.on_delivered(sent_at, ev.acked.packets, units, ev.ce, false);
        self.losses.on_gain(ev.now, self.state == State::ProbeRtt && self.probe_rtt.done.is_some());
        if !ev.round_end {
            return;
        }
        self.congested = false;
        // A sender that is draining or yielding to competitors sends too little to tell which losses it
        // causes itself.
        let judges = matches!(self.state, State::Startup | State::ProbeBw);
        if !judges || self.competitors.rules() {
            self.losses.restart(ev.now);
            return;
        }
        let only_own = self.losses.only_own_explain();
        let congested = self.losses.on_round_end(ev.now);
        if self.state == State::Startup {
            self.congested = congested.is_some();
            return;
        }
        let bw = self.path.bw();
        let measured = self.probe_rtt.ended.is_some_and(|ended| ev.now <= ended + RTPROP_FILTER);
        let losses = if congested.is_some() { self.losses.by_losses() } else { only_own };
        if losses && !measured && self.probe_rtt.doubt.is_none() {
            self.losses.measure_again();
            self.probe_rtt.doubt = Some(Doubt { bw, rate: congested.unwrap_or(bw) });
        }
        let Some(rate) = congested else { return };
        self.path.bound_bandwidth(ev.now, rate.max(tuning::LEFT * bw));
        // As in BBRv3, the next probe starts after a random time of two to three seconds at the latest. It
        // starts earlier if Reno would have grown by a BDP and the time `repaid` has passed.
        let rounds = self.bdp_packets().clamp(1.0, 63.0) as u32;
        let most = Duration::from_millis(2_000 + self.random_below(1_000));
        let reno = self.path.rtprop.unwrap_or_default().saturating_mul(rounds);
        // In the time `repaid`, the flow sends so many packets that the losses are at most the tolerated
        // share of them.
        let packets = rate / self.units.packet() as f64;
        let repaid = self.losses.lost() / (LOSS_THRESH * packets);
        let repaid = Duration::try_from_secs_f64(repaid).unwrap_or(most);
        self.no_probe_until = Some(ev.now + most.min(reno.max(repaid)));
        self.probe_lost = true;
        self.start_draining(ev.now);
    }

    /// Returns the BDP in packets, or zero while BtlBw or RTprop is unknown.
    pub(super) fn bdp_packets(&self) -> f64 {
        self.path.bdp().unwrap_or(0.0) / self.units.packet() as f64
    }

    /// Tuned variant: returns the highest pacing rate of this round and the previous one, in units per
    /// second. It is an upper bound for rate samples, which can be too high for two reasons: if packets left
    /// one at a time, the sample has no send interval; and if the acknowledgements for earlier packets were
    /// lost, a single acknowledgement covers too many packets.
    fn paced_most(&mut self, round_end: bool) -> f64 {
        if !self.tuning.bound_by_losses {
            return f64::INFINITY;
        }
        if round_end {
            self.paced = [0.0, self.paced[0]];
        }
        self.paced[0] = self.paced[0].max(self.pacing_rate.bytes_per_sec() / self.units.bytes());
        self.paced[0].max(self.paced[1])
    }

    /// Tuned variant: watches for competitors. Once it detects some, a CUBIC window runs alongside the model.
    fn heed_competitors(&mut self, ev: &AckEvent<'_>) {
        let cruises = self.state == State::ProbeBw && self.pacing_gain == 1.0;
        let empty = self.path.empty_rtt();
        self.competitors.on_phase(ev.now, cruises, empty);
        let target = self.target_cwnd() as f64 * self.units.bytes();
        self.competitors.on_ack(ev, self.units.mtu, target as u64, empty);
    }

    /// Tuned variant: checks whether the drain in [`State::CapacityDrain`] was necessary. It was not if the
    /// RTT still indicates a queue. In this case, either the queue belongs to other flows, or the path has
    /// become longer.
    fn check_drained(&mut self, now: Time, least: Duration) {
        let Some(d) =
            self.drained.take_if(|d| d.look_at_round.is_some_and(|round| self.path.rounds >= round))
        else {
            return;
        };
        if least > self.path.queue_rtt(self.path.bw(), self.units.packet()) {
            self.path.restore_bandwidth(d.old_bw);
            // While packets are being lost, the queue is full because other flows refill it, and the RTT
            // includes their queue.
            let full = self.recovery.is_some();
            if least >= d.old_rtt.mul_f64(tuning::UNDRAINED) && !full {
                // Draining half of the amount in flight did not lower the RTT, so there is no queue. The path
                // itself has this RTT.
                self.path.set_longer_rtprop(now, least);
            } else {
                self.no_expiry_until = now + RTPROP_FILTER;
            }
        }
    }

    fn random_below(&mut self, n: u64) -> u64 {
        // A SplitMix64 generator, seeded from the configuration.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

impl Controller for Bbr1 {
    fn on_sent(&mut self, _pkt: &Sent) {}

    fn on_packet_lost(&mut self, pkt: &Lost<'_>) {
        let packets = self.pacing_rate.bytes_per_sec() / f64::from(self.units.mtu.max(1));
        self.losses.on_lost(pkt.snapshot.sent_at, packets);
        self.long_term.on_lost(pkt.lost.packets);
        // Only the detection of competitors empties the list of send times, so without it the list would grow
        // without limit.
        if self.tuning.heed_competitors {
            self.competitors.on_lost(pkt);
        }
    }

    fn on_ack(&mut self, ev: &AckEvent<'_>) {
        self.delivered = self.units.of(ev.delivered);
        if ev.rtt.is_some() {
            self.path.jitter.on_returning(ev.returning);
        }
        // Only queues of the forward path matter for the model, so exclude the return path's queue.
        let ev = &AckEvent { rtt: ev.forward_rtt(), ..*ev };
        self.update_model_and_state(ev);
        if (self.tuning.linux || self.tuning.allow_for_jitter) && ev.rate.is_some() {
            let (acked, cwnd) = (self.units.of(ev.acked) as f64, self.cwnd as f64);
            self.aggregation.on_ack(ev.now, acked, self.bw(), cwnd, ev.round_end);
        }
        self.update_control_parameters(ev);
    }

    fn on_rto(&mut self, now: Time) {
        // A timeout counts everything in flight as lost, whatever the cause, so the counts of losses start
        // again.
        self.losses.on_timeout(now);
        self.competitors.forget();
        // In Linux, a timeout ends a round.
        self.check_policer(now, true, true, false);
        // Section 4.2.3.4: after a timeout, the window is one packet.
        self.prior_cwnd = self.saved_cwnd();
        self.cwnd = self.units.packet();
        self.recovery = Some(Recovery::after_timeout());
    }

    fn on_late_packet(&mut self, declared: Time) {
        self.losses.on_late(declared);
        self.competitors.on_late(declared);
    }

    fn on_spurious_loss(&mut self, now: Time) {
        self.competitors.on_spurious_loss(now);
        self.long_term.restart();
        // Section 4.2.3.4: undoing a reduction also ends recovery.
        self.leave_recovery();
    }

    fn on_repaired(&mut self, _now: Time) {
        if self.tuning.linux {
            self.leave_recovery();
        }
    }

    fn on_idle_restart(&mut self, now: Time) {
        self.path.on_idle_restart();
        self.losses.on_idle_restart(now);
        // BBRHandleRestartFromIdle (section 4.3.4.4).
        self.idle_restart = true;
        if self.state == State::ProbeBw {
            self.set_pacing_rate(1.0);
        }
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.units.mtu = mtu;
        self.cwnd = self.cwnd.max(self.units.packet());
    }

    fn limits(&self) -> Limits {
        let cwnd = if self.units.packets { Window::Packets(self.cwnd) } else { Window::Bytes(self.cwnd) };
        Limits { cwnd, pacing: Some(self.pacing_rate), quantum: self.send_quantum() }
    }

    fn phase(&self) -> &'static str {
        self.state.name()
    }

    fn bottleneck(&self) -> Option<Rate> {
        let bw = self.bw();
        (bw > 0.0).then(|| Rate::from_bps((bw * self.units.bytes() * 8.0) as u64))
    }

    fn probing_rtt(&self) -> bool {
        self.state == State::ProbeRtt
    }

    fn hold_probe_rtt(&mut self, hold: bool) {
        self.probe_rtt.hold = hold;
    }

    fn couple(&mut self, part: &Part) {
        if self.tuning.couple {
            self.part = *part;
            self.competitors.couple(part);
        }
    }

    fn settled(&self) -> bool {
        self.filled_pipe
    }

    fn inherit(&mut self, from: &Inherited) {
        let (Some(rate), Some(rtt)) = (from.rate(), from.min_rtt.or(from.srtt)) else { return };
        let unit = self.units.bytes();
        self.path.inherit(rate / unit);
        self.path.set_rtprop(from.now, rtt);
        self.cwnd = ((from.window as f64 / unit) as u64).max(self.min_pipe_cwnd());
        self.pacing_from_rtt = true;
        self.pacing_rate = Rate::ZERO;
        if from.settled {
            self.filled_pipe = true;
            self.enter_probe_bw(from.now);
        }
        self.set_pacing_rate(self.pacing_gain);
    }
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod probe_tests;
