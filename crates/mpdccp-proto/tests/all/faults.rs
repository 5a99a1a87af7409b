//! Handshakes that go wrong (RFC 9897 sections 3.3, 3.5 and 3.6).

use crate::common::End::{Client, Server};
use crate::common::*;
use dccp_wire::{MpOption, Opt, Packet, PacketType, ResetCode};
use mpdccp_proto::*;
use mpdccp_units::Duration;

/// Runs a session over two paths, with the meddler handling the packets of path 1.
fn joined_with(mut meddler: impl FnMut(End, &mut Vec<u8>) -> bool + 'static) -> (Net, SessionId) {
    let mut net = Net::new(1, 2, config());
    net.meddler = Some(Box::new(move |from, path, bytes| path == 0 || meddler(from, bytes)));
    let id = net.connect(config());
    net.run(Duration::from_millis(500));
    (net, id)
}

/// Runs a session over two paths, and changes an end's packets of this type on path 1.
fn joined_changing(
    end: End,
    ptype: PacketType,
    change: impl FnMut(&mut Vec<u8>) + 'static,
) -> (Net, SessionId) {
    let mut meddler = changing(end, ptype, change);
    joined_with(move |from, bytes| meddler(from, 1, bytes))
}

/// Sets the version that a Request asks for, and the unassigned bits behind it.
fn set_version(bytes: &mut [u8], version: u8) {
    let at = bytes.windows(4).position(|w| w == [34, 4, 10, 0]).unwrap();
    bytes[at + 3] = version;
}

/// An MP_RTT with an impossible length.
const MALFORMED: [u8; 4] = [46, 4, 6, 0];

/// Checks that the first subflow continues undisturbed.
fn first_path_works(net: &mut Net, id: SessionId) {
    net.stream(Client, id, 0, 20, Duration::from_millis(2));
    net.run(Duration::from_millis(100));
    assert_eq!(net.numbers(Server), (0..20).collect::<Vec<_>>());
    assert_eq!(net.state(Client, id)[0], PathState::Up);
}

fn reset_codes(net: &Net, from: End) -> Vec<ResetCode> {
    net.logged(from, PacketType::Reset).iter().map(|l| l.packet().header.reset.unwrap().code).collect()
}

#[test]
fn wrong_hmac_in_the_ack() {
    let (mut net, id) = joined_changing(Client, PacketType::Ack, |bytes| _ = spoil(bytes, 5, 10));
    let sid = net.server_id();
    assert!(counter(&net.status(Server, sid), "join_wrong_hmac") > 0);
    assert_eq!(net.status(Server, sid).paths.len(), 1);
    assert_eq!(reset_codes(&net, Server), [ResetCode::OptionError]);
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Down]);
    first_path_works(&mut net, id);
}

#[test]
fn no_hmac_in_the_ack() {
    let (mut net, id) = joined_changing(Client, PacketType::Ack, |bytes| *bytes = with_options(bytes, &[]));
    let sid = net.server_id();
    assert!(counter(&net.status(Server, sid), "join_without_hmac") > 0);
    assert_eq!(net.status(Server, sid).paths.len(), 1);
    first_path_works(&mut net, id);
}

#[test]
fn nothing_is_sent_on_a_join_before_its_hmac() {
    // The Ack with HMAC(A) never arrives, and the server has a lot of data to send.
    let (mut net, _) = joined_with(|from, bytes| !(from == Client && is_type(bytes, PacketType::Ack)));
    let sid = net.server_id();
    net.stream(Server, sid, 0, 50, Duration::from_millis(2));
    let data = net.logged(Server, PacketType::Data);
    assert!(!data.is_empty() && data.iter().all(|l| l.path == 0));
}

#[test]
fn wrong_hmac_in_the_response() {
    let (mut net, id) = joined_changing(Server, PacketType::Response, |bytes| _ = spoil(bytes, 5, 22));
    assert!(counter(&net.status(Client, id), "join_wrong_hmac") > 0);
    assert_eq!(reset_codes(&net, Client), [ResetCode::OptionError]);
    assert!(net.logged(Client, PacketType::Ack).iter().all(|l| l.path == 0));
    first_path_works(&mut net, id);
}

