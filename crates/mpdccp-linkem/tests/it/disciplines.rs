//! Tests queue disciplines with senders that respond to congestion like TCP Reno, and compares the results
//! with published ones.

use std::collections::VecDeque;

use mpdccp_linkem::*;
use mpdccp_units::{Duration, Rate, Time};

const BYTES: u32 = 1_250;
/// A packet takes 1 ms to send and 10 ms to arrive, and its acknowledgement takes 10 ms to return.
const TRANSMISSION: Duration = Duration::from_millis(1);
const ONE_WAY: Duration = Duration::from_millis(10);
const END: Time = Time::from_millis(60_000);

fn link(kind: QueueKind, limit: u64) -> Link<(u32, u64)> {
    let config = LinkConfig {
        rate: RateModel::Constant(Rate::from_mbps(10.0)),
        delay: ONE_WAY,
        queue: QueueConfig { kind, limit: Limit::Packets(limit) },
        ..LinkConfig::default()
    };
    Link::new(config, 1, Time::ZERO).unwrap()
}

/// A sender with additive increase and multiplicative decrease, which halves its window at most once per
/// round trip.
struct Sender {
    flow: u32,
    ecn: Ecn,
    window: f64,
    next: u64,
    acked: u64,
    halve_after: u64,
    acks: VecDeque<(Time, u64, Ecn)>,
}

impl Sender {
    fn new(flow: u32, ecn: Ecn) -> Sender {
        Sender { flow, ecn, window: 2.0, next: 0, acked: 0, halve_after: 0, acks: VecDeque::new() }
    }

    fn on_ack(&mut self, number: u64, ecn: Ecn) {
        // The link keeps each flow in order, so a gap in the numbers means a loss.
        let signal = number > self.acked || ecn == Ecn::Ce;
        self.acked = number + 1;
        if signal && number >= self.halve_after {
            self.window = (self.window / 2.0).max(1.0);
            self.halve_after = self.next;
        } else {
            self.window += 1.0 / self.window;
        }
    }

    fn send(&mut self, now: Time, link: &mut Link<(u32, u64)>) {
        // The sender has no timeout: if everything in flight were lost, the flow would stop and the link
        // would seem idle.
        while ((self.next - self.acked) as f64) < self.window {
            let meta = Meta { bytes: BYTES, ecn: self.ecn, flow: self.flow };
            link.push(now, meta, (self.flow, self.next));
            self.next += 1;
        }
    }
}

/// Results of a run, not counting the first five seconds.
struct Outcome {
    /// Sorted queueing times of each flow's packets, in ms.
    waits: Vec<Vec<f64>>,
    /// Share of the link's capacity that was used.
    used: f64,
    stats: Stats,
}

impl Outcome {
    fn median(&self, flow: usize) -> f64 {
        self.waits[flow][self.waits[flow].len() / 2]
    }
    fn longest(&self, flow: usize) -> f64 {
        *self.waits[flow].last().unwrap()
    }
}

/// Runs `bulk` senders and, as the last flow, one that sends 125 bytes every 10.3 ms and does not react to
/// losses.
fn run(mut link: Link<(u32, u64)>, bulk: u32, ecn: Ecn) -> Outcome {
    let mut senders: Vec<Sender> = (0..bulk).map(|flow| Sender::new(flow, ecn)).collect();
    let sparse = Meta { bytes: BYTES / 10, ecn: Ecn::NotEct, flow: bulk };
    let mut next_sparse = Time::ZERO;
    let mut waits = vec![Vec::new(); bulk as usize + 1];
    let mut bytes = 0;
    let mut now = Time::ZERO;
    while now < END {
        while let Some(d) = link.pop(now) {
            let (flow, number) = d.packet;
            if now > Time::from_millis(5_000) {
                let fixed = ONE_WAY + Rate::from_mbps(10.0).time_for(d.meta.bytes.into());
                waits[flow as usize].push((d.at.since(d.pushed) - fixed).as_secs_f64() * 1e3);
                bytes += u64::from(d.meta.bytes);
            }
            if let Some(sender) = senders.get_mut(flow as usize) {
                sender.acks.push_back((d.at + ONE_WAY, number, d.meta.ecn));
            }
        }
        for sender in &mut senders {
            while let Some((_, number, ecn)) = sender.acks.pop_front_if(|ack| ack.0 <= now) {
                sender.on_ack(number, ecn);
            }
            sender.send(now, &mut link);
        }
        if next_sparse <= now {
            link.push(now, sparse, (bulk, 0));
            next_sparse += Duration::from_micros(10_300);
        }
        let acks = senders.iter().filter_map(|s| s.acks.front()).map(|ack| ack.0);
        now = acks.chain(link.next_event()).chain([next_sparse]).min().unwrap();
    }
    waits.iter_mut().for_each(|w| w.sort_by(f64::total_cmp));
    let used = bytes as f64 / (10e6 / 8.0 * 55.0);
    Outcome { waits, used, stats: *link.stats() }
}

