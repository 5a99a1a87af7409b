//! Whatever bytes arrive in whatever state, there is no panic and no endless loop, and memory stays bounded.

use crate::common::*;
use dccp_proto::{Config, Ecn, State};
use dccp_wire::{PacketType, Seq};
use mpdccp_units::Duration;
use proptest::prelude::*;

fn config() -> Config {
    Config {
        ack_on_open: true,
        multipath: true,
        ndp_count: true,
        check_data_checksum: true,
        allow_short_seqnos: true,
        tx_ccids: vec![5, 2],
        rx_ccids: vec![5, 2],
        ..Config::default()
    }
}

/// Creates a pair in stage `n`. The stages are REQUEST, REQUEST and RESPOND, PARTOPEN, OPEN with data,
/// CLOSING, CLOSEREQ, and TIMEWAIT.
fn stage(n: usize) -> Net {
    let mut net = Net::new(config(), config());
    let run = [1, 21, 41, 500, 500, 500, 500][n];
    net.run(Duration::from_millis(run));
    if n == 2 {
        assert_eq!(net.state(CLIENT), State::PartOpen);
    }
    if n >= 3 {
        assert_eq!(net.states(), [State::Open; 2]);
        for _ in 0..20 {
            net.send(CLIENT, &[1; 300]);
            net.send(SERVER, &[2; 300]);
        }
        net.run(Duration::from_millis(100));
    }
    match n {
        4 => net.close(CLIENT, false),
        5 => net.close(SERVER, true),
        6 => {
            net.close(CLIENT, false);
            net.run(Duration::from_millis(100));
            assert_eq!(net.state(CLIENT), State::TimeWait);
        }
        _ => {}
    }
    net.pump();
    net
}

/// Checks that there is no busy loop, and that the number of packets sent is proportional to the number
/// received.
fn finish(mut net: Net, struck: usize) {
    let before = net.log.len();
    net.run(Duration::from_secs(700));
    assert!(
        net.log.len() - before <= 400 + 4 * struck,
        "{} packets were sent after {struck} hostile ones",
        net.log.len() - before
    );
}

fn types() -> impl Strategy<Value = PacketType> {
    (0u8..10).prop_map(PacketType::from_number)
}

/// Returns the known options with arbitrary values.
fn options() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![0u8..48, 128u8..=255];
    let one = (kind, 1u8..12, prop::collection::vec(any::<u8>(), 0..12)).prop_map(|(kind, first, rest)| {
        if kind < 32 {
            return vec![kind];
        }
        let mut bytes = vec![kind, rest.len() as u8 + 3, first];
        bytes.extend(rest);
        bytes
    });
    prop::collection::vec(one, 0..8).prop_map(|all| all.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn random_bytes(n in 0usize..7, packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..20)) {
        let mut net = stage(n);
        for bytes in &packets {
            for side in [CLIENT, SERVER] {
                net.inject(side, bytes, Ecn::Ce);
                net.pump();
            }
        }
        finish(net, packets.len() * 2);
    }

    /// Well-formed packets whose sequence numbers are often valid.
    #[test]
    fn forged_packets(
        n in 0usize..7,
        packets in prop::collection::vec((types(), 0usize..2, -3i64..200, 0u64..40, options(), any::<[u8; 9]>(), any::<bool>()), 1..30),
    ) {
        let mut net = stage(n);
        let mut shift = [0u64; 2];
        let count = packets.len();
        for (ptype, from, seq, ack, options, payload, short) in packets {
            let known = |side| net.log.iter().rfind(|s| s.from == side).map_or(Seq::new(9), |s| s.packet().header.seq);
            let base = known(from).add(shift[from]);
            let number = if seq < 0 { base.sub(seq.unsigned_abs()) } else { base.add(seq as u64) };
            shift[from] += seq.clamp(0, 40) as u64;
            let header = net.forge(from, ptype, number, Some(known(1 - from).sub(ack)));
            let header = dccp_wire::Header {
                short,
                cscov: payload[0] & 1,
                ack: header.ack.filter(|_| ptype.has_ack()),
                ..header
            };
            net.strike(from, &header, &options, &payload);
            net.now += Duration::from_millis(u64::from(payload[1]));
            let now = net.now;
            for end in net.ends.iter_mut().flatten() {
                end.handle_timeout(now);
            }
        }
        finish(net, count);
    }

    /// Real packets with a few bytes changed, in the middle of a transfer.
    #[test]
    fn mutated_packets(
        n in 0usize..7,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..60),
    ) {
        let mut net = stage(n);
        let log = net.log.clone();
        for (packet, at, value) in &changes {
            let sent = packet.get(&log);
            let mut bytes = sent.bytes.clone();
            // Most changes hit the header and the options.
            let at = at.index(bytes.len().min(60));
            bytes[at] ^= value;
            net.inject(1 - sent.from, &bytes, Ecn::Ect0);
            net.pump();
        }
        finish(net, changes.len());
    }
}

/// An attacker who cannot see the packets must guess two 48-bit numbers (RFC 4340 section 7.5.5).
#[test]
fn a_million_blind_packets_have_no_effect() {
    const PACKETS: u64 = 1_000_000;
    let mut net = stage(3);
    let features = |net: &mut Net, side: usize| {
        let end = net.end(side);
        let local = (0..=10).map(|number| end.feature(number, dccp_proto::Side::Local));
        let remote = (0..=10).map(|number| end.feature(number, dccp_proto::Side::Remote));
        (end.state(), end.ccids(), local.collect::<Vec<_>>(), remote.collect::<Vec<_>>())
    };
    let before = [features(&mut net, CLIENT), features(&mut net, SERVER)];
    let (delivered, received) =
        (net.delivered.clone(), [CLIENT, SERVER].map(|s| net.end(s).stats().data_received));
    let mut random = 1u64;
    let mut next = || {
        // The generator is SplitMix64.
        random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    // These are the most harmful options: features, Slow Receiver, Data Dropped, Ack Vectors.
    let options: [&[u8]; 5] = [&[], &[32, 4, 1, 2], &[2, 0, 0, 0], &[40, 3, 0x90, 0], &[38, 4, 0, 0xff]];
    for n in 0..PACKETS {
        let from = (n % 2) as usize;
        let ptype = PacketType::from_number((next() % 10) as u8);
        let header = net.forge(from, ptype, Seq::new(next()), Some(Seq::new(next())));
        let bytes = emit(&header, options[(next() % 5) as usize], b"forged");
        let packet = dccp_wire::Packet::parse(&bytes).unwrap();
        let now = net.now;
        // The packets arrive within a minute, while the connection is idle.
        net.now += Duration::from_micros(60);
        net.end(1 - from).handle_packet(now, Ecn::Ce, 100, &packet);
        if n % 1000 == 0 {
            net.pump();
        }
    }
    assert_eq!([features(&mut net, CLIENT), features(&mut net, SERVER)], before);
    assert_eq!([CLIENT, SERVER].map(|s| net.end(s).stats().data_received), received);
    // Each end sends at most eight Syncs per second, each of which the other end answers.
    assert!(net.log.len() < 3_000, "{} packets", net.log.len());
    net.run(Duration::from_secs(5));
    net.send(CLIENT, b"still here");
    net.run(Duration::from_secs(5));
    assert_eq!(net.delivered[CLIENT], delivered[CLIENT]);
    assert_eq!(net.delivered[SERVER][delivered[SERVER].len()..], [b"still here".to_vec()]);
}