#[test]
fn wrong_ci_in_the_response() {
    let (mut net, id) = joined_changing(Server, PacketType::Response, |bytes| _ = spoil(bytes, 1, 5));
    assert!(counter(&net.status(Client, id), "join_wrong_ci") > 0);
    first_path_works(&mut net, id);
}

/// RFC 9897 section 3.3: the Response to a join must confirm the version too.
#[test]
fn a_join_response_without_the_version_is_refused() {
    let (mut net, id) = joined_changing(Server, PacketType::Response, |bytes| {
        let mut buf = dccp_wire::OptionBuf::new();
        let options = Packet::parse(bytes).unwrap().options().flatten();
        options.filter(|o| matches!(o, Opt::Mp(_))).for_each(|o| assert!(buf.push(&o)));
        *bytes = with_options(bytes, buf.as_bytes());
    });
    assert_eq!(reset_codes(&net, Client)[0], ResetCode::OptionError);
    assert!(counter(&net.status(Client, id), "join_other_version") > 0);
    first_path_works(&mut net, id);
}

#[test]
fn unknown_ci() {
    let (mut net, id) = joined_changing(Client, PacketType::Request, |bytes| _ = spoil(bytes, 1, 5));
    assert!(counted(&net.server.stats().counters, "join_unknown_ci") > 0);
    assert_eq!(reset_codes(&net, Server), [ResetCode::ConnectionRefused]);
    first_path_works(&mut net, id);
    // The join is retried at growing intervals.
    net.run(Duration::from_secs(120));
    let joins: Vec<_> = net
        .logged(Client, PacketType::Request)
        .iter()
        .filter(|l| l.path == 1)
        .map(|l| l.at.as_secs_f64().round())
        .collect();
    let gaps: Vec<_> = joins.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(gaps, [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]);
    // RFC 4340 section 7.5.6: the retry must not use the port of the failed connection.
    let joins = net.logged(Client, PacketType::Request);
    let ports: Vec<_> = joins.iter().filter(|l| l.path == 1).map(|l| l.packet().header.src_port).collect();
    assert_eq!(ports[0], path(1).ports.local);
    assert!(!ports[1..].contains(&ports[0]));
}

#[test]
fn other_version_in_a_join() {
    let (mut net, id) = joined_changing(Client, PacketType::Request, |bytes| set_version(bytes, 0x10));
    assert_eq!(reset_codes(&net, Server), [ResetCode::OptionError]);
    first_path_works(&mut net, id);
}

/// RFC 4340 section 5.8: a plain server does not know multipath options, so it ignores malformed ones, too.
#[test]
fn malformed_mp_option_at_a_plain_server() {
    let mut net = Net::new(1, 1, plain());
    net.meddler = Some(changing(Client, PacketType::Request, |bytes| append(bytes, &MALFORMED)));
    net.connect(falls_back());
    net.run(Duration::from_millis(300));
    assert_eq!(reset_codes(&net, Server), []);
    assert!(net.events_of(Server).contains(&SessionEvent::Opened { multipath: false }));
}

#[test]
fn malformed_mp_option_at_first() {
    let mut net = Net::new(1, 1, config());
    net.meddler = Some(changing(Client, PacketType::Request, |bytes| append(bytes, &MALFORMED)));
    net.connect(config());
    net.run(Duration::from_millis(300));
    // RFC 9897 sections 3.5 and 3.6.
    assert_eq!(reset_codes(&net, Server), [ResetCode::OptionError]);
    assert_eq!(counted(&net.server.stats().counters, "malformed_mp_option"), 1);
    assert!(net.closed_reason(Client).is_some());
}

#[test]
fn malformed_mp_option_in_a_join() {
    let (mut net, id) = joined_changing(Client, PacketType::Request, |bytes| append(bytes, &MALFORMED));
    assert_eq!(reset_codes(&net, Server), [ResetCode::OptionError]);
    first_path_works(&mut net, id);
}

