//! Arbitrary input causes no panic, memory stays bounded, and the same seed gives the same output.

use crate::common::End::{Client, Server};
use crate::common::stranger::{request_header, request_with, stranger};
use crate::common::*;
use dccp_proto::{Ecn, Route};
use dccp_wire::{Header, MpOption, Opt, OptionBuf, Packet, PacketType, ResetCode, Seq, feature};
use mpdccp_proto::*;
use mpdccp_units::Duration;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

fn assert_send<T: Send>(_: &T) {}

#[test]
fn endpoints_are_send() {
    assert_send(&Endpoint::new([0; 32]));
}

#[test]
fn same_seed_same_bytes() {
    let run = |seed: u8| {
        let mut net = Net::new(seed, 3, config());
        net.wires.iter_mut().for_each(|w| w.loss = 50);
        let id = net.connect(config());
        net.run(Duration::from_secs(1));
        net.stream(Client, id, 0, 300, Duration::from_millis(3));
        net.client.close(net.now, id);
        net.run(Duration::from_secs(5));
        net.log
    };
    assert!(run(5) == run(5));
    assert!(run(5) != run(6));
}

#[test]
fn random_bytes() {
    let (mut net, id) = Net::connected(1, 2, config());
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let sid = net.server_id();
    let known = net.status(Server, sid).paths[0].route;
    for n in 0..20_000u32 {
        let mut bytes = vec![0; (rng.next_u32() % 80) as usize];
        rng.fill_bytes(&mut bytes);
        // Half of the packets use the ports of the connection.
        if n % 2 == 0 && bytes.len() > 4 {
            bytes[..4].copy_from_slice(&[0xc3, 0x50, 0x13, 0x89]);
        }
        net.inject(Server, known, Ecn::from_bits(n as u8), &bytes);
        net.drain();
    }
    net.run(Duration::from_secs(1));
    net.stream(Client, id, 0, 20, Duration::from_millis(4));
    net.run(Duration::from_millis(100));
    assert_eq!(net.numbers(Server), (0..20).collect::<Vec<_>>());
    let counters = &net.server.stats().counters;
    for name in ["truncated", "reserved_type", "no_connection"] {
        assert!(counted(counters, name) > 0, "{name}: {counters:?}");
    }
}

/// Random bits are flipped in every packet of a session. The packets arrive in any order and repeatedly.
#[test]
fn mutated_packets() {
    for seed in 0..30 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut net = Net::new(seed as u8, 2, config());
        let mut chance = ChaCha8Rng::seed_from_u64(seed + 1000);
        net.meddler = Some(Box::new(move |_, _, bytes| {
            if chance.next_u32() % 4 == 0 {
                for _ in 0..=chance.next_u32() % 3 {
                    // Mostly change bytes after the ports, type and numbers, so that the packet passes the
                    // first checks.
                    let from = if chance.next_u32() % 4 == 0 { 0 } else { 16 };
                    let at = from + chance.next_u32() as usize % (bytes.len() - from).max(1);
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << (chance.next_u32() % 8);
                    }
                }
            }
            true
        }));
        let id = net.connect(config());
        for round in 0..200u32 {
            let now = net.now;
            net.client.send(now, id, datagram(round), PktInfo::default());
            if let Some(&sid) = net.server.sessions().first() {
                net.server.send(now, sid, datagram(round), PktInfo::default());
                if round % 20 == 0 {
                    net.server.set_prio(now, sid, PathId(rng.next_u32() % 2), round as u8);
                    net.server.advertise(now, sid, IpAddr::V4(Ipv4Addr::new(192, 0, 2, round as u8)), None);
                }
            }
            net.run(Duration::from_millis(7));
            // Replays an old packet.
            let old = net.log[rng.next_u32() as usize % net.log.len()].clone();
            let (to, route) = match old.from {
                Client => (Server, server_route(old.path)),
                Server => (Client, client_route(old.path)),
            };
            net.inject(to, route, Ecn::Ce, &old.bytes);
        }
        for id in net.client.sessions() {
            net.client.close(net.now, id);
        }
        net.drain();
        net.meddler = None;
        net.run(Duration::from_secs(200));
        assert!(net.client.sessions().is_empty() && net.server.sessions().is_empty(), "seed {seed}");
        assert_eq!(net.client.poll_timeout(), None);
    }
}

