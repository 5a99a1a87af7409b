//! Tests of Careful Resume. Hand-made acknowledgements check each rule of RFC 9959, and the model checks the
//! benefit of resuming.

use super::{Memory, Observer, Remembered, ResumeEnd, ResumePhase, Resuming};
use crate::model::scenario::{at, link, ms};
use crate::model::{Session, Source, World, bins, full, page};
use crate::{
    AckEvent, Algorithm, Amount, CcConfig, Controller, Inherited, Prague, RateSample, RttEstimator, Sent,
};
use alloc::boxed::Box;
use mpdccp_units::{Duration, Rate, Time};

const MTU: u16 = 1_000;
const RTT: Duration = Duration::from_millis(100);
const SAVED: Remembered = Remembered { window: 200_000, min_rtt: RTT };
const CCIDS: [u8; 5] = [2, 5, 7, 250, 252];

fn with_mtu(ccid: u8, mtu: u16) -> Box<dyn Controller> {
    let cfg = CcConfig { mtu, packets: false, draft: false, seed: 3 };
    let algorithm = match ccid {
        2 => Algorithm::Reno,
        5 => Algorithm::Bbr1,
        7 => Algorithm::Cubic,
        250 => Algorithm::Bbr3,
        _ => return Box::new(Prague::new(&cfg)),
    };
    algorithm.controller(&cfg)
}

fn plain(ccid: u8) -> Box<dyn Controller> {
    with_mtu(ccid, MTU)
}

/// A sender of packets of 1,000 bytes, each acknowledged separately.
struct Hand {
    cc: Resuming,
    est: RttEstimator,
    now: Time,
    rtt: Duration,
    inflight: Amount,
    delivered: Amount,
    app_limited: bool,
    /// Rate in the delivery-rate samples, Mbit/s.
    mbps: Option<f64>,
}

impl Hand {
    fn with(cc: Resuming) -> Hand {
        let est = RttEstimator::default();
        let (now, zero) = (Time::from_millis(1), Amount::default());
        Hand { cc, est, now, rtt: RTT, inflight: zero, delivered: zero, app_limited: false, mbps: None }
    }

    fn new(ccid: u8) -> Hand {
        Hand::with(Resuming::new(plain(ccid), SAVED, u64::MAX, MTU))
    }

    fn window(&self) -> u64 {
        self.cc.limits().cwnd.bytes(MTU)
    }

    fn phase(&self) -> ResumePhase {
        self.cc.resumption().unwrap()
    }

    /// Sends this many packets.
    fn send(&mut self, packets: u64) {
        for _ in 0..packets {
            self.cc.on_sent(&Sent { now: self.now, bytes: 1_000, inflight: self.inflight });
            self.inflight = self.inflight.plus(1_000);
        }
    }

    fn event(&mut self, acked: u64, lost: u64, ce: u64) {
        let amount = |packets| Amount { packets, bytes: packets * 1_000 };
        let before = self.inflight;
        self.inflight = self.inflight.minus(amount(acked + lost));
        self.delivered =
            Amount { packets: self.delivered.packets + acked, bytes: self.delivered.bytes + acked * 1_000 };
        self.est.update(self.now, self.rtt);
        self.cc.on_ack(&AckEvent {
            now: self.now,
            acked: amount(acked),
            lost: amount(lost),
            ce,
            congestion: lost + ce > 0,
            rtt: Some(self.rtt),
            returning: Duration::ZERO,
            estimator: &self.est,
            rate: self.mbps.map(|mbps| sample(mbps, false)),
            inflight_before: before,
            inflight: self.inflight,
            delivered: self.delivered,
            round_end: false,
            app_limited: self.app_limited,
        });
    }

    fn ack(&mut self, packets: u64) {
        (0..packets).for_each(|_| self.event(1, 0, 0));
    }

    /// Creates a sender and acknowledges its initial window, so that the jump begins.
    fn jump(ccid: u8) -> Hand {
        let mut hand = Hand::new(ccid);
        hand.first_window();
        assert_eq!(hand.phase(), ResumePhase::Unvalidated, "CCID {ccid}");
        hand
    }

    fn first_window(&mut self) {
        let initial = self.window() / 1_000;
        self.send(initial + 2);
        self.now += self.rtt;
        self.ack(initial);
    }