#[test]
fn unassigned_bits_of_the_version_are_ignored() {
    let (net, _) = joined_changing(Client, PacketType::Request, |bytes| set_version(bytes, 0x0f));
    assert_eq!(reset_codes(&net, Server), []);
    assert!(net.logged(Server, PacketType::Response).iter().any(|l| l.path == 1));
}

#[test]
fn too_many_paths_do_not_hurt_those_there_are() {
    let mut net = Net::new(1, 3, SessionConfig { max_paths: 2, ..config() });
    let id = net.connect(config());
    net.run(Duration::from_millis(500));
    assert_eq!(reset_codes(&net, Server), [ResetCode::TooBusy]);
    assert_eq!(net.state(Client, id).iter().filter(|h| **h == PathState::Up).count(), 2);
    first_path_works(&mut net, id);
    // Joins that started together were refused when their HMAC arrived; later joins are refused when their
    // Request arrives.
    net.log.clear();
    net.run(Duration::from_secs(60));
    assert!(!net.log.iter().any(|l| l.is(Server, PacketType::Response)));
    assert_eq!(reset_codes(&net, Server).iter().find(|code| **code != ResetCode::TooBusy), None);
    assert!(!reset_codes(&net, Server).is_empty());
}

#[test]
fn too_many_sessions() {
    let mut net = Net::new(1, 1, config());
    for _ in 0..5 {
        net.connect(config());
        net.run(Duration::from_millis(100));
    }
    assert_eq!(net.server.sessions().len(), 4);
    assert_eq!(counted(&net.server.stats().counters, "too_many_sessions"), 1);
    assert_eq!(net.closed_reason(Client).as_deref(), Some("reset_by_peer"));
}

#[test]
fn peers_that_no_filter_matches_are_refused() {
    let mut net = Net::new(1, 1, config());
    let peers = vec![PeerFilter { id: 1, remotes: vec!["10.0.0.99".parse().unwrap()] }];
    net.server.listen(ListenConfig { peers, ..listen(config()) });
    net.connect(config());
    net.run(Duration::from_millis(100));
    assert_eq!(counted(&net.server.stats().counters, "refused_peer"), 1);
    assert_eq!(net.closed_reason(Client).as_deref(), Some("reset_by_peer"));
    let peers = vec![PeerFilter { id: 1, remotes: vec!["::ffff:10.0.0.1".parse().unwrap()] }];
    net.server.listen(ListenConfig { peers, ..listen(config()) });
    net.connect(config());
    net.run(Duration::from_millis(100));
    assert!(net.events_of(Server).contains(&SessionEvent::Accepted { peer: 1 }));
}

#[test]
fn the_first_filter_that_lets_a_peer_in_says_who_it_is() {
    let here = || vec!["10.0.0.1".parse().unwrap()];
    for (filters, who) in [
        (vec![(1, vec![]), (2, here())], 1),
        (vec![(1, here()), (2, vec![])], 1),
        (vec![(1, here()), (2, here())], 1),
    ] {
        let mut net = Net::new(1, 1, config());
        let peers = filters.into_iter().map(|(id, remotes)| PeerFilter { id, remotes }).collect();
        net.server.listen(ListenConfig { peers, ..listen(config()) });
        net.connect(config());
        net.run(Duration::from_millis(100));
        assert!(net.events_of(Server).contains(&SessionEvent::Accepted { peer: who }));
    }
}

fn plain() -> SessionConfig {
    SessionConfig { multipath: false, ..config() }
}

fn falls_back() -> SessionConfig {
    SessionConfig { fallback: Fallback::Plain, ..config() }
}

