//! Joins to addresses that the server advertises, and joins by the server itself
//! (RFC 9897 sections 3.2.8 and 3.3).

use crate::common::End::{Client, Server};
use crate::common::*;
use dccp_proto::Ecn;
use dccp_wire::{MpOption, PacketType};
use mpdccp_proto::*;
use mpdccp_units::Duration;

/// Creates a session with one path, in which the server advertises its address on the second wire. Both
/// source addresses of the client can reach that address.
fn advertised(join_advertised: JoinFrom) -> (Net, SessionId, SessionId, u8) {
    let mut net = Net::new(1, 1, config());
    net.add_wire();
    net.wires[1].socket = 0;
    let id = net.client.connect(net.now, SessionConfig { join_advertised, ..config() }, path(0));
    net.run(Duration::from_secs(1));
    let sid = net.server_id();
    let addr = net.server.advertise(net.now, sid, client_route(1).remote.ip(), None).unwrap();
    net.run(Duration::from_secs(1));
    (net, id, sid, addr)
}

/// RFC 9897 section 3.2.8: if the option contains no port, the port of the advertising subflow applies.
#[test]
fn an_advertised_address_is_joined_if_that_is_wanted() {
    for (join, paths) in [(JoinFrom::Nowhere, 1), (JoinFrom::One, 2), (JoinFrom::All, 2)] {
        let (mut net, id, sid, addr) = advertised(join);
        assert_eq!(net.state(Client, id), vec![PathState::Up; paths], "{join:?}");
        net.stream(Client, id, 0, 20, Duration::from_millis(4));
        net.run(Duration::from_secs(1));
        assert_eq!(net.numbers(Server).len(), 20);
        net.server.withdraw(net.now, sid, addr);
        net.run(Duration::from_secs(10));
        assert_eq!(
            net.state(Client, id),
            [PathState::Up],
            "RFC 9897 section 3.2.9: subflows to a withdrawn address end"
        );
    }
}

/// RFC 9897 section 3.2.8: if the option contains a port, the client joins to that port.
#[test]
fn a_join_goes_to_the_port_that_was_advertised() {
    let (mut net, _) = Net::connected(1, 1, SessionConfig { join_advertised: JoinFrom::One, ..config() });
    net.add_wire();
    net.wires[1].socket = 0;
    let sid = net.server_id();
    net.server.advertise(net.now, sid, client_route(1).remote.ip(), Some(7000)).unwrap();
    net.run(Duration::from_secs(1));
    let joins = net.log.iter().filter(|packet| packet.from == Client && packet.path == 1);
    let ports: Vec<_> = joins.map(|join| join.packet().header.dst_port).collect();
    assert!(!ports.is_empty() && ports.iter().all(|port| *port == 7000), "{ports:?}");
}

/// RFC 9897 section 3.2.9: the server advertises the address again while the client is still closing the
/// subflow that used it.
#[test]
fn an_address_that_is_advertised_again_is_joined_again() {
    let (mut net, id, sid, addr) = advertised(JoinFrom::One);
    let before = net.status(Client, id).paths[1].id;
    net.server.withdraw(net.now, sid, addr);
    net.server.advertise(net.now, sid, client_route(1).remote.ip(), None).unwrap();
    net.run(Duration::from_secs(5));
    assert_eq!(net.state(Client, id), [PathState::Up; 2]);
    assert_ne!(net.status(Client, id).paths[1].id, before);
}

/// Returns the packet with an MP_SEQ that is `by` later.
fn renumbered(packet: &Logged, by: u64) -> Vec<u8> {
    let mut mp = packet.mp();
    let MpOption::Seq(seq) = &mut mp[0] else { panic!("{mp:?}") };
    *seq = seq.add(by);
    with_options(&packet.bytes, &encode(&mp))
}

