//! Paths that fail, come back, are added and are removed while data flows.

use crate::common::End::{Client, Server};
use crate::common::*;
use dccp_proto::Route;
use dccp_wire::{MpOption, PacketType};
use mpdccp_proto::reorder::ReorderConfig;
use mpdccp_proto::*;
use mpdccp_units::Duration;
use std::net::IpAddr;

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Returns how many datagrams never arrived.
fn missing(net: &Net, sent: u32) -> usize {
    let mut got = net.numbers(Server);
    got.sort();
    got.dedup();
    sent as usize - got.len()
}

#[test]
fn a_path_dies_and_returns_while_data_runs() {
    let (mut net, id) = Net::connected(1, 2, config());
    let gap = Duration::from_millis(4);
    net.stream(Client, id, 0, 500, gap);
    net.run(Duration::from_millis(100));
    assert_eq!(missing(&net, 500), 0);
    let down = net.now;
    net.wires[1].up = false;
    net.stream(Client, id, 500, 500, gap);
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Suspect]);
    assert_eq!(net.events_of(Client).last(), Some(&SessionEvent::PathSuspect(PathId(1))));
    // The only packets lost are those sent on the dead path before the failure was detected.
    let silent = net.now;
    net.stream(Client, id, 1000, 500, gap);
    net.run(secs(1));
    let data = net.log.iter().filter(|l| l.path == 1 && l.from == Client && !l.packet().payload.is_empty());
    let on_dead_path = data.filter(|l| l.at >= down).count();
    assert_eq!(missing(&net, 1500), on_dead_path);
    assert!(on_dead_path > 0 && on_dead_path < 100, "{on_dead_path}");
    let late = net.log.iter().filter(|l| l.path == 1 && l.from == Client && l.at > silent);
    assert!(late.clone().all(|l| l.packet().payload.is_empty()), "no data may be sent on a silent path");
    assert!(late.count() < 40, "too many probes on a silent path");
    net.wires[1].up = true;
    net.run(secs(3));
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
    assert_eq!(net.events_of(Client).last(), Some(&SessionEvent::PathUp(PathId(1))));
    let before = net.logged(Client, PacketType::Data).iter().filter(|l| l.path == 1).count();
    net.stream(Client, id, 1500, 200, gap);
    net.run(secs(1));
    let after = net.logged(Client, PacketType::Data).iter().filter(|l| l.path == 1).count();
    assert!(after > before + 50, "the path must be used again");
    assert_eq!(missing(&net, 1700), on_dead_path);
}

#[test]
fn the_first_subflow_may_die() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.wires[0].up = false;
    net.stream(Client, id, 0, 300, Duration::from_millis(4));
    net.run(secs(100));
    assert_eq!(net.status(Client, id).state, SessionState::Open);
    assert_ne!(net.state(Client, id)[0], PathState::Up);
    let sid = net.server_id();
    net.stream(Server, sid, 0, 100, Duration::from_millis(4));
    net.run(secs(1));
    assert_eq!(net.numbers(Client), (0..100).collect::<Vec<_>>());
    // The path comes back: the client rejoins the session on it.
    net.wires[0].up = true;
    net.run(secs(40));
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
    assert_eq!(net.state(Server, sid), [PathState::Up, PathState::Up]);
    assert!(net.events_of(Client).contains(&SessionEvent::PathDown(PathId(0), Reason::Silent)));
}

#[test]
fn paths_are_added_and_removed_while_data_runs() {
    let (mut net, id) = Net::connected(1, 1, config());
    let gap = Duration::from_millis(4);
    net.stream(Client, id, 0, 100, gap);
    net.add_wire();
    let added = net.client.add_path(net.now, id, path(1)).unwrap();
    net.drain();
    net.stream(Client, id, 100, 100, gap);
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
    net.client.remove_path(net.now, id, PathId(0));
    net.drain();
    net.stream(Client, id, 200, 100, gap);
    net.run(secs(1));
    assert_eq!(missing(&net, 300), 0);
    let status = net.status(Client, id);
    assert_eq!(status.paths.iter().map(|p| p.id).collect::<Vec<_>>(), [added]);
    assert!(net.events_of(Client).contains(&SessionEvent::PathDown(PathId(0), Reason::Removed)));
    let sid = net.server_id();
    assert_eq!(net.status(Server, sid).paths.len(), 1, "an ordinary Close must end only the subflow");
    net.run(secs(60));
    assert!(
        net.log.iter().all(|l| l.path != 0 || l.at < net.now - secs(50)),
        "a removed path must not be tried again"
    );
}

