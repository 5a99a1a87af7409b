//! Tests of the sending half. Its controller records the calls that it gets.

extern crate std;

use super::AckVecSender;
use crate::ccid::{Feedback, HalfConfig, Late, SenderHalf, SenderRequest, ms};
use crate::{Gate, Why};
use alloc::boxed::Box;
use alloc::vec::Vec;
use dccp_cc::{AckEvent, Amount, Controller, Limits, Remembered, ResumePhase, RttEstimator, Sent, Window};
use dccp_wire::Seq;
use dccp_wire::ack_vector::{State, cell};
use mpdccp_units::{Duration, Rate, Time};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

mod limits;
mod path_change;

const BYTES: u32 = 1000;
const FIRST: Seq = Seq::new(Seq::MODULUS - 3);

#[derive(Clone, Debug, Default)]
struct Told {
    acked: u64,
    lost: u64,
    ce: u64,
    congestion: bool,
    rtt: Option<Duration>,
    round_end: bool,
    app_limited: bool,
    rate: bool,
}

#[derive(Debug)]
struct Notes {
    limits: Limits,
    acks: Vec<Told>,
    timeouts: u32,
    restarts: u32,
    undone: u32,
    probing_rtt: bool,
}

#[derive(Debug)]
struct Probe(Arc<Mutex<Notes>>);

impl Controller for Probe {
    fn on_sent(&mut self, _pkt: &Sent) {}
    fn on_ack(&mut self, ev: &AckEvent<'_>) {
        self.0.lock().unwrap().acks.push(Told {
            acked: ev.acked.packets,
            lost: ev.lost.packets,
            ce: ev.ce,
            congestion: ev.congestion,
            rtt: ev.rtt,
            round_end: ev.round_end,
            app_limited: ev.app_limited,
            rate: ev.rate.is_some(),
        });
    }
    fn on_rto(&mut self, _now: Time) {
        self.0.lock().unwrap().timeouts += 1;
    }
    fn on_spurious_loss(&mut self, _now: Time) {
        self.0.lock().unwrap().undone += 1;
    }
    fn on_idle_restart(&mut self, _now: Time) {
        self.0.lock().unwrap().restarts += 1;
    }
    fn on_mtu(&mut self, _mtu: u16) {}
    fn limits(&self) -> Limits {
        self.0.lock().unwrap().limits
    }
    fn phase(&self) -> &'static str {
        "probe"
    }
    fn probing_rtt(&self) -> bool {
        self.0.lock().unwrap().probing_rtt
    }
}

struct Rig {
    half: AckVecSender,
    notes: Arc<Mutex<Notes>>,
    next: u64,
}

impl Rig {
    fn new(strict: bool) -> Rig {
        Rig::with(strict, Limits { cwnd: Window::Packets(1000), pacing: None, quantum: 0 })
    }

    fn with(strict: bool, limits: Limits) -> Rig {
        let notes = Arc::new(Mutex::new(Notes {
            limits,
            acks: Vec::new(),
            timeouts: 0,
            restarts: 0,
            undone: 0,
            probing_rtt: false,
        }));
        let cfg = HalfConfig::new(BYTES as u16, FIRST, None);
        let half = AckVecSender::with_controller(Box::new(Probe(notes.clone())), strict, &cfg);
        Rig { half, notes, next: 0 }
    }

    fn send(&mut self, now: Time, packets: u64) {
        for _ in 0..packets {
            self.half.on_sent(now, FIRST.add(self.next), BYTES, Some(BYTES));
            self.next += 1;
        }
    }

    /// Sends one packet without data.
    fn send_ack(&mut self, now: Time) {
        self.half.on_sent(now, FIRST.add(self.next), 40, None);
        self.next += 1;
    }