/// RFC 9897 section 3.2.1: only a newer MP_ADDADDR has an effect. The HMAC does not cover the MP_SEQ, so a
/// replayed option may have a new one.
#[test]
fn a_copy_of_an_advertisement_does_not_bring_back_a_removed_path() {
    let (mut net, id, sid, addr) = advertised(JoinFrom::One);
    let told = net.log.iter().find(|p| p.mp().iter().any(|mp| matches!(mp, MpOption::AddAddr { .. })));
    let copies = [0, 1, 9].map(|by| renumbered(told.unwrap(), by));
    let path = net.status(Client, id).paths[1].id;
    net.client.remove_path(net.now, id, path);
    net.run(Duration::from_secs(1));
    for (n, copy) in copies.iter().enumerate() {
        if n == 2 {
            net.server.withdraw(net.now, sid, addr);
            net.run(Duration::from_secs(1));
        }
        net.inject(Client, client_route(0), Ecn::NotEct, copy);
        net.run(Duration::from_secs(1));
        assert_eq!(net.state(Client, id), [PathState::Up], "copy {n}");
        assert_eq!(counter(&net.status(Client, id), "outdated_mp_option"), n as u64 + 1);
    }
}

/// RFC 9897 section 3.4: after a failed attempt to connect, the address is not tried again until it is
/// readvertised.
#[test]
fn an_advertised_address_that_does_not_answer_waits_for_the_next_advertisement() {
    let (mut net, id) = Net::connected(1, 1, SessionConfig { join_advertised: JoinFrom::One, ..config() });
    net.add_wire();
    (net.wires[1].socket, net.wires[1].up) = (0, false);
    let sid = net.server_id();
    let there = client_route(1).remote.ip();
    let addr = net.server.advertise(net.now, sid, there, None);
    net.run(Duration::from_secs(60));
    assert_eq!(net.state(Client, id), [PathState::Up]);
    net.wires[1].up = true;
    net.run(Duration::from_secs(60));
    assert_eq!(net.state(Client, id), [PathState::Up], "a failed address must not be retried by itself");
    assert_eq!(net.server.advertise(net.now, sid, there, None), addr);
    net.run(Duration::from_secs(1));
    assert_eq!(net.state(Client, id), [PathState::Up; 2]);
}

/// An advertised address may lead to a different server, so a refusal from there must not end the session.
#[test]
fn a_refusal_at_an_advertised_address_does_not_end_the_session() {
    let (mut net, id) = Net::connected(1, 1, SessionConfig { join_advertised: JoinFrom::One, ..config() });
    net.add_wire();
    net.wires[1].socket = 0;
    // The server at the second address does not know the connection identifier.
    net.meddler = Some(Box::new(|from, path, bytes| {
        if from == Client && path == 1 {
            spoil(bytes, 1, 5);
        }
        true
    }));
    let sid = net.server_id();
    net.server.advertise(net.now, sid, client_route(1).remote.ip(), None).unwrap();
    net.wires[0].delay = Duration::from_millis(10);
    net.run(Duration::from_millis(15));
    // The join is in flight when the only subflow fails.
    net.wires[0].up = false;
    net.client.set_link(net.now, id, PathId(0), false);
    net.client.remove_path(net.now, id, PathId(0));
    net.run(Duration::from_secs(5));
    assert!(counted(&net.server.stats().counters, "join_unknown_ci") > 0);
    assert_eq!(net.closed_reason(Client), None);
}

/// Sources of the other address family are not used.
#[test]
fn an_advertised_address_of_the_other_family_is_not_joined() {
    let (mut net, id, sid) = Net::both(1, 1, SessionConfig { join_advertised: JoinFrom::All, ..config() });
    net.server.advertise(net.now, sid, "2001:db8::7".parse().unwrap(), None).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!((net.status(Client, id).peer_addresses.len(), net.state(Client, id).len()), (1, 1));
}