#[test]
fn losses_stay_counted_when_their_path_closes_and_when_it_reconnects() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.wires.iter_mut().for_each(|wire| wire.loss = 20);
    net.stream(Client, id, 0, 1000, Duration::from_millis(2));
    net.wires.iter_mut().for_each(|wire| wire.loss = 0);
    net.stream(Client, id, 1000, 100, Duration::from_millis(2));
    net.run(secs(1));
    let lost = |net: &Net| net.status(Client, id).lost;
    let on_path =
        |net: &Net, i: usize| net.status(Client, id).paths[i].tx.as_ref().map_or(0, |tx| tx.lost.packets);
    let before = lost(&net);
    assert!(on_path(&net, 0) > 0 && on_path(&net, 1) > 0);
    assert_eq!(before, on_path(&net, 0) + on_path(&net, 1));
    // Path 0 closes and opens again, with a connection that counts from zero.
    let sid = net.server_id();
    net.server.remove_path(net.now, sid, PathId(0));
    net.run(secs(60));
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
    assert_eq!((on_path(&net, 0), lost(&net)), (0, before));
    net.client.remove_path(net.now, id, PathId(1));
    net.run(secs(1));
    assert_eq!(net.status(Client, id).paths.len(), 1);
    assert_eq!(lost(&net), before);
}

#[test]
fn a_path_removed_while_it_connects_leaves_the_others_a_try() {
    let mut net = Net::new(1, 2, config());
    net.wires[0].up = false;
    let id = net.connect(config());
    net.run(Duration::from_millis(20));
    net.client.remove_path(net.now, id, PathId(0));
    net.run(secs(2));
    assert_eq!(net.state(Client, id), [PathState::Up]);
}

#[test]
fn address_ids_are_free_again_however_often_paths_come_and_go() {
    let (mut net, id) = Net::connected(1, 2, config());
    for n in 0..300 {
        net.client.remove_path(net.now, id, PathId(1 + n));
        net.run(Duration::from_millis(60));
        // Each join comes from another socket.
        let route = Route { socket: 100 + n, ..client_route(1) };
        net.wires[1].socket = route.socket;
        let added = net.client.add_path(net.now, id, PathConfig { route, ..path(1) });
        assert_eq!(added, Some(PathId(2 + n)));
        net.run(Duration::from_millis(60));
        assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up], "{n}");
    }
    assert_eq!(net.status(Server, net.server_id()).paths.len(), 2);
}

#[test]
fn one_wrong_mp_seq_far_ahead_does_not_silence_the_session() {
    let mut cfg = config();
    cfg.reorder = reorder::ReorderConfig::adaptive(Duration::from_millis(200));
    let (mut net, id) = Net::connected(1, 1, cfg);
    net.stream(Client, id, 0, 20, Duration::from_millis(4));
    let mut wrong = 1;
    net.meddler = Some(Box::new(move |from, _, bytes| {
        // The meddler changes the second most significant byte of MP_SEQ.
        if from == Client && is_type(bytes, PacketType::Data) && wrong > 0 {
            assert!(spoil(bytes, 4, 4));
            wrong -= 1;
        }
        true
    }));
    net.stream(Client, id, 20, 200, Duration::from_millis(4));
    net.run(secs(1));
    assert_eq!(missing(&net, 220), 1);
    assert_eq!(counter(&net.status(Server, net.server_id()), "implausible_mp_seq"), 1);
    // If the peer continues from the changed number, the receiver follows.
    net.meddler = Some(changing(Client, PacketType::Data, |bytes| _ = spoil(bytes, 4, 4)));
    net.stream(Client, id, 220, 200, Duration::from_millis(4));
    net.run(secs(1));
    assert_eq!(missing(&net, 420), 1 + 7);
}

