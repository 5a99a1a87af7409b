//! Invariants of controllers under any input: a window of at least a packet, a rate above zero, no panic.

use dccp_cc::{
    AckEvent, Algorithm, Amount, CcConfig, Controller, Lost, RateSampler, RttEstimator, Sent, Snapshot,
    Window,
};
use mpdccp_units::{Duration, Rate, Time};
use proptest::prelude::*;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Op {
    Wait(u64),
    /// Sends packets of this size.
    Send(u8, u16),
    /// Loses `lose` packets and then acknowledges `ack` packets, beginning with the oldest outstanding one.
    /// Of the acknowledged packets, `ce` are marked. The peer held the acknowledgement for `held`.
    Ack {
        lose: u8,
        ack: u8,
        ce: u8,
        held: u32,
    },
    /// Acknowledges only the newest packet, as if all others were reordered.
    AckNewest,
    Rto,
    Spurious,
    Idle,
    Mtu(u16),
    AckRatio(u16),
    SlowReceiver(u8),
    Hold(bool),
}

fn op() -> impl Strategy<Value = Op> {
    let wait = prop_oneof![0..1_000u64, 0..20_000_000u64, 0..20_000_000_000u64, Just(0), Just(u64::MAX / 8)];
    prop_oneof![
        4 => wait.prop_map(Op::Wait),
        6 => (1..60u8, 1..=9_000u16).prop_map(|(n, b)| Op::Send(n, b)),
        8 => (0..6u8, 0..60u8, 0..4u8, any::<u32>()).prop_map(|(lose, ack, ce, held)| Op::Ack { lose, ack, ce, held }),
        1 => Just(Op::AckNewest),
        1 => Just(Op::Rto),
        1 => Just(Op::Spurious),
        1 => Just(Op::Idle),
        1 => (1..=u16::MAX).prop_map(Op::Mtu),
        1 => any::<u16>().prop_map(Op::AckRatio),
        1 => any::<u8>().prop_map(Op::SlowReceiver),
        1 => any::<bool>().prop_map(Op::Hold),
    ]
}

/// Keeps the same state for the controller as a connection does.
struct Driver {
    cc: Box<dyn Controller>,
    now: Time,
    mtu: u16,
    sampler: RateSampler,
    est: RttEstimator,
    out: VecDeque<(Snapshot, u32)>,
    inflight: Amount,
    sent: u64,
    round_end_at: u64,
    recovery_until: u64,
}

impl Driver {
    fn run(&mut self, op: &Op) {
        match *op {
            Op::Wait(ns) => self.now += Duration::from_nanos(ns),
            Op::Send(n, bytes) => {
                for _ in 0..n {
                    let bytes = u32::from(bytes);
                    self.cc.on_sent(&Sent { now: self.now, bytes, inflight: self.inflight });
                    self.out.push_back((self.sampler.on_sent(self.now, bytes, self.inflight), bytes));
                    self.inflight = self.inflight.plus(bytes);
                    self.sent += 1;
                }
            }
            Op::Ack { lose, ack, ce, held } => {
                let lost = (0..lose).filter_map(|_| self.out.pop_front()).collect();
                let acked = (0..ack).filter_map(|_| self.out.pop_front()).collect();
                self.ack(lost, acked, u64::from(ce), held);
            }
            Op::AckNewest => {
                let acked = self.out.pop_back().into_iter().collect();
                self.ack(Vec::new(), acked, 0, 0);
            }
            Op::Rto => {
                for (_, bytes) in self.out.drain(..) {
                    self.sampler.on_lost(bytes);
                }
                self.inflight = Amount::default();
                self.cc.on_rto(self.now);
            }
            Op::Spurious => self.cc.on_spurious_loss(self.now),
            Op::Idle => {
                self.sampler.set_app_limited(self.inflight);
                self.cc.on_idle_restart(self.now);
            }
            Op::Mtu(mtu) => {
                self.mtu = mtu;
                self.cc.on_mtu(mtu);
            }
            Op::AckRatio(r) => self.cc.on_ack_ratio(r),
            Op::SlowReceiver(n) => self.cc.on_slow_receiver(u64::from(n)),
            Op::Hold(hold) => self.cc.hold_probe_rtt(hold),
        }
    }

