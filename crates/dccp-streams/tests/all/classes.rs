//! Tests streams in separate classes, the DSCP of their packets, and copies on several paths.

use dccp_streams::{Config, Event, Role, StreamId, Streams, dscp};
use mpdccp_units::{Duration, Time};

const MTU: usize = 1_200;

struct Pair {
    now: Time,
    ends: [Streams; 2],
}

impl Pair {
    fn new() -> Pair {
        let end = |role| Streams::new(role, Config::default());
        Pair { now: Time::from_millis(1), ends: [end(Role::Client), end(Role::Server)] }
    }

    /// Opens a stream of this class, known to both ends, with `bytes` bytes waiting on it.
    fn stream(&mut self, class: u8, dscp: u8, bytes: usize) -> StreamId {
        let id = self.ends[0].open(b"", 1).unwrap();
        self.ends[0].classify(id, class, dscp).unwrap();
        self.ends[0].write(id, &vec![class; bytes]).unwrap();
        id
    }

    fn packet(&mut self, class: u8, path: u32) -> Option<Vec<u8>> {
        self.distant(class, path, 0)
    }

    fn distant(&mut self, class: u8, path: u32, head_start: u64) -> Option<Vec<u8>> {
        let mut out = [0; MTU];
        let len = self.ends[0].poll_transmit(self.now, class, path, None, head_start, &mut out)?;
        Some(out[..len].to_vec())
    }

    /// Delivers `packets` to the other end, and returns the number of bytes that can be read there
    /// afterwards.
    fn read(&mut self, id: StreamId, packets: &[Vec<u8>]) -> usize {
        packets.iter().for_each(|packet| self.ends[1].handle_packet(self.now, packet));
        self.ends[1].read(id, &mut vec![0; 1 << 20]).unwrap_or(0)
    }

    /// Delivers the other end's acknowledgements.
    fn acknowledge(&mut self) {
        self.now += Duration::from_millis(30);
        let mut out = [0; MTU];
        while let Some(len) = self.ends[1].poll_transmit(self.now, 0, 0, None, 0, &mut out) {
            self.ends[0].handle_packet(self.now, &out[..len]);
        }
    }
}

#[test]
fn each_class_waits_by_itself() {
    let mut pair = Pair::new();
    let (usual, other) = (pair.stream(0, 0, 5_000), pair.stream(3, 0, 3_000));
    let waits = |pair: &Pair| [0, 1, 3, 200].map(|class| pair.ends[0].has_packet(pair.now, class));
    assert_eq!(waits(&pair), [true, false, true, false]);
    assert_eq!([0, 3].map(|class| pair.ends[0].backlog_of(class)), [5_002, 3_002]);
    let packets: Vec<_> = std::iter::from_fn(|| pair.packet(3, 0)).collect();
    assert_eq!((packets.len(), pair.ends[0].backlog()), (3, 5_002));
    assert_eq!((pair.read(usual, &packets), pair.read(other, &[])), (0, 3_000));
    // Lost data and lost control frames go back to waiting in the same class.
    pair.ends[0].on_path_down(0);
    assert!(pair.ends[0].has_packet(pair.now, 3));
    pair.ends[0].classify(usual, 1, 0).unwrap();
    assert_eq!([0, 1].map(|class| pair.ends[0].backlog_of(class)), [0, 5_002]);
    pair.ends[0].reset(other, dccp_streams::Reason::Reset).unwrap();
    pair.ends[0].classify(other, 2, 0).unwrap();
    assert_eq!(waits(&pair)[1..], [true, false, false]);
    pair.packet(2, 1).unwrap();
    assert!(!pair.ends[0].has_packet(pair.now, 2));
    pair.ends[0].declassify();
    assert_eq!((pair.ends[0].backlog_of(0), waits(&pair)), (5_002, [true, false, false, false]));
}

#[test]
fn bytes_that_the_peer_does_not_admit_are_no_backlog() {
    let mut pair = Pair::new();
    let id = pair.stream(0, 0, 60_000);
    while pair.packet(0, 0).is_some() {}
    assert_eq!(pair.ends[0].write(id, &[1; 20_000]), Ok(20_000));
    let backlog = |pair: &Pair| (pair.ends[0].backlog(), pair.ends[0].backlog_of(0));
    // The stream's window is 65,536 bytes, of which the header has taken two.
    assert_eq!(backlog(&pair), (20_000, 5_534));
    while pair.packet(0, 0).is_some() {}
    assert_eq!(backlog(&pair), (14_466, 0));
    pair.ends[0].classify(id, 1, 0).unwrap();
    pair.ends[0].reset(id, dccp_streams::Reason::Reset).unwrap();
    assert_eq!((backlog(&pair), pair.ends[0].backlog_of(1)), ((0, 0), 0));
}

