use super::AckVecReceiver;
use crate::Ecn;
use crate::ccid::{AckDue, Arrival, Feedback, HalfConfig, ReceiverHalf, ms};
use alloc::vec::Vec;
use dccp_wire::{Opt, OptionBuf, Options, Seq};
use mpdccp_units::{Duration, Time};
use proptest::prelude::*;

struct Rig {
    half: AckVecReceiver,
    acks: u64,
}

/// An Ack as the peer parses it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ack {
    cells: Vec<u8>,
    elapsed: Option<u32>,
    bytes: usize,
}

impl Rig {
    fn new() -> Rig {
        let cfg = HalfConfig::new(1500, Seq::new(0), Some(Duration::from_millis(40)));
        Rig { half: AckVecReceiver::new(&cfg), acks: 0 }
    }

    fn packet(&mut self, now: Time, seq: u64, data: bool, ecn: Ecn) -> AckDue {
        let seq = Seq::new(seq);
        self.half.on_packet(now, &Arrival { seq, ecn, data, ccval: 0, ndp: None, bytes: 1000, payload: 0 });
        self.half.ack_due(now)
    }

    fn data(&mut self, now: Time, seq: u64) -> AckDue {
        self.packet(now, seq, true, Ecn::Ect0)
    }

    fn ack_in(&mut self, now: Time, ack: u64, room: usize) -> Ack {
        let mut out = OptionBuf::new();
        self.acks += 1;
        self.half.write_feedback(now, Seq::new(self.acks), Seq::new(ack), room, &mut out);
        let mut read = Ack { bytes: out.len(), ..Ack::default() };
        for option in Options::new(out.as_bytes()) {
            match option.unwrap() {
                Opt::AckVector(false, cells) => read.cells.extend(cells),
                Opt::ElapsedTime(held) => read.elapsed = Some(held),
                other => panic!("{other:?}"),
            }
        }
        read
    }

    fn ack(&mut self, now: Time, ack: u64) -> Ack {
        self.ack_in(now, ack, 900)
    }

    fn ack_of_ack(&mut self, ack: u64, vector: &[u8]) {
        let feedback = Feedback::new(Seq::new(ack), vector);
        self.half.on_ack_of_ack(Time::ZERO, &feedback);
    }
}

#[test]
fn one_ack_for_ack_ratio_packets_or_when_the_delay_is_over() {
    let mut rig = Rig::new();
    // The Ack is due after a quarter of the round trip of 40 ms.
    assert_eq!(rig.data(ms(100), 1), AckDue::At(ms(110)));
    assert_eq!(rig.half.ack_due(ms(110)), AckDue::Now);
    assert_eq!(rig.data(ms(101), 2), AckDue::Now);
    rig.ack(ms(101), 2);
    assert_eq!(rig.half.ack_due(ms(101)), AckDue::No);
    rig.half.on_ack_ratio(4);
    for seq in 3..6 {
        assert_eq!(rig.data(ms(102), seq), AckDue::At(ms(112)));
    }
    assert_eq!(rig.data(ms(102), 6), AckDue::Now);
    rig.ack(ms(102), 6);
    for (seq, rtt, delay) in [(7, Duration::from_secs(9), 200), (8, Duration::ZERO, 2)] {
        rig.half.on_rtt(rtt);
        assert_eq!(rig.data(ms(500), seq), AckDue::At(ms(500 + delay)));
        rig.ack(ms(500), seq);
    }
}

#[test]
fn at_once_on_loss_reordering_and_marks() {
    let mut rig = Rig::new();
    rig.half.on_ack_ratio(100);
    rig.data(ms(0), 1);
    assert_eq!(rig.data(ms(0), 3), AckDue::Now);
    rig.ack(ms(0), 3);
    assert_eq!(rig.data(ms(0), 2), AckDue::Now);
    assert_eq!(rig.ack(ms(0), 3).cells, [2]);
    assert_eq!(rig.packet(ms(0), 4, true, Ecn::Ce), AckDue::Now);
    assert_eq!(rig.ack(ms(0), 4).cells, [64, 2]);
    // Marked packets trigger an immediate Ack once per round trip.
    assert_eq!(rig.packet(ms(1), 5, true, Ecn::Ce), AckDue::At(ms(11)));
    rig.ack(ms(1), 5);
    assert_eq!(rig.packet(ms(40), 6, true, Ecn::Ce), AckDue::Now);
}

