//! Tests reorderers with random paths. The properties hold for any pattern of losses and delays.

use dccp_wire::Seq;
use mpdccp_proto::reorder::{Arrival, ReorderConfig, ReorderKind, ReorderStats};
use mpdccp_proto::{Named, PathId};
use mpdccp_units::{Duration, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

const PATHS: usize = 3;

/// A packet that the sender sends.
#[derive(Clone, Copy, Debug)]
struct Packet {
    path: usize,
    /// Time since the previous packet.
    pause_us: u64,
    jitter_us: u64,
    data: bool,
    lost: bool,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at: Time,
    path: usize,
    path_seq: Seq,
    ndp: u64,
    /// Number of the packet, if it carries data.
    number: Option<u64>,
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let packet = (0..PATHS, 0u64..4_000, 0u64..20_000, 0u32..10, 0u32..10);
    let packet = packet.prop_map(|(path, pause_us, jitter_us, data, lost)| Packet {
        path,
        pause_us,
        jitter_us,
        data: data > 2,
        lost: lost == 0,
    });
    prop::collection::vec(packet, 2..300)
}

/// Returns the arriving packets in the order of arrival.
fn arrivals(packets: &[Packet], delays_ms: &[u64], jitter: bool, first: u64) -> Vec<Event> {
    let mut now = Time::ZERO;
    let (mut seqs, mut runs, mut number) = ([first; PATHS], [0; PATHS], 0);
    let mut events = Vec::new();
    for packet in packets {
        now += Duration::from_micros(packet.pause_us);
        let path = packet.path;
        let travel = delays_ms[path] * 1_000 + if jitter { packet.jitter_us } else { 0 };
        let event = Event {
            at: now + Duration::from_micros(travel),
            path,
            path_seq: Seq::new(seqs[path] % Seq::MODULUS),
            ndp: runs[path],
            number: packet.data.then_some(number),
        };
        seqs[path] += 1;
        (runs[path], number) = if packet.data { (0, number + 1) } else { (runs[path] + 1, number) };
        if !packet.lost {
            events.push(event);
        }
    }
    events.sort_by_key(|e| e.at);
    events
}

/// Runs a reorderer, and returns time and number of each delivery.
fn run(cfg: ReorderConfig, events: &[Event], first: u64, ndp: bool) -> (Vec<(Time, u64)>, ReorderStats) {
    run_with(cfg, events, first, ndp, [None; PATHS])
}

/// Like [`run`], but with the round-trip times of the paths.
fn run_with(
    cfg: ReorderConfig,
    events: &[Event],
    first: u64,
    ndp: bool,
    rtts: [Option<Duration>; PATHS],
) -> (Vec<(Time, u64)>, ReorderStats) {
    let mut engine = cfg.reorderer();
    for (path, rtt) in (0..).zip(rtts) {
        engine.on_path(PathId(path), rtt, true);
    }
    let mut out = Vec::new();
    let mut drain = |at: Time, engine: &mut Box<dyn mpdccp_proto::reorder::Reorderer>| {
        while let Some(data) = engine.pop() {
            out.push((at, u64::from_be_bytes(data.try_into().unwrap())));
        }
    };
    for event in events.iter().map(Some).chain([None]) {
        while let Some(at) = engine.next_timeout().filter(|t| event.is_none_or(|e| *t <= e.at)) {
            engine.on_timeout(at);
            drain(at, &mut engine);
        }
        let Some(event) = event else { break };
        let (path, ndp) = (PathId(event.path as u32), ndp.then_some(event.ndp));
        match event.number {
            Some(number) => {
                let mp_seq = Seq::new((first + number) % Seq::MODULUS);
                let arrival =
                    Arrival { mp_seq, path, path_seq: Some(event.path_seq), ndp, flow: 0, back: None };
                engine.push(event.at, arrival, number.to_be_bytes().to_vec());
            }
            None => engine.on_other(event.at, path, event.path_seq, ndp.filter(|n| *n > 0), false),
        }
        drain(event.at, &mut engine);
    }
    let stats = engine.stats();
    (out, stats)
}

proptest! {
    #[test]
    fn everything_is_delivered_once_in_time_and_in_order_unless_late(
        packets in packets(),
        delays_ms in prop::collection::vec(1u64..120, PATHS),
        (jitter, ndp, adaptive, proven) in any::<(bool, bool, bool, bool)>(),
        first in prop_oneof![Just(1), Just(Seq::MODULUS - 20)],
    ) {
        let max = Duration::from_millis(60);
        let cfg = match adaptive {
            true => ReorderConfig::adaptive(max),
            false => ReorderConfig { proven, ..ReorderConfig::active_fixed(max) },
        };
        let events = arrivals(&packets, &delays_ms, jitter, first);
        let (out, stats) = run(cfg, &events, first, ndp);
        let came: BTreeMap<u64, Time> = events.iter().filter_map(|e| Some((e.number?, e.at))).collect();
        let delivered: BTreeMap<u64, Time> = out.iter().map(|(at, n)| (*n, *at)).collect();
        prop_assert_eq!(out.len(), delivered.len(), "a packet was delivered twice");
        prop_assert!(came.keys().eq(delivered.keys()), "the delivered packets differ from those that arrived");
        for (number, at) in &delivered {
            prop_assert!(at.since(came[number]) <= max, "{} held too long", number);
        }
        let (mut newest, mut late) = (None, 0);
        for (_, number) in &out {
            late += u64::from(Some(*number) < newest);
            newest = newest.max(Some(*number));
        }
        prop_assert_eq!(late, stats.late);
        prop_assert_eq!(stats.in_order + stats.late, out.len() as u64);
        prop_assert_eq!((stats.occupancy, stats.duplicates), (0, 0));
    }

    /// If paths preserve order, no packet arrives after it has been proven lost.
    #[test]
    fn packets_proven_lost_never_arrive(
        packets in packets(),
        delays_ms in prop::collection::vec(1u64..400, PATHS),
        ndp in any::<bool>(),
        first in prop_oneof![Just(1), Just(Seq::MODULUS - 20)],
    ) {
        let cfg = ReorderConfig { proven: true, ..ReorderConfig::active_fixed(Duration::from_secs(3_600)) };
        let events = arrivals(&packets, &delays_ms, false, first);
        let (_, stats) = run(cfg, &events, first, ndp);
        let numbers: Vec<u64> = events.iter().filter_map(|e| e.number).collect();
        let before_the_first = numbers.iter().filter(|n| **n < numbers[0]).count();
        prop_assert_eq!(stats.late, before_the_first as u64, "only packets older than the first arrival may be late");
    }
    /// Each path has a constant delay within the maximum wait, so everything is delivered in order, whatever
    /// is lost.
    #[test]
    fn paths_that_keep_their_delays_cost_no_order(
        mut packets in packets(),
        delays_ms in prop::collection::vec(1u64..120, PATHS),
        equalised: bool,
        first in prop_oneof![Just(1), Just(Seq::MODULUS - 20)],
    ) {
        let cfg = match equalised {
            true => ReorderConfig::from(ReorderKind::named("equalised").unwrap()),
            false => ReorderConfig::active_fixed(Duration::from_millis(130)),
        };
        // No two packets are sent at the same time. Before all others, each path delivers one packet, which
        // shows that the path is in use.
        packets.iter_mut().for_each(|p| p.pause_us += 1);
        packets[0].pause_us += 500_000;
        let alone = |path| Packet { path, pause_us: 500_000, jitter_us: 0, data: true, lost: false };
        packets.splice(0..0, (0..PATHS).map(alone));
        let events = arrivals(&packets, &delays_ms, false, first);
        let rtts = std::array::from_fn(|path| Some(Duration::from_millis(2 * delays_ms[path])));
        let (out, _) = run_with(cfg, &events, first, true, rtts);
        let mut came: Vec<u64> = events.iter().filter_map(|e| e.number).collect();
        came.sort_unstable();
        let numbers: Vec<u64> = out.iter().map(|(_, n)| *n).collect();
        prop_assert_eq!(numbers, came);
    }

    /// Packets are delivered in order of arrival, and only once.
    #[test]
    fn passive_keeps_the_order_of_arrival(packets in packets(), delays_ms in prop::collection::vec(1u64..120, PATHS)) {
        let mut events = arrivals(&packets, &delays_ms, true, 1);
        let came: Vec<(Time, u64)> = events.iter().filter_map(|e| Some((e.at, e.number?))).collect();
        events.extend(events.clone());
        let (out, stats) = run(ReorderConfig::passive(), &events, 1, true);
        prop_assert_eq!((stats.in_order, stats.duplicates), (came.len() as u64, came.len() as u64));
        prop_assert_eq!(out, came);
    }
}
