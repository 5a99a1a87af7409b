//! Tests of halves that share a control. One half at a time has it.

use super::{AckVecSender, Control};
use crate::ccid::find;
use crate::ccid::table::Engine;
use crate::ccid::{Feedback, HalfConfig, SenderHalf, ms};
use crate::{Gate, Why};
use alloc::vec::Vec;
use dccp_cc::{Amount, RttEstimator, Window};
use dccp_wire::Seq;
use dccp_wire::ack_vector::{State, cell};
use mpdccp_units::{Duration, Time};
use proptest::prelude::*;

const BYTES: u32 = 1000;
const FIRST: Seq = Seq::new(7);

struct Group {
    halves: Vec<AckVecSender>,
    control: Control,
}

fn half(ccid: u8) -> AckVecSender {
    let cfg = HalfConfig::new(BYTES as u16, FIRST, Some(Duration::from_millis(50)));
    let Engine::AckVectors(by) = find(ccid).unwrap().engine else { panic!("CCID {ccid}") };
    AckVecSender::new(&by, &cfg)
}

impl Group {
    fn new(ccid: u8, size: usize) -> Group {
        let mut halves: Vec<AckVecSender> = (0..size).map(|_| half(ccid)).collect();
        let mut control = halves[0].found_group(0);
        halves[1..].iter_mut().for_each(|half| half.join_group(0, &mut control));
        Group { halves, control }
    }

    /// Runs `act` on a half while the half has the control.
    fn with<T>(&mut self, i: usize, act: impl FnOnce(&mut AckVecSender) -> T) -> T {
        self.halves[i].exchange(&mut self.control);
        let result = act(&mut self.halves[i]);
        self.halves[i].exchange(&mut self.control);
        result
    }

    fn send(&mut self, now: Time, i: usize, packets: u64) {
        self.with(i, |half| {
            for _ in 0..packets {
                let seq = FIRST.add(half.history.next());
                half.on_sent(now, seq, BYTES, Some(BYTES));
            }
        });
    }

    /// Acknowledges all packets of half `i` up to `ack`.
    fn ack(&mut self, now: Time, i: usize, ack: u64) {
        let vector: Vec<u8> = (0..=ack).map(|_| cell(State::Received, 1)).collect();
        let feedback = Feedback::new(FIRST.add(ack), &vector);
        self.with(i, |half| half.on_feedback(now, &feedback));
    }

    fn timeout(&mut self, now: Time, i: usize) {
        self.with(i, |half| half.on_timeout(now));
    }

    fn cwnd(&mut self) -> Window {
        self.with(0, |half| half.view().cwnd)
    }

    fn sum(&self) -> Amount {
        self.halves.iter().fold(Amount::default(), |sum, half| sum.and(half.inflight))
    }
}

#[test]
fn one_window_is_open_to_all_or_none() {
    let mut group = Group::new(2, 3);
    let gate = |group: &mut Group, i| group.with(i, |half| half.gate(ms(1)));
    assert_eq!(gate(&mut group, 2), Gate::Open { burst: 4000 });
    group.send(ms(1), 0, 3);
    assert_eq!(gate(&mut group, 1), Gate::Open { burst: 1000 });
    group.send(ms(1), 1, 1);
    assert!((0..3).all(|i| gate(&mut group, i) == Gate::Closed(Why::Window)));
    group.ack(ms(51), 1, 0);
    assert!((0..3).all(|i| matches!(gate(&mut group, i), Gate::Open { .. })));
    assert_eq!(
        group.halves[0].gate(ms(51)),
        Gate::Closed(Why::Window),
        "without the control, the gate must be closed"
    );
    assert_eq!(group.halves[0].view().inflight.packets, 3, "without the control, the view must not change");
}

#[test]
fn packets_in_flight_join_and_leave_the_group_with_their_half() {
    let mut group = Group::new(5, 1);
    group.send(ms(1), 0, 4);
    let mut late = half(5);
    for n in 0..3 {
        late.on_sent(ms(2), FIRST.add(n), BYTES, Some(BYTES));
    }
    late.join_group(0, &mut group.control);
    group.halves.push(late);
    assert_eq!(group.control.inflight().packets, 7);
    group.ack(ms(60), 1, 0);
    assert_eq!((group.control.inflight().packets, group.sum().packets), (6, 6));
    let mut gone = group.halves.remove(0);
    gone.leave_group(&mut group.control);
    assert_eq!((group.control.inflight().packets, gone.group()), (2, None));
}