    /// Sends all packets that the phase allows.
    fn fill(&mut self) {
        while self.phase() == ResumePhase::Unvalidated {
            self.send(1);
        }
    }
}

#[test]
fn the_initial_window_is_a_new_connections() {
    for ccid in CCIDS {
        let hand = Hand::new(ccid);
        assert_eq!(hand.phase(), ResumePhase::Reconnaissance);
        assert_eq!(hand.cc.limits(), plain(ccid).limits(), "CCID {ccid}");
    }
}

#[test]
fn half_of_what_was_saved_is_tried_and_paced() {
    for ccid in CCIDS {
        let hand = Hand::jump(ccid);
        assert_eq!(hand.window(), 100_000, "CCID {ccid}");
        assert_eq!(hand.cc.clocked(), hand.cc.cc().clocked(), "CCID {ccid}");
        let limits = hand.cc.limits();
        let (own, paced) = (hand.cc.cc().limits().pacing, Rate::from_bytes_per(100_000, RTT));
        assert_eq!(limits.pacing, Some(own.map_or(paced, |own| own.max(paced))), "CCID {ccid}");
        assert!(u64::from(limits.quantum) <= 10_000, "no burst beyond an initial window");
    }
}

#[test]
fn no_more_than_is_allowed_is_tried() {
    let mut hand = Hand::with(Resuming::new(plain(7), SAVED, 30_000, MTU));
    hand.first_window();
    assert_eq!((hand.phase(), hand.window()), (ResumePhase::Unvalidated, 30_000));
}

#[test]
fn congestion_before_the_jump_ends_it() {
    for (lost, ce) in [(1, 0), (0, 1)] {
        let mut hand = Hand::new(7);
        hand.send(3);
        hand.now += RTT;
        hand.event(1, lost, ce);
        assert_eq!(hand.phase(), ResumePhase::Normal(ResumeEnd::Congested));
        assert_eq!(hand.cc.limits(), hand.cc.cc().limits());
    }
}

#[test]
fn another_round_trip_time_is_another_path() {
    for (rtt, resumes) in [(50, false), (51, true), (1_000, true), (1_001, false)] {
        let mut hand = Hand::new(7);
        hand.rtt = Duration::from_millis(rtt);
        hand.first_window();
        let end = ResumePhase::Normal(ResumeEnd::PathChanged);
        assert_eq!(hand.phase(), if resumes { ResumePhase::Unvalidated } else { end }, "{rtt} ms");
    }
}

#[test]
fn a_source_that_does_not_fill_the_window_waits() {
    let mut hand = Hand::new(7);
    hand.app_limited = true;
    hand.first_window();
    assert_eq!(hand.phase(), ResumePhase::Reconnaissance);
    hand.app_limited = false;
    hand.ack(1);
    assert_eq!(hand.phase(), ResumePhase::Unvalidated);
}

#[test]
fn a_jump_ends_when_all_has_left_or_the_first_arrives_or_after_a_round_trip() {
    let mut all = Hand::jump(7);
    all.fill();
    assert_eq!((all.phase(), all.window()), (ResumePhase::Validating, 100_000));
    let mut first = Hand::jump(7);
    first.send(50);
    first.ack(2);
    assert_eq!(first.phase(), ResumePhase::Unvalidated, "these two packets were sent before the jump");
    first.ack(1);
    // The window becomes the amount in flight, not the amount that the jump allowed.
    assert_eq!((first.phase(), first.window()), (ResumePhase::Validating, 49_000));
    let mut late = Hand::jump(7);
    late.send(50);
    late.now += RTT + Duration::from_millis(1);
    late.ack(1);
    assert_eq!(late.phase(), ResumePhase::Validating);
}

#[test]
fn too_little_to_send_leaves_the_pipe() {
    let mut hand = Hand::jump(7);
    hand.send(3);
    hand.now += RTT + Duration::from_millis(1);
    hand.ack(1);
    assert_eq!(hand.phase(), ResumePhase::Normal(ResumeEnd::RateLimited));
    assert_eq!(hand.window(), 10_000, "not below the initial window");
}

