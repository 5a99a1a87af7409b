//! Path MTU discovery by the session (RFC 8899).

use crate::common::End::{Client, Server};
use crate::common::{Net, config, datagram};
use dccp_wire::{Packet, PacketType};
use mpdccp_proto::{PathId, PktInfo, SessionEvent, SessionId};
use mpdccp_units::Duration;

/// Bytes of IP and UDP headers on each packet of the test network.
const OVERHEAD: usize = 28;

/// Creates a session whose client probes the sizes of its paths.
fn probing(paths: usize) -> (Net, SessionId) {
    let mut cfg = config();
    cfg.connection.probe_mtu = true;
    Net::connected(1, paths, cfg)
}

/// Sends a datagram of `len` bytes from the client, and runs for this long.
fn send(net: &mut Net, id: SessionId, n: u32, len: usize, time: Duration) {
    let (now, mut data) = (net.now, datagram(n));
    data.resize(len, 0);
    net.client.send(now, id, data, PktInfo { len, ..PktInfo::default() });
    net.run(time);
}

/// From now on, silently drops packets larger than `carries`.
fn black_hole(net: &mut Net, carries: usize) {
    net.meddler = Some(Box::new(move |_, _, bytes| bytes.len() + OVERHEAD <= carries));
}

/// RFC 8899 sections 4.3 and 5.2: losses reveal the black hole, and the session falls back to a size that
/// gets through.
#[test]
fn a_path_that_begins_to_swallow_large_packets_is_used_with_smaller_ones() {
    let (mut net, id) = probing(1);
    net.run(Duration::from_secs(5));
    assert_eq!(net.status(Client, id).paths[0].mtu, 1500, "a size that arrives must be confirmed");
    black_hole(&mut net, 1400);
    for n in 0..200 {
        let most = net.status(Client, id).paths[0].max_payload;
        send(&mut net, id, n, most, Duration::from_millis(50));
    }
    assert_eq!(net.status(Client, id).paths[0].mtu, 1400);
    assert!(net.events_of(Client).contains(&SessionEvent::PathMtu {
        path: PathId(0),
        before: 1200,
        now: 1400
    }));
    let got = net.numbers(Server);
    assert!(got.len() > 100 && *got.last().unwrap() == 199, "{} of 200 arrived", got.len());
    // RFC 8899 section 3 (7): a lost probe is not a sign of congestion. Only Syncs are probes.
    let large = |p: &Packet<'_>| p.header.ptype == PacketType::Sync && p.payload.len() > 1000;
    assert!(net.log.iter().any(|l| l.from == Client && large(&l.packet())));
}

/// RFC 8899 section 5.2: the base size may be too large for a path, too.
#[test]
fn a_path_that_carries_less_than_the_base_size_is_used() {
    let (mut net, id) = probing(1);
    net.run(Duration::from_secs(5));
    black_hole(&mut net, 1000);
    for n in 0..200 {
        let most = net.status(Client, id).paths[0].max_payload;
        send(&mut net, id, n, most, Duration::from_millis(50));
    }
    let mtu = net.status(Client, id).paths[0].mtu;
    assert!((990..=1000).contains(&mtu), "{mtu}");
    assert_eq!(net.numbers(Server).last(), Some(&199));
}

/// Losses merely suggest that a path carries only smaller packets. Large packets must not wait until probes
/// have settled the question.
#[test]
fn large_packets_avoid_a_path_of_doubtful_size_if_another_path_carries_them() {
    for paths in [1, 2] {
        let (mut net, id) = probing(paths);
        net.run(Duration::from_secs(5));
        net.make_size_doubtful();
        for n in 0..200 {
            send(&mut net, id, n, 1_400, Duration::from_millis(10));
        }
        let sent = net.sent_in_doubt().len();
        assert!(if paths == 1 { sent > 5 } else { sent == 0 }, "{paths} paths: {sent} large packets");
    }
}

/// RFC 8899 section 4.3: on this path, no packet reaches the peer, but packets of the peer still arrive. This
/// must not be mistaken for a black hole that swallows only large packets.
#[test]
fn a_way_that_is_dead_for_a_while_keeps_its_size() {
    let (mut net, id) = probing(2);
    let sid = net.server_id();
    net.run(Duration::from_secs(5));
    for second in 0..20 {
        net.wires[1].mute = (5..15).contains(&second).then_some(Client);
        for n in 0..100 {
            let (now, data) = (net.now, datagram(second * 100 + n));
            net.client.send(now, id, data.clone(), PktInfo::default());
            net.server.send(now, sid, data, PktInfo::default());
            net.run(Duration::from_millis(10));
        }
        let mtus: Vec<_> = net.status(Client, id).paths.iter().map(|path| path.mtu).collect();
        assert_eq!(mtus, [1500; 2], "second {second}");
    }
}

/// RFC 8899 section 4.6.2: a forged message with a small path MTU has no effect.
#[test]
fn a_smaller_size_is_not_just_believed() {
    let (mut net, id) = probing(1);
    net.client.set_mtu(net.now, id, PathId(0), 552);
    net.run(Duration::from_secs(10));
    assert_eq!(net.status(Client, id).paths[0].mtu, 1500);
}
