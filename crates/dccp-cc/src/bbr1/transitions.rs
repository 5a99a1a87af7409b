//! Transitions between the states Startup, Drain, ProbeBW, ProbeRTT (section 4.3).

use super::bbr::{Bbr1, HIGH_GAIN};
use super::path_model::RTPROP_FILTER;
use super::states::{CYCLE, State};
use super::tuning;
use crate::{AckEvent, RateSample};
use mpdccp_units::{Duration, Time};

/// Bandwidth growth per round below this factor counts as no growth (section 4.3.2.2).
const FULL_BW_GROWTH: f64 = 1.25;
/// Rounds without growth that indicate a full pipe (section 4.3.2.2).
const FULL_BW_ROUNDS: u8 = 3;
/// ProbeRTTDuration (section 4.3.5).
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

impl Bbr1 {
    /// Implements BBREnterStartup (section 4.3.2.1).
    fn enter_startup(&mut self) {
        self.state = State::Startup;
        self.pacing_gain = HIGH_GAIN;
        self.cwnd_gain = HIGH_GAIN;
    }

    /// Implements BBREnterProbeBW (section 4.3.4.3): ProbeBW starts in a random phase of its cycle.
    pub(super) fn enter_probe_bw(&mut self, now: Time) {
        // As in the draft, never start in the 3/4 phase. After CapacityDrain, do not start in the 5/4 phase
        // either.
        let skip = if self.state == State::CapacityDrain { 6 } else { 7 };
        self.state = State::ProbeBw;
        self.cwnd_gain = 2.0;
        self.probed_from = self.path.bw();
        self.cycle_index = CYCLE.len() - 1 - self.random_below(skip) as usize;
        self.advance_cycle_phase(now);
        if skip == 6 && self.pacing_gain > 1.0 {
            self.cycle_index = 1;
            self.advance_cycle_phase(now);
        }
    }

    /// Starts the 3/4 phase of ProbeBW, in which the queue drains.
    pub(super) fn start_draining(&mut self, now: Time) {
        self.cycle_index = 0;
        self.advance_cycle_phase(now);
    }

    pub(super) fn advance_cycle_phase(&mut self, now: Time) {
        self.cycle_stamp = now;
        if self.cycle_index + 1 == CYCLE.len() && self.no_probe_until.is_some_and(|until| now < until) {
            return;
        }
        self.cycle_index = (self.cycle_index + 1) % CYCLE.len();
        let gain = CYCLE[self.cycle_index];
        self.pacing_gain = gain;
        if gain > 1.0 {
            self.probed_from = self.path.bw();
            // Tuned variant: if a probe lost packets, the next one is half as large, down to one packet.
            // Otherwise the next one is twice as large.
            let by = if core::mem::take(&mut self.probe_lost) { 0.5 } else { 2.0 };
            let packet = 1.0 / ((gain - 1.0) * self.bdp_packets()).max(1.0);
            self.probe_share = (self.probe_share * by).clamp(packet, 1.0);
            self.pacing_gain = 1.0 + (gain - 1.0) * self.part.weight * self.probe_share;
        }
    }

    /// Implements BBRCheckCyclePhase and BBRIsNextCyclePhase (section 4.3.4.3): starts the next phase of
    /// ProbeBW when it is due.
    pub(super) fn check_cycle_phase(&mut self, ev: &AckEvent<'_>) {
        if self.state != State::ProbeBw {
            return;
        }
        if self.competitors.rules() {
            // Do not drain, because other flows would fill the queue, and do not probe, because the CUBIC
            // window does its own probing.
            self.cycle_index = 0;
            self.pacing_gain = CYCLE[0];
            self.cycle_stamp = ev.now;
            return;
        }
        let rtprop = self.path.rtprop.unwrap_or_default();
        let elapsed = ev.now.since(self.cycle_stamp);
        let full_length = elapsed > rtprop;
        let inflight = self.units.of(ev.inflight_before);
        let next = if self.pacing_gain > 1.0 {
            full_length && (ev.lost.packets > 0 || inflight >= self.inflight_no_queue(self.pacing_gain))
        } else if self.pacing_gain < 1.0 {
            inflight <= self.inflight_no_queue(1.0) || (full_length && self.drained_enough(ev, elapsed))
        } else {
            full_length
        };
        if next {
            if self.tuning.probe_on && self.pacing_gain == 1.0 && self.probe_paid(ev) {
                self.cycle_index = CYCLE.len() - 1;
            }
            self.advance_cycle_phase(ev.now);
        }
    }