fn request(n: u32, join: Option<u32>) -> Vec<u8> {
    let mut options = OptionBuf::new();
    options.push(&Opt::ChangeR(feature::MULTIPATH_CAPABLE, &[0]));
    options.push(&Opt::Mp(match join {
        Some(ci) => MpOption::Join { addr_id: 1, ci, nonce: n },
        None => MpOption::Key { ci: n, keys: &[0, 1, 2, 3, 4, 5, 6, 7, 8] },
    }));
    request_with(n, options.as_bytes())
}

#[test]
fn half_open_state_is_bounded_and_expires() {
    let mut net = Net::new(1, 1, config());
    for n in 0..5000 {
        net.inject(Server, stranger(n), Ecn::NotEct, &request(n, None));
        if n % 100 == 0 {
            net.drain();
        }
    }
    assert_eq!(net.server.sessions().len(), 64);
    let counters = &net.server.stats().counters;
    let [with_cookie, not] = ["answered_with_cookie", "answer_too_large"].map(|name| counted(counters, name));
    assert!(with_cookie > 500 && with_cookie + not == 5000 - 64, "{with_cookie} and {not}");
    net.run(Duration::from_secs(20));
    assert!(net.server.sessions().is_empty());
    assert_eq!(net.server.poll_timeout(), None);
    assert_eq!(net.events_of(Server), []);
    // Honest clients can still connect afterwards.
    net.connect(config());
    net.run(Duration::from_secs(1));
    assert_eq!(net.server.sessions().len(), 1);
}

#[test]
fn half_open_joins_are_bounded_and_expire() {
    let (mut net, id, sid) = Net::both(1, 1, config());
    let ci = net.status(Server, sid).ci.0;
    for n in 0..5000 {
        net.inject(Server, stranger(n), Ecn::NotEct, &request(n, Some(ci)));
    }
    net.drain();
    assert_eq!(net.status(Server, sid).paths.len(), 33);
    // The unproven joins must not keep out a peer that knows the keys. Either end may be the one that joins.
    net.add_wire();
    net.client.add_path(net.now, id, path(1));
    net.run(Duration::from_millis(100));
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
    net.client.remove_path(net.now, id, PathId(1));
    net.run(Duration::from_secs(20));
    assert_eq!(net.status(Server, sid).paths.len(), 1);
    net.stream(Client, id, 0, 20, Duration::from_millis(4));
    net.run(Duration::from_millis(100));
    assert_eq!(net.numbers(Server), (0..20).collect::<Vec<_>>());
}

/// 40 joins per second arrive from many forged addresses, none of them the client's. The client's round trip
/// is short enough for its own join to complete.
#[test]
fn spoofed_joins_do_not_keep_a_certain_client_out() {
    // A host can use all addresses of an IPv6 network. They count as one source, so even a slow join
    // completes.
    let networks = [0x0100_0000, 0xc000_0000].map(|base| IpAddr::from(Ipv4Addr::from_bits(base)));
    for network in [networks[0], networks[1], "2001:db8:ffff::".parse().unwrap()] {
        let (mut net, id) = Net::connected(1, 1, config());
        let (sid, ci) = (net.server_id(), net.status(Client, id).ci.1);
        let forged = move |n: u32| {
            let ip = match network {
                IpAddr::V4(ip) => IpAddr::from(Ipv4Addr::from_bits(ip.to_bits() + n)),
                IpAddr::V6(ip) => IpAddr::from(Ipv6Addr::from_bits(ip.to_bits() + u128::from(n))),
            };
            Route { socket: 0, local: None, remote: SocketAddr::new(ip, 1000) }
        };
        let mut n = 0;
        let mut flood = |net: &mut Net, packets| {
            for _ in 0..packets {
                net.inject(Server, forged(n), Ecn::NotEct, &request(n, Some(ci)));
                net.run(Duration::from_millis(25));
                n += 1;
            }
        };
        flood(&mut net, 60);
        net.add_wire();
        net.wires[1].delay = Duration::from_millis(if network.is_ipv6() { 600 } else { 75 });
        net.client.add_path(net.now, id, path(1));
        net.drain();
        flood(&mut net, if network.is_ipv6() { 140 } else { 30 });
        assert_eq!(net.state(Client, id), [PathState::Up; 2], "{network}");
        assert!(counter(&net.status(Server, sid), "half_open_join_displaced") > 20);
    }
}