#[test]
fn a_path_is_back_within_a_second_of_its_return() {
    for (outage, downlink) in [(3, true), (10, false), (17, true), (30, false), (90, true)] {
        let (mut net, id) = Net::connected(1, 2, config());
        net.wires[1].up = false;
        let (from, id_from) = if downlink { (Server, net.server_id()) } else { (Client, id) };
        net.stream(from, id_from, 0, outage * 50, Duration::from_millis(20));
        net.wires[1].up = true;
        net.run(Duration::from_millis(1100));
        assert_eq!(net.state(Client, id), [PathState::Up; 2], "after {outage} s");
        let state = net.state(Server, net.server_id());
        assert_eq!(state.iter().filter(|h| **h == PathState::Up).count(), 2, "after {outage} s");
    }
}

#[test]
fn nat_bindings_that_all_vanish_cost_less_than_a_second_downlink() {
    let (mut net, _, sid) = Net::both(1, 2, config());
    net.stream(Server, sid, 0, 200, Duration::from_millis(5));
    net.wires.iter_mut().for_each(|w| w.nat_port += 1);
    net.stream(Server, sid, 200, 400, Duration::from_millis(5));
    let got = net.numbers(Client);
    let lost = (200..600).filter(|n| !got.contains(n)).count();
    assert!(lost < 100, "lost {lost} packets at 200 per second");
}

#[test]
fn thin_flows_leave_a_dead_path_soon() {
    for gap in [1, 10, 20] {
        for downlink in [false, true] {
            let mut cfg = config();
            cfg.scheduler = scheduler("cpf");
            let (mut net, id) = Net::connected(1, 2, cfg);
            let (from, to, id) =
                if downlink { (Server, Client, net.server_id()) } else { (Client, Server, id) };
            net.stream(from, id, 0, 1000 / gap, Duration::from_millis(gap.into()));
            // The path that carried the last data packet fails.
            let used = net.log.iter().rev().find(|l| l.from == from && !l.packet().payload.is_empty());
            let used = used.unwrap().path;
            net.wires[used].up = false;
            net.stream(from, id, 1000, 1000 / gap, Duration::from_millis(gap.into()));
            net.run(Duration::from_millis(100));
            let got = net.numbers(to).iter().filter(|n| **n >= 1000).count() as u32;
            let missed = (1000 / gap - got) * gap;
            assert!(missed <= 130, "lost {missed} ms of packets sent every {gap} ms");
        }
    }
}

#[test]
fn a_path_dead_one_way_is_left_as_soon() {
    for mute in [Client, Server] {
        let reorder = ReorderConfig::adaptive(Duration::from_millis(200));
        let (mut net, id, sid) = Net::both(1, 2, SessionConfig { reorder, ..config() });
        let both = |net: &mut Net, from| {
            for n in from..from + 300 {
                net.client.send(net.now, id, datagram(n), PktInfo::default());
                net.server.send(net.now, sid, datagram(n), PktInfo::default());
                net.run(Duration::from_millis(10));
            }
        };
        both(&mut net, 0);
        let used =
            net.log.iter().rev().find(|l| l.from == mute && !l.packet().payload.is_empty()).unwrap().path;
        net.wires[used].mute = Some(mute);
        both(&mut net, 300);
        for end in [Client, Server] {
            let got = net.numbers(end);
            let lost: Vec<_> = (0..600).filter(|n| !got.contains(n)).collect();
            assert!(lost.is_empty(), "{lost:?} lost at {end:?}; packets of {mute:?} are lost on path {used}");
        }
        let in_vain =
            net.log.iter().filter(|l| (l.from, l.path) == (mute, used) && !l.packet().payload.is_empty());
        let in_vain = in_vain.filter(|l| l.at >= net.now - secs(3)).count();
        assert!(in_vain <= 12, "{mute:?} sent {in_vain} datagrams on the dead path");
        net.wires[used].mute = None;
        net.run(secs(1));
        assert_eq!(net.state(Client, id), [PathState::Up; 2]);
        assert_eq!(net.state(Server, sid), [PathState::Up; 2]);
    }
}

#[test]
fn the_server_may_close_a_path_and_the_client_joins_again() {
    let (mut net, id, sid) = Net::both(1, 2, config());
    net.server.remove_path(net.now, sid, PathId(1));
    net.run(Duration::from_millis(500));
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Down]);
    assert!(net.events_of(Client).contains(&SessionEvent::PathDown(PathId(1), Reason::ClosedByPeer)));
    net.run(secs(2));
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
}

