//! How sessions end (RFC 9897 sections 3.2.3, 3.2.11 and 3.5).

use crate::common::End::{Client, Server};
use crate::common::*;
use dccp_wire::{MpOption, Packet, PacketType, ResetCode};
use mpdccp_proto::*;
use mpdccp_units::Duration;

fn other(end: End) -> End {
    if end == Client { Server } else { Client }
}

fn id_at(net: &mut Net, end: End) -> SessionId {
    net.end(end).sessions()[0]
}

/// Returns the key that an end sent in its MP_KEY.
fn key_of(net: &Net, end: End) -> Vec<u8> {
    net.log
        .iter()
        .filter(|l| l.from == end)
        .find_map(|l| match l.mp()[..] {
            [MpOption::Key { keys, .. }, ..] => Some(keys[1..].to_vec()),
            _ => None,
        })
        .unwrap()
}

#[test]
fn close_from_either_side() {
    for end in [Client, Server] {
        let (mut net, id) = Net::connected(1, 3, config());
        net.stream(Client, id, 0, 30, Duration::from_millis(2));
        let (id, now) = (id_at(&mut net, end), net.now);
        net.end(end).close(now, id);
        net.drain();
        assert_eq!(net.status(end, id).state, SessionState::Closing);
        net.run(Duration::from_secs(1));
        assert_eq!(net.closed_reason(end).as_deref(), Some("closed"));
        assert_eq!(net.closed_reason(other(end)).as_deref(), Some("closed_by_peer"));
        assert!(net.client.sessions().is_empty() && net.server.sessions().is_empty());
        let key = key_of(&net, other(end));
        let closes = net.logged(end, PacketType::Close);
        assert_eq!(
            closes.iter().map(|l| l.path).collect::<Vec<_>>(),
            [0, 1, 2],
            "a Close must leave on every subflow"
        );
        assert!(
            closes.iter().all(|l| l.mp() == [MpOption::Close(&key)]),
            "each Close must carry the peer's key"
        );
        let resets = net.logged(other(end), PacketType::Reset);
        assert_eq!(resets.len(), 3);
        let code = |l: &&Logged| l.packet().header.reset.unwrap().code;
        assert!(resets.iter().all(|l| code(l) == ResetCode::Closed && l.mp().is_empty()));
        assert!(net.logged(other(end), PacketType::Close).is_empty());
    }
}

#[test]
fn fast_close_from_either_side() {
    for end in [Client, Server] {
        let (mut net, _) = Net::connected(1, 3, config());
        let (id, now) = (id_at(&mut net, end), net.now);
        net.end(end).abort(now, id);
        net.drain();
        assert!(net.end(end).sessions().is_empty(), "state must be dropped at once");
        net.run(Duration::from_secs(1));
        assert_eq!(net.closed_reason(end).as_deref(), Some("aborted"));
        assert_eq!(net.closed_reason(other(end)).as_deref(), Some("aborted_by_peer"));
        assert!(net.end(other(end)).sessions().is_empty());
        let key = key_of(&net, other(end));
        let resets = net.logged(end, PacketType::Reset);
        assert_eq!(resets.len(), 3);
        for reset in resets {
            assert_eq!(reset.packet().header.reset.unwrap().code, ResetCode::AbruptMpTermination);
            assert_eq!(reset.mp(), [MpOption::FastClose(&key)]);
        }
        // On subflows that had not been reset yet, the peer answers.
        let answers = net.logged(other(end), PacketType::Reset);
        assert!(!answers.is_empty());
        for reset in answers {
            assert_eq!(reset.packet().header.reset.unwrap().code, ResetCode::AbruptMpTermination);
        }
    }
}

