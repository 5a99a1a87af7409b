//! Made-up sequences of packets into two endpoints: types, numbers and options that nearly make sense, in every state, under every CCID.
//! No panic, no standstill of the clock, bounded memory. `FUZZ_SECONDS` for longer than a moment, `FUZZ_SEED` to repeat one run.

mod common;

use common::End::{Client, Server};
use common::*;
use dccp_proto::{Ecn, Route};
use dccp_wire::{Header, MpOption, Opt, OptionBuf, Packet, PacketType, Reset, ResetCode, Seq};
use mpdccp_proto::*;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::net::SocketAddr;
use std::time::Instant;
use units::Duration;

const ROUNDS: u32 = 150;
/// Without FUZZ_SECONDS.
const SEEDS: u64 = 24;

struct Dice(ChaCha8Rng);

impl Dice {
    fn below(&mut self, n: u32) -> u32 {
        self.0.next_u32() % n.max(1)
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    fn bytes(&mut self, most: u32) -> Vec<u8> {
        let mut bytes = vec![0; self.below(most + 1) as usize];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// A number near another, or any.
    fn near(&mut self, seq: Seq) -> Seq {
        match self.below(8) {
            0 => Seq::new(self.0.next_u64()),
            1..=4 => seq.add(u64::from(self.below(4))),
            _ => seq.add(u64::from(self.below(3000))).sub(1500),
        }
    }
}

fn config(dice: &mut Dice) -> SessionConfig {
    let known: Vec<u8> = Ccid::known().collect();
    let ccid = known[dice.below(known.len() as u32) as usize];
    let base = common::config();
    SessionConfig {
        multipath: !dice.one_in(3),
        fallback: Fallback::Plain,
        connection: dccp_proto::Config {
            tx_ccids: vec![ccid, 2],
            rx_ccids: known,
            allow_short_seqnos: dice.one_in(2),
            check_data_checksum: dice.one_in(2),
            ndp_count: dice.one_in(2),
            ..base.connection
        },
        ..base
    }
}

/// Options that could be there, and bytes that could not.
fn options(dice: &mut Dice, key: &[u8]) -> Vec<u8> {
    let mut buf = OptionBuf::new();
    for _ in 0..dice.below(5) {
        let (data, number) = (dice.bytes(24), dice.0.next_u32());
        let seq = Seq::new(dice.0.next_u64());
        let addr_id = number as u8 % 4;
        buf.push(&match dice.below(20) {
            0 => Opt::ChangeL(number as u8 % 12, &data),
            1 => Opt::ChangeR(number as u8 % 12, &data),
            2 => Opt::ConfirmL(number as u8 % 12, &data),
            3 => Opt::ConfirmR(number as u8 % 12, &data),
            4 => Opt::InitCookie(&data),
            5 => Opt::Timestamp(number),
            6 => Opt::Mandatory,
            7 => Opt::SlowReceiver,
            8 => Opt::Mp(MpOption::Seq(seq)),
            9 => Opt::Mp(MpOption::Join { addr_id, ci: number, nonce: number }),
            10 => Opt::Mp(MpOption::Key { ci: number, keys: &data }),
            11 => Opt::Mp(MpOption::Close(key)),
            12 => Opt::Mp(MpOption::FastClose(key)),
            13 => Opt::Mp(MpOption::Exp(&data)),
            14 => Opt::AckVector(addr_id == 0, &data),
            15 => Opt::DataDropped(&data),
            16 => Opt::NdpCount(u64::from(number)),
            17 => Opt::TimestampEcho(number, number >> 8),
            18 => Opt::ElapsedTime(number >> 16),
            _ => Opt::Ccid(128 | number as u8, &data),
        });
    }
    let mut bytes = buf.as_bytes().to_vec();
    if dice.one_in(3) {
        // Any type, right or wrong length, or cut off.
        let data = dice.bytes(12);
        let length = if dice.one_in(4) { dice.0.next_u32() as u8 } else { data.len() as u8 + 2 };
        bytes.extend([dice.0.next_u32() as u8, length]);
        bytes.extend(data);
    }
    bytes.truncate(300);
    bytes
}

/// A packet such as one end could have sent after `last`.
fn packet(dice: &mut Dice, last: &Packet<'_>) -> Vec<u8> {
    if dice.one_in(12) {
        return dice.bytes(120);
    }
    let types = [
        PacketType::Request,
        PacketType::Response,
        PacketType::Data,
        PacketType::Ack,
        PacketType::DataAck,
        PacketType::CloseReq,
        PacketType::Close,
        PacketType::Reset,
        PacketType::Sync,
        PacketType::SyncAck,
        PacketType::Listen,
    ];
    // What ends a connection comes seldom, so that others have time to do harm.
    let mut ptype = types[dice.below(11) as usize];
    if matches!(ptype, PacketType::CloseReq | PacketType::Close | PacketType::Reset) && !dice.one_in(20) {
        ptype = PacketType::DataAck;
    }
    let ack = last.header.ack.unwrap_or(Seq::new(0));
    let header = Header {
        ccval: dice.below(16) as u8,
        cscov: if dice.one_in(8) { dice.below(16) as u8 } else { 0 },
        ptype,
        short: dice.one_in(6),
        seq: dice.near(last.header.seq),
        ack: Some(dice.near(ack)),
        service_code: Some(if dice.one_in(8) { dice.0.next_u32() } else { 7 }),
        reset: Some(Reset { code: ResetCode::Aborted, data: [0; 3] }),
        ..last.header
    };
    let key = dice.bytes(8);
    let (options, payload) = (options(dice, &key), dice.bytes(40));
    let mut bytes = vec![0; header.packet_len(options.len(), payload.len())];
    header.emit(&options, &mut bytes).copy_from_slice(&payload);
    if dice.one_in(10) {
        let at = dice.below(bytes.len() as u32) as usize;
        bytes[at] ^= 1 << dice.below(8);
    }
    bytes
}

fn run(seed: u64) {
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed));
    let (server, client) = (config(&mut dice), config(&mut dice));
    let mut net = Net::new(seed as u8, 2, server);
    net.wires.iter_mut().for_each(|wire| wire.loss = if seed.is_multiple_of(3) { 50 } else { 0 });
    let id = net.connect(client);
    for round in 0..ROUNDS {
        // From the handshake's first packet on.
        let ms = [0, 1, 10, 30, 700][dice.below(5) as usize];
        net.run(Duration::from_millis(ms));
        if net.client.sessions().contains(&id) {
            net.client.send(net.now, id, datagram(round), PktInfo::default());
        }
        for sid in net.server.sessions().into_iter().take(1) {
            net.server.send(net.now, sid, datagram(round), PktInfo::default());
        }
        net.drain();
        let Some(old) = net.log.len().checked_sub(1) else { continue };
        let old = net.log[old - dice.below(old.min(40) as u32 + 1) as usize].clone();
        let bytes = packet(&mut dice, &old.packet());
        let nat = SocketAddr::new(client_addr(old.path), if dice.one_in(20) { 41_000 } else { 40_000 });
        let (to, route) = match old.from {
            Client => (Server, Route { socket: 0, local: None, remote: nat }),
            Server => (Client, client_route(old.path)),
        };
        net.inject(to, route, Ecn::from_bits(dice.0.next_u32() as u8), &bytes);
        net.drain();
        if net.log.len() > 4096 {
            net.log.drain(..2048);
        }
        for end in [Client, Server] {
            let now = net.now;
            // A timer in the past means work at once; with the work done it must move on.
            let due = net.end(end).poll_timeout();
            assert!(due.is_none_or(|(at, _)| at > now) || { settles(&mut net, end) }, "{due:?} at {now:?}");
            assert!(net.end(end).sessions().len() <= 70);
        }
    }
    net.client.sessions().into_iter().for_each(|id| net.client.abort(net.now, id));
    net.drain();
}

/// Timers that are due are gone after few rounds without time.
fn settles(net: &mut Net, end: common::End) -> bool {
    (0..100).any(|_| {
        let now = net.now;
        net.end(end).handle_timeout(now);
        net.drain();
        net.end(end).poll_timeout().is_none_or(|(at, _)| at > now)
    })
}

#[test]
fn sequences_of_packets() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    if let Some(seed) = number("FUZZ_SEED") {
        return run(seed);
    }
    let (start, seconds) = (Instant::now(), number("FUZZ_SECONDS"));
    // Other sequences each time if it is for long.
    let first = if seconds.is_some() { std::process::id().into() } else { 0u64 } << 32;
    for seed in first.. {
        if seconds.map_or(seed >= SEEDS, |seconds| start.elapsed().as_secs() >= seconds) {
            println!("{} sequences", seed - first);
            break;
        }
        let result = std::panic::catch_unwind(|| run(seed));
        assert!(result.is_ok(), "FUZZ_SEED={seed} repeats it");
    }
}