/// RFC 9897 section 3.10: the limit applies to subflows, and an unproven join does not count as one.
#[test]
fn half_open_joins_do_not_keep_the_server_from_joining() {
    let (mut net, id, sid) = Net::joinable();
    let ci = net.status(Server, sid).ci.0;
    for n in 0..40 {
        net.inject(Server, stranger(n), Ecn::NotEct, &request(n, Some(ci)));
    }
    net.server.add_path(net.now, sid, PathConfig { route: server_route(1), ..path(1) }).unwrap();
    net.run(Duration::from_millis(500));
    assert_eq!(net.state(Client, id), [PathState::Up; 2]);
}

#[test]
fn a_client_that_listens_too_lets_nobody_join_its_session() {
    let (mut net, id) = Net::connected(1, 1, config());
    net.client.listen(listen(config()));
    let ci = net.status(Client, id).ci.0;
    net.inject(Client, stranger(1), Ecn::NotEct, &request(1, Some(ci)));
    net.drain();
    assert_eq!(counted(&net.client.stats().counters, "join_of_client_session"), 1);
    assert_eq!(net.status(Client, id).paths.len(), 1);
}

#[test]
fn resets_to_strangers_are_rate_limited_and_reset_is_not_answered() {
    let mut net = Net::new(1, 1, config());
    let packet = |n: u32, ptype| {
        let header = Header {
            dst_port: 9,
            ptype,
            seq: Seq::new(n.into()),
            ack: Some(Seq::new(77)),
            service_code: None,
            ..request_header(n)
        };
        emit(&header, &[], &[])
    };
    for n in 0..1000 {
        net.inject(Server, stranger(0), Ecn::NotEct, &packet(n, PacketType::Ack));
        net.inject(Server, stranger(0), Ecn::NotEct, &packet(n, PacketType::Reset));
        net.drain();
    }
    assert_eq!(net.log.len(), 16);
    let header = net.log[5].packet().header;
    assert_eq!((header.ptype, header.reset.unwrap().code), (PacketType::Reset, ResetCode::NoConnection));
    // RFC 4340 section 8.3.1: the numbers are taken from the packet being answered.
    assert_eq!((header.seq, header.ack, header.src_port), (Seq::new(78), Some(Seq::new(5)), 9));
    let counters = &net.server.stats().counters;
    assert_eq!(
        (counted(counters, "no_connection"), counted(counters, "reset_without_connection")),
        (1000, 1000)
    );
}

/// RFC 5595 section 3.3.1: a Request for an unbound port is refused.
#[test]
fn a_request_for_a_port_that_is_not_bound_is_refused() {
    let mut net = Net::new(1, 1, config());
    let mut bytes = request(1, None);
    bytes[2..4].copy_from_slice(&9u16.to_be_bytes());
    net.inject(Server, stranger(1), Ecn::NotEct, &bytes);
    net.drain();
    assert_eq!(net.log[0].packet().header.reset.unwrap().code, ResetCode::ConnectionRefused);
    assert_eq!(counted(&net.server.stats().counters, "port_not_bound"), 1);
}

/// RFC 5595 section 3.3.2: one service may use two ports.
#[test]
fn one_service_at_two_ports() {
    let mut net = Net::new(1, 1, config());
    net.server.listen(ListenConfig { port: PORT + 1, ..listen(config()) });
    for (n, port) in [(1, PORT), (2, PORT + 1)] {
        let mut bytes = request(n, None);
        bytes[2..4].copy_from_slice(&port.to_be_bytes());
        net.inject(Server, stranger(n), Ecn::NotEct, &bytes);
        net.drain();
        let answer = net.log.pop().unwrap();
        let header = answer.packet().header;
        assert_eq!((header.ptype, header.src_port), (PacketType::Response, port));
    }
}

