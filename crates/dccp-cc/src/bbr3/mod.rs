//! BBR version 3, for CCID 250.
//!
//! Section numbers refer to draft-ietf-ccwg-bbr-06. Windows and rates are in bytes.

mod bbr;
#[cfg(test)]
mod draft_tests;
mod path_model;
mod signals;
mod states;
mod transitions;
mod window;

use crate::hystart::HyStart;
use crate::losses::{LOSS_THRESH, Losses};
use crate::{AckEvent, Controller, Inherited, Limits, Lost, RateSample, Sent, Window};
pub use bbr::Bbr3;
use mpdccp_units::{Rate, Time};
use path_model::MaxBw;
use states::State;

impl Bbr3 {
    /// Implements UpdateModelAndState (section 5.2.3).
    fn update_model_and_state(&mut self, ev: &AckEvent<'_>, rs: &RateSample) {
        let app_limited = rs.app_limited || self.probe_rtt.marks(rs);
        if self.tuned {
            self.note_path(ev, rs);
        }
        if ev.ce > 0 {
            self.on_marks(ev, rs, app_limited);
        }
        self.update_signals(ev, rs, app_limited);
        self.check_full_bw(rs.rate.bytes_per_sec(), app_limited);
        self.check_startup_done(rs);
        self.check_drain_done(ev.now, ev.inflight.bytes);
        self.update_probe_bw(ev, rs, app_limited);
        self.min_rtt.update(ev.now, ev.rtt, self.probe_rtt.hold);
        self.check_probe_rtt(ev);
        if self.rounds.start {
            self.limited = [false, self.limited[0]];
            if self.recovering && ev.lost.packets == 0 && ev.ce == 0 {
                self.recovering = false;
                self.restore_cwnd();
            }
        }
        self.advance_signals(rs);
    }

    /// Tuned variant: measures the variation of delay and the path's own losses.
    fn note_path(&mut self, ev: &AckEvent<'_>, rs: &RateSample) {
        if let Some(rtt) = ev.rtt {
            self.jitter.on_rtt(ev.now, rtt);
            self.jitter.on_returning(ev.returning);
        }
        let empty = self.min_rtt.value.map(|rtt| rtt + HyStart::threshold(rtt));
        if ev.round_end
            && let Some(least) = self.jitter.on_round_end(self.min_rtt.value, false)
        {
            self.least = Some(least);
            self.queue_grew = empty.is_some_and(|empty| least > empty);
        }
        self.jitter.on_ages(rs.ages);
        let queue = ev.rtt.zip(empty).is_some_and(|(rtt, empty)| rtt > empty + self.jitter.get() * 2);
        self.losses.on_delivered(Some(rs.sent_at), ev.acked.packets, ev.acked.bytes, ev.ce, queue);
        let low = matches!(self.state, State::Drain | State::Down | State::ProbeRtt);
        self.earn(ev.acked.packets + ev.lost.packets);
        self.losses.on_gain(ev.now, low || self.bw_shortterm < 0.85 * self.max_bw.get());
    }

    /// Responds to ECN marks as HandleLostPacket does to losses.
    fn on_marks(&mut self, ev: &AckEvent<'_>, rs: &RateSample, app_limited: bool) {
        self.note_congestion(ev.delivered.packets);
        self.signals.events += u32::from(ev.lost.packets == 0);
        self.signals.marked = self.signals.marked.saturating_add(ev.ce.saturating_mul(self.mtu()));
        let inflight = rs.prior_inflight.bytes;
        if self.probe.sampling && self.too_high(rs.lost.bytes, inflight) {
            self.inflight_too_high(ev.now, inflight, app_limited);
        }
    }

    /// Returns whether the window was full in the running or the last round (C.is_cwnd_limited).
    fn cwnd_limited(&self) -> bool {
        self.limited[0] || self.limited[1]
    }

