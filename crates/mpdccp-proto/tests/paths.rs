//! Paths that die, return, come and go while data runs.

mod common;

use common::End::{Client, Server};
use common::*;
use dccp_wire::PacketType;
use mpdccp_proto::*;
use std::net::IpAddr;
use units::Duration;

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Datagrams that never arrived.
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
    assert_eq!(net.health(Client, id), [Health::Up, Health::Stale]);
    assert_eq!(net.events_of(Client).last(), Some(&SessionEvent::PathStale(PathId(1))));
    // Nothing but what was sent on the dead path before it was found out is lost.
    let lost_then = net.wires[1].lost_down;
    net.stream(Client, id, 1000, 500, gap);
    net.run(secs(1));
    let data = net.log.iter().filter(|l| l.path == 1 && l.from == Client && !l.packet().payload.is_empty());
    let on_dead_path = data.filter(|l| l.at >= down).count();
    assert_eq!(missing(&net, 1500), on_dead_path);
    assert!(on_dead_path > 0 && on_dead_path < 100, "{on_dead_path}");
    assert!(net.wires[1].lost_down - lost_then < 10, "only probes leave on a silent path");
    net.wires[1].up = true;
    net.run(secs(3));
    assert_eq!(net.health(Client, id), [Health::Up, Health::Up]);
    assert_eq!(net.events_of(Client).last(), Some(&SessionEvent::PathUp(PathId(1))));
    let before = net.logged(Client, PacketType::Data).iter().filter(|l| l.path == 1).count();
    net.stream(Client, id, 1500, 200, gap);
    net.run(secs(1));
    let after = net.logged(Client, PacketType::Data).iter().filter(|l| l.path == 1).count();
    assert!(after > before + 50, "the path is used again");
    assert_eq!(missing(&net, 1700), on_dead_path);
}

#[test]
fn the_first_subflow_may_die() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.wires[0].up = false;
    net.stream(Client, id, 0, 300, Duration::from_millis(4));
    net.run(secs(100));
    assert_eq!(net.status(Client, id).state, SessionState::Open);
    assert_ne!(net.health(Client, id)[0], Health::Up);
    let sid = net.server_id();
    net.stream(Server, sid, 0, 100, Duration::from_millis(4));
    net.run(secs(1));
    assert_eq!(net.numbers(Client), (0..100).collect::<Vec<_>>());
    // It returns as a join.
    net.wires[0].up = true;
    net.run(secs(40));
    assert_eq!(net.health(Client, id), [Health::Up, Health::Up]);
    assert_eq!(net.health(Server, sid), [Health::Up, Health::Up]);
    assert!(net.events_of(Client).contains(&SessionEvent::PathDown(PathId(0), "silent for too long".into())));
}

#[test]
fn paths_are_added_and_removed_while_data_runs() {
    let (mut net, id) = Net::connected(1, 1, config());
    let gap = Duration::from_millis(4);
    net.stream(Client, id, 0, 100, gap);
    net.wires.push(net.wires[0].clone());
    let added = net.client.add_path(net.now, id, path(1)).unwrap();
    net.drain();
    net.stream(Client, id, 100, 100, gap);
    assert_eq!(net.health(Client, id), [Health::Up, Health::Up]);
    net.client.remove_path(net.now, id, PathId(0));
    net.drain();
    net.stream(Client, id, 200, 100, gap);
    net.run(secs(1));
    assert_eq!(missing(&net, 300), 0);
    let status = net.status(Client, id);
    assert_eq!(status.paths.iter().map(|p| p.id).collect::<Vec<_>>(), [added]);
    assert!(net.events_of(Client).contains(&SessionEvent::PathDown(PathId(0), "removed".into())));
    let sid = net.server_id();
    assert_eq!(net.status(Server, sid).paths.len(), 1, "an ordinary Close ends the subflow alone");
    net.run(secs(60));
    assert!(net.log.iter().all(|l| l.path != 0 || l.at < net.now - secs(50)), "it is not tried again");
}

