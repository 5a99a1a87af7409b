//! Multipath options on established subflows (RFC 9897 section 3.2).

use crate::common::End::{Client, Server};
use crate::common::*;
use dccp_wire::{MpOption, Opt, Packet, PacketType, RttType};
use mpdccp_proto::*;
use mpdccp_units::Duration;
use std::net::IpAddr;

const GAP: Duration = Duration::from_millis(4);

/// Replaces the options of the client's first Data packet on path 0.
fn first_data_with(net: &mut Net, change: impl Fn(&Packet<'_>) -> Vec<u8> + 'static) {
    let mut done = false;
    net.meddler = Some(Box::new(move |from, path, bytes| {
        if !done && from == Client && path == 0 && is_type(bytes, PacketType::Data) {
            let options = change(&Packet::parse(bytes).unwrap());
            *bytes = with_options(bytes, &options);
            done = true;
        }
        true
    }));
}

fn sent_over_one_path(change: impl Fn(&Packet<'_>) -> Vec<u8> + 'static) -> (Net, SessionStatus) {
    let (mut net, id, sid) = Net::both(1, 1, config());
    first_data_with(&mut net, change);
    net.stream(Client, id, 0, 10, GAP);
    net.run(Duration::from_millis(50));
    let status = net.status(Server, sid);
    (net, status)
}

#[test]
fn data_without_mp_seq_is_dropped() {
    let (net, status) = sent_over_one_path(|_| Vec::new());
    assert_eq!(counter(&status, "data_without_mp_seq"), 1);
    assert_eq!(net.numbers(Server), (1..10).collect::<Vec<_>>());
}

#[test]
fn data_with_an_unknown_mp_option_is_dropped() {
    let (net, status) = sent_over_one_path(|p| [p.option_bytes, &[46, 5, 77, 1, 2]].concat());
    assert_eq!(counter(&status, "unknown_mp_option"), 1);
    // The Data Dropped report also makes the sender slow down (RFC 4340 section 11.7), so not all remaining
    // packets arrive in time.
    assert_eq!(net.numbers(Server)[..3], [1, 2, 3]);
    // Data Dropped reports one packet with Drop Code 3.
    let reported = |o| matches!(o, Ok(Opt::DataDropped(blocks)) if blocks.contains(&0xb0));
    assert!(net.logged(Server, PacketType::Ack).iter().any(|l| l.packet().options().any(reported)));
}

#[test]
fn private_and_misplaced_options_do_no_harm() {
    let (net, status) = sent_over_one_path(|p| {
        let more = encode(&[
            MpOption::Exp(b"hello"),
            MpOption::Hmac(&[9; 20]),
            MpOption::Join { addr_id: 1, ci: 2, nonce: 3 },
            MpOption::Key { ci: 1, keys: &[0, 1, 2, 3, 4, 5, 6, 7, 8] },
            MpOption::Close(&[1, 2, 3]),
            MpOption::FastClose(&[1, 2, 3]),
            MpOption::Confirm(&[9, 9, 9]),
            MpOption::Confirm(&encode(&[MpOption::Prio(4)])),
        ]);
        [p.option_bytes, &more].concat()
    });
    assert_eq!(net.numbers(Server), (0..10).collect::<Vec<_>>());
    assert_eq!(counter(&status, "mp_exp_ignored"), 1);
    assert_eq!(counter(&status, "handshake_option_late"), 2);
    assert_eq!(counter(&status, "confirm_malformed"), 2);
    assert_eq!(status.state, SessionState::Open);
}

/// RFC 9897 section 3.2.1: an option that is obeyed is confirmed, even if the packet has too many options.
#[test]
fn options_before_too_many_ones_are_confirmed() {
    let (net, status) = sent_over_one_path(|p| {
        let more: Vec<_> = (1..=9).map(MpOption::Prio).collect();
        [p.option_bytes, &encode(&more)].concat()
    });
    assert_eq!((counter(&status, "too_many_options"), status.paths[0].prio), (1, 8));
    assert_eq!(net.log.iter().filter(|l| l.confirms()).count(), 1);
}

/// Otherwise, a packet could cost more than a hundred HMACs.
#[test]
fn options_with_a_wrong_hmac_count_as_too_many() {
    let (_, status) = sent_over_one_path(|p| {
        let remove = MpOption::RemoveAddr { addr_id: 5, nonce: 1 };
        [p.option_bytes, &encode(&[remove; 20])].concat()
    });
    assert_eq!((counter(&status, "remove_addr_bad_hmac"), counter(&status, "too_many_options")), (8, 1));
}

#[test]
fn options_without_confirmation_do_not_count_as_too_many() {
    let (_, status) = sent_over_one_path(|p| {
        let more: Vec<_> = (1..=8).map(MpOption::Prio).collect();
        [&encode(&more), p.option_bytes].concat()
    });
    assert_eq!((counter(&status, "too_many_options"), status.paths[0].prio), (0, 8));
}

/// RFC 9897 section 3.2.12: applications may agree on a meaning of MP_EXP.
#[test]
fn an_application_has_options_of_its_own() {
    let (mut net, id, sid) = Net::both(1, 2, SessionConfig { private_options: true, ..config() });
    assert!(net.client.send_private(net.now, id, b"hello"));
    assert!(net.server.send_private(net.now, sid, &[7; 252]));
    for refused in [&[7; 253][..], b"mpd1", b"mpd1 and more"] {
        assert!(!net.client.send_private(net.now, id, refused));
    }
    net.run(Duration::from_millis(100));
    let private = |net: &Net, end| {
        let events = net.events_of(end).into_iter();
        events
            .filter_map(|e| if let SessionEvent::Private(_, bytes) = e { Some(bytes) } else { None })
            .collect::<Vec<_>>()
    };
    assert_eq!(private(&net, Server), [b"hello".to_vec()]);
    assert_eq!(private(&net, Client), [vec![7; 252]]);
    assert_eq!(counter(&net.status(Server, sid), "mp_exp_ignored"), 0);
}

/// One of these options is an MP_REMOVEADDR as in an older draft, without a nonce and therefore malformed.
#[test]
fn a_malformed_mp_option_is_ignored_beside_data() {
    for option in [&[46, 8, 6, 1, 2, 3, 4, 5][..], &[46, 4, 8, 5], &[46, 3, 9], &[46, 5, 7, 1, 2]] {
        let (net, status) = sent_over_one_path(move |p| [p.option_bytes, option].concat());
        assert_eq!(counter(&status, "malformed_mp_option"), 1, "{option:?}");
        assert_eq!(net.logged(Server, PacketType::Reset), Vec::<&Logged>::new(), "{option:?}");
        assert_eq!(net.numbers(Server), (0..10).collect::<Vec<_>>(), "{option:?}");
    }
    // Without a readable MP_SEQ, data is dropped.
    let (net, status) = sent_over_one_path(|_| vec![46, 8, 4, 1, 2, 3, 4, 5]);
    assert_eq!((counter(&status, "malformed_mp_option"), counter(&status, "data_without_mp_seq")), (1, 1));
    assert_eq!(net.numbers(Server), (1..10).collect::<Vec<_>>());
}

/// RFC 9897 section 3.2.6: an HMAC belongs only to the option that it directly follows.
#[test]
fn an_hmac_behind_another_option_is_not_the_addresss() {
    let (mut net, id) = Net::connected(1, 1, config());
    let addr: IpAddr = "192.0.2.5".parse().unwrap();
    let tag = tag(&net, &[5, 0, 0, 0, 9, 192, 0, 2, 5, 0, 0]);
    let add = MpOption::AddAddr { addr_id: 5, nonce: 9, addr, port: None };
    let between = MpOption::Rtt { kind: RttType::Raw, rtt_ms: 1, age_ms: 1 };
    let hmac = MpOption::Hmac(&tag);
    for (options, known) in [([add, between, hmac], 0), ([between, add, hmac], 1)] {
        let options = encode(&options);
        first_data_with(&mut net, move |p| [p.option_bytes, &options].concat());
        net.stream(Client, id, 0, 2, GAP);
        net.run(Duration::from_millis(50));
        let sid = net.server_id();
        assert_eq!(net.status(Server, sid).peer_addresses.len(), known);
    }
}

#[test]
fn options_that_need_an_mp_seq_are_ignored_without() {
    let (net, status) = sent_over_one_path(|_| encode(&[MpOption::Prio(1)]));
    assert_eq!(counter(&status, "option_without_mp_seq"), 1);
    assert_eq!(status.paths[0].prio, 3);
    assert_eq!(net.numbers(Server).len(), 9);
}

#[test]
fn addresses_with_a_bad_hmac_are_ignored_silently() {
    let addr: IpAddr = "192.0.2.1".parse().unwrap();
    let add = MpOption::AddAddr { addr_id: 5, nonce: 1, addr, port: None };
    let remove = MpOption::RemoveAddr { addr_id: 5, nonce: 1 };
    for (option, name) in [(add, "add_addr_bad_hmac"), (remove, "remove_addr_bad_hmac")] {
        for more in [encode(&[option]), encode(&[option, MpOption::Hmac(&[7; 20])])] {
            let (net, status) = sent_over_one_path(move |p| [&p.option_bytes[..9], &more].concat());
            assert_eq!(counter(&status, name), 1);
            assert_eq!(status.peer_addresses, []);
            assert!(!net.log.iter().any(Logged::confirms));
            assert_eq!(net.numbers(Server).len(), 10, "the data must be delivered");
        }
    }
}

#[test]
fn the_peer_is_told_the_rtt_now_and_then() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.stream(Client, id, 0, 1000, Duration::from_millis(5));
    let told: Vec<_> = net
        .log
        .iter()
        .filter(|l| l.from == Client)
        .filter_map(|l| match l.mp()[..] {
            [MpOption::Rtt { kind, rtt_ms, age_ms }] => Some((l, kind, rtt_ms, age_ms)),
            _ => None,
        })
        .collect();
    assert!(
        (4..20).contains(&told.len()),
        "MP_RTT must be sent about once a second per path: {}",
        told.len()
    );
    for (l, kind, rtt_ms, age_ms) in told {
        assert!(l.is(Client, PacketType::Ack) && kind == RttType::Smooth);
        assert!((20..60).contains(&rtt_ms) && age_ms < 1000, "{rtt_ms} {age_ms}");
    }
    let before = net.log.len();
    net.run(Duration::from_secs(10));
    let told = net.log[before..].iter().filter(|l| !l.mp().is_empty()).count();
    let probes = net.log[before..].iter().filter(|l| l.packet().header.ptype == PacketType::Sync).count();
    assert!(told <= probes, "without new measurements, no MP_RTT: {told} of {probes}");
}

/// RFC 9897 section 3.2.7: reordering may use the RTT that the peer reports for a path, if it is current.
#[test]
fn the_order_waits_by_the_rtt_that_the_peer_tells() {
    let wait = |kind, rtt_ms, age_ms| {
        let reorder = reorder::ReorderConfig::adaptive(Duration::from_millis(250));
        let (mut net, id) = Net::connected(1, 2, SessionConfig { reorder, ..config() });
        // Both ends have measured the paths' RTTs.
        net.stream(Client, id, 0, 400, GAP);
        first_data_with(&mut net, move |p| {
            [p.option_bytes, &encode(&[MpOption::Rtt { kind, rtt_ms, age_ms }])].concat()
        });
        net.stream(Client, id, 400, 4, GAP);
        net.run(Duration::from_millis(20));
        net.status(Server, net.server_id()).reorder.wait
    };
    let usual = wait(RttType::Raw, 0, 0);
    assert!(usual < Duration::from_millis(20), "{usual:?}");
    for kind in [RttType::Raw, RttType::Smooth] {
        let longer = wait(kind, 220, 100);
        assert!(
            longer > Duration::from_millis(100),
            "the wait must grow by half of the longer RTT: {longer:?}"
        );
        assert_eq!(wait(kind, 220, 10_001), usual, "a measurement older than 10 s is ignored");
    }
    for kind in [RttType::Min, RttType::Max] {
        assert_eq!(wait(kind, 220, 100), usual, "{kind:?} must be ignored");
    }
}

/// Computes an HMAC with the keys that both ends sent, to forge authentic options.
fn tag(net: &Net, message: &[u8]) -> [u8; 20] {
    use hmac::{Hmac, Mac};
    let key = |from| {
        let of_key = |l: &Logged| match l.mp()[..] {
            [MpOption::Key { keys, .. }, ..] => Some(keys[1..].to_vec()),
            _ => None,
        };
        net.log.iter().filter(|l| l.from == from).find_map(of_key).unwrap()
    };
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&[key(Client), key(Server)].concat()).unwrap();
    mac.update(message);
    mac.finalize().into_bytes()[..20].try_into().unwrap()
}