/// Checks that data flows in both directions as plain DCCP.
fn plain_data_flows(client: SessionConfig, server: SessionConfig, paths: usize) -> Net {
    let mut net = Net::new(1, paths, server);
    let id = net.connect(client);
    net.run(Duration::from_millis(300));
    net.stream(Client, id, 0, 50, Duration::from_millis(2));
    let sid = net.server_id();
    net.stream(Server, sid, 0, 50, Duration::from_millis(2));
    net.run(Duration::from_millis(500));
    for end in [Client, Server] {
        assert_eq!(net.numbers(end), (0..50).collect::<Vec<_>>());
        assert!(net.events_of(end).contains(&SessionEvent::Opened { multipath: false }));
    }
    assert!(!net.status(Client, id).multipath && !net.status(Server, sid).multipath);
    assert_eq!(net.status(Client, id).paths.len(), 1);
    let data = net.log.iter().filter(|l| !l.packet().payload.is_empty());
    assert!(data.clone().count() > 0 && data.clone().all(|l| l.mp().is_empty()));
    net.client.close(net.now, id);
    net.run(Duration::from_millis(100));
    assert_eq!(net.closed_reason(Client).as_deref(), Some("closed"));
    assert_eq!(net.closed_reason(Server).as_deref(), Some("closed_by_peer"));
    net
}

#[test]
fn plain_dccp_on_both_sides() {
    let net = plain_data_flows(plain(), plain(), 1);
    assert!(net.log.iter().all(|l| l.packet().options().all(|o| !matches!(o, Ok(Opt::Mp(_))))));
}

#[test]
fn a_path_tells_its_size_when_it_comes_up_though_part_open_has_less_room() {
    let mut net = Net::new(1, 1, plain());
    let id = net.connect(plain());
    while !net.events_of(Client).iter().any(|e| matches!(e, SessionEvent::PathUp(_))) {
        assert!(net.step(net.now + Duration::from_secs(1)));
    }
    let early = net.status(Client, id);
    net.run(Duration::from_millis(300));
    let late = net.status(Client, id);
    assert_eq!(early.paths[0].max_payload, late.paths[0].max_payload);
    assert_eq!(early.max_payload, late.max_payload);
    assert!(late.max_payload > Some(1400));
}

#[test]
fn falls_back_when_the_server_is_plain() {
    plain_data_flows(falls_back(), plain(), 2);
}

#[test]
fn falls_back_when_the_client_is_plain() {
    plain_data_flows(plain(), falls_back(), 1);
}

#[test]
fn refuses_a_plain_server() {
    let mut net = Net::new(1, 2, plain());
    net.connect(config());
    net.run(Duration::from_millis(300));
    let reason = net.closed_reason(Client).unwrap();
    assert_eq!(reason, "no_multipath");
    assert!(net.client.sessions().is_empty());
    net.run(Duration::from_secs(20));
    assert!(net.server.sessions().is_empty(), "no session may be left");
}

#[test]
fn refuses_a_plain_client() {
    let mut net = Net::new(1, 1, config());
    net.connect(plain());
    net.run(Duration::from_millis(300));
    assert_eq!(counted(&net.server.stats().counters, "refused_no_multipath"), 1);
    assert!(net.server.sessions().is_empty());
    assert!(net.closed_reason(Client).is_some());
}

#[test]
fn other_version_or_key_type_at_first() {
    for (what, wanted) in [("version", [34, 4, 10, 0]), ("key type", [46, 17, 3, 0])] {
        for fallback in [Fallback::Refuse, Fallback::Plain] {
            let mut net = Net::new(1, 1, SessionConfig { fallback, ..config() });
            net.meddler = Some(changing(Client, PacketType::Request, move |bytes| {
                let at = bytes.windows(4).position(|w| w == wanted).unwrap();
                bytes[at + if wanted[0] == 34 { 3 } else { 8 }] = 0x10;
            }));
            let id = net.connect(SessionConfig { fallback, ..config() });
            net.run(Duration::from_millis(300));
            match fallback {
                Fallback::Refuse => {
                    assert!(net.closed_reason(Client).is_some(), "{what}");
                    assert_eq!(reset_codes(&net, Server), [ResetCode::ConnectionRefused], "{what}");
                }
                Fallback::Plain => assert!(!net.status(Client, id).multipath, "{what}"),
            }
            // RFC 9897 section 3.2.4: without a common key type, the server sends no key.
            assert!(net.logged(Server, PacketType::Response).iter().all(|l| l.mp().is_empty()), "{what}");
        }
    }
}