#[test]
fn arrivals_grow_the_window_and_all_arrivals_validate_it() {
    for ccid in [2, 7] {
        let mut hand = Hand::jump(ccid);
        hand.fill();
        hand.now += RTT;
        hand.ack(40);
        assert_eq!((hand.phase(), hand.window()), (ResumePhase::Validating, 140_000), "CCID {ccid}");
        hand.ack(60);
        assert_eq!(hand.phase(), ResumePhase::Normal(ResumeEnd::Validated), "CCID {ccid}");
        assert_eq!((hand.window(), hand.cc.phase()), (200_000, "congestion_avoidance"), "CCID {ccid}");
    }
}

#[test]
fn congestion_during_the_jump_or_after_it_retreats() {
    for ccid in CCIDS {
        for (filled, lost, ce) in [(false, 1, 0), (true, 1, 0), (true, 0, 1)] {
            let mut hand = Hand::jump(ccid);
            if filled {
                hand.fill();
            } else {
                hand.send(50);
            }
            hand.now += RTT;
            hand.ack(2);
            hand.event(3, lost, ce);
            assert_eq!(hand.phase(), ResumePhase::SafeRetreat, "CCID {ccid}");
            // 2 packets were in flight before the jump, and 5 arrived. The window is half of 7, in whole
            // packets for Reno.
            assert!((3_000..=3_500).contains(&hand.window()), "CCID {ccid} {}", hand.window());
            let retreat = hand.window();
            let most = Rate::from_bytes_per(retreat, RTT);
            assert!(hand.cc.limits().pacing.is_some_and(|rate| rate <= most), "CCID {ccid}");
            let left = hand.inflight.packets;
            hand.ack(left - 1);
            assert!(
                hand.window() <= retreat && hand.phase() == ResumePhase::SafeRetreat,
                "CCID {ccid}: no growth"
            );
            hand.ack(1);
            assert_eq!(hand.phase(), ResumePhase::Normal(ResumeEnd::Retreated), "CCID {ccid}");
            // The search for the path's capacity is over. The window is at most the 7 packets counted above.
            assert!(hand.cc.settled(), "CCID {ccid}");
            assert!(hand.window() <= 5_000 + 2_000, "CCID {ccid} {}", hand.window());
        }
    }
}

#[test]
fn a_retreat_leaves_two_packets() {
    let mut hand = Hand::new(7);
    hand.send(10);
    hand.now += RTT;
    hand.ack(10);
    hand.send(9);
    hand.event(0, 1, 0);
    assert_eq!((hand.phase(), hand.window()), (ResumePhase::SafeRetreat, 2_000));
}

#[test]
fn no_jump_beyond_what_the_window_is_by_itself() {
    // A jump to half of the saved window would not exceed the initial window.
    let small = Remembered { window: 20_000, ..SAVED };
    let mut full = Hand::with(Resuming::new(plain(7), small, u64::MAX, MTU));
    // This congestion control has inherited measurements of the path.
    let mut known = plain(7);
    let (now, srtt, min_rtt) = (Time::from_millis(1), Some(RTT), Some(RTT));
    known.inherit(&Inherited { now, window: 10_000, srtt, min_rtt, settled: true });
    let mut settled = Hand::with(Resuming::new(known, SAVED, u64::MAX, MTU));
    for hand in [&mut full, &mut settled] {
        hand.first_window();
        assert_eq!(hand.phase(), ResumePhase::Normal(ResumeEnd::NoGain));
    }
}

#[test]
fn measurements_of_a_retreat_are_discarded_and_those_of_a_jump_kept() {
    for ccid in [5, 250] {
        let jump = || {
            let mut hand = Hand::jump(ccid);
            hand.fill();
            hand.now += RTT;
            hand.mbps = Some(30.0);
            hand
        };
        let mut good = jump();
        good.ack(100);
        assert_eq!(good.phase(), ResumePhase::Normal(ResumeEnd::Validated), "CCID {ccid}");
        assert_eq!(good.cc.bottleneck(), Some(Rate::from_mbps(30.0)), "CCID {ccid}");
        let mut bad = jump();
        bad.event(3, 1, 0);
        bad.ack(bad.inflight.packets);
        assert_eq!(bad.phase(), ResumePhase::Normal(ResumeEnd::Retreated), "CCID {ccid}");
        // The rate is at most the window of a retreat per round trip.
        let most = Rate::from_bytes_per(3_000, RTT);
        assert!(
            bad.cc.bottleneck().is_some_and(|rate| rate <= most),
            "CCID {ccid} {:?}",
            bad.cc.bottleneck()
        );
    }
}

