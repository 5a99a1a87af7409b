//! The phases of a resumption, as a wrapper around a congestion control (RFC 9959 section 3).

use alloc::boxed::Box;

use super::memory::Remembered;
use super::phase::{ResumeEnd, ResumePhase};
use crate::{AckEvent, Controller, Inherited, Limits, Lost, Part, Sent, Window};
use mpdccp_units::{Duration, Rate, Time};

/// The path has changed if the round-trip time is at most the saved round-trip time divided by `SHORTER`
/// (section 4.2.1).
const SHORTER: u32 = 2;
/// The path has also changed if the round-trip time is more than the saved round-trip time multiplied by
/// `LONGER` (section 4.2.1).
const LONGER: u32 = 10;
/// The jump is the saved window divided by `JUMP` (section 3.3).
const JUMP: u64 = 2;
/// The window of a retreat is PipeSize divided by `RETREAT` (section 3.5).
const RETREAT: u64 = 2;
/// Minimum window, packets.
const LEAST: u64 = 2;

/// A congestion control that resumes from a remembered capacity.
#[derive(Debug)]
pub struct Resuming {
    cc: Box<dyn Controller>,
    saved: Remembered,
    mtu: u16,
    /// Initial window, packets.
    initial: u64,
    phase: ResumePhase,
    /// Limit on bytes in flight. Depending on the phase, it is the jump, the validated window, or the window
    /// of the retreat.
    window: u64,
    /// PipeSize, bytes: the amount in flight when the jump began, plus the amount acknowledged since then.
    pipe: u64,
    /// Time at which the jump began.
    since: Time,
    srtt: Duration,
    min_rtt: Option<Duration>,
    /// Number of packets in flight that were sent before the jump.
    before: u64,
    /// Number of packets that were sent during the jump.
    jumped: u64,
    /// Number of packets, sent before or during the jump, that have arrived or been lost.
    resolved: u64,
}

impl Resuming {
    /// Wraps `cc`, which must not have had any input yet. The jump is at most `max_jump` bytes.
    pub fn new(cc: Box<dyn Controller>, saved: Remembered, max_jump: u64, mtu: u16) -> Resuming {
        let initial = cc.limits().cwnd.packets(mtu);
        // Section 3.3: the jump is at most half of the saved window.
        let window = (saved.window / JUMP).min(max_jump);
        Resuming {
            cc,
            saved,
            mtu: mtu.max(1),
            initial,
            phase: ResumePhase::Reconnaissance,
            window,
            pipe: 0,
            since: Time::ZERO,
            srtt: Duration::ZERO,
            min_rtt: None,
            before: 0,
            jumped: 0,
            resolved: 0,
        }
    }

    /// Returns the inner congestion control.
    pub fn cc(&self) -> &dyn Controller {
        &*self.cc
    }

    fn initial_bytes(&self) -> u64 {
        self.initial * u64::from(self.mtu)
    }

    /// Returns whether the round-trip time indicates that this is another path (section 4.2.1).
    fn other_path(&self) -> bool {
        let saved = self.saved.min_rtt;
        self.min_rtt.is_none_or(|rtt| rtt * SHORTER <= saved || rtt > saved.saturating_mul(LONGER))
    }

    fn reconnoitre(&mut self, ev: &AckEvent<'_>, congested: bool) {
        if congested {
            self.phase = ResumePhase::Normal(ResumeEnd::Congested);
        } else if self.cc.limits().cwnd.bytes(self.mtu) >= self.window || self.cc.settled() {
            self.phase = ResumePhase::Normal(ResumeEnd::NoGain);
        } else if ev.delivered.packets >= self.initial && !ev.app_limited {
            // The initial window was acknowledged, and the window limits the sender.
            if self.other_path() {
                self.phase = ResumePhase::Normal(ResumeEnd::PathChanged);
                return;
            }
            self.phase = ResumePhase::Unvalidated;
            self.since = ev.now;
            (self.pipe, self.before) = (ev.inflight.bytes, ev.inflight.packets);
        }
    }

    /// Section 3.3: ends the jump. Validation of the jump's packets begins, or the resumption ends if too few
    /// packets were sent.
    fn conclude_jump(&mut self, now: Time, inflight: u64) {
        if inflight < self.initial_bytes() || inflight <= self.pipe {
            self.window = self.pipe.max(self.initial_bytes());
            self.hand_back(now, false, ResumeEnd::RateLimited);
        } else {
            self.window = inflight;
            self.phase = ResumePhase::Validating;
        }
    }

    /// Section 3.5: reduces the window to half of PipeSize, and begins the safe retreat.
    fn retreat(&mut self) {
        self.window = (self.pipe / RETREAT).max(LEAST * u64::from(self.mtu));
        self.phase = ResumePhase::SafeRetreat;
    }

    fn hand_back(&mut self, now: Time, settled: bool, end: ResumeEnd) {
        self.phase = ResumePhase::Normal(end);
        // A controller with a path model keeps its own measurements if there was no congestion.
        if end == ResumeEnd::Retreated || self.cc.bottleneck().is_none() {
            let (window, srtt, min_rtt) = (self.window, Some(self.srtt), self.min_rtt);
            self.cc.inherit(&Inherited { now, window, srtt, min_rtt, settled });
        }
    }