#[test]
fn the_known_version_of_a_list_is_selected() {
    // RFC 9897 section 3.1: the list is in order of preference. In this list, versions 2 and 1 come before 0.
    let mut net = Net::new(1, 1, config());
    net.meddler = Some(changing(Client, PacketType::Request, |bytes| {
        let options = Packet::parse(bytes).unwrap().option_bytes;
        let at = options.windows(4).position(|w| w == [34, 4, 10, 0]).unwrap();
        let several = [&options[..at], &[34, 6, 10, 0x20, 0x10, 0], &options[at + 4..]].concat();
        *bytes = with_options(bytes, &several);
    }));
    let id = net.connect(config());
    net.run(Duration::from_millis(300));
    assert!(net.status(Client, id).multipath);
    let response = net.logged(Server, PacketType::Response).remove(0);
    let confirm = [33, 5, 10, 0, 0];
    assert!(
        response.bytes.windows(5).any(|w| w == confirm),
        "the Response must contain the version and the server's list"
    );
}

#[test]
fn two_keys_in_the_response() {
    let mut net = Net::new(1, 1, config());
    net.meddler = Some(changing(Server, PacketType::Response, |bytes| {
        let options = [&[46u8, 26, 3, 0, 0, 0, 0, 9][..], &[0; 18], &[33, 5, 10, 0, 0]].concat();
        *bytes = with_options(bytes, &options);
    }));
    net.connect(config());
    net.run(Duration::from_millis(300));
    assert_eq!(reset_codes(&net, Client), [ResetCode::OptionError]);
    assert!(net.closed_reason(Client).is_some());
}

#[test]
fn late_join_ack_is_repeated() {
    // The server's Ack that confirms the join is lost once. The join must still complete, even if no data is
    // sent.
    let mut lost = 0;
    let (mut net, id) = joined_with(move |from, bytes| {
        let drop = from == Server && is_type(bytes, PacketType::Ack) && lost < 1;
        lost += u32::from(drop);
        !drop
    });
    net.run(Duration::from_secs(3));
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
    let acks = net.log.iter().filter(|l| l.path == 1 && matches!(l.mp()[..], [MpOption::Hmac(_)]));
    assert!(acks.filter(|l| l.is(Client, PacketType::Ack)).count() >= 2);
}

/// Peers are authenticated. No peer can join another peer's session, and an unknown peer cannot open one.
#[test]
fn a_vouched_peer_has_its_own_sessions_only() {
    for (vouched, paths) in [(vec![42, 42], 2), (vec![42, 7], 1), (vec![7, 7], 0)] {
        let mut net = Net::new(1, 2, config());
        net.server.listen(mpdccp_proto::ListenConfig {
            peers: [7, 42]
                .into_iter()
                .filter(|id| paths > 0 || *id != 7)
                .map(|id| mpdccp_proto::PeerFilter { id, remotes: vec!["192.0.2.99".parse().unwrap()] })
                .collect(),
            ..crate::common::listen(config())
        });
        net.vouched = vouched;
        net.connect(config());
        net.run(Duration::from_millis(300));
        let open = match paths {
            0 => 0,
            _ => net.status(Server, net.server_id()).paths.iter().filter(|p| p.state.is_up()).count(),
        };
        assert_eq!(open, paths);
        let (why, expected) = if paths == 0 { ("refused_peer", 1) } else { ("join_unknown_ci", 2 - paths) };
        let seen = counted(&net.server.stats().counters, why);
        assert_eq!(seen.min(1), expected.min(1) as u64, "{why}");
    }
}