    /// Delivers an acknowledgement of packet `ack`, counted from 0. `cells` is its Ack Vector, newest packet
    /// first: '+' received, 'm' marked, '-' missing. The peer held the acknowledgement for `elapsed`.
    fn ack_held(&mut self, now: Time, ack: u64, cells: &str, elapsed: Duration) -> Told {
        let vector: Vec<u8> = cells
            .chars()
            .map(|c| match c {
                '+' => cell(State::Received, 1),
                'm' => cell(State::ReceivedEcnMarked, 1),
                _ => cell(State::NotYetReceived, 1),
            })
            .collect();
        let before = self.notes.lock().unwrap().acks.len();
        self.half.on_feedback(now, &Feedback { elapsed, ..Feedback::new(FIRST.add(ack), &vector) });
        let notes = self.notes.lock().unwrap();
        assert!(notes.acks.len() <= before + 1, "an acknowledgement must call the controller once");
        notes.acks.get(before).cloned().unwrap_or_default()
    }

    fn ack(&mut self, now: Time, ack: u64, cells: &str) -> Told {
        self.ack_held(now, ack, cells, Duration::ZERO)
    }

    fn set(&mut self, limits: Limits) {
        self.notes.lock().unwrap().limits = limits;
        // The half must read the limits again after any input.
        self.half.hold_probe_rtt(false);
    }

    fn requests(&mut self) -> Vec<SenderRequest> {
        core::iter::from_fn(|| self.half.poll_request()).collect()
    }

    /// Returns (in flight, delivered, lost), after checking that every packet is counted exactly once.
    fn counts(&self) -> (u64, u64, u64) {
        let v = self.half.view();
        let sum = |f: fn(Amount) -> u64| f(v.inflight) + f(v.delivered) + f(v.lost);
        assert_eq!(sum(|a| a.packets), v.sent.packets);
        assert_eq!(sum(|a| a.bytes), v.sent.bytes);
        (v.inflight.packets, v.delivered.packets, v.lost.packets)
    }
}

/// Returns an Ack Vector that reports `packets` consecutive packets as received.
fn all(packets: u64) -> Vec<u8> {
    (0..packets).map(|_| cell(State::Received, 1)).collect()
}

/// Runs CCID 7 with packets of 1,000 bytes over 100 ms. A later connection resumes from the capacity that the
/// first one measured.
#[test]
fn a_paths_capacity_is_observed_and_resumed() {
    let half = || {
        let cfg = HalfConfig::new(1_000, FIRST, Some(Duration::from_millis(100)));
        crate::ccid::sender(7, &cfg).unwrap()
    };
    // Ten rounds of 100 packets.
    let mut first = half();
    assert_eq!(first.view().capacity, None);
    for round in 0..10 {
        (0..100).for_each(|i| first.on_sent(ms(100 * round), FIRST.add(100 * round + i), 1_000, Some(1_000)));
        let (ack, vector) = (FIRST.add(100 * round + 99), all(100));
        let feedback = Feedback::new(ack, &vector);
        first.on_feedback(ms(100 * (round + 1)), &feedback);
    }
    let saved = first.view().capacity.unwrap();
    assert!((90_000..=110_000).contains(&saved.window), "{saved:?}");
    assert_eq!(saved.min_rtt, Duration::from_millis(100));

    let mut second = half();
    let saved = Remembered { window: 600_000, ..saved };
    second.resume(&saved, u64::MAX);
    assert_eq!(second.view().resumption, Some(ResumePhase::Reconnaissance));
    (0..11).for_each(|i| second.on_sent(ms(0), FIRST.add(i), 1_000, Some(1_000)));
    second.on_blocked(ms(99), false);
    let vector = all(10);
    let ack = FIRST.add(9);
    second.on_feedback(ms(100), &Feedback::new(ack, &vector));
    let view = second.view();
    assert_eq!((view.resumption, view.cwnd), (Some(ResumePhase::Unvalidated), Window::Bytes(300_000)));
    assert_eq!(view.capacity, None, "an unvalidated jump measures no capacity");
    let asked: Vec<_> = core::iter::from_fn(|| second.poll_request()).collect();
    assert!(
        asked.contains(&SenderRequest::SequenceWindow(4_096)),
        "the Sequence Window must fit the jump: {asked:?}"
    );
    // After congestion, resuming is no longer allowed.
    let mut third = half();
    (0..9).for_each(|i| third.on_sent(ms(0), FIRST.add(i), 1_000, Some(1_000)));
    let marked = [cell(State::ReceivedEcnMarked, 1)];
    let ack = FIRST;
    third.on_feedback(ms(100), &Feedback::new(ack, &marked));
    third.resume(&saved, u64::MAX);
    assert_eq!(third.view().resumption, None);
}