#[test]
fn drop_tail_fills_up() {
    let out = run(link(QueueKind::DropTail, 100), 2, Ecn::NotEct);
    assert!(out.used > 0.99, "{}", out.used);
    // The senders halve their windows when 100 packets are queued, about a tenth of which are small. The
    // queue is never empty and often full.
    assert!(out.median(0) > 50.0 && out.longest(0) > 85.0, "{} {}", out.median(0), out.longest(0));
    assert!(out.longest(2) > 85.0, "the sparse flow must wait as long as the others");
}

#[test]
fn codel_keeps_the_delay_near_its_target() {
    let out = run(link(QueueKind::CoDel(CoDelConfig::default()), 1_000), 2, Ecn::NotEct);
    assert!(out.used > 0.9, "{}", out.used);
    assert!((1.0..10.0).contains(&out.median(0)), "{}", out.median(0));
    assert_eq!(out.stats.overflow.packets, 0);
    assert!(out.stats.early.packets > 0);
}

#[test]
fn marking_replaces_drops() {
    let codel = CoDelConfig { ecn: true, ..CoDelConfig::default() };
    let red = RedConfig { ecn: true, ..RedConfig::new(5, 50) };
    for kind in [QueueKind::CoDel(codel), QueueKind::Red(red), QueueKind::MarkAbove(Limit::Packets(20))] {
        let out = run(link(kind.clone(), 1_000), 2, Ecn::Ect0);
        assert!(out.stats.ce_marked > 10, "{kind:?}");
        // CoDel and RED mark ECN-capable packets, but may drop packets of the sparse flow, which are not
        // ECN-capable.
        assert!(out.stats.dropped() < out.stats.ce_marked, "{kind:?}: {:?}", out.stats);
        assert!(out.used > 0.9 && out.median(0) < 40.0, "{kind:?}: {} {}", out.used, out.median(0));
    }
}

#[test]
fn fq_codel_isolates_and_shares() {
    let out = run(link(QueueKind::FqCoDel(FqCoDelConfig::default()), 10_240), 4, Ecn::NotEct);
    // A sparse packet waits only for the packet being transmitted.
    assert!(out.longest(4) <= TRANSMISSION.as_secs_f64() * 1e3, "{}", out.longest(4));
    assert!(out.used > 0.9, "{}", out.used);
    let counts: Vec<f64> = out.waits[..4].iter().map(|w| w.len() as f64).collect();
    let jain = counts.iter().sum::<f64>().powi(2) / (4.0 * counts.iter().map(|n| n * n).sum::<f64>());
    assert!(jain > 0.99, "{counts:?}");
}

#[test]
fn red_keeps_the_average_between_its_thresholds() {
    let out = run(link(QueueKind::Red(RedConfig::new(5, 30)), 1_000), 4, Ecn::NotEct);
    assert!(out.used > 0.9, "{}", out.used);
    assert!((5.0..30.0).contains(&out.median(0)), "{}", out.median(0));
    assert_eq!(out.stats.overflow.packets, 0);
}

/// The flow sends at 5/4 of the link's rate and does not react to drops. A random-drop queue therefore
/// settles at the length at which it drops a fifth of the packets.
#[test]
fn random_drop_settles_on_its_line() {
    let mut link = link(QueueKind::Drd(DrdConfig { min: 60, max: 125 }), 1_000);
    let (mut sum, mut n) = (0, 0);
    for i in 0..50_000 {
        let now = Time::from_micros(800 * i);
        link.push(now, Meta { bytes: BYTES, ..Meta::default() }, (0, i));
        while link.pop(now).is_some() {}
        if i > 5_000 {
            sum += link.queue_len().packets;
            n += 1;
        }
    }
    let mean = sum as f64 / f64::from(n);
    let expected = 60.0 + 0.2 / 0.95 * 65.0;
    assert!((mean - expected).abs() < 2.0, "the mean is {mean} instead of {expected}");
    let stats = link.stats();
    assert!((stats.early.packets as f64 / stats.offered.packets as f64 - 0.2).abs() < 0.01);
    assert_eq!(stats.overflow.packets, 0);
}

