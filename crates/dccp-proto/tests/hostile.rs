//! Any bytes, in any state: no panic, no runaway, and memory that stays.
mod common;

use common::*;
use dccp_proto::{Config, Ecn, State};
use dccp_wire::{PacketType, Seq};
use proptest::prelude::*;
use units::Duration;

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

/// A pair in the `n`th of these: REQUEST; REQUEST and RESPOND; PARTOPEN; OPEN with data; CLOSING; CLOSEREQ; TIMEWAIT.
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
    let now = net.now;
    match n {
        4 => net.end(CLIENT).close(now, false),
        5 => net.end(SERVER).close(now, true),
        6 => {
            net.end(CLIENT).close(now, false);
            net.run(Duration::from_millis(100));
            assert_eq!(net.state(CLIENT), State::TimeWait);
        }
        _ => {}
    }
    net.pump();
    net
}

/// Nothing spins, and what is sent stays in proportion to what came.
fn finish(mut net: Net, struck: usize) {
    let before = net.log.len();
    net.run(Duration::from_secs(700));
    assert!(net.log.len() - before <= 400 + 4 * struck, "{} packets after {struck}", net.log.len() - before);
}

fn types() -> impl Strategy<Value = PacketType> {
    (0u8..10).prop_map(PacketType::from_number)
}

/// Options that mean something, with values that need not.
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

    /// Packets of a right shape and numbers that are often right.
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
            // Mostly header and options.
            let at = at.index(bytes.len().min(60));
            bytes[at] ^= value;
            net.inject(1 - sent.from, &bytes, Ecn::Ect0);
            net.pump();
        }
        finish(net, changes.len());
    }
}
