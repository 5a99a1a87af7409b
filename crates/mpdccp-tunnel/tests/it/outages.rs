//! The log and the status during outages.

use crate::tcp::{STREAMS, world_of};
use crate::world::{CLIENTS, ClientFile, SECOND, SERVERS, World, server_ip, server_text, talk, up_with};
use mpdccp_proxy::{Command as Told, Event};
use mpdccp_tunnel::{Command, HostEvent};
use mpdccp_units::Duration;
use std::net::SocketAddr;

fn up() -> World {
    let mut world = crate::world::up();
    world.hosts.iter_mut().for_each(|host| host.log.clear());
    world
}

fn about<'a>(world: &'a World, host: usize, path: &str) -> Vec<&'a str> {
    let named = format!("path {path} ");
    world.hosts[host].log.iter().filter(|line| line.contains(&named)).map(String::as_str).collect()
}

/// While a cable is unplugged, the system keeps reporting the same error. In between, it reports that sending
/// works, because some packets seem to leave.
#[test]
fn an_outage_is_two_lines_with_cause_and_length() {
    let mut world = up();
    let (socket, remote) = world.hosts[0]
        .sockets
        .iter()
        .find(|(_, s)| s.interface == "p0")
        .map(|(n, s)| (*n, s.remote))
        .unwrap();
    let link =
        |error: Option<&str>| HostEvent::Link { socket, peer: None, remote, error: error.map(Into::into) };
    let error = Some("p0 has no link");
    world.hosts[0].tell(world.now, link(error));
    world.change(0, "p0", |access| access.up = false);
    for n in 0..10 {
        // During the outage, the system chooses another source address, then returns to the former one.
        world.change(0, "p0", |access| access.ip = [192, 0, 2, if n % 2 == 0 { 77 } else { 0 }].into());
        talk(&mut world, SECOND, 500);
        world.hosts[0].tell(world.now, link(None));
        world.hosts[0].tell(world.now, link(error));
    }
    let dead = world.path(0, "a").unwrap();
    assert!(dead.since_s.is_some_and(|s| (9.0..12.0).contains(&s)), "{:?}", dead.since_s);
    let figures = (dead.srtt_ms, dead.delivery_mbps, dead.cwnd_bytes, dead.loss_percent, dead.phase);
    assert_eq!(figures, (None, None, None, None, None), "the numbers are outdated during the outage");
    world.hosts[0].tell(world.now, link(None));
    world.change(0, "p0", |access| access.up = true);
    talk(&mut world, SECOND * 10, 500);
    let lines = about(&world, 0, "a");
    let [fails, back] = lines[..] else { panic!("{lines:#?}") };
    assert!(fails.contains("fails: p0 has no link; traffic moves to b"), "{fails}");
    assert!(back.contains("is up again after 1"), "{back}");
    let alive = world.path(0, "a").unwrap();
    assert!(alive.since_s.is_some() && alive.srtt_ms.is_some());
}

/// The server learns the names that its client has given the paths.
#[test]
fn both_ends_call_a_path_by_its_name() {
    let mut world = up();
    let paths = world.peer(SERVERS[0], "c0").unwrap().paths;
    assert_eq!(paths.iter().map(|path| &*path.name).collect::<Vec<_>>(), ["a", "b"]);
    world.change(0, "p1", |access| access.up = false);
    talk(&mut world, SECOND * 5, 500);
    let lines = about(&world, SERVERS[0], "b");
    assert!(
        matches!(lines[..], [line] if line.contains("fails: no answer for") && line.contains("traffic moves to a")),
        "{lines:?}"
    );
}

#[test]
fn a_path_that_carries_one_way_only_is_told_from_a_dead_one() {
    let mut world = up();
    world.change(0, "p0", |access| access.mute = true);
    talk(&mut world, SECOND * 3, 500);
    let lines = about(&world, 0, "a");
    assert!(lines[0].contains("fails: packets arrive, but the peer acknowledged nothing"), "{lines:?}");
}

/// However often the clients retry, a server outage appears as a single outage in the log.
#[test]
fn a_server_that_is_away_is_no_stream_of_lines() {
    let mut world = up_with([ClientFile::of_one_server(), ClientFile::of_one_server()], "");
    world.hosts[0].log.clear();
    world.hosts[SERVERS[0]].stopped = true;
    talk(&mut world, SECOND * 120, 500);
    world.hosts[SERVERS[0]].restart(world.now);
    world.run(SECOND * 30);
    let log = &world.hosts[0].log;
    assert!(log.len() < 12, "{log:#?}");
    assert!(log.iter().any(|line| line.contains("no other path is up")), "{log:#?}");
    assert!(log.iter().any(|line| line.contains("session open again after")), "{log:#?}");
}

