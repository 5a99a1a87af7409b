//! Transitions between the states Startup, Drain, ProbeBW, ProbeRTT (section 5.3).

use super::bbr::Bbr3;
use super::states::{AckPhase, Probe, State};
use crate::bbr1::{NEAR, UNDRAINED};
use crate::losses::LOSS_THRESH;
use crate::{AckEvent, RateSample};
use mpdccp_units::{Duration, Time};

/// Bandwidth growth per round below this factor counts as no growth (section 5.3.1.2).
const FULL_BW_GROWTH: f64 = 1.25;
/// Rounds without growth that indicate a full pipe (section 5.3.1.2).
const FULL_BW_ROUNDS: u8 = 3;
/// BBRStartupFullLossCnt (section 5.3.1.3). Unlike the draft, this code counts acknowledgements with losses
/// instead of lost ranges.
const STARTUP_LOSS_EVENTS: u32 = 6;
/// Drain ends after at most this many rounds (section 5.3.2).
const DRAIN_ROUNDS: u64 = 3;
/// Maximum number of rounds between probes, for coexistence with Reno (section 5.3.3.5).
const RENO_ROUNDS: u64 = 63;
/// BBR.ProbeRTTDuration (section 2.13.2).
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

impl Bbr3 {
    /// Implements CheckFullBWReached: detects that bandwidth no longer grows.
    pub(super) fn check_full_bw(&mut self, bw: f64, app_limited: bool) {
        let f = &mut self.full_bw;
        if f.now || !self.rounds.start || app_limited {
            return;
        }
        if bw >= f.bw * FULL_BW_GROWTH {
            f.reset(bw);
            return;
        }
        f.count += 1;
        // Tuned variant: a queue indicates a full pipe at once.
        f.now = f.count >= FULL_BW_ROUNDS || self.tuned && self.queue_grew;
        f.reached |= f.now;
    }

    /// Implements CheckStartupDone: enters Drain when the pipe is full or too many packets are lost.
    pub(super) fn check_startup_done(&mut self, rs: &RateSample) {
        if self.state != State::Startup {
            return;
        }
        let lossy = self.signals.round_start
            && self.signals.events >= STARTUP_LOSS_EVENTS
            && self.too_high(rs.lost.bytes, rs.prior_inflight.bytes);
        if lossy && !self.full_bw.reached {
            self.undo.state = Some(State::Startup);
            (self.full_bw.reached, self.full_bw.now) = (true, true);
            self.inflight_longterm = self.bdp(1.0).max(self.signals.inflight_latest);
        }
        if self.full_bw.reached {
            self.state = State::Drain;
            self.drain_start_round = self.rounds.count;
        }
    }

    /// Implements IsInflightTooHigh: returns whether more than the tolerated share of `inflight` bytes was
    /// lost. Marks count as losses (section 3.6).
    pub(super) fn too_high(&self, lost: u64, inflight: u64) -> bool {
        let mtu = self.mtu() as f64;
        let inflight = inflight as f64;
        let bound = inflight * LOSS_THRESH + self.own_losses_at_most(inflight / mtu) * mtu;
        lost.saturating_add(self.signals.marked) as f64 > bound
    }

    /// Implements CheckDrainDone: enters ProbeBW when the queue is gone, or after `DRAIN_ROUNDS` rounds.
    pub(super) fn check_drain_done(&mut self, now: Time, inflight: u64) {
        if self.state == State::Drain
            && (inflight <= self.inflight(1.0) || self.rounds.count > self.drain_start_round + DRAIN_ROUNDS)
        {
            self.start_down(now);
        }
    }

    pub(super) fn start_down(&mut self, now: Time) {
        self.signals.reset();
        self.probe.acked_per_inc = u64::MAX;
        // PickProbeWait: choose a random time until the next probe.
        self.rounds.since_probe_up = self.random() >> 63;
        self.probe.wait = Duration::from_secs(2) + Duration::from_nanos(self.random() % 1_000_000_000);
        self.probe.stamp = now;
        self.probe.acks = AckPhase::Stopping;
        self.rounds.restart(self.delivered);
        self.state = State::Down;
    }

    pub(super) fn start_refill(&mut self) {
        self.reset_short_term();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0;
        self.probe.precautionary = false;
        self.probe.acks = AckPhase::Refilling;
        self.rounds.restart(self.delivered);
        self.state = State::Refill;
    }

    fn start_up(&mut self, bw: f64) {
        self.probe.acks = AckPhase::Starting;
        self.rounds.restart(self.delivered);
        self.full_bw.reset(bw);
        self.state = State::Up;
        self.raise_slope();
    }

    /// Implements UpdateProbeBWCyclePhase: starts the next phase of ProbeBW when it is due.
    pub(super) fn update_probe_bw(&mut self, ev: &AckEvent<'_>, rs: &RateSample, app_limited: bool) {
        if !self.full_bw.reached || self.adapt_long_term(ev, rs, app_limited) || !self.state.in_probe_bw() {
            return;
        }
        let inflight = ev.inflight.bytes;
        let state = self.state;
        match state {
            State::Down | State::Cruise if self.time_to_probe(ev.now) => self.start_refill(),
            // IsTimeToCruise: the queue is gone, and there is headroom for other flows.
            State::Down
                if inflight <= self.inflight_with_headroom()
                    && inflight
                        <= self.quantized(self.max_bdp(1.0)).saturating_add(self.jitter_allowance()) =>
            {
                self.state = State::Cruise;
            }
            State::Refill if self.rounds.start => {
                self.probe.sampling = true;
                self.start_up(rs.rate.bytes_per_sec());
            }
            State::Up if self.time_to_go_down(inflight, rs.rate.bytes_per_sec()) => {
                self.probe.too_high = false;
                self.start_down(ev.now);
            }
            _ => {}
        }
    }