#[test]
fn three_later_packets_make_a_loss() {
    for strict in [true, false] {
        let mut rig = Rig::new(strict);
        rig.send(ms(0), 6);
        let told = rig.ack(ms(50), 2, "+-+");
        assert_eq!((told.acked, told.lost, told.congestion), (2, 0, false), "strict: {strict}");
        // The second acknowledgement repeats the first: only packet 3 is new.
        let told = rig.ack(ms(50), 3, "++-+");
        assert_eq!((told.acked, told.lost), (1, 0));
        let told = rig.ack(ms(50), 4, "+++-+");
        assert_eq!((told.acked, told.lost, told.congestion), (1, 1, true));
        assert_eq!(rig.counts(), (1, 4, 1));
    }
}

#[test]
fn packets_without_data_count_as_later_but_not_as_lost() {
    let mut rig = Rig::new(true);
    rig.send_ack(ms(0));
    rig.send(ms(0), 1);
    for _ in 0..3 {
        rig.send_ack(ms(0));
    }
    let told = rig.ack(ms(10), 4, "+++--");
    assert_eq!((told.acked, told.lost), (0, 1));
    assert_eq!(rig.counts(), (0, 0, 1));
}

#[test]
fn one_reduction_a_window() {
    let mut rig = Rig::new(true);
    rig.send(ms(0), 20);
    assert!(rig.ack(ms(50), 4, "+++-+").congestion);
    // These packets are also lost or marked, but they were sent before the first loss became known.
    let told = rig.ack(ms(51), 10, "+++--m");
    assert_eq!((told.lost, told.ce, told.congestion), (2, 1, false));
    rig.send(ms(52), 10);
    assert!(!rig.ack(ms(99), 19, "+").congestion);
    assert!(rig.ack(ms(100), 20, "m").congestion);
    assert!(!rig.ack(ms(101), 25, "++m-m").congestion);
}

#[test]
fn rounds_end_with_packets_sent_after_the_last() {
    let mut rig = Rig::new(false);
    rig.send(ms(0), 4);
    assert!(rig.ack(ms(50), 0, "+").round_end);
    rig.send(ms(50), 1);
    assert!(!rig.ack(ms(51), 3, "++++").round_end);
    assert!(rig.ack(ms(100), 4, "+").round_end);
}

#[test]
fn rtt_is_exact_whatever_the_peer_held_it() {
    let mut rig = Rig::new(false);
    rig.send(ms(0), 2);
    let told = rig.ack_held(ms(73), 1, "++", Duration::from_micros(22_990));
    assert_eq!(told.rtt, Some(Duration::from_micros(50_010)));
    // Three acknowledgements give no sample: a repeated one, one of an older packet, and one with an
    // impossible Elapsed Time.
    assert_eq!(rig.ack_held(ms(80), 1, "++", Duration::ZERO).rtt, None);
    rig.send(ms(100), 3);
    assert_eq!(rig.ack_held(ms(150), 2, "+", Duration::from_millis(51)).rtt, None);
    assert_eq!(rig.ack(ms(151), 4, "+-").rtt, Some(Duration::from_millis(51)));
    assert_eq!(rig.ack(ms(160), 4, "++").rtt, None);
    // The peer may have held a packet without data for any length of time.
    rig.send_ack(ms(200));
    assert_eq!(rig.ack(ms(400), 5, "+").rtt, None);
    rig.send_ack(ms(400));
    let told = rig.ack_held(ms(500), 6, "+", Duration::from_millis(60));
    assert_eq!(told.rtt, Some(Duration::from_millis(40)));
    assert_eq!(rig.half.view().rtt.min().map(|m| m.0), Some(Duration::from_millis(40)));
}

