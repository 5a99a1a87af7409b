//! Arbitrary input causes no panic, and costs little.

#[path = "all/common.rs"]
mod common;

use common::{Link, MTU, Net};
use dccp_streams::{Config, Role, Streams};
use mpdccp_units::{Duration, Time};
use proptest::prelude::*;

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