/// While the session's window is scarce, a stream waits until the peer raises the stream's own limit.
#[test]
fn bytes_that_a_raised_limit_admits_are_backlog() {
    let mut pair = Pair::new();
    pair.ends[1] = Streams::new(Role::Server, Config { receive_memory: 1 << 20, ..Config::default() });
    // Unread streams use up more than half of the session's window.
    for _ in 0..9 {
        pair.stream(0, 0, 60_000);
    }
    let mut packets: Vec<_> = std::iter::from_fn(|| pair.packet(0, 0)).collect();
    let [id, _] = [pair.stream(0, 0, 20_000), pair.stream(0, 0, 20_000)];
    packets.extend(std::iter::from_fn(|| pair.packet(0, 0)));
    assert_eq!(pair.ends[0].backlog_of(0), 0);
    // Of the stream's first 4,096 bytes, the header has taken two.
    assert_eq!(pair.read(id, &packets), 4_094);
    pair.acknowledge();
    assert_eq!(pair.ends[0].backlog_of(0), 20_002 - 4_096);
    while pair.packet(0, 0).is_some() {}
    assert_eq!(pair.ends[0].backlog_of(0), 0);
}

/// A rule of the owner can keep a class off the faster path. The class's data would then only be sent over
/// the slow path again.
#[test]
fn stuck_data_is_retransmitted_only_if_its_class_may_use_the_faster_path() {
    for may in [false, true] {
        let mut pair = Pair::new();
        let (quick, bound) = (pair.stream(0, 0, 100), pair.stream(3, 0, 100));
        let exchange = |pair: &mut Pair, id: StreamId, class: u8, path: u32, delay: u64| {
            pair.ends[0].write(id, &[class; 100]).unwrap();
            let packet = pair.packet(class, path).unwrap();
            pair.now += Duration::from_millis(delay);
            pair.read(id, &[packet]);
            pair.acknowledge();
        };
        exchange(&mut pair, quick, 0, 0, 10);
        exchange(&mut pair, bound, 3, 1, 300);
        if may {
            exchange(&mut pair, bound, 3, 0, 10);
        }
        pair.ends[0].write(bound, &[3; 100]).unwrap();
        pair.packet(3, 1).unwrap();
        assert!(!pair.ends[0].has_packet(pair.now, 3));
        pair.now += Duration::from_secs(10);
        exchange(&mut pair, quick, 0, 0, 10);
        assert_eq!(pair.ends[0].has_packet(pair.now, 3), may);
    }
}

#[test]
fn a_packet_has_one_dscp() {
    let mut pair = Pair::new();
    let ids =
        [pair.stream(0, 46, 100), pair.stream(0, 0, 100), pair.stream(0, 46, 100), pair.stream(0, 10, 100)];
    let packets: Vec<_> = std::iter::from_fn(|| pair.packet(0, 0)).collect();
    let marks: Vec<u8> = packets.iter().map(|packet| dscp(packet).unwrap()).collect();
    assert_eq!(marks, [46, 0, 46, 10], "the packets are not in the order of the streams");
    pair.read(ids[0], &packets);
    assert!(ids[1..].iter().all(|id| pair.ends[1].read(*id, &mut [0; 200]) == Ok(100)));
    assert_eq!([dscp(b""), dscp(&[0x45; 40])], [None, None]);
    assert_eq!(pair.ends[1].stats().malformed, 0);
}

#[test]
fn a_copy_on_another_path_brings_the_same_bytes() {
    let mut pair = Pair::new();
    let id = pair.stream(0, 10, 800);
    pair.ends[0].finish(id).unwrap();
    let first = pair.packet(0, 0).unwrap();
    let mut out = [0; MTU];
    let len = pair.ends[0].poll_copy(pair.now, &first, 1, None, &mut out).unwrap();
    let copy = out[..len].to_vec();
    assert_eq!((dscp(&copy), pair.ends[0].stats().bytes_copied), (Some(10), 802));
    // The first packet is lost, but the copy has the same bytes. Everything has arrived, so nothing is
    // retransmitted.
    assert_eq!(pair.read(id, &[copy]), 800);
    pair.acknowledge();
    pair.ends[0].on_path_down(0);
    assert_eq!((pair.ends[0].stats().packets_lost, pair.ends[0].stats().bytes_repaired), (1, 0));
    pair.packet(0, 1);
    assert_eq!(pair.ends[0].stats().bytes_repaired, 0);
    assert_eq!(pair.ends[0].poll_event(), Some(Event::Delivered(id)));
    // If the other path has a smaller MTU, it carries only part of the packet.
    let id = pair.stream(0, 0, 800);
    let first = pair.packet(0, 1).unwrap();
    let len = pair.ends[0].poll_copy(pair.now, &first, 2, None, &mut out[..400]).unwrap();
    assert_eq!(len, 400);
    let part = pair.read(id, &[out[..len].to_vec()]);
    assert!((350..400).contains(&part), "{part}");
}