#[test]
fn acks_are_recorded_but_not_acknowledged() {
    let mut rig = Rig::new();
    rig.data(ms(0), 1);
    rig.ack(ms(0), 1);
    for seq in 2..50 {
        assert_eq!(rig.packet(ms(1), seq, false, Ecn::NotEct), AckDue::No);
    }
    assert_eq!(rig.packet(ms(1), 60, false, Ecn::NotEct), AckDue::No);
    assert_eq!(rig.ack(ms(1), 60).cells, [0, 192 + 9, 48]);
    // A duplicate does not count as new data.
    assert_eq!(rig.data(ms(2), 1), AckDue::No);
}

#[test]
fn elapsed_time_is_told_from_ten_microseconds_on() {
    let mut rig = Rig::new();
    let at = Time::from_micros;
    rig.data(at(1000), 7);
    assert_eq!(rig.ack(at(1009), 7).elapsed, None);
    assert_eq!(rig.ack(at(1019), 7).elapsed, Some(1));
    assert_eq!(rig.ack(ms(701), 7).elapsed, Some(70_000));
    // Elapsed Time is known only for the newest packet.
    rig.data(ms(800), 8);
    assert_eq!(rig.ack(ms(900), 7).elapsed, None);
}

#[test]
fn state_that_never_fits_is_dropped() {
    let mut rig = Rig::new();
    for seq in 0..300 {
        rig.data(ms(0), seq * 2);
    }
    let part = rig.ack_in(ms(5), 598, 100);
    assert_eq!(part.cells.len(), 94);
    rig.ack_of_ack(rig.acks, &[]);
    // The Ack reported only part of the state, so an Ack is still due.
    assert_eq!(rig.ack(ms(6), 598).cells.len(), 599);
    for _ in 0..3 {
        rig.ack_in(ms(7), 598, 100);
    }
    assert_eq!(rig.ack_in(ms(8), 598, 100).cells.len(), 94);
    rig.ack_of_ack(rig.acks, &[]);
    assert_eq!(rig.ack(ms(9), 598).cells.len(), 1);
}

#[test]
fn the_newest_part_fits_into_any_room() {
    let full = || {
        let mut rig = Rig::new();
        for seq in 0..600 {
            rig.data(ms(0), seq * 2);
        }
        rig
    };
    let whole = full().ack(ms(5), 1198);
    assert_eq!(whole.cells.len(), 759);
    let mut rig = full();
    for room in 0..900 {
        rig = full();
        let ack = rig.ack_in(ms(5), 1198, room);
        assert!(ack.bytes <= room);
        assert_eq!(ack.cells, whole.cells[..ack.cells.len()]);
        assert_eq!(ack.cells.is_empty(), room < 3);
        assert_eq!(ack.elapsed.is_some(), room >= 7);
        if (7..766).contains(&room) {
            assert!(ack.bytes + 2 >= room.min(whole.bytes), "{room} {}", ack.bytes);
        }
    }
    // The Ack stays due, because some state did not fit.
    rig.data(ms(6), 1199);
    rig.data(ms(6), 1200);
    rig.ack_in(ms(6), 1200, 2);
    assert_eq!(rig.half.ack_due(ms(6)), AckDue::Now);
    rig.half.on_send_ack_vector(false);
    assert_eq!(rig.ack(ms(6), 1200), Ack::default());
    assert_eq!(rig.half.ack_due(ms(6)), AckDue::No);
}

#[test]
fn acknowledged_acks_shorten_the_vector() {
    let mut rig = Rig::new();
    for seq in 1..=10 {
        rig.data(ms(0), seq);
        rig.ack(ms(0), seq);
    }
    rig.data(ms(0), 11);
    // Our Ack 4 reported all packets up to packet 4.
    rig.ack_of_ack(4, &[]);
    assert_eq!(rig.ack(ms(0), 11).cells, [6]);
    // The Ack Vector reports packet 10 as not received and packet 9 as received.
    rig.ack_of_ack(10, &[192, 0]);
    assert_eq!(rig.ack(ms(0), 11).cells, [1]);
    // Two kinds of report have no effect: that a packet was not received, and one that names an unknown
    // packet.
    rig.ack_of_ack(12, &[192 + 63]);
    rig.ack_of_ack(1 << 40, &[]);
    assert_eq!(rig.ack(ms(0), 11).cells, [1]);
}