#[test]
fn a_wrong_key_closes_the_subflow_alone() {
    for (ptype, subtype, name) in
        [(PacketType::Close, 10, "close_with_wrong_key"), (PacketType::Reset, 2, "fast_close_invalid")]
    {
        let (mut net, id) = Net::connected(1, 2, config());
        net.meddler = Some(Box::new(move |from, path, bytes| {
            if from == Server && is_type(bytes, ptype) {
                spoil(bytes, subtype, 5);
                return path == 0;
            }
            true
        }));
        let (sid, now) = (net.server_id(), net.now);
        match ptype {
            PacketType::Close => net.server.close(now, sid),
            _ => net.server.abort(now, sid),
        }
        net.run(Duration::from_millis(30));
        let status = net.status(Client, id);
        assert_eq!((counter(&status, name), status.state), (1, SessionState::Open));
        assert_eq!(net.state(Client, id), [PathState::Down, PathState::Up]);
    }
}

#[test]
fn a_close_that_is_lost_on_one_path_is_repeated() {
    let (mut net, id) = Net::connected(1, 2, config());
    let mut lost = false;
    net.meddler = Some(Box::new(move |from, path, bytes| {
        let drop = from == Client && path == 1 && is_type(bytes, PacketType::Close) && !lost;
        lost |= drop;
        !drop
    }));
    net.client.close(net.now, id);
    net.run(Duration::from_millis(25));
    assert_eq!(net.closed_reason(Server), None, "the server must wait for the Close on the other subflow");
    net.run(Duration::from_secs(2));
    assert_eq!(net.closed_reason(Server).as_deref(), Some("closed_by_peer"));
    assert_eq!(net.closed_reason(Client).as_deref(), Some("closed"));
}

#[test]
fn a_dead_path_does_not_hold_up_the_close() {
    for end in [Client, Server] {
        let (mut net, _) = Net::connected(1, 2, config());
        net.wires[1].up = false;
        let (id, now) = (id_at(&mut net, end), net.now);
        net.end(end).close(now, id);
        net.run(Duration::from_secs(4));
        assert_eq!(net.closed_reason(end).as_deref(), Some("closed"));
        assert_eq!(net.closed_reason(other(end)).as_deref(), Some("closed_by_peer"));
        assert!(net.client.sessions().is_empty() && net.server.sessions().is_empty());
    }
}

#[test]
fn close_req_is_answered_with_the_other_key() {
    let (mut net, id, sid) = Net::both(1, 2, config());
    net.server.close_req(net.now, sid);
    net.run(Duration::from_millis(15));
    assert_eq!(net.status(Client, id).state, SessionState::Closing);
    let key = key_of(&net, Server);
    let closes = net.logged(Client, PacketType::Close);
    assert_eq!(closes.len(), 2);
    assert!(closes.iter().all(|l| l.mp() == [MpOption::Close(&key)]));
    net.run(Duration::from_secs(1));
    assert_eq!(net.closed_reason(Client).as_deref(), Some("closed_by_peer"));
    assert_eq!(net.closed_reason(Server).as_deref(), Some("closed"));
}

#[test]
fn joins_are_ignored_while_closing() {
    let (mut net, id) = Net::connected(1, 1, config());
    net.add_wire();
    net.client.add_path(net.now, id, path(1));
    // The server starts to close while the join is in flight, and the server's Close is delayed.
    let sid = net.server_id();
    net.server.close(net.now, sid);
    net.meddler = Some(Box::new(|from, _, bytes| !(from == Server && is_type(bytes, PacketType::Close))));
    net.run(Duration::from_millis(100));
    assert_eq!(counted(&net.server.stats().counters, "join_while_not_open"), 1);
    assert!(
        net.log.iter().all(|l| !(l.from == Server && l.path == 1)),
        "the server must not answer the join"
    );
}

/// Only the Request of the join arrived, so the join must not delay the close.
#[test]
fn a_join_that_has_proved_nothing_does_not_hold_up_the_close() {
    let (mut net, id, sid) = Net::both(1, 1, config());
    net.add_wire();
    net.meddler = Some(Box::new(|from, path, bytes| {
        path == 0 || is_type(bytes, PacketType::Request) && from == Client
    }));
    net.client.add_path(net.now, id, path(1));
    net.run(Duration::from_millis(100));
    assert_eq!(net.status(Server, sid).paths.len(), 2);
    net.client.close(net.now, id);
    net.run(Duration::from_millis(500));
    assert_eq!(net.closed_reason(Server).as_deref(), Some("closed_by_peer"));
}