    fn random(&mut self) -> u64 {
        // The generator is SplitMix64. Its seed comes from the configuration.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Controller for Bbr3 {
    fn on_sent(&mut self, pkt: &Sent) {
        let after = pkt.inflight.plus(pkt.bytes);
        self.limited[0] |= !self.limits().cwnd.has_room(after);
    }

    /// Implements HandleLostPacket (section 5.5.10.2).
    fn on_packet_lost(&mut self, pkt: &Lost<'_>) {
        self.delivered = pkt.delivered.packets;
        let packets = self.pacing_rate.bytes_per_sec() / self.mtu() as f64;
        self.losses.on_lost(pkt.snapshot.sent_at, packets);
        self.probe.unpaid += 1.0;
        if !self.excuse() {
            self.note_congestion(pkt.delivered.packets);
        }
        if !self.probe.sampling {
            return;
        }
        let inflight = pkt.snapshot.inflight.bytes;
        let lost = pkt.lost.minus(pkt.snapshot.lost).bytes;
        if self.too_high(lost, inflight) {
            // InflightAtLoss: finds the point within this packet at which losses became too many.
            let size = u64::from(pkt.bytes);
            let before = inflight.saturating_sub(size) as f64;
            let lost_before = lost.saturating_sub(size) as f64;
            let prefix = ((LOSS_THRESH * before - lost_before) / (1.0 - LOSS_THRESH)).max(0.0);
            self.inflight_too_high(pkt.now, (before + prefix) as u64, pkt.snapshot.app_limited);
        }
    }

    fn on_ack(&mut self, ev: &AckEvent<'_>) {
        // Tuned variant: only queues of the forward path matter for the model, so exclude the return path's
        // queue.
        let ev = &AckEvent { rtt: if self.tuned { ev.forward_rtt() } else { ev.rtt }, ..*ev };
        self.delivered = ev.delivered.packets;
        self.signals.events += u32::from(ev.lost.packets > 0);
        self.rounds.start = false;
        if let Some(rs) = &ev.rate {
            self.update_model_and_state(ev, rs);
        } else {
            self.min_rtt.update(ev.now, ev.rtt, self.probe_rtt.hold);
            self.check_probe_rtt(ev);
        }
        if !self.pacing_from_rtt
            && let Some(srtt) = ev.estimator.srtt()
        {
            self.pacing_from_rtt = true;
            self.init_pacing_rate(srtt);
        }
        self.set_pacing_rate(self.state.gains().0);
        self.set_cwnd(ev);
    }

    fn on_rto(&mut self, _now: Time) {
        // A timeout counts everything in flight as lost, whatever the cause, so the counts of losses start
        // again.
        (self.losses, self.excused, self.probe.unpaid) = (Losses::default(), 0.0, 0.0);
        // OnEnterRTO (section 5.6.4.4): everything in flight is lost, and one packet may be sent. The losses
        // have already been reported, which saved the state.
        self.save_cwnd();
        self.recovering = true;
        self.cwnd = self.mtu();
    }

    fn on_spurious_loss(&mut self, _now: Time) {
        // HandleSpuriousLossDetection (section 5.5.11.2): restore the state from before the losses.
        self.recovering = false;
        self.restore_cwnd();
        self.signals.congestion = false;
        self.full_bw.reset(0.0);
        self.bw_shortterm = self.bw_shortterm.max(self.undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo.inflight_longterm);
        match self.undo.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw.reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if self.state != State::Up && self.state != State::ProbeRtt => {
                self.start_refill()
            }
            _ => {}
        }
        self.bound_bw();
    }

    fn on_idle_restart(&mut self, now: Time) {
        // HandleRestartFromIdle (section 5.4.1).
        self.idle_restart = true;
        self.extra_acked.start = now;
        if self.state.in_probe_bw() {
            self.set_pacing_rate(1.0);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.cwnd = self.cwnd.max(self.mtu());
    }

    fn limits(&self) -> Limits {
        let cwnd = if self.packets {
            Window::Packets((self.cwnd / self.mtu()).max(1))
        } else {
            Window::Bytes(self.cwnd)
        };
        let quantum = u32::try_from(self.send_quantum()).unwrap_or(u32::MAX);
        Limits { cwnd, pacing: Some(self.pacing_rate), quantum }
    }

    fn phase(&self) -> &'static str {
        self.state.name()
    }

    fn bottleneck(&self) -> Option<Rate> {
        (self.bw > 0.0).then(|| Rate::from_bps((self.bw * 8.0) as u64))
    }

    fn probing_rtt(&self) -> bool {
        self.state == State::ProbeRtt
    }

    fn hold_probe_rtt(&mut self, hold: bool) {
        self.probe_rtt.hold = hold;
    }

    fn settled(&self) -> bool {
        self.full_bw.reached
    }

    fn inherit(&mut self, from: &Inherited) {
        let (Some(rate), Some(rtt)) = (from.rate(), from.min_rtt.or(from.srtt)) else { return };
        self.max_bw = MaxBw::of(rate);
        self.bw = rate;
        self.min_rtt.update(from.now, Some(rtt), false);
        self.cwnd = from.window.max(self.min_pipe_cwnd());
        self.pacing_from_rtt = true;
        self.pacing_rate = Rate::ZERO;
        if from.settled {
            self.full_bw.reached = true;
            self.start_down(from.now);
        }
        self.set_pacing_rate(self.state.gains().0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Amount, CcConfig, RateSampler};

    #[test]
    fn losses_of_a_timeout_delay_no_probe() {
        let mut bbr = Bbr3::new(&CcConfig { mtu: 1500, packets: false, draft: false, seed: 0 });
        let snapshot = RateSampler::default().on_sent(Time::ZERO, 1500, Amount::default());
        let (now, lost, delivered) = (Time::ZERO, Amount::default(), Amount::default());
        bbr.on_packet_lost(&Lost { now, snapshot: &snapshot, bytes: 1500, lost, delivered });
        assert_eq!(bbr.probe.unpaid, 1.0);
        bbr.on_rto(now);
        assert_eq!(bbr.probe.unpaid, 0.0);
    }
}