/// RFC 9897 section 3.2.2: either host may open a subflow.
#[test]
fn the_server_joins_a_path_and_joins_it_again() {
    let (mut net, id, sid) = Net::joinable();
    let back = PathConfig { route: server_route(1), ..path(1) };
    let joined = net.server.add_path(net.now, sid, back).unwrap();
    net.run(Duration::from_secs(1));
    assert_eq!(
        (net.state(Client, id), net.state(Server, sid)),
        (vec![PathState::Up; 2], vec![PathState::Up; 2])
    );
    net.stream(Client, id, 0, 40, Duration::from_millis(4));
    net.stream(Server, sid, 0, 40, Duration::from_millis(4));
    net.run(Duration::from_secs(1));
    assert_eq!((net.numbers(Server).len(), net.numbers(Client).len()), (40, 40));
    // The client closes the subflow. The server had connected it, and connects it again.
    let accepted = net.status(Client, id).paths[1].id;
    net.client.remove_path(net.now, id, accepted);
    net.run(Duration::from_millis(500));
    assert_eq!(net.state(Client, id), [PathState::Up], "only the server may connect the subflow again");
    net.run(Duration::from_secs(5));
    assert_eq!(net.state(Client, id), [PathState::Up; 2]);
    net.server.remove_path(net.now, sid, joined);
    net.run(Duration::from_secs(5));
    assert_eq!((net.state(Client, id), net.state(Server, sid)), (vec![PathState::Up], vec![PathState::Up]));
}

/// A restarted server refuses joins. The client must not repeat them as fast as the server refuses them.
#[test]
fn a_refused_join_waits_before_the_next() {
    let (mut net, id) = Net::connected(9, 2, config());
    net.stream(Client, id, 0, 1_000, Duration::from_millis(2));
    net.server = mpdccp_proto::Endpoint::new([77; 32]);
    net.server.listen(crate::common::listen(config()));
    // The other path never learns of the restart, so the session stays open.
    net.wires[1].up = false;
    let before = net.logged(Client, PacketType::Request).len();
    net.stream(Client, id, 1_000, 1_000, Duration::from_millis(2));
    let joins = net.logged(Client, PacketType::Request).len() - before;
    assert!((2..=12).contains(&joins), "{joins} joins within 2 s; they must be an RTO apart");
}

/// Once a removal is confirmed, its Address ID may serve a new subflow. A late copy of the removal must not
/// end this subflow, whether it is the copy that the peer confirmed or another.
#[test]
fn a_late_copy_of_a_removal_does_not_end_a_new_subflow() {
    let (mut net, id, sid) = Net::both(1, 2, config());
    net.wires[1].up = false;
    net.client.set_link(net.now, id, PathId(1), false);
    net.client.remove_path(net.now, id, PathId(1));
    net.run(Duration::from_secs(4));
    net.wires[1].up = true;
    net.client.add_path(net.now, id, path(1));
    net.run(Duration::from_secs(1));
    let joins = net.log.iter().flat_map(Logged::mp).filter_map(|option| match option {
        MpOption::Join { addr_id, .. } if addr_id != 0 => Some(addr_id),
        _ => None,
    });
    assert_eq!(joins.collect::<Vec<_>>(), [1, 1], "the new subflow has the Address ID of the old one");
    let is_removal = |option: &MpOption<'_>| matches!(option, MpOption::RemoveAddr { .. });
    let removal = net.log.iter().find(|packet| packet.mp().iter().any(is_removal)).unwrap();
    let copies = [0, 1].map(|by| renumbered(removal, by));
    let route = net.status(Server, sid).paths[0].route;
    for (count, late) in copies.into_iter().enumerate() {
        net.inject(Server, route, Ecn::NotEct, &late);
        net.run(Duration::from_secs(1));
        assert_eq!(counter(&net.status(Server, sid), "outdated_mp_option"), count as u64 + 1);
        assert_eq!(net.state(Server, sid), [PathState::Up; 2]);
    }
}

/// RFC 9897 section 3.2.9: the first subflow's address has Address ID 0. A path that has not joined yet has
/// no Address ID, so it does not keep ID 0 in use.
#[test]
fn a_path_that_waits_does_not_prevent_the_removal_of_the_first_address() {
    let mut net = Net::new(1, 3, config());
    let id = net.connect(SessionConfig { max_paths: 2, ..config() });
    net.run(Duration::from_secs(1));
    net.wires[0].up = false;
    net.client.set_link(net.now, id, PathId(0), false);
    net.client.remove_path(net.now, id, PathId(0));
    net.run(Duration::from_secs(10));
    let sid = net.server_id();
    assert_eq!(net.state(Server, sid), [PathState::Up; 2], "the third path has replaced the first");
}
