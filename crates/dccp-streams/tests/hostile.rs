//! Arbitrary input causes no panic, and memory stays bounded. Also measures the memory used by idle streams.

#[path = "all/common.rs"]
mod common;

use common::{Link, MTU, Net};
use dccp_streams::{Config, Role, Streams};
use mpdccp_units::{Duration, Time};
use proptest::prelude::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The input consists of real packets with a few bytes changed, truncated packets, and made-up ones.
    #[test]
    fn no_bytes_panic(
        changes in prop::collection::vec((0usize..200, any::<u8>()), 0..200),
        made_up in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20),
    ) {
        let mut net = Net::plain(vec![Link { loss: 100, ..Link::new(Duration::from_millis(5), 50) }]);
        let ids: Vec<_> = (0..3).map(|_| net.ends[0].open(b"x", 0).unwrap()).collect();
        let mut changes = changes.into_iter();
        let mut buf = [0; MTU];
        for bytes in made_up {
            let packet = [&[0x21][..], &bytes].concat();
            net.ends.iter_mut().for_each(|end| end.handle_packet(Time::from_millis(2), &packet));
        }
        for round in 0..100u64 {
            for id in &ids {
                let _ = net.ends[0].write(*id, &[3; 700]);
                let _ = net.ends[1].accept(*id, b"y");
                net.read(1, *id);
            }
            let now = net.now + Duration::from_millis(round);
            for end in 0..2 {
                let Some(len) = net.ends[end].poll_transmit(now, 0, 0, None, 0, &mut buf) else { continue };
                let mut packet = buf[..len].to_vec();
                if let Some((at, byte)) = changes.next() {
                    let at = at % packet.len();
                    packet[at] = byte;
                }
                net.ends[1 - end].handle_packet(now, &packet);
                while net.ends[1 - end].poll_event().is_some() {}
                net.ends[end].handle_timeout(now);
            }
        }
    }
}

/// Encodes a number in four bytes.
fn varint(n: u32) -> [u8; 4] {
    (n | 0x8000_0000).to_be_bytes()
}

/// A peer acknowledges nearly all packets again and again, but never the oldest one, so that the sender keeps
/// them all. If the sender examined each of them every time, this test would take many minutes.
#[test]
fn repeated_acknowledgements_cost_little() {
    let now = Time::from_millis(1);
    let mut client = Streams::new(Role::Client, Config::default());
    let id = client.open(b"", 0).unwrap();
    let (window, stream) = (varint(1 << 29), varint(id.0 as u32));
    client.handle_packet(now, &[&[0x20, 0x04][..], &window, &[0x03], &stream, &window].concat());
    let (mut out, mut sent) = ([0; 60], 0);
    while sent < 60_000 {
        client.write(id, &[7; 10_000]).unwrap();
        while client.poll_transmit(now, 0, 0, None, 0, &mut out).is_some() {
            sent += 1;
        }
    }
    // The range from packet 1 to packet 59,999 of path 0, with a delay of 0.
    let ack = [&[0, 0][..], &varint(59_999), &[0, 0], &varint(59_998)].concat();
    let packet = [&[0x20][..], &ack.repeat(100)].concat();
    let later = now + Duration::from_secs(1);
    (0..5_000).for_each(|_| client.handle_packet(later, &packet));
    let stats = client.stats();
    assert_eq!((stats.packets_lost, stats.violations, stats.malformed), (1, 0, 0));
}

#[test]
fn memory_is_bounded_whatever_arrives_and_idle_streams_cost_little() {
    let now = Time::from_millis(1);
    let region = Region::new(MEMORY);
    let mut server = Streams::new(Role::Server, Config { receive_memory: 4 << 20, ..Config::default() });
    // Each packet carries one byte and arrives on a new path. The packets cycle through the 40 streams and
    // fill every second offset, so that no data is contiguous.
    for n in 0..300_000u32 {
        let (stream, offset) = (n % 40 * 2, n / 40 % 30_000 * 2 + 7);
        let mut packet = vec![0x21];
        packet.extend(varint(n));
        packet.extend(varint(n));
        packet.push(0x10);
        packet.extend(varint(stream));
        packet.extend(varint(offset));
        packet.push(1);
        server.handle_packet(now, &packet);
    }
    assert!(server.stats().too_many_gaps > 100_000);
    assert!(held(&region) < 8 << 20, "{} bytes", held(&region));
    drop(server);

    // One frame opens the maximum number of streams.
    let mut server = Streams::new(Role::Server, Config::default());
    server.handle_packet(now, &[0x20, 0x12, 0x40, 254, 0, 0]);
    assert_eq!(server.len(), 128);
    server.handle_packet(now, &[0x20, 0x12, 0x60, 0, 0, 0]);
    assert_eq!(
        (server.len(), server.stats().violations),
        (128, 1),
        "a stream beyond the limit must be a violation"
    );
    drop(server);

    let config = Config { max_streams: 20_000, half_open: 20_000, ..Config::default() };
    let mut net = Net::new(vec![Link::new(Duration::from_millis(5), 1_000)], [config; 2]);
    net.ends[0].open(b"first", 0).unwrap();
    net.run(Duration::from_secs(1));
    let region = Region::new(MEMORY);
    let ids: Vec<_> = (0..10_000)
        .map(|n| {
            if n % 100 == 0 {
                net.run(Duration::from_millis(100));
            }
            net.ends[0].open(b"203.0.113.1:443", 0).unwrap()
        })
        .collect();
    net.run(Duration::from_secs(1));
    for id in &ids {
        net.ends[1].accept(*id, b"").unwrap();
        net.ends[0].write(*id, &[1; 3_000]).unwrap();
        net.run(Duration::from_millis(1));
    }
    net.run(Duration::from_secs(5));
    ids.iter().for_each(|id| assert_eq!(net.read(1, *id).len(), 3_000));
    net.run(Duration::from_secs(5));
    while net.ends.iter_mut().any(|end| end.poll_event().is_some()) {}
    let each = held(&region) / ids.len() / 2;
    assert!(each <= 1_024, "an idle stream holds {each} bytes at each end");
}