#[test]
fn only_streams_with_long_bursts_take_a_distant_path() {
    let mut pair = Pair::new();
    let bulk = [pair.stream(0, 0, 40_000), pair.stream(0, 0, 40_000)];
    let mut near: Vec<_> = (0..40).map(|_| pair.packet(0, 0).unwrap()).collect();
    let short = pair.stream(0, 0, 2_000);
    assert!(pair.distant(0, 1, 30_000).is_none(), "only 20 kB of each stream have been sent");
    let far: Vec<_> = (0..20).map(|_| pair.distant(0, 1, 10_000).unwrap()).collect();
    near.extend((0..2).map(|_| pair.packet(0, 0).unwrap()));
    assert_eq!(pair.read(short, &near), 2_000, "the short stream waited for a turn on the near path");
    let got = bulk.map(|id| pair.read(id, &[]));
    let more = [pair.read(bulk[0], &far), pair.read(bulk[1], &[])];
    assert!(got[0] + got[1] > 40_000 && more[0].abs_diff(more[1]) <= 3_000 + MTU, "{got:?} {more:?}");
    // The peer has acknowledged everything, so a new burst begins.
    near = std::iter::from_fn(|| pair.packet(0, 0)).collect();
    pair.read(bulk[0], &near);
    pair.acknowledge();
    bulk.into_iter().for_each(|id| assert_eq!(pair.ends[0].write(id, &[1; 20_000]), Ok(20_000)));
    assert!((0..8).all(|_| pair.packet(0, 0).is_some()));
    assert!(pair.distant(0, 1, 10_000).is_none());
}

#[test]
fn acknowledgements_do_not_take_a_distant_path() {
    let mut pair = Pair::new();
    let bulk = pair.stream(0, 0, 60_000);
    let near: Vec<_> = (0..20).map(|_| pair.packet(0, 0).unwrap()).collect();
    pair.read(bulk, &near);
    pair.ends[1].accept(bulk, b"").unwrap();
    let mut out = [0; MTU];
    let len = pair.ends[1].poll_transmit(pair.now, 0, 0, None, 0, &mut out).unwrap();
    pair.ends[0].handle_packet(pair.now, &out[..len]);
    pair.now += Duration::from_millis(30);
    assert!(pair.distant(0, 1, 10_000).is_some() && pair.ends[0].owes_ack());
    assert!(pair.packet(0, 0).is_some() && !pair.ends[0].owes_ack());
    // There is only an acknowledgement to send.
    while pair.packet(0, 0).is_some() {}
    pair.ends[1].write(bulk, b"more").unwrap();
    let len = pair.ends[1].poll_transmit(pair.now, 0, 0, None, 0, &mut out).unwrap();
    pair.ends[0].handle_packet(pair.now, &out[..len]);
    pair.now += Duration::from_millis(30);
    assert!(pair.distant(0, 1, 10_000).is_none());
    assert!(pair.packet(0, 0).is_some() && !pair.ends[0].owes_ack());
}

#[test]
fn a_distant_path_looks_at_few_of_many_waiting_streams() {
    let mut pair = Pair::new();
    pair.stream(0, 0, 60_000);
    assert!((0..20).all(|_| pair.packet(0, 0).is_some()));
    for _ in 0..20 {
        pair.stream(0, 0, 30_000);
    }
    // New streams go first. After that, the streams take turns in order.
    assert!((0..65).all(|_| pair.packet(0, 0).is_some()));
    assert!(pair.distant(0, 1, 20_000).is_none(), "the long burst waits behind twenty other streams");
    let tries = (0..40).find(|_| pair.packet(0, 0).is_some() && pair.distant(0, 1, 20_000).is_some());
    assert!(tries.is_some());
}