#[test]
fn a_timeout_is_one_of_the_group_only_if_nobody_was_heard() {
    let mut group = Group::new(2, 2);
    group.send(ms(0), 0, 2);
    group.send(ms(0), 1, 2);
    group.ack(ms(50), 0, 1);
    group.ack(ms(50), 1, 1);
    let before = group.cwnd();
    // The first connection lost everything, but the second one is still receiving acknowledgements, so the
    // timeout of the first counts as an ordinary loss and halves the window.
    group.send(ms(60), 0, 2);
    group.send(ms(150), 1, 2);
    group.ack(ms(200), 1, 3);
    group.timeout(ms(300), 0);
    assert_eq!((before, group.cwnd()), (Window::Packets(6), Window::Packets(3)));
    // If both connections time out, the window falls only once, to one packet.
    group.send(ms(310), 0, 1);
    group.send(ms(320), 1, 2);
    group.timeout(ms(2000), 0);
    assert_eq!(group.cwnd(), Window::Packets(1));
    group.timeout(ms(2010), 1);
    assert_eq!(group.halves[1].counts.timeouts, 1);
    assert_eq!(group.control.inflight(), Amount::default());
    let thresholds: Vec<&str> = (0..2).map(|i| group.with(i, |half| half.view().phase)).collect();
    assert_eq!(thresholds, ["slow_start"; 2]);
}

#[test]
fn losses_of_one_window_reduce_it_once_whoever_had_them() {
    let mut group = Group::new(2, 2);
    for i in 0..2 {
        group.send(ms(0), i, 2);
        group.ack(ms(50), i, 1);
        group.send(ms(50), i, 5);
    }
    let before = group.cwnd();
    let vector = [cell(State::Received, 3), cell(State::NotYetReceived, 2)];
    let feedback = Feedback::new(FIRST.add(6), &vector);
    for i in 0..2 {
        group.with(i, |half| half.on_feedback(ms(100), &feedback));
        assert!(group.halves[i].counts.lost.packets > 0);
    }
    assert_eq!((before, group.cwnd()), (Window::Packets(5), Window::Packets(2)));
}

proptest! {
    /// The control's in-flight count always equals the sum over its members. It is zero when everything is
    /// acknowledged or lost.
    #[test]
    fn in_flight_is_the_sum_over_the_members(
        ccid in proptest::sample::select(alloc::vec![2u8, 5, 7, 250]),
        steps in proptest::collection::vec(
            (0u8..8, 0usize..4, 0u64..100, proptest::collection::vec(any::<u8>(), 0..20)), 1..100),
    ) {
        let mut group = Group::new(ccid, 4);
        let mut now = Time::ZERO;
        for (kind, i, number, bytes) in steps {
            now += Duration::from_millis(number / 2);
            match kind {
                0..3 => group.send(now, i, number / 10),
                3 => group.timeout(now, i),
                4 => {
                    // One half ends, and a new half replaces it.
                    let mut gone = core::mem::replace(&mut group.halves[i], half(ccid));
                    gone.leave_group(&mut group.control);
                    group.halves[i].on_sent(now, FIRST, BYTES, Some(BYTES));
                    group.halves[i].join_group(0, &mut group.control);
                }
                _ => {
                    let ack = FIRST.add(group.halves[i].history.next()).sub(number % 8 + 1);
                    let feedback = Feedback::new(ack, &bytes);
                    group.with(i, |half| half.on_feedback(now, &feedback));
                }
            }
            prop_assert_eq!(group.control.inflight(), group.sum());
        }
        for i in (0..4).cycle().take(16) {
            now += RttEstimator::MAX_RTO;
            group.timeout(now, i);
        }
        prop_assert_eq!(group.control.inflight(), Amount::default());
    }
}