    /// Returns whether the last probe found more bandwidth and left no queue, so that the path may have even
    /// more. For ten seconds after losses have delayed a probe, the answer is no, because a policer lets the
    /// first burst through.
    fn probe_paid(&self, ev: &AckEvent<'_>) -> bool {
        let bw = self.path.bw();
        let queue = self.path.queue_rtt(bw, self.units.packet());
        bw >= self.probed_from * (1.0 + (tuning::NEAR - 1.0) * self.probe_share)
            && ev.rtt.is_some_and(|rtt| rtt <= queue)
            && self.no_probe_until.is_none_or(|until| ev.now >= until + RTPROP_FILTER)
    }

    /// Returns whether the flow has drained enough. The draft drains for one RTprop. The tuned variant drains
    /// until the RTT shows no queue, but no longer than it takes to drain a whole BDP.
    fn drained_enough(&self, ev: &AckEvent<'_>, elapsed: Duration) -> bool {
        !self.tuning.full_drain
            || ev.rtt.is_some_and(|rtt| rtt <= self.path.drained_rtt())
            || elapsed > self.path.rtprop.unwrap_or_default().mul_f64(tuning::DRAIN_RTPROPS)
    }

    /// Implements BBRCheckFullPipe (section 4.3.2.2): detects that bandwidth no longer grows in Startup.
    ///
    /// `least` is the minimum RTT of the round that ends with this acknowledgement.
    pub(super) fn check_full_pipe(&mut self, ev: &AckEvent<'_>, least: Option<Duration>) {
        self.lost_in_round |= ev.lost.packets > 0;
        self.note_overfull(ev);
        if self.filled_pipe || !ev.round_end {
            return;
        }
        // If packets overtake each other, a round lasts only as long as the fastest packet's round trip. The
        // rate takes longer than that to grow, so such a round says nothing about growth.
        let round = ev.now.since(self.startup_round_start);
        if self.tuning.allow_for_jitter && round.mul_f64(tuning::NEAR) < self.path.jitter.mean_age() {
            return;
        }
        self.startup_round_start = ev.now;
        let lost = core::mem::take(&mut self.lost_in_round);
        let overfull = core::mem::take(&mut self.overfull);
        let bw = self.path.bw();
        // This flow's own queue looks like jitter, and would raise the limit. So use a limit from before.
        let limit = self.path.queue_rtt(bw, self.units.packet());
        let queue = least.is_some_and(|rtt| rtt > limit.min(self.full_bw_rtt));
        let busy = self.congested || (self.tuning.full_pipe_shows && (queue || overfull));
        if !busy && ev.rate.as_ref().is_none_or(|rs| rs.app_limited) {
            return;
        }
        if bw >= self.full_bw * FULL_BW_GROWTH {
            self.full_bw = bw;
            self.full_bw_rtt = limit;
            self.full_bw_count = 0;
            return;
        }
        if self.congested {
            // If bandwidth did not grow and packets were lost, the pipe is full, even if the sender is
            // application-limited.
            self.filled_pipe = true;
            return;
        }
        // A queue on the return path limits the rate, too.
        let near = self.path.near_rtprop();
        let shows = queue || lost || ev.rtt.is_some_and(|rtt| rtt.saturating_add(ev.returning) > near);
        if self.tuning.full_pipe_shows && !shows {
            return;
        }
        self.full_bw_count += 1;
        // A single round is enough if all its packets met a queue.
        if self.full_bw_count >= FULL_BW_ROUNDS || (self.tuning.full_pipe_shows && queue) {
            self.filled_pipe = true;
        }
    }

    /// Records whether the window is full and the amount in flight exceeds Startup's window without the
    /// jitter allowance. If so, the pipe is full. While the link pauses, much is in flight too, but the
    /// window is not full.
    fn note_overfull(&mut self, ev: &AckEvent<'_>) {
        let inflight = self.units.of(ev.inflight_before);
        let Some(bdp) = self.path.bdp() else { return };
        self.overfull |= inflight as f64 > HIGH_GAIN * bdp && inflight + self.units.packet() > self.cwnd;
    }

    /// Implements BBRCheckDrain (section 4.3.3): enters Drain when the pipe is full, and ProbeBW when the
    /// queue is gone.
    pub(super) fn check_drain(&mut self, now: Time, inflight: u64) {
        if self.state == State::Startup && self.filled_pipe {
            self.state = State::Drain;
            self.pacing_gain = 1.0 / HIGH_GAIN;
            self.cwnd_gain = HIGH_GAIN;
        }
        if self.state == State::Drain && inflight <= self.inflight_no_queue(1.0) {
            self.enter_probe_bw(now);
        }
        if self.state == State::CapacityDrain
            && inflight <= self.inflight_no_queue(1.0).max(self.min_pipe_cwnd())
        {
            if let Some(d) = &mut self.drained {
                d.look_at_round = Some(self.path.rounds + 2);
            }
            self.enter_probe_bw(now);
        }
    }