#[test]
fn unread_and_excess_datagrams_are_bounded() {
    let (mut net, id) = Net::connected(1, 1, SessionConfig { multipath: false, ..config() });
    for n in 0..100_000 {
        net.client.send(net.now, id, datagram(n), PktInfo::default());
    }
    let queue = net.status(Client, id).queue;
    assert!(queue.bytes <= 4 << 20 && queue.packets <= 4096);
    assert!(net.status(Client, id).queue_stats.dropped_full > 90_000);
    // The server's application fetches nothing. RFC 4340 section 11.7.2: what does not fit is reported with
    // Drop Code 2.
    let (mut net, id, sid) = Net::both(1, 1, SessionConfig { multipath: false, ..config() });
    let (mut reports, mut n) = (0, 0);
    while reports == 0 {
        assert!(n < 40_000, "no report");
        n += 1;
        net.client.send(net.now, id, datagram(n), PktInfo::default());
        for bytes in net.intercept(Client) {
            net.inject(Server, server_route(0), Ecn::NotEct, &bytes);
        }
        for bytes in net.intercept(Server) {
            let options = Packet::parse(&bytes).unwrap().options();
            let full = |o: &Opt<'_>| match o {
                Opt::DataDropped(blocks) => blocks.iter().any(|block| block & 0xf0 == 0xa0),
                _ => false,
            };
            reports += options.flatten().filter(full).count();
            net.inject(Client, Route { local: Some(client_addr(0)), ..client_route(0) }, Ecn::NotEct, &bytes);
        }
        net.now += Duration::from_millis(1);
    }
    assert!(counter(&net.status(Server, sid), "not_fetched_by_application") > 0);
    assert_eq!(std::iter::from_fn(|| net.server.poll_deliver()).count(), 16_384);
}

#[test]
fn datagrams_of_any_size() {
    for (cfg, option) in [(config(), 12), (SessionConfig { multipath: false, ..config() }, 0)] {
        let (mut net, id) = Net::connected(1, 1, cfg.clone());
        let most = net.status(Client, id).paths[0].max_payload;
        assert_eq!(most, 1500 - 28 - 16 - option);
        for len in [0, 1, 2, most - 1, most, most + 1, 9000] {
            net.client.send(net.now, id, vec![5; len], PktInfo::default());
            net.run(Duration::from_millis(50));
        }
        let lens: Vec<_> = net.got[&Server].iter().map(Vec::len).collect();
        let status = net.status(Client, id);
        assert_eq!(status.queue_stats.dropped_too_big, 2);
        match cfg.multipath {
            true => assert_eq!((lens, counter(&status, "send_empty")), (vec![1, 2, most - 1, most], 1)),
            false => assert_eq!(lens, [0, 1, 2, most - 1, most]),
        }
    }
}

#[test]
fn a_smaller_mtu_keeps_large_datagrams_off_that_path() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.client.set_mtu(net.now, id, PathId(0), 1000);
    assert_eq!(net.status(Client, id).max_payload, Some(1000 - 28 - 28));
    net.stream(Client, id, 0, 50, Duration::from_millis(10));
    net.run(Duration::from_millis(100));
    assert_eq!(net.numbers(Server), (0..50).collect::<Vec<_>>());
    assert!(net.logged(Client, PacketType::Data).iter().all(|l| l.path == 1));
}

#[test]
fn unknown_sessions_and_paths_are_harmless() {
    let (mut net, id) = Net::connected(1, 1, config());
    let (now, ghost) = (net.now, SessionId(99));
    let e = &mut net.client;
    e.send(now, ghost, vec![1], PktInfo::default());
    e.close(now, ghost);
    e.abort(now, ghost);
    e.remove_path(now, id, PathId(9));
    e.set_prio(now, id, PathId(9), 1);
    e.set_link(now, id, PathId(9), false);
    e.withdraw(now, id, 9);
    assert_eq!(e.add_path(now, ghost, path(0)), None);
    assert!(e.status(now, ghost).is_none() && e.rows(now, ghost).is_empty());
    let (mut net, _, sid) = Net::both(1, 1, SessionConfig { multipath: false, ..config() });
    assert_eq!(net.server.add_path(net.now, sid, path(0)), None, "a plain session has one path");
}