#[test]
fn ccid2_takes_one_rtt_a_window_into_its_average() {
    for (strict, expected) in [(true, ms(10)), (false, ms(16))] {
        let mut rig = Rig::new(strict);
        rig.send(ms(0), 3);
        rig.ack(ms(10), 0, "+");
        rig.ack(ms(14), 1, "+");
        let told = rig.ack(ms(16), 2, "+");
        assert_eq!(told.rtt, Some(Duration::from_millis(16)), "the controller must get each sample");
        assert_eq!(rig.half.view().rtt.updated(), expected);
    }
}

#[test]
fn timeout_empties_the_pipe_once_and_backs_off() {
    let mut rig = Rig::new(true);
    rig.send(ms(0), 5);
    assert_eq!(rig.half.next_timeout(), Some(Time::ZERO + RttEstimator::INITIAL_RTO));
    rig.half.on_timeout(ms(999));
    assert_eq!(rig.counts(), (5, 0, 0));
    rig.half.on_timeout(ms(1000));
    rig.half.on_timeout(ms(1000));
    assert_eq!((rig.counts(), rig.notes.lock().unwrap().timeouts), ((0, 0, 5), 1));
    assert_eq!(rig.half.next_timeout(), None);
    rig.send(ms(1000), 1);
    assert_eq!(rig.half.next_timeout(), Some(ms(3000)));
    // The acknowledgement of any packet ends the back-off. Three later packets do not cause another loss.
    let told = rig.ack(ms(1100), 5, "+");
    assert_eq!((told.acked, told.lost), (1, 0));
    rig.send(ms(1100), 4);
    let told = rig.ack(ms(1200), 9, "++++");
    assert_eq!((told.acked, told.lost, told.congestion), (4, 0, false));
    assert_eq!(rig.half.view().timeouts, 1);
    rig.send(ms(1200), 1);
    let rto = rig.half.rto.timeout(&rig.half.view().rtt);
    assert_eq!(rig.half.next_timeout(), Some(ms(1200) + rto));
}

#[test]
fn only_a_report_shows_that_data_before_a_probe_is_lost() {
    for (cells, lost) in [("", 0), ("+----", 4)] {
        let mut rig = Rig::new(false);
        rig.send(ms(0), 2);
        assert!(rig.half.next_timeout().is_some_and(|due| due >= ms(1000)), "a probe before any delivery");
        rig.ack(ms(10), 1, "++");
        rig.send(ms(20), 4);
        let due = rig.half.next_timeout().unwrap();
        rig.half.on_timeout(due);
        assert!(rig.requests().contains(&SenderRequest::Probe));
        rig.send_ack(due);
        assert_eq!(rig.ack(due + Duration::from_millis(10), 6, cells).lost, lost, "{cells}");
        // After the loss of a whole window, the first probe waits no longer than before.
        let again = due + Duration::from_millis(20);
        rig.send(again, 1);
        if lost > 0 {
            assert_eq!(rig.half.next_timeout().unwrap().since(again), due.since(ms(20)));
        }
    }
}

#[test]
fn a_loss_that_arrives_after_all_is_counted_delivered() {
    for letter in [true, false] {
        let mut rig = Rig::new(letter);
        if letter {
            rig.half.loss = super::loss::LossDetector::new(super::loss::Rule::ThreeLater);
        }
        rig.send(ms(0), 5);
        assert_eq!(rig.ack(ms(50), 4, "+++--").lost, 2);
        assert_eq!(rig.counts(), (0, 3, 2));
        let told = rig.ack(ms(51), 4, "++++-");
        assert_eq!((told.acked, told.lost), (1, 0));
        assert_eq!((rig.counts(), rig.half.view().spurious), ((0, 4, 1), 1));
        // The reduction is undone once all its losses prove spurious, but never with strict RFC 4341.
        assert_eq!(rig.notes.lock().unwrap().undone, 0);
        rig.ack(ms(52), 4, "+++++");
        assert_eq!(rig.counts(), (0, 5, 0));
        assert_eq!(rig.notes.lock().unwrap().undone, u32::from(!letter));
    }
}