    fn ack(&mut self, lost: Vec<(Snapshot, u32)>, acked: Vec<(Snapshot, u32)>, ce: u64, held: u32) {
        let before = self.inflight;
        let total = |v: &[(Snapshot, u32)]| v.iter().fold(Amount::default(), |a, (_, b)| a.plus(*b));
        let (lost_amount, acked_amount) = (total(&lost), total(&acked));
        self.inflight = before.minus(lost_amount).minus(acked_amount);
        let mut round_end = false;
        for (snapshot, bytes) in &acked {
            self.sampler.on_acked(self.now, snapshot, *bytes);
            round_end |= snapshot.delivered.packets >= self.round_end_at;
        }
        for (snapshot, bytes) in &lost {
            self.sampler.on_lost(*bytes);
            let (lost, delivered) = (self.sampler.lost(), self.sampler.delivered());
            self.cc.on_packet_lost(&Lost { now: self.now, snapshot, bytes: *bytes, lost, delivered });
        }
        if round_end {
            self.round_end_at = self.sampler.delivered().packets;
        }
        let rtt = acked
            .last()
            .map(|(s, _)| self.now.since(s.sent_at).saturating_sub(Duration::from_nanos(held.into())));
        if let Some(rtt) = rtt {
            self.est.update(self.now, rtt);
        }
        let ce = ce.min(acked_amount.packets);
        let congestion =
            (ce > 0 || !lost.is_empty()) && self.sampler.delivered().packets >= self.recovery_until;
        if congestion {
            self.recovery_until = self.sampler.delivered().packets + self.inflight.packets;
        }
        let ev = AckEvent {
            now: self.now,
            acked: acked_amount,
            lost: lost_amount,
            ce,
            congestion,
            rtt,
            returning: Duration::ZERO,
            estimator: &self.est,
            rate: self.sampler.sample(self.est.min().map(|m| m.0)),
            inflight_before: before,
            inflight: self.inflight,
            delivered: self.sampler.delivered(),
            round_end,
            app_limited: self.sampler.app_limited(),
        };
        self.cc.on_ack(&ev);
    }

    fn check(&self) {
        let l = self.cc.limits();
        let cwnd = match l.cwnd {
            Window::Packets(n) => n,
            Window::Bytes(n) => n / u64::from(self.mtu),
        };
        assert!(cwnd >= 1, "{:?}", self.cc);
        assert!(l.cwnd.has_room(Amount::default()));
        assert!(l.pacing.is_none_or(|r| r > Rate::ZERO), "{:?}", self.cc);
        assert!(l.quantum >= u32::from(self.mtu), "{:?}", self.cc);
        assert!(!self.cc.phase().is_empty());
        let _ = self.cc.bottleneck();
    }
}

const ALGORITHMS: [Algorithm; 4] = [Algorithm::Reno, Algorithm::Bbr1, Algorithm::Cubic, Algorithm::Bbr3];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 400 } else { 2_000 }))]

    #[test]
    fn promises_are_kept(
        ops in prop::collection::vec(op(), 1..200),
        algorithm in prop::sample::select(&ALGORITHMS[..]),
        packets: bool,
        draft: bool,
        seed: u64,
        mtu in 1..=9_000u16,
    ) {
        let cfg = CcConfig { mtu, packets, draft, seed };
        let mut d = Driver {
            cc: algorithm.controller(&cfg),
            now: Time::ZERO,
            mtu,
            sampler: RateSampler::default(),
            est: RttEstimator::default(),
            out: VecDeque::new(),
            inflight: Amount::default(),
            sent: 0,
            round_end_at: 0,
            recovery_until: 0,
        };
        d.check();
        for op in &ops {
            d.run(op);
            d.check();
        }
    }
}