    /// Implements BBRUpdateRTprop and BBRCheckProbeRTT (sections 4.1.2.3 and 4.3.5).
    pub(super) fn update_rtprop_and_probe_rtt(&mut self, ev: &AckEvent<'_>) {
        // Linux starts with the round-trip time of the handshake (`bbr_init`), whose packets are small.
        if self.tuning.linux
            && self.path.rtprop.is_none()
            && let Some((least, at)) = ev.estimator.min()
        {
            self.path.set_rtprop(at, least);
        }
        let mut expired = self.path.rtprop_expired(ev.now);
        if let Some(rtt) = ev.rtt {
            self.update_rtprop(ev.now, rtt, expired, ev.rate.as_ref());
        }
        if self.tuning.gentle_probe_rtt {
            let due = self.path.rtprop_expired(ev.now) || self.probe_rtt.doubt.is_some();
            expired = due && !self.probe_rtt.hold;
        }
        // The queue of a shared bottleneck drains only if all subflows that share this bottleneck drain
        // together.
        let joins = self.part.probe_rtt
            && self.filled_pipe
            && self.probe_rtt.ended.is_none_or(|ended| ev.now > ended + tuning::PROBED);
        if self.state != State::ProbeRtt && (expired || joins) && !self.idle_restart {
            self.prior_cwnd = self.saved_cwnd();
            self.state = State::ProbeRtt;
            self.pacing_gain = 1.0;
            if let Some(doubt) = self.probe_rtt.doubt {
                // Half of the BDP can be less than the lowest window, so halve the rate, too.
                self.pacing_gain = tuning::PROBE_RTT_GAIN * (doubt.rate / self.path.bw()).min(1.0);
            }
            self.cwnd_gain = 1.0;
            self.probe_rtt.done = None;
            self.probe_rtt.low_rate = (ev.delivered.packets, ev.delivered.packets);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(ev);
        }
        self.idle_restart = false;
    }

    fn update_rtprop(&mut self, now: Time, rtt: Duration, expired: bool, rs: Option<&RateSample>) {
        // Once RTprop has expired, the draft takes the next sample, however high it is. With
        // `gentle_probe_rtt`, the controller waits for a sample taken in its own ProbeRTT.
        let replace = expired && (!self.tuning.gentle_probe_rtt || self.idle_restart);
        if replace || self.path.rtprop.is_none_or(|p| rtt <= p) {
            self.path.set_rtprop(now, rtt);
        } else if self.tuning.confirm_rtprop
            && rtt <= self.path.confirming_rtt()
            && rs.is_some_and(|rs| self.units.of(rs.prior_inflight) <= self.inflight(1.0))
        {
            self.path.rtprop_stamp = now;
        }
    }

    /// Implements BBRHandleProbeRTT (section 4.3.5): measures RTprop, and ends ProbeRTT after its minimum
    /// duration.
    fn handle_probe_rtt(&mut self, ev: &AckEvent<'_>) {
        let inflight = self.units.of(ev.inflight);
        let low = inflight <= self.probe_rtt_cwnd();
        let p = &mut self.probe_rtt;
        // C.app_limited of the draft: packets sent up to this point give low rate samples, because ProbeRTT
        // was limiting the sender.
        p.low_rate.1 = ev.delivered.packets.saturating_add(ev.inflight.packets).saturating_add(1);
        let Some(done) = p.done else {
            if low {
                p.done = Some(ev.now + PROBE_RTT_DURATION);
                p.round = ev.delivered.packets;
                p.round_done = false;
                p.least = None;
            }
            return;
        };
        if let Some(rtt) = ev.rtt {
            p.least = Some(p.least.map_or(rtt, |l| l.min(rtt)));
        }
        p.round_done |= ev.rate.as_ref().is_some_and(|rs| rs.prior_delivered.packets >= p.round);
        let least = p.least;
        let near = self.path.near_rtprop();
        let confirmed = self.tuning.gentle_probe_rtt && p.doubt.is_none() && least.is_some_and(|l| l <= near);
        let measured = p.doubt.is_some() && self.losses.measured();
        if confirmed || (p.round_done && (measured || ev.now > done)) {
            p.ended = Some(ev.now);
            // A phase that only measured losses says nothing against an RTprop that has not expired.
            if p.doubt.is_none() || self.path.rtprop_expired(ev.now) {
                self.path.rtprop_stamp = ev.now;
                if self.tuning.gentle_probe_rtt
                    && !confirmed
                    && let Some(least) = least
                {
                    self.path.set_rtprop(ev.now, least);
                }
            }
            if let Some(doubt) = self.probe_rtt.doubt.take()
                && self.losses.own_explain_last()
            {
                self.path.restore_bandwidth(doubt.bw);
                self.no_probe_until = None;
                self.probe_lost = false;
            }
            self.pacing_gain = 1.0;
            self.drained = None;
            self.restore_cwnd();
            // BBRExitProbeRTT.
            if self.filled_pipe {
                self.enter_probe_bw(ev.now);
            } else {
                self.enter_startup();
            }
        }
    }
}
