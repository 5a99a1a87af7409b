//! Tests of a client that moves to another server.

use crate::tcp::{STREAMS, world_of};
use crate::world::{CLIENTS, ClientFile, SECOND, SERVERS, SOON, World, inner, server_text, up, up_with};
use mpdccp_proxy::{Command as Told, Event};
use mpdccp_tunnel::{Command, Packet};
use mpdccp_units::Duration;
use std::net::IpAddr;

/// Makes client 0's server ask its clients to leave or, if not `orderly`, fall silent.
fn leave(world: &mut World, orderly: bool) {
    match orderly {
        true => drop(world.hosts[SERVERS[0]].command(world.now, Command::Drain)),
        false => world.hosts[SERVERS[0]].stopped = true,
    }
}

#[test]
fn paths_to_an_advertised_address_end_with_their_server() {
    let own: IpAddr = [203, 0, 113, 9].into();
    let mesh = || ClientFile { extra: "join_advertised = \"mesh\"".into(), ..ClientFile::new() };
    for orderly in [true, false] {
        let mut world =
            World::new([mesh(), mesh()], &server_text([true; CLIENTS], "advertise = [\"203.0.113.9\"]"));
        world.restart(SERVERS[1], &server_text([true; CLIENTS], ""));
        world.run(Duration::from_secs(4));
        let opened =
            |world: &World| world.hosts[0].opened.iter().filter(|path| path.remote.ip() == own).count();
        assert_eq!((world.server_of(0), opened(&world)), (Some(SERVERS[0]), 2));
        leave(&mut world, orderly);
        world.run(SOON);
        assert_eq!((world.server_of(0), opened(&world)), (Some(SERVERS[1]), 2), "orderly: {orderly}");
    }
}

#[test]
fn paths_to_an_advertised_address_follow_the_file() {
    let mesh = || ClientFile { extra: "join_advertised = \"mesh\"".into(), ..ClientFile::new() };
    let mut world =
        World::new([mesh(), mesh()], &server_text([true; CLIENTS], "advertise = [\"203.0.113.9\"]"));
    world.run(Duration::from_secs(3));
    world.hosts[0].reload(world.now, &ClientFile { interface: "p1", second: Some(5), ..mesh() }.text(0));
    world.run(Duration::from_secs(2));
    assert_eq!(world.path(0, "b@203.0.113.9").map(|path| path.priority), Some(5));
    let own: IpAddr = [203, 0, 113, 9].into();
    let opened = world.hosts[0].opened.iter().filter(|path| path.remote.ip() == own);
    let interfaces: Vec<_> = opened.map(|path| path.interface.as_deref().unwrap_or_default()).collect();
    assert_eq!(interfaces, ["p0", "p1", "p1"], "only the first path has another interface");
}

#[test]
fn an_address_to_which_the_servers_name_leads_gets_no_second_path() {
    let extra = "join_advertised = \"mesh\"".into();
    let named = ClientFile { remote: "\"hub.test\"".into(), extra, ..ClientFile::new() };
    let server = server_text([true; CLIENTS], "advertise = [\"198.51.100.1\", \"203.0.113.9\"]");
    let mut world = World::new([named, ClientFile::new()], &server);
    world.run(Duration::from_secs(4));
    let mut remotes: Vec<IpAddr> = world.hosts[0].opened.iter().map(|path| path.remote.ip()).collect();
    remotes.sort();
    let [own, other] = [[198, 51, 100, 1], [203, 0, 113, 9]].map(IpAddr::from);
    assert_eq!(remotes, [own, own, other, other]);
}

/// The host may take a while to open a socket, and the client may change servers meanwhile.
#[test]
fn a_socket_that_opens_after_the_change_of_server_is_closed() {
    for orderly in [true, false] {
        let one = || ClientFile { second: None, ..ClientFile::new() };
        let mut world = up_with([one(), one()], "");
        world.hosts[0].slow = true;
        world.hosts[0].reload(world.now, &ClientFile::new().text(0));
        leave(&mut world, orderly);
        world.run(SOON);
        world.hosts[0].hurry(world.now);
        world.run(Duration::from_secs(20));
        assert_eq!(world.server_of(0), Some(SERVERS[1]));
        let remotes: Vec<IpAddr> = world.hosts[0].sockets.values().map(|socket| socket.remote.ip()).collect();
        assert_eq!(remotes, [crate::world::server_ip(SERVERS[1]); 2], "orderly: {orderly}");
    }
}

/// Sends a packet from client 0 every 100 ms.
fn talk(world: &mut World, packets: usize) {
    for _ in 0..packets {
        world.send(0, inner(SERVERS[0]), 500);
        world.run(Duration::from_millis(100));
    }
}