    fn follow(&mut self, ev: &AckEvent<'_>) {
        let congested = ev.lost.packets > 0 || ev.ce > 0;
        if self.phase == ResumePhase::Reconnaissance {
            return self.reconnoitre(ev, congested);
        }
        self.pipe = self.pipe.saturating_add(ev.acked.bytes);
        self.resolved = self.resolved.saturating_add(ev.acked.packets).saturating_add(ev.lost.packets);
        let all = self.resolved >= self.before + self.jumped;
        match self.phase {
            ResumePhase::Unvalidated if congested || self.other_path() => self.retreat(),
            ResumePhase::Unvalidated
                if self.resolved > self.before || ev.now.since(self.since) > self.srtt =>
            {
                self.conclude_jump(ev.now, ev.inflight.bytes);
            }
            ResumePhase::Validating if congested => self.retreat(),
            ResumePhase::Validating => {
                self.window = self.window.saturating_add(ev.acked.bytes);
                if all {
                    self.hand_back(ev.now, true, ResumeEnd::Validated);
                }
            }
            ResumePhase::SafeRetreat if all => self.hand_back(ev.now, true, ResumeEnd::Retreated),
            _ => {}
        }
    }

    fn over(&self) -> bool {
        matches!(self.phase, ResumePhase::Normal(_))
    }
}

impl Controller for Resuming {
    fn on_sent(&mut self, pkt: &Sent) {
        self.cc.on_sent(pkt);
        if self.phase == ResumePhase::Unvalidated {
            self.jumped += 1;
            let inflight = pkt.inflight.plus(pkt.bytes).bytes;
            if inflight + u64::from(self.mtu) > self.window {
                self.conclude_jump(pkt.now, inflight);
            }
        }
    }

    fn on_packet_lost(&mut self, pkt: &Lost<'_>) {
        self.cc.on_packet_lost(pkt);
    }

    fn on_ack(&mut self, ev: &AckEvent<'_>) {
        self.cc.on_ack(ev);
        if !self.over() {
            self.srtt = ev.estimator.srtt().unwrap_or_default();
            self.min_rtt = ev.estimator.min().map(|(least, _)| least);
            self.follow(ev);
        }
    }

    fn on_rto(&mut self, now: Time) {
        self.cc.on_rto(now);
        if !self.over() {
            self.phase = ResumePhase::Normal(ResumeEnd::TimedOut);
        }
    }

    fn on_late_packet(&mut self, declared: Time) {
        self.cc.on_late_packet(declared);
    }

    fn on_spurious_loss(&mut self, now: Time) {
        self.cc.on_spurious_loss(now);
    }

    fn clocked(&self) -> bool {
        self.cc.clocked()
    }

    fn on_repaired(&mut self, now: Time) {
        self.cc.on_repaired(now);
    }

    fn on_ack_ratio(&mut self, ratio: u16) {
        self.cc.on_ack_ratio(ratio);
    }

    fn on_idle_restart(&mut self, now: Time) {
        self.cc.on_idle_restart(now);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.cc.on_mtu(mtu);
        self.mtu = mtu.max(1);
    }

    fn on_slow_receiver(&mut self, buffer_drops: u64) {
        self.cc.on_slow_receiver(buffer_drops);
        if !self.over() {
            self.phase = ResumePhase::Normal(ResumeEnd::Congested);
        }
    }

    fn limits(&self) -> Limits {
        let limits = self.cc.limits();
        if self.over() || self.phase == ResumePhase::Reconnaissance {
            return limits;
        }
        let own = limits.cwnd.bytes(self.mtu);
        let window = match self.phase {
            ResumePhase::SafeRetreat => own.min(self.window),
            _ => self.window,
        };
        let cwnd = match limits.cwnd {
            Window::Packets(_) => Window::Packets((window / u64::from(self.mtu)).max(1)),
            Window::Bytes(_) => Window::Bytes(window),
        };
        // Section 3.3: the window is paced over the current round-trip time, in bursts of at most an initial
        // window.
        let paced = Rate::from_bytes_per(window, self.srtt.max(Duration::from_micros(1)));
        let pacing = match self.phase {
            ResumePhase::SafeRetreat => limits.pacing.map_or(paced, |own| own.min(paced)),
            _ => limits.pacing.map_or(paced, |own| own.max(paced)),
        };
        let most = u32::try_from(self.initial_bytes()).unwrap_or(u32::MAX);
        Limits {
            cwnd,
            pacing: Some(pacing),
            quantum: limits.quantum.clamp(u32::from(self.mtu), most.max(u32::from(self.mtu))),
        }
    }

    fn phase(&self) -> &'static str {
        match self.phase {
            ResumePhase::Unvalidated => "resume_unvalidated",
            ResumePhase::Validating => "resume_validating",
            ResumePhase::SafeRetreat => "resume_retreat",
            ResumePhase::Reconnaissance | ResumePhase::Normal(_) => self.cc.phase(),
        }
    }

    fn bottleneck(&self) -> Option<Rate> {
        self.cc.bottleneck()
    }

    fn probing_rtt(&self) -> bool {
        self.cc.probing_rtt()
    }

    fn hold_probe_rtt(&mut self, hold: bool) {
        self.cc.hold_probe_rtt(hold);
    }

    fn couple(&mut self, part: &Part) {
        self.cc.couple(part);
    }

    fn threshold(&self) -> Option<u64> {
        self.cc.threshold()
    }

    fn settled(&self) -> bool {
        self.cc.settled()
    }

    fn inherit(&mut self, from: &Inherited) {
        self.cc.inherit(from);
        self.phase = ResumePhase::Normal(ResumeEnd::NoGain);
    }

    fn resumption(&self) -> Option<ResumePhase> {
        Some(self.phase)
    }
}