/// ICMP reports that nothing listens. On each path, connections that are being opened fail at once, while
/// open connections stay.
#[test]
fn a_refusal_by_the_peers_host_ends_what_is_not_open() {
    let mut net = Net::new(1, 2, config());
    net.meddler = Some(Box::new(|_, _, _| false));
    net.connect(config());
    net.run(Duration::from_millis(50));
    let remotes = [path(0).route, path(1).route];
    net.client.on_refused(net.now, remotes[0].socket, remotes[1].remote);
    net.drain();
    assert_eq!(net.closed_reason(Client), None, "no packet was sent to that address");
    for route in remotes {
        net.client.on_refused(net.now, route.socket, route.remote);
        net.run(Duration::from_millis(1));
    }
    assert_eq!(net.closed_reason(Client).as_deref(), Some("nobody_listens"));

    let (mut net, id) = Net::connected(1, 2, config());
    for route in remotes {
        net.client.on_refused(net.now, route.socket, route.remote);
    }
    net.run(Duration::from_millis(300));
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
}

/// The peer's program ended, and the peer's host answers each packet with a report. A path that was up is
/// retried once per second, not once per report.
#[test]
fn a_refused_path_that_was_up_is_retried_once_per_second() {
    let (mut net, _) = Net::connected(1, 2, config());
    net.meddler = Some(Box::new(|_, _, _| false));
    let before = net.logged(Client, PacketType::Request).len();
    for _ in 0..120_000 {
        net.run(Duration::from_millis(1));
        for route in [path(0).route, path(1).route] {
            net.client.on_refused(net.now, route.socket, route.remote);
        }
    }
    let requests = net.logged(Client, PacketType::Request).len() - before;
    assert!((10..=2 * 120).contains(&requests), "{requests}");
}

/// RFC 4340 section 7.5.6: a host has crashed and connects again from the same ports, while its peer still
/// has the old connection and may be sending on it.
#[test]
fn a_restarted_client_is_back_within_a_second_and_three_round_trips() {
    for (multipath, busy) in [(false, false), (false, true), (true, false), (true, true)] {
        let cfg = SessionConfig { multipath, ..config() };
        let (mut net, _, old) = Net::both(1, 1, cfg.clone());
        if busy {
            net.stream(Server, old, 0, 50, Duration::from_millis(2));
        }
        net.client = Endpoint::new([77; 32]);
        net.events.clear();
        let id = net.connect(cfg);
        let start = net.now;
        while !net.events.iter().any(|(end, _, e)| (*end, e) == (Client, &SessionEvent::PathUp(PathId(0)))) {
            assert!(net.step(start + Duration::from_millis(1060)), "{multipath} {busy}");
        }
        // The server must learn that the old connection has ended.
        let old = net.server.status(net.now, old).map_or(0, |s| s.paths.len());
        assert_eq!(old, 0, "{multipath} {busy}");
        net.run(Duration::from_millis(100));
        net.stream(Client, id, 0, 20, Duration::from_millis(2));
        net.run(Duration::from_millis(100));
        assert_eq!(net.numbers(Server), (0..20).collect::<Vec<_>>());
    }
}
/// One or two of the packets that open a path are lost while the path's MTU is being probed. Even so, both
/// ends must soon have both paths.
#[test]
fn no_lost_packet_keeps_a_path_from_opening() {
    let mut cfg = config();
    cfg.connection.probe_mtu = true;
    let each = || [Client, Server].into_iter().flat_map(|from| (0..4).map(move |n| (from, n)));
    let pairs = || each().flat_map(|first| each().map(move |second| [first, second]));
    for (path, lost) in [0, 1].into_iter().flat_map(|path| pairs().map(move |lost| (path, lost))) {
        let mut seen = [0; 2];
        let mut net = Net::new(1, 2, cfg.clone());
        net.wires[path].delay = Duration::from_millis(80);
        net.meddler = Some(Box::new(move |from, at, _| {
            let n = &mut seen[usize::from(from == Server)];
            *n += usize::from(at == path);
            at != path || !lost.contains(&(from, *n - 1))
        }));
        let id = net.connect(cfg.clone());
        net.run(Duration::from_secs(8));
        let server = net.server_id();
        for (end, id) in [(Client, id), (Server, server)] {
            assert_eq!(
                net.state(end, id),
                [PathState::Up, PathState::Up],
                "{end:?}, path {path} without {lost:?}"
            );
        }
    }
}