#[test]
fn a_client_goes_to_the_next_server_when_its_own_falls_silent() {
    let mut world = up();
    leave(&mut world, false);
    // The client moves within 3 s, which is before the next periodic check.
    talk(&mut world, 28);
    assert_eq!(world.server_of(0), Some(SERVERS[1]));
    world.run(Duration::from_secs(30));
    assert!(world.reaches(0, SERVERS[1]));
}

#[test]
fn a_dead_server_is_left_as_soon_over_a_long_round_trip() {
    let mut world = up();
    world.delay = Duration::from_millis(300);
    talk(&mut world, 100);
    leave(&mut world, false);
    // Five seconds are enough for 2 s of silence and four round trips of 0.6 s, which the handshake and the
    // new session take.
    talk(&mut world, 50);
    assert_eq!(world.server_of(0), Some(SERVERS[1]));
}

#[test]
fn a_server_is_not_left_because_its_answers_take_long() {
    let mut world = up();
    for delay in (100..=1_500).step_by(100) {
        world.delay = Duration::from_millis(delay);
        talk(&mut world, 60);
    }
    assert_eq!(world.server_of(0), Some(SERVERS[0]));
    assert!(!world.hosts[0].log.iter().any(|line| line.contains("switching")));
}

/// One client does not answer the close, so the server waits. Meanwhile, the other client tries to reconnect.
#[test]
fn a_server_that_ends_opens_no_more_sessions() {
    let mut world = up_with([ClientFile::of_one_server(), ClientFile::of_one_server()], "");
    for interface in ["p0", "p1"] {
        world.change(1, interface, |access| access.up = false);
    }
    world.hosts[SERVERS[0]].log.clear();
    world.hosts[SERVERS[0]].command(world.now, Command::ShutDown);
    world.run(SECOND);
    let server = &world.hosts[SERVERS[0]];
    assert!(!server.stopped, "it waits for the silent client");
    assert!(!server.log.iter().any(|line| line.contains("session open")), "{:?}", server.log);
    world.run(SOON);
    assert!(world.hosts[SERVERS[0]].stopped);
}

#[test]
fn a_used_up_quota_holds_at_the_next_server_from_the_start() {
    let file = ClientFile { quota: true, ..ClientFile::new() };
    let mut world = World::new([file, ClientFile::new()], &server_text([true; CLIENTS], ""));
    world.run(SOON);
    world.hosts[0].sockets.values_mut().for_each(|socket| socket.bytes += 2_000_000);
    world.run(SECOND * 2);
    leave(&mut world, true);
    world.run(SOON);
    assert_eq!(world.server_of(0), Some(SERVERS[1]));
    assert_eq!(world.path(0, "a").map(|path| path.priority), Some(1));
    let told = world.hosts[0].warned.iter().filter(|line| line.contains("has used up")).count();
    assert_eq!(told, 1, "{:?}", world.hosts[0].warned);
}

/// A draining server keeps the sessions that carry connections, so it lets their paths join again.
#[test]
fn connections_at_a_draining_server_outlive_an_outage() {
    let file = ClientFile { extra: STREAMS.into(), ..ClientFile::new() };
    let mut world = world_of(file, STREAMS);
    let [near, far] = world.open(1_000);
    leave(&mut world, true);
    world.run(SOON);
    assert_eq!(world.server_of(0), Some(SERVERS[1]));
    for (up, seconds) in [(false, 40), (true, 60)] {
        for interface in ["p0", "p1"] {
            world.change(0, interface, |access| access.up = up);
        }
        world.run(SECOND * seconds);
    }
    world.says(0, Event::Data(near, b"ask".to_vec()));
    assert!(world.told(SERVERS[0]).contains(&Told::Data(far, b"ask".to_vec())), "{:?}", world.hosts[0].log);
}

/// The server may ask the client to leave while the client's only path moves.
#[test]
fn connections_outlive_a_move_of_the_only_path_during_a_drain() {
    let file = ClientFile { interface: "p*", second: None, extra: STREAMS.into(), ..ClientFile::new() };
    let mut world = world_of(file, STREAMS);
    let [near, far] = world.open(1_000);
    world.hosts[0].slow = true;
    world.change(0, "p0", |access| access.up = false);
    world.run(SECOND / 10);
    let now = world.now;
    let host = &mut world.hosts[0];
    assert!(
        host.sockets.values().all(|socket| socket.interface == "p0"),
        "the path is closed and not open yet"
    );
    let session = host.tunnel.sessions().next().unwrap().0;
    host.packet(now, Packet::Session(session, vec![0x10, 1]));
    leave(&mut world, true);
    world.hosts[0].hurry(now);
    world.run(SOON);
    assert_eq!(world.server_of(0), Some(SERVERS[1]));
    world.says(0, Event::Data(near, b"ask".to_vec()));
    assert!(world.told(SERVERS[0]).contains(&Told::Data(far, b"ask".to_vec())), "{:?}", world.hosts[0].log);
}