#[test]
fn a_mark_makes_a_reduction_stand() {
    let mut rig = Rig::new(false);
    rig.send(ms(0), 5);
    assert_eq!(rig.ack(ms(50), 4, "++m-+").lost, 1);
    rig.ack(ms(51), 4, "+++++");
    assert_eq!((rig.half.view().spurious, rig.notes.lock().unwrap().undone), (1, 0));
}

#[test]
fn only_its_own_losses_undo_a_reduction() {
    let mut rig = Rig::new(false);
    rig.send(ms(0), 5);
    assert!(rig.ack(ms(50), 4, "+++-+").congestion);
    rig.send(ms(50), 5);
    assert!(rig.ack(ms(100), 9, "+++-+").congestion);
    // The packet that caused the first reduction arrives late. The second reduction may still be justified,
    // so it stays.
    rig.ack(ms(101), 9, "+++-++++++");
    assert_eq!((rig.half.view().spurious, rig.notes.lock().unwrap().undone), (1, 0));
    rig.ack(ms(102), 9, "++++++++++");
    assert_eq!((rig.half.view().spurious, rig.notes.lock().unwrap().undone), (2, 1));
}

#[test]
fn true_losses_bring_the_three_later_rule_back() {
    let mut rig = Rig::new(false);
    rig.send(ms(0), 2);
    rig.ack(ms(100), 1, "+-");
    rig.ack(ms(101), 1, "++");
    let mut waited = 0;
    for round in 1..40 {
        let (now, first) = (ms(round * 1000), rig.next);
        rig.send(now, 5);
        if rig.ack(now + Duration::from_millis(100), first + 4, "+++-+").lost == 0 {
            waited += 1;
            assert_eq!(waited, round, "waited for a late packet after reordering was over");
            rig.half.on_timeout(now + Duration::from_millis(200));
        }
        assert_eq!(rig.counts().0, 0);
    }
    // After 16 rounds with losses and no late packet, the rule of three applies again.
    assert_eq!(waited, 17);
}

#[test]
fn settled_packets_are_forgotten_after_a_timeout() {
    let mut rig = Rig::new(true);
    rig.send(ms(0), 1000);
    for ack in 1..1000 {
        rig.ack(ms(100), ack, "+");
    }
    assert_eq!((rig.counts(), rig.half.history.len()), ((0, 999, 1), 1000));
    let rto = rig.half.view().rtt.rto();
    rig.send(ms(100) + rto, 1);
    assert_eq!(rig.half.history.len(), 1001);
    rig.send(ms(101) + rto, 1);
    assert_eq!(rig.half.history.len(), 2);
    // The half no longer remembers the packet.
    rig.ack(ms(102) + rto, 0, "+");
    assert_eq!(rig.counts(), (2, 999, 1));
}

#[test]
fn a_spurious_timeout_is_undone() {
    let mut rig = Rig::new(false);
    rig.send(ms(0), 3);
    rig.half.on_timeout(ms(1000));
    assert_eq!(rig.counts(), (0, 0, 3));
    rig.ack(ms(1100), 1, "++");
    assert_eq!(rig.notes.lock().unwrap().undone, 0);
    rig.ack(ms(1101), 2, "+++");
    assert_eq!((rig.counts(), rig.notes.lock().unwrap().undone), ((0, 3, 0), 1));
}

/// The packets of the first timeout are really lost, so the reduction stands even if the packet of the second
/// timeout is only late.
#[test]
fn a_late_packet_does_not_undo_an_earlier_timeout() {
    let mut rig = Rig::new(false);
    rig.send(ms(0), 5);
    rig.half.on_timeout(ms(1000));
    rig.send(ms(1000), 1);
    rig.half.on_timeout(ms(3000));
    rig.send(ms(3000), 1);
    rig.ack(ms(3100), 5, "+-----");
    assert_eq!(rig.notes.lock().unwrap().undone, 0);
}