#[test]
fn a_nat_that_forgets_is_found_out() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.wires[1].nat_port += 1;
    net.stream(Client, id, 0, 1000, Duration::from_millis(4));
    net.run(secs(30));
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
    let sid = net.server_id();
    net.stream(Server, sid, 0, 200, Duration::from_millis(4));
    net.run(secs(1));
    assert_eq!(net.numbers(Client), (0..200).collect::<Vec<_>>());
}

#[test]
fn idle_paths_are_kept_alive_and_dead_ones_found() {
    let (mut net, id, sid) = Net::both(1, 2, config());
    net.run(secs(120));
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
    assert_eq!(net.state(Server, sid), [PathState::Up, PathState::Up]);
    for p in [0, 1] {
        let times: Vec<_> =
            net.log.iter().filter(|l| l.path == p && l.from == Client).map(|l| l.at).collect();
        let gaps = times.windows(2).map(|w| w[1] - w[0]);
        assert!(gaps.max().unwrap() <= secs(13), "a NAT binding must not go idle");
    }
    net.wires[0].up = false;
    net.run(secs(15));
    assert_ne!(net.state(Client, id)[0], PathState::Up);
    net.run(secs(15));
    assert_ne!(net.state(Server, sid)[0], PathState::Up, "the server must detect the failure too");
}

#[test]
fn a_link_reported_down_is_left_at_once() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.wires[1].up = false;
    net.client.set_link(net.now, id, PathId(1), false);
    net.drain();
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Suspect]);
    net.stream(Client, id, 0, 100, Duration::from_millis(4));
    net.run(secs(1));
    assert_eq!(missing(&net, 100), 0);
    net.wires[1].up = true;
    net.client.set_link(net.now, id, PathId(1), true);
    net.run(Duration::from_millis(25));
    assert_eq!(
        net.state(Client, id),
        [PathState::Up, PathState::Up],
        "the path must be up within one round trip"
    );
}

#[test]
fn a_link_reported_down_that_works_comes_back_by_itself() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.client.set_link(net.now, id, PathId(0), false);
    net.run(secs(1));
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
}

#[test]
fn the_session_survives_without_paths_for_a_while() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.wires.iter_mut().for_each(|w| w.up = false);
    net.stream(Client, id, 0, 10, Duration::from_millis(4));
    net.run(secs(45));
    net.wires.iter_mut().for_each(|w| w.up = true);
    net.run(secs(32));
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
    net.wires.iter_mut().for_each(|w| w.up = false);
    net.stream(Client, id, 10, 10, Duration::from_millis(4));
    net.run(secs(90));
    assert_eq!(net.closed_reason(Client).as_deref(), Some("no_path"));
    assert_eq!(net.closed_reason(Server).as_deref(), Some("no_path"));
    assert!(net.client.sessions().is_empty() && net.server.sessions().is_empty());
    assert_eq!(net.client.poll_timeout(), None);
    assert_eq!(net.server.poll_timeout(), None);
}

#[test]
fn a_dead_first_access_does_not_prevent_the_start() {
    let mut net = Net::new(1, 3, config());
    net.wires[0].up = false;
    net.wires[1].up = false;
    let id = net.connect(config());
    net.run(secs(8));
    assert_eq!(net.state(Client, id)[2], PathState::Up);
    net.stream(Client, id, 0, 50, Duration::from_millis(4));
    net.run(secs(1));
    assert_eq!(missing(&net, 50), 0);
    // The path that became the first subflow has Address ID 0. The others join with other IDs.
    net.wires[0].up = true;
    net.wires[1].up = true;
    net.run(secs(60));
    assert_eq!(net.state(Client, id), [PathState::Up; 3]);
}

/// Path 2 works, but its handshake takes two round trips of 400 ms. That is longer than the client normally
/// waits before it tries the next path.
#[test]
fn the_path_that_the_caller_knows_to_work_opens_the_session() {
    let cfg = SessionConfig { first_attempt: Duration::from_millis(250), ..config() };
    let mut net = Net::new(1, 3, config());
    net.wires[0].up = false;
    net.wires[2].delay = Duration::from_millis(200);
    let id = net.connect(cfg);
    net.client.connect_over(net.now, id, PathId(2));
    net.run(Duration::from_millis(500));
    // Path 1 works, but the client has not sent a Request on it.
    assert_ne!(net.state(Client, id)[1], PathState::Up);
    // The server has answered by now.
    net.client.connect_over(net.now, id, PathId(1));
    net.run(Duration::from_millis(350));
    assert_eq!(net.state(Client, id)[2], PathState::Up);
}