/// RFC 9897 section 3.2.11: from now on, the peer ignores joins, so no answer will arrive.
#[test]
fn an_own_join_without_an_answer_does_not_hold_up_the_peers_close() {
    let (mut net, id, sid) = Net::both(1, 1, config());
    net.add_wire();
    net.meddler = Some(Box::new(|_, path, _| path == 0));
    net.client.add_path(net.now, id, path(1));
    net.drain();
    net.server.close(net.now, sid);
    net.run(Duration::from_millis(500));
    assert_eq!(net.closed_reason(Client).as_deref(), Some("closed_by_peer"));
}

/// RFC 9897 section 3.2.11: MP_CLOSE ends the session only on Close and CloseReq.
#[test]
fn mp_close_means_nothing_on_data() {
    let (mut net, id) = Net::connected(1, 1, config());
    let (sid, key) = (net.server_id(), key_of(&net, Server));
    let mut done = false;
    net.meddler = Some(Box::new(move |from, _, bytes| {
        let first = !done && from == Client && is_type(bytes, PacketType::Data);
        done |= first;
        if first {
            append(bytes, &[&[46, 3 + key.len() as u8, 10][..], &key].concat());
        }
        true
    }));
    net.stream(Client, id, 0, 10, Duration::from_millis(4));
    net.run(Duration::from_millis(100));
    assert_eq!(counter(&net.status(Server, sid), "close_on_wrong_type"), 1);
    assert_eq!(net.numbers(Server), (0..10).collect::<Vec<_>>());
}

/// RFC 9897 section 3.2.3: MP_FAST_CLOSE ends the session only with Reset code 13.
#[test]
fn mp_fast_close_with_another_code_resets_one_subflow() {
    let (mut net, id, sid) = Net::both(1, 2, config());
    net.meddler = Some(Box::new(|from, path, bytes| {
        if from == Client && is_type(bytes, PacketType::Reset) {
            // The code is the first byte after the Acknowledgement Number (RFC 4340 section 5.6).
            bytes[24] = 2;
            return path == 0;
        }
        true
    }));
    net.client.abort(net.now, id);
    net.run(Duration::from_millis(200));
    let status = net.status(Server, sid);
    assert_eq!((counter(&status, "fast_close_invalid"), status.state), (1, SessionState::Open));
}

#[test]
fn data_in_order_of_arrival_before_the_close_is_delivered() {
    let cfg =
        SessionConfig { reorder: reorder::ReorderConfig::active_fixed(Duration::from_secs(5)), ..config() };
    let (mut net, id) = Net::connected(1, 2, cfg);
    net.stream(Client, id, 0, 10, Duration::from_millis(3));
    net.run(Duration::from_millis(100));
    // At the end of the session, the packets behind the hole are delivered.
    let mut count = 0;
    net.meddler = Some(Box::new(move |from, _, bytes| {
        count += u32::from(from == Client && is_type(bytes, PacketType::Data));
        count != 1 || !is_type(bytes, PacketType::Data)
    }));
    net.stream(Client, id, 10, 10, Duration::from_millis(3));
    net.run(Duration::from_millis(50));
    assert_eq!(net.numbers(Server).len(), 10);
    net.client.close(net.now, id);
    net.run(Duration::from_secs(1));
    assert_eq!(net.numbers(Server), (0..10).chain(11..20).collect::<Vec<_>>());
    assert!(net.server.sessions().is_empty());
}