/// Adds MP_ADDADDR with valid HMACs to the client's next data packets, one per packet.
fn advertise(net: &mut Net, id: SessionId, list: &[(u8, &str)]) -> SessionStatus {
    let mut queue = std::collections::VecDeque::new();
    for (addr_id, addr) in list {
        let addr: IpAddr = addr.parse().unwrap();
        let ip = match addr {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let tag = tag(net, &[&[*addr_id, 0, 0, 0, 9], &ip[..], &[0, 0]].concat());
        let option = MpOption::AddAddr { addr_id: *addr_id, nonce: 9, addr, port: None };
        queue.push_back(encode(&[option, MpOption::Hmac(&tag)]));
    }
    let count = queue.len() as u32;
    net.meddler = Some(Box::new(move |from, _, bytes| {
        if from == Client
            && is_type(bytes, PacketType::Data)
            && let Some(more) = queue.pop_front()
        {
            // MP_SEQ may follow after these options.
            let options = [&more[..], Packet::parse(bytes).unwrap().option_bytes].concat();
            *bytes = with_options(bytes, &options);
        }
        true
    }));
    net.stream(Client, id, 0, count, Duration::from_millis(20));
    net.run(Duration::from_millis(50));
    let sid = net.server_id();
    net.status(Server, sid)
}

#[test]
fn rules_of_advertised_addresses() {
    let (mut net, id) = Net::connected(1, 1, config());
    let list = [(5, "192.0.2.5"), (6, "224.0.0.1"), (7, "255.255.255.255"), (8, "ff02::1"), (5, "192.0.2.6")];
    let status = advertise(&mut net, id, &list);
    assert_eq!(status.peer_addresses, [(5, "192.0.2.5".parse().unwrap(), None)]);
    assert_eq!(counter(&status, "add_addr_not_unicast"), 3);
    assert_eq!(counter(&status, "add_addr_id_in_use"), 1);
    let confirms = net.log.iter().filter(|l| l.confirms()).count();
    assert_eq!(confirms, 1, "ignored options must not be confirmed");
    assert_eq!(net.numbers(Server), (0..5).collect::<Vec<_>>());
}

/// Returns a packet that has this option and never arrived.
fn held_back(net: &Net, of: impl Fn(&MpOption<'_>) -> bool) -> Vec<u8> {
    net.log.iter().find(|l| l.mp().iter().any(&of)).unwrap().bytes.clone()
}

/// RFC 9897 section 3.2.1: an advertisement or removal is ignored if one with a newer MP_SEQ has overtaken
/// it.
#[test]
fn addresses_and_removals_that_come_late_are_not_obeyed() {
    let (mut net, id, sid) = Net::both(1, 1, config());
    let addr: IpAddr = "192.0.2.7".parse().unwrap();
    // Each packet is lost once. Its repetition arrives and is confirmed.
    let lost_once = |net: &mut Net, act: &dyn Fn(&mut Net)| {
        net.wires[0].up = false;
        act(net);
        net.drain();
        net.wires[0].up = true;
        net.run(Duration::from_secs(5));
    };
    lost_once(&mut net, &|net| assert_eq!(net.client.advertise(net.now, id, addr, None), Some(1)));
    lost_once(&mut net, &|net| net.client.withdraw(net.now, id, 1));
    let add = held_back(&net, |o| matches!(o, MpOption::AddAddr { .. }));
    let remove = held_back(&net, |o| matches!(o, MpOption::RemoveAddr { .. }));
    let late = |net: &mut Net, bytes: &[u8]| {
        let route = net.status(Server, sid).paths[0].route;
        net.inject(Server, route, dccp_proto::Ecn::NotEct, bytes);
        net.drain();
        let status = net.status(Server, sid);
        (counter(&status, "outdated_mp_option"), status.peer_addresses)
    };
    assert_eq!(late(&mut net, &add), (1, vec![]), "an outdated option must not bring the address back");
    assert_eq!(
        net.client.advertise(net.now, id, addr, None),
        Some(1),
        "the ID must be free after the removal"
    );
    net.run(Duration::from_secs(1));
    assert_eq!(
        late(&mut net, &remove),
        (2, vec![(1, addr, None)]),
        "an outdated removal must not remove the address"
    );
}

/// RFC 9897 section 3.2.9: the removal of an unknown ID is silently ignored. The ID stays reserved only for
/// as long as the removal is repeated.
#[test]
fn the_removal_of_an_address_that_is_not_known_is_ignored() {
    let (mut net, id, sid) = Net::both(1, 1, config());
    let addr: IpAddr = "192.0.2.7".parse().unwrap();
    net.wires[0].up = false;
    let addr_id = net.client.advertise(net.now, id, addr, None).unwrap();
    net.drain();
    net.wires[0].up = true;
    net.client.withdraw(net.now, id, addr_id);
    net.run(Duration::from_secs(1));
    assert_ne!(counter(&net.status(Server, sid), "remove_addr_unknown"), 0);
    assert!(!net.log.iter().any(Logged::confirms));
    assert_ne!(
        net.client.advertise(net.now, id, addr, None),
        Some(addr_id),
        "the peer may still apply the removal"
    );
    net.run(Duration::from_secs(600));
    let removals = |net: &Net| {
        net.log.iter().filter(|l| matches!(l.mp()[..], [_, MpOption::RemoveAddr { .. }, _])).count()
    };
    let told = removals(&net);
    net.run(Duration::from_secs(600));
    assert_eq!(removals(&net), told, "removals must not be repeated forever");
    let other: IpAddr = "192.0.2.8".parse().unwrap();
    assert_eq!(net.client.advertise(net.now, id, other, None), Some(addr_id), "the ID must be free again");
}

#[test]
fn advertised_addresses_are_bounded() {
    let (mut net, id) = Net::connected(1, 1, config());
    let names: Vec<String> = (0..50).map(|n| format!("192.0.2.{n}")).collect();
    let list: Vec<(u8, &str)> = names.iter().enumerate().map(|(n, a)| (n as u8, a.as_str())).collect();
    let status = advertise(&mut net, id, &list);
    assert_eq!(status.peer_addresses.len(), 32);
    assert_eq!(counter(&status, "add_addr_too_many"), 18);
}

#[test]
fn options_of_an_application_that_nobody_fetches_are_bounded() {
    let (mut net, id) = Net::connected(1, 1, SessionConfig { private_options: true, ..config() });
    for _ in 0..2000 {
        assert!(net.client.send_private(net.now, id, b"hello"));
        for bytes in net.intercept(Client) {
            net.inject(Server, server_route(0), dccp_proto::Ecn::NotEct, &bytes);
        }
    }
    let waiting = std::iter::from_fn(|| net.server.poll_event()).count();
    assert_eq!(waiting, 1024);
    assert_eq!(counted(&net.server.stats().counters, "mp_exp_too_many"), 2000 - 1024);
}

#[test]
fn a_slow_application_is_told_of() {
    let (mut net, id, server) = Net::both(1, 1, config());
    let told = |net: &mut Net, slow| {
        let before = net.status(Client, id).paths[0].stats.slow_receiver;
        net.server.set_slow_receiver(net.now, server, slow);
        net.stream(Client, id, 0, 100, GAP);
        net.run(Duration::from_secs(1));
        net.status(Client, id).paths[0].stats.slow_receiver - before
    };
    // RFC 4340 section 11.6: Acks carry Slow Receiver.
    assert!(told(&mut net, true) > 10);
    // Acks of a path that opens now carry it, too.
    net.add_wire();
    net.client.add_path(net.now, id, path(1)).unwrap();
    net.run(Duration::from_secs(1));
    net.stream(Client, id, 0, 100, GAP);
    net.run(Duration::from_secs(1));
    assert!(net.status(Client, id).paths[1].stats.slow_receiver > 5);
    assert_eq!(told(&mut net, false), 0);
}