#[test]
fn nobody_answers() {
    for paths in [1, 2] {
        let mut net = Net::new(1, paths, config());
        net.wires.iter_mut().for_each(|w| w.up = false);
        net.connect(config());
        net.run(secs(140));
        assert_eq!(net.closed_reason(Client).as_deref(), Some("no_answer"));
        assert!(net.client.sessions().is_empty());
    }
}

#[test]
fn a_server_that_was_restarted_is_noticed() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.server = Endpoint::new([77; 32]);
    net.server.listen(listen(config()));
    net.stream(Client, id, 0, 10, Duration::from_millis(4));
    net.run(secs(5));
    assert_eq!(net.closed_reason(Client).as_deref(), Some("unknown_to_peer"));
}

#[test]
fn an_address_advertised_reaches_the_peer_and_is_taken_back() {
    let (mut net, id, sid) = Net::both(1, 2, config());
    let addresses: [IpAddr; 2] = ["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
    let a = net.server.advertise(net.now, sid, addresses[0], None).unwrap();
    let b = net.server.advertise(net.now, sid, addresses[1], Some(7000)).unwrap();
    net.run(Duration::from_millis(100));
    assert_eq!(
        net.status(Client, id).peer_addresses,
        [(a, addresses[0], None), (b, addresses[1], Some(7000))]
    );
    let sent = net.log.len();
    net.server.withdraw(net.now, sid, a);
    net.run(secs(5));
    assert_eq!(net.status(Client, id).peer_addresses, [(b, addresses[1], Some(7000))]);
    let removals = net.log[sent..].iter().flat_map(Logged::mp);
    let removals = removals.filter(|mp| matches!(mp, MpOption::RemoveAddr { .. }));
    assert_eq!(removals.count(), 1, "a confirmed removal must not be repeated");
    assert_eq!(net.server.advertise(net.now, sid, addresses[0], None), Some(a), "the ID is free again");
    // The empty DCCP-Data that carried the options has an MP_SEQ, but it is not delivered to the application.
    net.stream(Server, sid, 0, 5, Duration::from_millis(4));
    net.run(secs(1));
    assert_eq!(net.numbers(Client), (0..5).collect::<Vec<_>>());
}

#[test]
fn a_dead_path_that_is_removed_is_gone_at_the_server_too() {
    let (mut net, id) = Net::connected(1, 3, config());
    net.wires[1].up = false;
    net.stream(Client, id, 0, 300, Duration::from_millis(4));
    assert_eq!(net.state(Client, id)[1], PathState::Suspect);
    net.client.remove_path(net.now, id, PathId(1));
    net.run(secs(4));
    let sid = net.server_id();
    assert_eq!(net.state(Server, sid), [PathState::Up, PathState::Up]);
    assert_eq!(net.status(Server, sid).peer_addresses, []);
    // The freed Address ID can serve another path from the same source.
    net.wires[1].up = true;
    net.client.add_path(net.now, id, path(1));
    net.run(secs(1));
    assert_eq!(net.state(Client, id), [PathState::Up; 3]);
}

/// RFC 9897 section 3.2.2: an Address ID is free again only once neither end uses it. The new path and the
/// dead path therefore have different Address IDs, so the removal of the dead path cannot end the new one.
#[test]
fn a_dead_path_may_be_replaced_at_once() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.wires[1].up = false;
    net.stream(Client, id, 0, 300, Duration::from_millis(4));
    assert_eq!(net.state(Client, id)[1], PathState::Suspect);
    net.wires[1].up = true;
    net.client.remove_path(net.now, id, PathId(1));
    net.client.add_path(net.now, id, path(1));
    net.run(secs(4));
    let sid = net.server_id();
    let joins = net.log.iter().flat_map(Logged::mp);
    let ids: Vec<u8> = joins
        .filter_map(|mp| match mp {
            MpOption::Join { addr_id, .. } if addr_id != 0 => Some(addr_id),
            _ => None,
        })
        .collect();
    assert_eq!(ids, [1, 2]);
    assert_eq!(
        (net.state(Client, id), net.state(Server, sid)),
        (vec![PathState::Up; 2], vec![PathState::Up; 2])
    );
}