#[test]
fn a_slow_receiver_ends_it() {
    let mut hand = Hand::jump(2);
    hand.cc.on_slow_receiver(1);
    assert_eq!(hand.phase(), ResumePhase::Normal(ResumeEnd::Congested));
}

#[test]
fn a_shorter_round_trip_during_the_jump_retreats() {
    let mut hand = Hand::jump(7);
    hand.send(20);
    hand.rtt = Duration::from_millis(40);
    hand.ack(1);
    assert_eq!(hand.phase(), ResumePhase::SafeRetreat);
}

#[test]
fn a_timeout_ends_it() {
    let mut hand = Hand::jump(7);
    hand.fill();
    hand.cc.on_rto(hand.now);
    assert_eq!(hand.phase(), ResumePhase::Normal(ResumeEnd::TimedOut));
    assert_eq!(hand.window(), 1_000);
}

#[test]
fn one_set_an_endpoint_used_by_one_and_not_too_late() {
    let mut memory = Memory::new(Duration::from_secs(60));
    let secs = |s: u64| Time::from_millis(s * 1_000);
    let newer = Remembered { window: 300_000, ..SAVED };
    memory.remember("a", SAVED, secs(0));
    memory.remember("a", newer, secs(1));
    assert_eq!(memory.iter().count(), 1);
    assert_eq!(memory.take(&"b", secs(2)), None, "another endpoint");
    assert_eq!(memory.take(&"a", secs(2)), Some(newer));
    assert_eq!(memory.take(&"a", secs(2)), None, "a capacity can be taken once");
    memory.remember("a", SAVED, secs(3));
    assert_eq!(memory.take(&"a", secs(64)), None, "too old");
    assert_eq!(memory.iter().count(), 0, "an old capacity must be removed");
    for i in 0..2_000 {
        let name: &str = Box::leak(i.to_string().into_boxed_str());
        memory.remember(name, SAVED, secs(i));
    }
    assert_eq!(memory.iter().count(), 1_024);
}

fn sample(mbps: f64, app_limited: bool) -> RateSample {
    let zero = Amount::default();
    RateSample {
        rate: Rate::from_mbps(mbps),
        packets_per_sec: 0.0,
        delivered: zero,
        lost: zero,
        interval: RTT,
        send_interval: RTT,
        ack_interval: RTT,
        prior_delivered: zero,
        prior_inflight: zero,
        sent_at: Time::ZERO,
        app_limited,
        ages: (Duration::ZERO, 0),
    }
}

/// Returns the observer's result after rounds at these rates (Mbit/s). A round's second value is true if the
/// round was application-limited. The minimum round-trip time is 100 ms.
fn observed(rounds: &[(f64, bool)]) -> Option<Remembered> {
    let mut observer = Observer::default();
    let mut estimator = RttEstimator::default();
    estimator.update(Time::ZERO, RTT);
    for (mbps, app_limited) in rounds {
        let zero = Amount::default();
        observer.on_ack(&AckEvent {
            now: Time::ZERO,
            acked: zero,
            lost: zero,
            ce: 0,
            congestion: false,
            rtt: Some(RTT * 3),
            returning: Duration::ZERO,
            estimator: &estimator,
            rate: Some(sample(*mbps, *app_limited)),
            inflight_before: zero,
            inflight: zero,
            delivered: zero,
            round_end: true,
            app_limited: *app_limited,
        });
    }
    observer.get(10_000)
}

#[test]
fn the_capacity_is_observed_without_the_queue_and_idleness_takes_nothing_back() {
    let expected = Some(Remembered { window: 125_000, min_rtt: RTT });
    assert_eq!(observed(&[(10.0, false); 5]), expected);
    assert_eq!(observed(&[(10.0, false), (0.1, true), (0.1, true)]), expected);
    assert_eq!(observed(&[(2.0, false), (10.0, true)]), expected);
    // The capacity measured at this rate is less than four initial windows, so it is not stored.
    assert_eq!(observed(&[(3.0, false)]), None);
    let slower = [[(20.0, false); 20], [(10.0, false); 20], [(10.0, false); 20]].concat();
    let window = observed(&slower).unwrap().window;
    assert!((125_000..130_000).contains(&window), "{window}");
}