#[test]
fn the_server_may_close_a_path_and_the_client_joins_again() {
    let (mut net, id) = Net::connected(1, 2, config());
    let sid = net.server_id();
    net.server.remove_path(net.now, sid, PathId(1));
    net.drain();
    net.run(Duration::from_millis(500));
    assert_eq!(net.health(Client, id), [Health::Up, Health::Down]);
    assert!(net.events_of(Client).contains(&SessionEvent::PathDown(PathId(1), "closed by the peer".into())));
    net.run(secs(2));
    assert_eq!(net.health(Client, id), [Health::Up, Health::Up]);
}

#[test]
fn a_nat_that_forgets_is_found_out() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.wires[1].nat_port += 1;
    net.stream(Client, id, 0, 1000, Duration::from_millis(4));
    net.run(secs(30));
    assert_eq!(net.health(Client, id), [Health::Up, Health::Up]);
    let sid = net.server_id();
    net.stream(Server, sid, 0, 200, Duration::from_millis(4));
    net.run(secs(1));
    assert_eq!(net.numbers(Client), (0..200).collect::<Vec<_>>());
}

#[test]
fn idle_paths_are_kept_alive_and_dead_ones_found() {
    let (mut net, id) = Net::connected(1, 2, config());
    let sid = net.server_id();
    net.run(secs(120));
    assert_eq!(net.health(Client, id), [Health::Up, Health::Up]);
    assert_eq!(net.health(Server, sid), [Health::Up, Health::Up]);
    for p in [0, 1] {
        let times: Vec<_> =
            net.log.iter().filter(|l| l.path == p && l.from == Client).map(|l| l.at).collect();
        let gaps = times.windows(2).map(|w| w[1] - w[0]);
        assert!(gaps.max().unwrap() <= secs(13), "a NAT binding must not go idle");
    }
    net.wires[0].up = false;
    net.run(secs(15));
    assert_ne!(net.health(Client, id)[0], Health::Up);
    net.run(secs(15));
    assert_ne!(net.health(Server, sid)[0], Health::Up, "the server sees it too");
}

#[test]
fn a_link_reported_down_is_left_at_once() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.wires[1].up = false;
    net.client.set_link(net.now, id, PathId(1), false);
    net.drain();
    assert_eq!(net.health(Client, id), [Health::Up, Health::Stale]);
    net.stream(Client, id, 0, 100, Duration::from_millis(4));
    net.run(secs(1));
    assert_eq!(missing(&net, 100), 0);
    net.wires[1].up = true;
    net.client.set_link(net.now, id, PathId(1), true);
    net.drain();
    net.run(Duration::from_millis(25));
    assert_eq!(net.health(Client, id), [Health::Up, Health::Up], "within one round trip");
}

#[test]
fn a_link_reported_down_that_works_comes_back_by_itself() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.client.set_link(net.now, id, PathId(0), false);
    net.drain();
    net.run(secs(1));
    assert_eq!(net.health(Client, id), [Health::Up, Health::Up]);
}

#[test]
fn the_session_survives_without_paths_for_a_while() {
    let (mut net, id) = Net::connected(1, 2, config());
    net.wires.iter_mut().for_each(|w| w.up = false);
    net.stream(Client, id, 0, 10, Duration::from_millis(4));
    net.run(secs(45));
    net.wires.iter_mut().for_each(|w| w.up = true);
    net.run(secs(32));
    assert_eq!(net.health(Client, id), [Health::Up, Health::Up]);
    net.wires.iter_mut().for_each(|w| w.up = false);
    net.stream(Client, id, 10, 10, Duration::from_millis(4));
    net.run(secs(90));
    assert_eq!(net.closed_reason(Client).as_deref(), Some("no path was up for too long"));
    assert_eq!(net.closed_reason(Server).as_deref(), Some("no path was up for too long"));
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
    assert_eq!(net.health(Client, id)[2], Health::Up);
    net.stream(Client, id, 0, 50, Duration::from_millis(4));
    net.run(secs(1));
    assert_eq!(missing(&net, 50), 0);
    // The path that became the first subflow has Address ID 0; the others join with IDs of their own.
    net.wires[0].up = true;
    net.wires[1].up = true;
    net.run(secs(60));
    assert_eq!(net.health(Client, id), [Health::Up; 3]);
}