/// RFC 4340 section 11.7.2: after a report with Drop Code 1, no more data reaches the peer's application. The
/// local application must not wait for room in the queue for as long as the session lasts.
#[test]
fn data_for_an_application_that_does_not_listen_is_dropped() {
    let (mut net, id) = Net::connected(1, 1, config());
    net.meddler = Some(changing(Server, PacketType::Ack, |bytes| append(bytes, &[40, 3, 0x90])));
    net.stream(Client, id, 0, 1, Duration::from_secs(1));
    net.stream(Client, id, 1, 10, Duration::from_millis(4));
    let status = net.status(Client, id);
    assert_eq!((status.queue.packets, counter(&status, "dropped_at_close")), (0, 10));
    assert_eq!(net.numbers(Server), [0]);
}

#[test]
fn before_it_is_open() {
    let mut net = Net::new(1, 2, config());
    let id = net.connect(config());
    net.client.close(net.now, id);
    net.run(Duration::from_secs(20));
    assert_eq!(net.closed_reason(Client).as_deref(), Some("closed_before_open"));
    assert!(net.client.sessions().is_empty() && net.server.sessions().is_empty());
    assert_eq!(net.events_of(Server), [], "a half-open session must not be announced");
}

#[test]
fn an_empty_mp_close_is_no_key() {
    let (mut net, id) = Net::connected(1, 2, config());
    let change = |bytes: &mut Vec<u8>| *bytes = with_options(bytes, &encode(&[MpOption::Close(&[])]));
    net.meddler = Some(changing(Server, PacketType::Close, change));
    let sid = net.server_id();
    net.server.close(net.now, sid);
    net.run(Duration::from_millis(30));
    assert_eq!(counter(&net.status(Client, id), "close_with_wrong_key"), 2);
}

/// RFC 4340 sections 8.3 and 8.5 step 2: the end that received the last Reset holds TIMEWAIT. Its ports are
/// not reused, and packets for them are answered with Reset code 3.
#[test]
fn the_ports_of_a_session_that_ended_rest_for_2msl() {
    for end in [Client, Server] {
        let (mut net, _) = Net::connected(1, 1, config());
        let request = net.logged(Client, PacketType::Request)[0].bytes.clone();
        let (id, now) = (id_at(&mut net, end), net.now);
        net.end(end).close(now, id);
        net.run(Duration::from_secs(1));
        assert!(net.client.sessions().is_empty() && net.server.sessions().is_empty());
        let port_of_next = |net: &mut Net| {
            net.log.clear();
            let id = net.connect(config());
            let port = net.logged(Client, PacketType::Request)[0].packet().header.src_port;
            net.client.abort(net.now, id);
            net.drain();
            port
        };
        let answers = |net: &mut Net| {
            let back = net.strike(server_route(0), &request);
            let header = Packet::parse(&back[0]).unwrap().header;
            header.reset.map(|reset| reset.code)
        };
        net.run(Duration::from_secs(230));
        match end {
            Client => assert_ne!(port_of_next(&mut net), 50_000),
            Server => assert_eq!(answers(&mut net), Some(ResetCode::NoConnection)),
        }
        assert_eq!(counted(&net.server.stats().counters, "time_wait"), u64::from(end == Server));
        net.run(Duration::from_secs(10));
        match end {
            Client => assert_eq!(port_of_next(&mut net), 50_000),
            Server => assert_eq!(answers(&mut net), None, "a Response"),
        }
    }
}

/// RFC 9897 sections 3.2.3 and 3.2.11: the first MP_CLOSE or MP_FAST_CLOSE is valid, even on a subflow whose
/// HMAC was lost.
#[test]
fn mp_close_counts_on_a_join_without_its_hmac() {
    for (fast, reason) in [(false, "closed_by_peer"), (true, "aborted_by_peer")] {
        let mut net = Net::new(1, 2, config());
        net.meddler = Some(Box::new(|from, path, bytes| {
            from == Server || path == 0 || !is_type(bytes, PacketType::Ack)
        }));
        let id = net.connect(config());
        net.run(Duration::from_millis(100));
        assert_eq!(net.state(Client, id), [PathState::Up, PathState::Connecting]);
        net.meddler = Some(Box::new(|from, path, _| from == Server || path == 1));
        match fast {
            true => net.client.abort(net.now, id),
            false => net.client.close(net.now, id),
        }
        net.run(Duration::from_secs(5));
        assert_eq!(net.closed_reason(Server).as_deref(), Some(reason));
    }
}