#[test]
fn after_reordering_losses_wait_for_the_window() {
    let mut rig = Rig::new(false);
    rig.send(ms(0), 2);
    rig.ack(ms(100), 1, "+-");
    // Packet 0 was late, not lost, so reordering is detected. From now on, a packet counts as lost only a
    // quarter of 100 ms later.
    rig.ack(ms(101), 1, "++");
    rig.send(ms(200), 6);
    assert_eq!(rig.ack(ms(300), 7, "+++++-").lost, 0);
    assert_eq!(rig.half.next_timeout(), Some(ms(325)));
    rig.half.on_timeout(ms(324));
    assert_eq!(rig.counts(), (1, 7, 0));
    rig.half.on_timeout(ms(325));
    assert_eq!(rig.counts(), (0, 7, 1));
    let notes = rig.notes.lock().unwrap();
    let told = notes.acks.last().unwrap();
    assert_eq!((told.acked, told.lost, told.congestion), (0, 1, true));
    assert_eq!(rig.half.next_timeout(), None);
}

#[test]
fn one_missing_packet_is_lost_after_the_window_without_three_later() {
    let mut rig = Rig::new(false);
    rig.send(ms(0), 2);
    rig.ack(ms(100), 1, "+-");
    assert_eq!(rig.half.next_timeout(), Some(ms(125)));
    rig.half.on_timeout(ms(125));
    assert_eq!(rig.counts(), (0, 1, 1));
}

#[test]
fn packets_never_sent_or_settled_long_ago_are_ignored() {
    let mut rig = Rig::new(true);
    rig.ack(ms(0), 0, "+");
    rig.send(ms(0), 3);
    rig.ack(ms(1), 3, "++++");
    assert_eq!(rig.counts(), (3, 0, 0));
    // The vector also covers packets before the first one of this half.
    rig.ack(ms(10), 1, "+++++++");
    assert_eq!(rig.counts(), (1, 2, 0));
    // Without a vector, only the packet named by the Acknowledgement Number counts.
    rig.ack(ms(11), 2, "");
    assert_eq!(rig.counts(), (0, 3, 0));
    rig.half.on_feedback(
        ms(12),
        &Feedback {
            ack: FIRST.sub(1),
            vector: &[0, 63],
            elapsed: Duration::MAX,
            timestamp: None,
            options: &[1, 2, 3],
        },
    );
    assert_eq!(rig.counts(), (0, 3, 0));
}

#[test]
fn probe_rtt_lowers_the_ack_ratio_before_the_peer_waits_in_vain() {
    let mut rig = Rig::new(false);
    rig.send(ms(0), 300);
    rig.ack(ms(50), 0, "+");
    let requests = rig.requests();
    assert!(requests.contains(&SenderRequest::AckRatio(15)), "{requests:?}");
    assert!(requests.contains(&SenderRequest::SequenceWindow(8192)), "{requests:?}");
    assert!(requests.contains(&SenderRequest::AckPeer));
    {
        let mut notes = rig.notes.lock().unwrap();
        notes.limits.cwnd = Window::Packets(4);
        notes.probing_rtt = true;
    }
    // This acknowledgement does not end a round.
    rig.ack(ms(51), 1, "+");
    assert_eq!(rig.requests(), [SenderRequest::AckRatio(2)]);
    rig.send(ms(60), 1);
    rig.notes.lock().unwrap().limits.cwnd = Window::Packets(1000);
    rig.notes.lock().unwrap().probing_rtt = false;
    rig.ack(ms(110), 300, "+");
    assert_eq!(rig.requests(), [SenderRequest::AckRatio(15), SenderRequest::AckPeer]);
}

#[test]
fn delivery_rate_comes_with_acknowledgements() {
    let mut rig = Rig::new(false);
    for i in 0..50 {
        rig.send(ms(i), 1);
        if let Some(acked) = i.checked_sub(20) {
            assert!(rig.ack(ms(i), acked, "+").rate);
        }
    }
    assert_eq!(rig.half.view().delivery_rate, Rate::from_mbps(8.0));
}

