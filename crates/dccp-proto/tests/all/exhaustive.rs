//! Exhaustive tests of small cases.

use dccp_proto::Ecn;
use dccp_proto::ccid::{AckVecReceiver, Arrival, HalfConfig, ReceiverHalf};
use dccp_wire::ack_vector::{State, runs};
use dccp_wire::{Opt, OptionBuf, Options, Seq};
use mpdccp_units::{Duration, Time};

const PACKETS: u32 = 8;

/// RFC 4340 section 11.4: the Ack Vector reports exactly what arrived. Covers all combinations of eight
/// packets that are received, marked or lost, with and without wrapping sequence numbers.
#[test]
fn ack_vectors_tell_what_arrived() {
    for first in [Seq::new(100), Seq::new(Seq::MODULUS - 4)] {
        for case in 0..3u32.pow(PACKETS) {
            let fate = |i: u32| case / 3u32.pow(i) % 3;
            let now = Time::from_millis(5);
            let rtt = Some(Duration::from_millis(20));
            let mut half = AckVecReceiver::new(&HalfConfig { now, ..HalfConfig::new(1500, first, rtt) });
            let came: Vec<u32> = (0..PACKETS).filter(|i| fate(*i) > 0).collect();
            let (Some(&oldest), Some(&newest)) = (came.first(), came.last()) else { continue };
            for &i in &came {
                let ecn = if fate(i) == 2 { Ecn::Ce } else { Ecn::Ect0 };
                let seq = first.add(i.into());
                half.on_packet(
                    now,
                    &Arrival { seq, ecn, data: true, ccval: 0, ndp: None, bytes: 100, payload: 80 },
                );
            }
            let mut out = OptionBuf::new();
            half.write_feedback(now, Seq::new(7), first.add(newest.into()), 200, &mut out);
            let cells: Vec<u8> = Options::new(out.as_bytes())
                .flatten()
                .filter_map(
                    |option| if let Opt::AckVector(_, cells) = option { Some(cells.to_vec()) } else { None },
                )
                .flatten()
                .collect();
            let told: Vec<State> =
                runs(&cells).flat_map(|(state, packets)| (0..packets).map(move |_| state)).collect();
            let meant: Vec<State> = (oldest..=newest)
                .rev()
                .map(|i| match fate(i) {
                    0 => State::NotYetReceived,
                    1 => State::Received,
                    _ => State::ReceivedEcnMarked,
                })
                .collect();
            assert_eq!(told, meant, "case {case}");
        }
    }
}