/// RFC 9897 section 3.2.11: MP_CLOSE also ends a session whose last Ack of the handshake was lost. The client
/// must not take the Close for a failed attempt and connect over its other path.
#[test]
fn mp_close_counts_before_the_client_is_open() {
    for ptype in [PacketType::Close, PacketType::CloseReq] {
        let mut net = Net::new(1, 2, config());
        net.meddler = Some(Box::new(move |from, _, bytes| {
            if from == Server && is_type(bytes, PacketType::Close) {
                bytes[8] = ptype.number() << 1 | 1;
            }
            from == Client || !is_type(bytes, PacketType::Ack)
        }));
        let id = net.connect(config());
        net.run(Duration::from_millis(35));
        assert_eq!(net.status(Client, id).state, SessionState::Connecting);
        let sid = net.server_id();
        net.server.close(net.now, sid);
        net.run(Duration::from_secs(1));
        assert_eq!(net.closed_reason(Client).as_deref(), Some("closed_by_peer"), "{ptype:?}");
        assert_eq!(net.logged(Client, PacketType::Request).len(), 1, "{ptype:?}");
    }
}

/// A subflow closed before it has opened takes no longer to close than other subflows.
#[test]
fn a_join_that_is_removed_closes_in_time() {
    let mut net = Net::new(1, 2, config());
    // Both the last Ack of the join and the Reset are lost.
    net.meddler = Some(Box::new(|from, path, bytes| {
        from == Client || path == 0 || is_type(bytes, PacketType::Response)
    }));
    let id = net.connect(config());
    net.run(Duration::from_millis(100));
    let join = net.status(Client, id).paths[1].id;
    net.client.remove_path(net.now, id, join);
    net.drain();
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Down]);
    net.run(Duration::from_secs(4));
    assert_eq!(net.state(Client, id), [PathState::Up]);
}

/// RFC 9897 section 3.2.3: once the client has accepted the Response, the server's session is open, even if
/// the server's Ack is lost. A client that gives up must end that session.
#[test]
fn a_client_that_gives_up_before_the_servers_ack_ends_the_servers_session() {
    type End = fn(&mut Net, SessionId);
    let ends: [(&str, End); 3] = [
        ("close", |net, id| net.client.close(net.now, id)),
        ("abort", |net, id| net.client.abort(net.now, id)),
        ("remove_path", |net, id| net.client.remove_path(net.now, id, PathId(0))),
    ];
    for (how, end) in ends {
        let mut net = Net::new(1, 1, config());
        net.meddler = Some(Box::new(|from, _, bytes| from == Client || !is_type(bytes, PacketType::Ack)));
        let id = net.connect(config());
        net.run(Duration::from_millis(35));
        let sid = net.server_id();
        let states = (net.status(Client, id).state, net.status(Server, sid).state);
        assert_eq!(states, (SessionState::Connecting, SessionState::Open), "{how}");
        end(&mut net, id);
        net.run(Duration::from_millis(50));
        assert_eq!(net.closed_reason(Server).as_deref(), Some("aborted_by_peer"), "{how}");
    }
}

/// A client that tries its next path opens another session.
#[test]
fn a_first_attempt_that_is_given_up_leaves_no_session_at_the_server() {
    let mut net = Net::new(1, 2, config());
    net.meddler =
        Some(Box::new(|from, path, bytes| from == Client || path == 1 || !is_type(bytes, PacketType::Ack)));
    let id = net.connect(config());
    net.run(Duration::from_secs(5));
    assert_eq!(net.status(Client, id).state, SessionState::Open);
    assert_eq!(net.server.sessions().len(), 1);
}