#[test]
fn nobody_answers() {
    for paths in [1, 2] {
        let mut net = Net::new(1, paths, config());
        net.wires.iter_mut().for_each(|w| w.up = false);
        net.connect(config());
        net.run(secs(140));
        assert_eq!(net.closed_reason(Client).as_deref(), Some("no answer from the peer"));
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
    assert_eq!(net.closed_reason(Client).as_deref(), Some("the peer does not know the session any more"));
}

#[test]
fn priorities_are_obeyed_on_both_sides() {
    let mut cfg = config();
    cfg.scheduler = sched::SchedulerKind::Cpf;
    let (mut net, id) = Net::connected(1, 2, cfg);
    net.client.set_prio(net.now, id, PathId(0), 0);
    net.drain();
    net.run(Duration::from_millis(100));
    let sid = net.server_id();
    assert_eq!(net.status(Server, sid).paths[0].prio, 0);
    let start = net.now;
    net.stream(Client, id, 0, 50, Duration::from_millis(4));
    net.stream(Server, sid, 0, 50, Duration::from_millis(4));
    let on_0 = net.log.iter().filter(|l| l.at > start && l.path == 0 && !l.packet().payload.is_empty());
    assert_eq!(on_0.count(), 0);
}

#[test]
fn an_address_advertised_reaches_the_peer_and_is_taken_back() {
    let (mut net, id) = Net::connected(1, 2, config());
    let sid = net.server_id();
    let addresses: [IpAddr; 2] = ["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
    let a = net.server.advertise(net.now, sid, addresses[0], None).unwrap();
    let b = net.server.advertise(net.now, sid, addresses[1], Some(7000)).unwrap();
    net.drain();
    net.run(Duration::from_millis(100));
    assert_eq!(
        net.status(Client, id).peer_addresses,
        [(a, addresses[0], None), (b, addresses[1], Some(7000))]
    );
    let sent = net.log.len();
    net.server.withdraw(net.now, sid, a);
    net.drain();
    net.run(secs(5));
    assert_eq!(net.status(Client, id).peer_addresses, [(b, addresses[1], Some(7000))]);
    assert!(net.log.len() < sent + 8, "confirmed once, not repeated");
    assert_eq!(net.server.advertise(net.now, sid, addresses[0], None), Some(a), "the ID is free again");
    // Empty DCCP-Data that carried the options takes its place in the order, and is not delivered.
    net.stream(Server, sid, 0, 5, Duration::from_millis(4));
    net.run(secs(1));
    assert_eq!(net.numbers(Client), (0..5).collect::<Vec<_>>());
}

#[test]
fn a_dead_path_that_is_removed_is_gone_at_the_server_too() {
    let (mut net, id) = Net::connected(1, 3, config());
    net.wires[1].up = false;
    net.stream(Client, id, 0, 300, Duration::from_millis(4));
    assert_eq!(net.health(Client, id)[1], Health::Stale);
    net.client.remove_path(net.now, id, PathId(1));
    net.drain();
    net.run(secs(4));
    let sid = net.server_id();
    assert_eq!(net.health(Server, sid), [Health::Up, Health::Up]);
    assert_eq!(net.status(Server, sid).peer_addresses, []);
    // Another path from the same source gets an Address ID again.
    net.wires[1].up = true;
    net.client.add_path(net.now, id, path(1));
    net.drain();
    net.run(secs(1));
    assert_eq!(net.health(Client, id), [Health::Up; 3]);
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
    assert_eq!(net.health(Server, sid), [Health::Up, Health::Down], "closing");
    net.run(secs(4));
    assert!(net.events_of(Server).contains(&SessionEvent::PathDown(PathId(1), "closed".into())));
}