#[test]
fn removing_the_address_in_use_closes_the_subflow() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.wires[1].up = false;
    net.client.set_link(net.now, id, PathId(1), false);
    net.client.remove_path(net.now, id, PathId(1));
    net.drain();
    let sid = net.server_id();
    net.run(Duration::from_millis(15));
    assert_eq!(net.state(Server, sid), [PathState::Up, PathState::Down], "closing");
    net.run(secs(4));
    assert!(net.events_of(Server).contains(&SessionEvent::PathDown(PathId(1), Reason::Closed)));
}

/// Round robin uses the returned path even without a backlog, whereas the automatic scheduler uses it only
/// when the other path is full.
#[test]
fn an_equal_path_is_used_within_a_second_of_its_return() {
    for (name, gap) in [("rr", 500), ("rr", 4_000), ("auto", 500), ("auto", 800)] {
        let mut cfg = config();
        cfg.scheduler = scheduler(name);
        let (mut net, id) = Net::connected(1, 2, cfg);
        for wire in &mut net.wires {
            wire.rate = Some(mpdccp_units::Rate::from_bps(10_000_000));
        }
        let mut first = 0;
        // Returns the percentage of the next datagrams that are sent on path 1.
        let mut carried = |net: &mut Net, ms: u32| {
            let (start, count) = (net.log.len(), ms * 1_000 / gap);
            net.stream(Client, id, first, count, Duration::from_micros(gap.into()));
            first += count;
            let data = net.log[start..].iter().filter(|l| l.from == Client && !l.packet().payload.is_empty());
            let paths: Vec<usize> = data.map(|l| l.path).collect();
            paths.iter().filter(|path| **path == 1).count() * 100 / paths.len()
        };
        assert!(carried(&mut net, 2_000) >= 30, "{name}: both paths must be used");
        net.wires[1].up = false;
        carried(&mut net, 1_000);
        assert_eq!(carried(&mut net, 1_000), 0, "{name}: the failed path must not be used");
        net.wires[1].up = true;
        assert!(carried(&mut net, 1_000) > 0, "{name}: the path must be used again");
        let then = carried(&mut net, 1_000);
        assert!(then >= 30, "{name}: the path carries only {then} %");
    }
}

#[test]
fn an_idle_path_is_asked_once_in_each_keepalive() {
    let (mut net, id) = Net::connected(1, 2, config());
    let keepalive = config().keepalive;
    net.stream(Client, id, 0, 10, Duration::from_millis(4));
    // The session no longer has recent data, so the extra probes have ended.
    net.run(keepalive * 2);
    let before = net.log.len();
    net.run(keepalive * 10);
    // In each of ten intervals, each of two paths has one probe and one answer.
    let packets = net.log.len() - before;
    assert!((36..=40).contains(&packets), "{packets}");
    assert_eq!(net.state(Client, id), [PathState::Up, PathState::Up]);
}

/// A session with data probes its idle paths often, so that a dead path is detected before it is needed.
#[test]
fn an_idle_path_beside_a_busy_one_is_asked_four_times_as_often() {
    let (mut net, id) = Net::connected(1, 2, SessionConfig { scheduler: scheduler("cpf"), ..config() });
    net.client.set_prio(net.now, id, PathId(1), 2);
    let keepalive = config().keepalive;
    let asked = |net: &mut Net, busy: bool| {
        let before = net.log.len();
        match busy {
            true => net.stream(Client, id, 0, 1_200, keepalive / 120),
            false => net.run(keepalive * 10),
        }
        let there = net.log[before..].iter().filter(|l| l.from == Client && l.path == 1);
        there.filter(|l| l.packet().header.ptype == PacketType::Sync).count()
    };
    let busy = asked(&mut net, true);
    net.run(keepalive * 2);
    let idle = asked(&mut net, false);
    assert!(
        (9..=11).contains(&idle) && (36..=44).contains(&busy),
        "{idle} probes when idle, {busy} when busy, in ten keepalive intervals"
    );
}