#[test]
fn dual_pi2_keeps_l4s_shallow_and_classic_near_its_target() {
    let kind = || QueueKind::DualPi2(DualPi2Config::default());
    let classic = run(link(kind(), 1_000), 2, Ecn::Ect0);
    assert!(classic.used > 0.9, "{}", classic.used);
    assert!((5.0..25.0).contains(&classic.median(0)), "{}", classic.median(0));
    assert!(classic.stats.ce_marked > 10 && classic.stats.overflow.packets == 0, "{:?}", classic.stats);
    // Unlike L4S senders, these halve their window on a mark, so the queue is shallow and the link is idle
    // for some of the time.
    let l4s = run(link(kind(), 1_000), 2, Ecn::Ect1);
    assert!(l4s.median(0) < 3.0, "{}", l4s.median(0));
    assert!(l4s.used > 0.5, "{}", l4s.used);
}

#[test]
fn pie_keeps_the_delay_near_its_target() {
    let out = run(link(QueueKind::Pie(PieConfig::default()), 1_000), 4, Ecn::NotEct);
    assert!(out.used > 0.9, "{}", out.used);
    assert!((5.0..25.0).contains(&out.median(0)), "{}", out.median(0));
    assert!(out.stats.early.packets > 10 && out.stats.overflow.packets == 0, "{:?}", out.stats);
    let marked =
        run(link(QueueKind::Pie(PieConfig { ecn: true, ..PieConfig::default() }), 1_000), 4, Ecn::Ect0);
    assert!(marked.stats.ce_marked > 10 && (5.0..25.0).contains(&marked.median(0)), "{:?}", marked.stats);
}

/// At 10 Mbit/s, a packet takes longer than the marking threshold of 1 ms. A packet that waits only for the
/// packet being transmitted must not be marked (Th_len, RFC 9332 appendix A.1).
#[test]
fn dual_pi2_marks_no_lone_packet_of_a_slow_link() {
    for (packets, marked) in [(2, 0), (4, 2)] {
        let config = LinkConfig {
            rate: RateModel::Constant(Rate::from_mbps(10.0)),
            queue: QueueConfig {
                kind: QueueKind::DualPi2(DualPi2Config::default()),
                limit: Limit::Packets(100),
            },
            ..LinkConfig::default()
        };
        let mut link = Link::new(config, 1, Time::ZERO).unwrap();
        for packet in 0..packets {
            link.push(Time::ZERO, Meta { bytes: 1_344, ecn: Ecn::Ect1, ..Meta::default() }, packet);
        }
        while link.pop(Time::from_millis(50)).is_some() {}
        assert_eq!(link.stats().ce_marked, marked, "{packets}");
    }
}

/// The limit changes every 50 ms. CoDel and PIE tolerate a queue for longer, so they drop only if they keep
/// their state.
#[test]
fn a_discipline_keeps_its_state_when_the_limit_changes() {
    for kind in [
        QueueKind::CoDel(CoDelConfig::default()),
        QueueKind::FqCoDel(FqCoDelConfig::default()),
        QueueKind::Pie(PieConfig::default()),
        QueueKind::DualPi2(DualPi2Config::default()),
    ] {
        let mut link = link(kind.clone(), 1_000);
        let mut config = link.config().clone();
        for ms in 0..2_000 {
            let now = Time::from_millis(ms);
            if ms % 50 == 0 {
                config.queue.limit = Limit::Packets(1_000 + ms);
                link.reconfigure(now, config.clone()).unwrap();
            }
            // The link sends one packet per millisecond.
            for _ in 0..1 + ms % 2 {
                link.push(now, Meta { bytes: BYTES, ..Meta::default() }, (0, ms));
            }
            while link.pop(now).is_some() {}
        }
        assert!(link.stats().early.packets > 5, "{kind:?}: {:?}", link.stats());
    }
}

#[test]
fn a_smaller_queue_keeps_the_oldest_packets() {
    for kind in [
        QueueKind::DropTail,
        QueueKind::Pie(PieConfig::default()),
        QueueKind::DualPi2(DualPi2Config::default()),
    ] {
        let mut link = link(kind.clone(), 100);
        (0..50).for_each(|n| {
            link.push(Time::ZERO, Meta { bytes: BYTES, ..Meta::default() }, (0, n));
        });
        let mut config = link.config().clone();
        config.queue.limit = Limit::Packets(10);
        link.reconfigure(Time::ZERO, config).unwrap();
        let arrived: Vec<u64> = core::iter::from_fn(|| link.pop(END)).map(|out| out.packet.1).collect();
        assert_eq!(arrived, (0..10).collect::<Vec<u64>>(), "{kind:?}");
        assert_eq!(link.stats().overflow.packets, 40, "{kind:?}");
    }
}