/// Runs a bulk flow until it has had nine tenths of the link for a fifth of a second. Returns the time when
/// that period began.
fn time_to_full(ccid: u8, mbps: f64, rtt: f64, memory: Option<Remembered>) -> f64 {
    let cc = with_mtu(ccid, 1_344);
    let cc = match memory {
        Some(saved) => Box::new(Resuming::new(cc, saved, u64::MAX, 1_344)) as Box<dyn Controller>,
        None => cc,
    };
    let session = Session::new(Source::Bulk, Time::ZERO, vec![(0, ms(rtt / 2.0), cc)]);
    let mut w = World::new(vec![link(mbps, ms(rtt), 1.0)], 1, vec![session]);
    w.run(at(30.0));
    let rates = bins(&w.sessions[0].got, None, at(0.0), at(30.0), ms(200.0));
    let first = rates.iter().position(|rate| *rate > 0.9 * full(mbps)).unwrap_or(rates.len());
    0.2 * first as f64
}

fn memory(mbps: f64, rtt: f64) -> Remembered {
    Remembered { window: Rate::from_mbps(mbps).bytes_in(ms(rtt)), min_rtt: ms(rtt) }
}

#[test]
fn a_path_that_is_as_it_was_is_full_sooner() {
    let titles = CCIDS.map(|ccid| format!("CCID {ccid}")).join(" | ");
    let mut table = format!("| round trip | {titles} |\n|--:|---|---|---|---|---|\n");
    for rtt in [50.0, 100.0, 200.0, 400.0, 600.0] {
        let cells = CCIDS.map(|ccid| {
            let fresh = time_to_full(ccid, 50.0, rtt, None);
            let resumed = time_to_full(ccid, 50.0, rtt, Some(memory(50.0, rtt)));
            assert!(resumed <= fresh, "CCID {ccid} {rtt}");
            assert!(rtt < 200.0 || resumed <= 7.0 * rtt / 1e3 + 0.4, "CCID {ccid} {rtt}: {resumed}");
            format!("{fresh:.1}, {resumed:.1}")
        });
        table += &format!("| {rtt} ms | {} |\n", cells.join(" | "));
    }
    page::check("rfc9959.md", "full sooner", &table);
}

/// Runs a CUBIC flow on a link of 10 Mbit/s and 100 ms, and then starts another flow. Returns the CUBIC
/// flow's rate and number of lost packets in the five seconds after that start.
fn bystander(ccid: u8, memory: Option<Remembered>) -> (f64, u64) {
    let cc = with_mtu(ccid, 1_344);
    let cc = match memory {
        Some(saved) => Box::new(Resuming::new(cc, saved, u64::MAX, 1_344)) as Box<dyn Controller>,
        None => cc,
    };
    let first = with_mtu(7, 1_344);
    let sessions = vec![
        Session::new(Source::Bulk, Time::ZERO, vec![(0, ms(50.0), first)]),
        Session::new(Source::Bulk, at(10.0), vec![(0, ms(50.0), cc)]),
    ];
    let mut w = World::new(vec![link(10.0, ms(100.0), 1.0)], 1, sessions);
    w.run(at(10.0));
    let before = w.sessions[0].sender(0).lost;
    w.run(at(15.0));
    let s = crate::model::summary(&w.sessions[0].got, at(10.0), at(15.0));
    (s.mbps, w.sessions[0].sender(0).lost - before)
}

#[test]
fn a_wrong_memory_costs_others_little() {
    let mut table = "| new flow | CUBIC's rate, Mbit/s | CUBIC's lost packets |\n|---|---|---|\n".to_owned();
    for ccid in CCIDS {
        let fresh = bystander(ccid, None);
        let wrong = bystander(ccid, Some(memory(100.0, 100.0)));
        table += &format!("| CCID {ccid} | {:.2}, {:.2} | {}, {} |\n", fresh.0, wrong.0, fresh.1, wrong.1);
        assert!(wrong.0 > 0.5 * fresh.0, "CCID {ccid}: {fresh:?} {wrong:?}");
    }
    page::check("rfc9959.md", "wrong memory", &table);
}