proptest! {
    /// For any feedback, the half does not panic, counts every packet exactly once, and never has more
    /// packets in flight than were sent.
    #[test]
    fn survives_any_feedback(
        strict: bool,
        steps in proptest::collection::vec(
            (0u8..8, 0u64..200, proptest::collection::vec(any::<u8>(), 0..40), any::<u32>()), 1..120),
    ) {
        let mut rig = Rig::new(strict);
        let mut now = Time::ZERO;
        for (kind, number, bytes, elapsed) in steps {
            now += Duration::from_millis(number / 4);
            match kind {
                0 | 1 => rig.send(now, number / 3),
                2 => rig.send_ack(now),
                3 => rig.half.on_timeout(now),
                4 => rig.half.on_app_limited(now),
                _ => {
                    let back = if kind == 5 { number } else { u64::from(elapsed) << 20 };
                    let elapsed = Duration::from_micros(u64::from(elapsed));
                    let ack = FIRST.add(rig.next).sub(back);
                    rig.half.on_feedback(now, &Feedback { ack, vector: &bytes, elapsed, timestamp: None, options: &bytes });
                }
            }
            rig.counts();
            rig.half.next_timeout();
            while rig.half.poll_request().is_some() {}
        }
        // At the end, timeouts settle every packet.
        for _ in 0..4 {
            now += RttEstimator::MAX_RTO;
            rig.half.on_timeout(now);
        }
        prop_assert_eq!(rig.counts().0, 0);
        prop_assert_eq!(rig.half.next_timeout(), None);
    }
}

#[test]
fn a_slow_receiver_holds_any_controller_for_a_round_trip() {
    let limits = |w| Limits { cwnd: Window::Packets(w), pacing: None, quantum: 0 };
    let mut rig = Rig::with(false, limits(10));
    rig.send(ms(0), 1);
    rig.ack(ms(50), 0, "+");
    rig.half.on_slow_receiver(ms(50), 2);
    rig.set(limits(100));
    rig.send(ms(50), 8);
    assert_eq!(rig.half.gate(ms(99)), Gate::Closed(Why::Window));
    assert!(matches!(rig.half.gate(ms(100)), Gate::Open { .. }));
}

#[test]
fn overtaken_packets_count_in_the_delay_of_packets() {
    let mut rig = Rig::new(false);
    for pair in 0..100 {
        let (at, newer) = (100 * pair, 2 * pair + 1);
        rig.send(ms(at), 2);
        rig.ack(ms(at + 10), newer, "+-");
        rig.ack(ms(at + 50), newer, "++");
    }
    assert_eq!(rig.half.rtt().srtt(), Some(Duration::from_millis(10)), "only newer packets give samples");
    let Late { mean, deviation } = rig.half.late(ms(9_950));
    assert!(
        (15..25).contains(&mean.as_millis()) && (15..25).contains(&deviation.as_millis()),
        "{mean:?} {deviation:?}"
    );
}

/// Returns the state at 1.5 s, after a timeout. Packets 1 to 20 were sent at 30 ms.
fn all_but_the_first_taken_for_lost() -> Rig {
    let mut rig = Rig::new(false);
    rig.send(ms(0), 1);
    rig.ack(ms(20), 0, "+");
    rig.send(ms(30), 20);
    rig.half.on_timeout(ms(1_500));
    assert_eq!(rig.counts(), (0, 1, 20), "the timeout must declare all 20 packets lost");
    rig
}

#[test]
fn nothing_is_overtaken_where_a_path_stood_still() {
    let mut rig = all_but_the_first_taken_for_lost();
    rig.ack(ms(2_000), 20, "+++++++++++++++++++++");
    assert_eq!(rig.half.late(ms(2_000)), Late::default());
}

#[test]
fn nothing_is_overtaken_where_only_acknowledgements_were_lost() {
    let mut rig = all_but_the_first_taken_for_lost();
    rig.send_ack(ms(1_510));
    rig.ack(ms(1_530), 21, "");
    rig.ack(ms(1_540), 21, "++++++++++++++++++++++");
    assert_eq!(rig.counts(), (0, 21, 0));
    assert_eq!(rig.half.late(ms(1_540)), Late::default());
}