/// While a name lookup is in progress, nothing is logged as an error.
#[test]
fn a_start_with_a_host_name_warns_of_nothing() {
    let named = ClientFile { remote: "\"hub.test\"".into(), ..ClientFile::new() };
    let world = up_with([named, ClientFile::new()], "");
    assert_eq!(world.server_of(0), Some(SERVERS[0]));
    let log = &world.hosts[0].log;
    assert!(log.iter().all(|line| !line.contains("waits")), "{log:?}");
}

#[test]
fn an_address_that_changed_is_told_at_both_ends() {
    let mut world = up();
    let place = |ip: [u8; 4]| SocketAddr::from((ip, 40_000)).to_string();
    world.change(0, "p0", |access| access.ip = [192, 0, 2, 200].into());
    talk(&mut world, SECOND * 5, 500);
    let moved = format!("moved to {}", place([192, 0, 2, 200]));
    assert!(
        about(&world, SERVERS[0], "a").iter().any(|line| line.contains(&moved)),
        "{:?}",
        world.hosts[SERVERS[0]].log
    );
    assert!(
        about(&world, 0, "a")
            .iter()
            .any(|line| line.contains("changed its source address from 192.0.2.0 to 192.0.2.200")),
        "{:?}",
        world.hosts[0].log
    );
}

/// A peer that sends from two networks moves with each packet.
#[test]
fn a_peer_that_keeps_moving_does_not_keep_the_server_busy() {
    let mut world = up();
    let (now, server) = (world.now, &mut world.hosts[SERVERS[0]]);
    let (socket, peer) = server.channels.iter().map(|(socket, (peer, ..))| (*socket, *peer)).next().unwrap();
    server.looks = 0;
    for n in 0..1_000u32 {
        let remote = SocketAddr::from(([192, 0, 2, 100 + (n % 2) as u8], 40_000));
        server.tell(now, HostEvent::Moved { socket, peer: Some(peer), remote });
    }
    assert_eq!(server.looks, 100);
}

/// RFC 9000 section 9.4: the measurements of the previous network say nothing about the new one.
#[test]
fn a_path_in_another_network_is_measured_anew() {
    let one = ClientFile { second: None, ..ClientFile::new() };
    let mut world = World::new([one, ClientFile::new()], &server_text([true; CLIENTS], ""));
    talk(&mut world, SECOND * 5, 500);
    let least = |world: &World, host, peer| world.peer(host, peer).unwrap().paths[0].min_rtt_ms.unwrap();
    let ends = [(0, "hub"), (SERVERS[0], "c0")];
    let before = ends.map(|(host, peer)| least(&world, host, peer));
    world.change(0, "p0", |access| {
        (access.ip, access.delay) = ([192, 0, 2, 200].into(), Duration::from_millis(100));
    });
    talk(&mut world, SECOND * 10, 500);
    for ((host, peer), before) in ends.into_iter().zip(before) {
        let rtt = least(&world, host, peer);
        assert!(before < 100.0 && rtt > 200.0, "{peer}: {before} ms, then {rtt} ms");
    }
    let log = &world.hosts[0].log;
    assert!(log.iter().all(|line| !line.contains("open again")), "the session must stay open: {log:?}");
}

/// Restarts the server. Returns how many milliseconds pass until client 0 has a session with it.
fn back(world: &mut World) -> u64 {
    world.hosts[SERVERS[0]].restart(world.now);
    for ms in (0..20_000).step_by(10) {
        if world
            .peer(0, "hub")
            .is_some_and(|peer| peer.state == "open" && peer.paths.iter().any(crate::world::is_up))
        {
            return ms;
        }
        world.run(Duration::from_millis(10));
    }
    panic!("{:?}", world.hosts[0].log)
}

/// The server stops cleanly or is killed, and is away for a moment or for half a minute. Within a second of
/// its return, the client has a session again.
#[test]
fn a_server_that_is_back_has_its_clients_back_within_a_second() {
    for second in [None, Some(3)] {
        for (seconds, orderly) in [(1, true), (1, false), (7, true), (7, false), (29, true), (29, false)] {
            let one = || ClientFile { second, ..ClientFile::of_one_server() };
            let mut world = World::new([one(), one()], &server_text([true; CLIENTS], ""));
            world.run(SECOND * 15);
            if orderly {
                world.hosts[SERVERS[0]].command(world.now, Command::ShutDown);
                world.run(SECOND / 2);
            }
            world.hosts[SERVERS[0]].stopped = true;
            talk(&mut world, SECOND * seconds, 500);
            let ms = back(&mut world);
            assert!(ms <= 1_100, "{ms} ms after {seconds} s, orderly: {orderly}, second path: {second:?}");
        }
    }
}