    /// Implements IsTimeToProbeBW: returns whether the next probe is due.
    fn time_to_probe(&self, now: Time) -> bool {
        let reno = (self.target_inflight() / self.mtu()).min(RENO_ROUNDS);
        let paid = !self.tuned || self.probe.unpaid <= 0.0;
        now > self.probe.stamp + self.probe.wait || self.rounds.since_probe_up >= reno && paid
    }

    /// Implements IsTimeToGoDown: returns whether the probe should end.
    fn time_to_go_down(&mut self, inflight: u64, bw: f64) -> bool {
        if self.probe.too_high && inflight >= self.inflight_longterm {
            self.probe.precautionary = true;
            return true;
        }
        if self.cwnd_limited() && self.cwnd >= self.inflight_longterm {
            self.full_bw.reset(bw);
            return false;
        }
        self.full_bw.now
    }

    /// Implements RaiseInflightLongtermSlope: in each round of a probe, `inflight_longterm` grows twice as
    /// fast as in the round before.
    fn raise_slope(&mut self) {
        let growth = 1u64 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.acked_per_inc = (self.cwnd / growth).max(self.mtu());
    }

    /// Implements ProbeInflightLongtermUpward: raises `inflight_longterm` while the window limits the sender.
    fn probe_upward(&mut self, acked: u64) {
        if !self.cwnd_limited() || self.cwnd < self.inflight_longterm {
            return;
        }
        let mtu = self.mtu();
        let p: &mut Probe = &mut self.probe;
        p.up_acked = p.up_acked.saturating_add(acked);
        let steps = p.up_acked / p.acked_per_inc;
        p.up_acked -= steps * p.acked_per_inc;
        self.inflight_longterm = self.inflight_longterm.saturating_add(steps * mtu);
        if self.rounds.start {
            self.raise_slope();
        }
    }

    /// Implements AdaptLongTermModel: updates max_bw and `inflight_longterm` with the result of a probe.
    /// Returns true if the state changed.
    fn adapt_long_term(&mut self, ev: &AckEvent<'_>, rs: &RateSample, app_limited: bool) -> bool {
        if self.rounds.start && self.probe.acks == AckPhase::Starting {
            self.probe.acks = AckPhase::Feedback;
        }
        if self.rounds.start && self.probe.acks == AckPhase::Stopping {
            self.probe.sampling = false;
            self.probe.acks = AckPhase::Init;
            if self.state.in_probe_bw() {
                if !app_limited {
                    self.max_bw.advance();
                }
                if self.probe.precautionary && !self.probe.too_high {
                    self.start_refill();
                    return true;
                }
            }
        }
        if !self.too_high(rs.lost.bytes, rs.prior_inflight.bytes) && self.inflight_longterm != u64::MAX {
            self.inflight_longterm = self.inflight_longterm.max(rs.prior_inflight.bytes);
            if self.state == State::Up {
                self.probe_upward(ev.acked.bytes);
            }
        }
        false
    }

    /// Implements CheckProbeRTT: enters ProbeRTT when it is due. The caller has already run `UpdateMinRTT`.
    pub(super) fn check_probe_rtt(&mut self, ev: &AckEvent<'_>) {
        if self.state != State::ProbeRtt && self.min_rtt.probe_expired && !self.idle_restart {
            self.save_cwnd();
            self.probe_rtt.before = self.least;
            self.state = State::ProbeRtt;
            self.probe_rtt.done = None;
            self.probe_rtt.low_rate = (ev.delivered.packets, ev.delivered.packets);
            self.probe.acks = AckPhase::Stopping;
            self.rounds.restart(self.delivered);
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt(ev);
        }
        if ev.acked.packets > 0 {
            self.idle_restart = false;
        }
    }

    fn handle_probe_rtt(&mut self, ev: &AckEvent<'_>) {
        self.probe_rtt.low_rate.1 =
            ev.delivered.packets.saturating_add(ev.inflight.packets).saturating_add(1);
        if self.probe_rtt.done.is_none() {
            if ev.inflight.bytes <= self.probe_rtt_cwnd() {
                self.probe_rtt.done = Some(ev.now + PROBE_RTT_DURATION);
                self.probe_rtt.round_done = false;
                self.rounds.restart(self.delivered);
            }
            return;
        }
        self.probe_rtt.round_done |= self.rounds.start;
        if self.probe_rtt.round_done {
            self.check_probe_rtt_done(ev.now);
        }
    }

    /// Implements CheckProbeRTTDone and ExitProbeRTT: leaves ProbeRTT after its minimum duration.
    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt.done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt.probe_stamp = now;
        self.check_longer_path(now);
        self.restore_cwnd();
        self.reset_short_term();
        if self.full_bw.reached {
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    /// Tuned variant: if ProbeRTT hardly lowered the RTT, this flow has no queue. The path has become longer,
    /// so min_rtt rises.
    fn check_longer_path(&mut self, now: Time) {
        if let (Some(before), Some(low)) = (self.probe_rtt.before, self.min_rtt.probe_delay)
            && low >= before.mul_f64(UNDRAINED)
            && self.min_rtt.value.is_some_and(|rtt| low > rtt.mul_f64(NEAR))
        {
            self.min_rtt.value = Some(low);
            self.min_rtt.stamp = now;
        }
    }
}