#[test]
fn late_arrivals_can_still_be_reported() {
    let mut rig = Rig::new();
    // Packet 2 arrives after packet 12.
    for seq in (1..13).filter(|seq| *seq != 2).chain([2]) {
        rig.data(ms(0), seq);
    }
    for seq in (13..30).filter(|seq| *seq != 15) {
        rig.data(ms(1), seq);
    }
    rig.ack(ms(1), 29);
    // The peer knows the whole state, including that 15 is missing. Then 15 arrives.
    rig.ack_of_ack(rig.acks, &[]);
    rig.data(ms(2), 15);
    assert_eq!(rig.ack(ms(2), 29).cells, [19]);
    // After a long time without late packets, reported state is dropped.
    for seq in 30..3000 {
        rig.data(ms(3), seq);
        rig.ack(ms(3), seq);
        rig.ack_of_ack(rig.acks, &[]);
    }
    assert_eq!(rig.ack(ms(3), 2999).cells, [0]);
}

#[test]
fn an_ack_does_not_vouch_for_what_came_after_it() {
    let mut rig = Rig::new();
    for seq in [1, 2, 4, 5, 6, 7, 8] {
        rig.data(ms(0), seq);
    }
    rig.ack(ms(0), 8);
    rig.data(ms(1), 3);
    for seq in 9..14 {
        rig.data(ms(1), seq);
    }
    rig.ack_of_ack(1, &[]);
    // The peer knows only the state of 1 and 2, so the arrival of 3 must still be reported.
    assert_eq!(rig.ack(ms(1), 13).cells, [10]);
    // From then on, only the state needed for late packets is kept. Packet 3 was five packets late, so the
    // state of the last ten packets is kept, less the decay.
    rig.ack_of_ack(2, &[]);
    assert_eq!(rig.ack(ms(1), 13).cells, [7]);
}

#[test]
fn a_short_ack_does_not_count_as_the_whole() {
    let mut rig = Rig::new();
    for seq in [1, 3, 5] {
        rig.data(ms(0), seq);
    }
    assert_eq!(rig.ack_in(ms(0), 5, 4).cells, [0, 192]);
    rig.ack_of_ack(1, &[]);
    assert_eq!(rig.ack(ms(0), 5).cells, [0, 192, 0, 192, 0]);
}

#[test]
fn starts_with_the_packet_the_connection_acknowledges() {
    let mut rig = Rig::new();
    assert_eq!(rig.ack(ms(0), 77).cells, [0]);
    rig.data(ms(1), 78);
    assert_eq!(rig.ack(ms(1), 78).cells, [1]);
    // This packet was overtaken at the very start.
    rig.data(ms(2), 75);
    assert_eq!(rig.ack(ms(2), 78).cells, [1, 192, 0]);
}

proptest! {
    /// For any arrivals and acknowledgements, the half does not panic, and its answers are bounded.
    #[test]
    fn survives_anything(steps in proptest::collection::vec(
        (0u8..6, any::<u64>(), 0u64..400, proptest::collection::vec(any::<u8>(), 0..30)), 1..150)) {
        let mut rig = Rig::new();
        let mut front = 0;
        for (i, (kind, wild, near, bytes)) in steps.into_iter().enumerate() {
            let now = ms(i as u64);
            front += near / 3;
            match kind {
                0 => { rig.packet(now, wild, wild % 2 == 0, Ecn::from_bits(wild as u8)); }
                1 | 2 => { rig.packet(now, front.saturating_sub(near / 2), near % 3 > 0, Ecn::from_bits(near as u8)); }
                3 => rig.ack_of_ack(wild, &bytes),
                4 => rig.ack_of_ack(rig.acks.saturating_sub(near / 10), &bytes),
                _ => {
                    let room = near as usize * 3;
                    let ack = rig.ack_in(now, if near % 5 == 0 { wild } else { front }, room);
                    prop_assert!(ack.bytes <= room);
                    prop_assert!(ack.cells.len() <= 759);
                }
            }
        }
    }
}