/// All paths start their handshakes at once. Otherwise the first path's time limit of 250 ms would delay the
/// start.
#[test]
fn a_dead_first_line_delays_the_start_by_one_round_trip_of_the_other_only() {
    for delay in [10, 150] {
        let mut world = World::usual();
        world.delay = Duration::from_millis(delay);
        world.change(0, "p0", |access| access.up = false);
        world.hosts[0].restart(world.now);
        let ms = back(&mut world);
        assert!(ms <= 6 * delay + 50, "{ms} ms, three round trips of {} ms", 2 * delay);
    }
}

#[test]
fn the_path_that_answers_first_opens_the_only_session() {
    for (slow, first) in [("p0", "b"), ("p1", "a")] {
        let mut world = World::usual();
        world.change(0, slow, |access| access.delay = Duration::from_millis(5));
        world.run(SECOND * 5);
        world.hosts.iter_mut().for_each(|host| host.log.clear());
        world.hosts[0].restart(world.now);
        world.run(SECOND * 5);
        let log = &world.hosts[0].log;
        let up: Vec<_> = log.iter().filter(|line| line.contains("path") && line.contains("is up")).collect();
        assert!(up.len() == 2 && up[0].contains(&format!("path {first} ")), "{log:#?}");
        let server = &world.hosts[world.server_of(0).unwrap()].log;
        assert_eq!(server.iter().filter(|line| line.contains("session open")).count(), 1, "{server:#?}");
    }
}

/// If a part of the host fails, the whole tunnel ends, so that a service manager can restart it.
#[test]
fn a_tunnel_whose_host_fails_ends_with_the_error() {
    let mut world = up();
    world.hosts[0].tell(world.now, HostEvent::Failed("the TCP proxy failed: x".into()));
    world.run(SECOND);
    let host = &world.hosts[0];
    assert_eq!((host.stopped, host.tunnel.failure()), (true, Some("the TCP proxy failed: x")));
}

/// The first path of the new session is not the first one of the old session.
#[test]
fn a_path_does_not_inherit_the_outage_of_another_path_in_the_last_session() {
    let mut world = up();
    world.change(0, "p0", |access| access.up = false);
    world.run(SECOND * 5);
    let before = world.hosts[SERVERS[0]].log.len();
    let now = world.now;
    world.hosts[0].restart(now);
    world.run(SECOND * 5);
    let lines = &world.hosts[SERVERS[0]].log[before..];
    let has = |words: &str| lines.iter().any(|line| line.contains(words));
    assert!(has("a new session replaces the old one") && has(" is up"), "{lines:?}");
    assert!(!has("is up again"), "{lines:?}");
}

/// A modem that registers again may get another name. It is the client's only line.
#[test]
fn connections_outlive_the_move_of_the_only_path_to_another_interface() {
    for servers in [ClientFile::of_one_server(), ClientFile::new()] {
        let file = ClientFile { interface: "p*", second: None, extra: STREAMS.into(), ..servers };
        let mut world = world_of(file, STREAMS);
        let [near, far] = world.open(1_000);
        world.change(0, "p0", |access| access.up = false);
        world.run(SECOND * 10);
        assert!(world.hosts[0].sockets.values().all(|socket| socket.interface == "p1"));
        world.says(0, Event::Data(near, b"ask".to_vec()));
        assert_eq!(world.told(SERVERS[0]), [Told::Data(far, b"ask".to_vec())]);
        let log = &world.hosts[0].log;
        let opened = log.iter().filter(|line| line.contains("session open")).count();
        assert_eq!(opened, 1, "the session must stay open: {log:?}");
    }
}

/// The host may take a while to open the socket at the new place.
#[test]
fn a_client_whose_only_path_moves_for_too_long_goes_to_the_next_server() {
    let file = ClientFile { interface: "p*", second: None, ..ClientFile::new() };
    let mut world = up_with([file, ClientFile::new()], "");
    world.hosts[0].slow = true;
    world.change(0, "p0", |access| access.up = false);
    world.run(SECOND * 3);
    world.hosts[0].hurry(world.now);
    world.run(SECOND * 5);
    let log = &world.hosts[0].log;
    assert_eq!(world.server_of(0), Some(SERVERS[1]), "{log:?}");
    assert_eq!(log.iter().filter(|line| line.contains("switching")).count(), 1, "{log:?}");
}

/// Behind a load balancer, servers ignore handshakes that name another server.
#[test]
fn a_name_that_leads_to_another_server_starts_with_a_handshake_for_any_server() {
    let named = ClientFile { second: None, remote: "\"hub.test\"".into(), ..ClientFile::new() };
    let mut world = up_with([named, ClientFile::new()], "");
    SERVERS.iter().for_each(|server| world.hosts[*server].stopped = true);
    world.hosts[0].dns = 2;
    talk(&mut world, SECOND * 20, 500);
    let host = &world.hosts[0];
    assert!(host.sockets.values().all(|socket| socket.remote.ip() == server_ip(SERVERS[1])));
    assert_eq!(host.started_over, 1, "{:?}", host.log);
}
