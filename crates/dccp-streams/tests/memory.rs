//! Memory stays bounded, whatever arrives, and idle streams need little. This test is a program of its own,
//! because the allocator counts for the whole process.

#[path = "all/common.rs"]
mod common;

use common::{Link, Net};
use dccp_streams::{Config, Role, Streams};
use mpdccp_units::{Duration, Time};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated.saturating_sub(change.bytes_deallocated)
}

/// Encodes a number in four bytes.
fn varint(n: u32) -> [u8; 4] {
    (n | 0x8000_0000).to_be_bytes()
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
