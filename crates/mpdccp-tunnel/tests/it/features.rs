//! Tests of single features of the tunnel.

use crate::host::{BOTH_VERSIONS, UNIX};
use crate::world::{CLIENTS, ClientFile, SECOND, SERVERS, SOON, World, inner, server_text, up, up_with};
use mpdccp_tunnel::config::Prio;
use mpdccp_tunnel::{Answer, Command, StateFile};
use mpdccp_units::Duration;

pub(crate) fn logged(world: &World, host: usize, words: &str) -> bool {
    world.hosts[host].log.iter().any(|line| line.contains(words))
}

#[test]
fn peers_reach_each_other_and_nobody_else() {
    let mut world = up();
    for client in 0..CLIENTS {
        assert!(world.reaches(client, SERVERS[0]) && world.reaches(SERVERS[0], client));
    }
    let between = world.send(0, inner(1), 100);
    world.run(SECOND);
    assert_eq!(
        world.delivered.get(&between),
        Some(&SERVERS[0]),
        "the server's host decides whether to forward the packet"
    );
}

/// The tunnel tells a socket that its path is failing. The socket cannot detect this itself, because packets
/// may still arrive on it.
#[test]
fn the_socket_of_a_suspect_path_is_told() {
    let mut world = up();
    assert!(world.hosts[0].suspected.is_empty());
    world.change(0, "p0", |access| access.mute = true);
    world.run(SOON);
    let of_p0 = |(socket, known): (&u32, &crate::host::Socket)| (known.interface == "p0").then_some(*socket);
    let sockets: Vec<u32> = world.hosts[0].sockets.iter().filter_map(of_p0).collect();
    assert_eq!(world.hosts[0].suspected.iter().copied().collect::<Vec<_>>(), sockets);
}

/// A client may send only from its own prefix.
#[test]
fn a_foreign_source_is_dropped_and_counted() {
    let mut world = up();
    let mut packet = vec![0; 40];
    (packet[0], packet[3]) = (0x45, 40);
    packet[12..16].copy_from_slice(&inner(1).octets());
    packet[16..20].copy_from_slice(&inner(SERVERS[0]).octets());
    world.hosts[0].packet(world.now, mpdccp_tunnel::Packet::Interface(packet));
    world.run(SECOND);
    assert_eq!(world.status(SERVERS[0]).tun.drops.get("bad_source"), Some(&1));
}

#[test]
fn a_drained_server_takes_nobody_and_its_clients_go() {
    let mut world = up();
    let id = world.hosts[SERVERS[0]].command(world.now, Command::Drain);
    assert_eq!(world.hosts[SERVERS[0]].replies.get(&id), Some(&Answer::Clients(2)));
    world.run(SOON);
    // A reload does not end the draining: new clients are still refused.
    let now = world.now;
    world.hosts[SERVERS[0]].reload(now, &server_text([true; CLIENTS], ""));
    world.hosts[SERVERS[0]].log.clear();
    world.hosts[0].restart(now);
    world.run(Duration::from_secs(15));
    assert!(!logged(&world, SERVERS[0], "session open"));
    for client in 0..CLIENTS {
        assert_eq!(world.server_of(client), Some(SERVERS[1]));
        assert!(world.reaches(client, SERVERS[1]) && !world.reaches(SERVERS[0], client));
    }
    let id = world.hosts[SERVERS[0]].command(world.now, Command::Drain);
    assert_eq!(world.hosts[SERVERS[0]].replies.get(&id), Some(&Answer::Clients(0)));
    let id = world.hosts[0].command(world.now, Command::Drain);
    assert!(matches!(world.hosts[0].replies.get(&id), Some(Answer::Error(_))), "a client cannot be drained");
}

#[test]
fn a_drained_server_loses_no_packet() {
    let mut world = up();
    let old = world.server_of(0).unwrap();
    let new = SERVERS[usize::from(old == SERVERS[0])];
    world.hosts[old].command(world.now, Command::Drain);
    let mut sent = Vec::new();
    // Routers keep sending to the old server until they learn the route to the new one. In this test, they
    // learn it one second after the new session opens.
    let (mut by, mut opened) = (old, None);
    for _ in 0..4_000 {
        if world.server_of(0) == Some(new) && world.hosts[new].log.iter().any(|l| l.contains("session open"))
        {
            let since = *opened.get_or_insert(world.now);
            by = if world.now.since(since) >= SECOND { new } else { old };
        }
        sent.push(world.send(0, inner(old), 500));
        sent.push(world.send(by, inner(0), 500));
        world.run(Duration::from_millis(1));
    }
    world.run(SECOND);
    assert_eq!(by, new);
    let lost = sent.iter().filter(|number| !world.delivered.contains_key(number)).count();
    assert_eq!(lost, 0, "of {}", sent.len());
    assert!(!world.reaches(old, 0), "the old session is closed");
}

#[test]
fn a_lost_access_network_is_survived_and_comes_back() {
    let mut world = up();
    world.change(0, "p0", |access| access.up = false);
    world.run(SOON);
    assert_ne!(world.path(0, "a").unwrap().state, "up");
    assert!(world.reaches(0, SERVERS[0]) && world.reaches(SERVERS[0], 0));
    world.change(0, "p0", |access| (access.up, access.ip) = (true, [192, 0, 2, 200].into()));
    world.run(Duration::from_secs(15));
    assert_eq!(world.path(0, "a").unwrap().state, "up");
    assert!(logged(&world, SERVERS[0], "moved to 192.0.2.200:40000"), "the server follows the client");
    let paths = world.peer(SERVERS[0], "c0").unwrap().paths;
    assert!(paths.iter().any(|path| path.remote == "192.0.2.200:40000"), "{paths:?}");
}

#[test]
fn a_used_up_quota_makes_a_path_standby_until_the_month_is_over() {
    let file = ClientFile { quota: true, ..ClientFile::new() };
    let mut world = up_with([file, ClientFile::new()], "");
    assert_eq!(world.path(0, "a").unwrap().priority, 3);
    let a = *world.hosts[0].sockets.iter().find(|(_, s)| s.interface == "p0").unwrap().0;
    world.hosts[0].sockets.get_mut(&a).unwrap().bytes += 2_000_000;
    world.run(SOON);
    assert_eq!(world.path(0, "a").unwrap().priority, 1);
    assert!(world.reaches(0, SERVERS[0]));
    let carried = world.hosts[0].sockets[&a].bytes;
    for _ in 0..20 {
        world.send(0, inner(SERVERS[0]), 1_000);
    }
    world.run(SECOND);
    assert!(world.hosts[0].sockets[&a].bytes < carried + 10_000, "the other path carries the packets");
    // The volume is saved regularly, so it survives a crash.
    world.run(Duration::from_secs(61));
    world.send(0, inner(SERVERS[0]), 100);
    world.run(Duration::from_secs(61));
    assert!(world.hosts[0].saved.contains_key(&StateFile::Volumes));
    world.hosts[0].clock = -(UNIX as i64);
    world.hosts[0].restart(world.now);
    world.run(Duration::from_secs(20));
    assert_eq!(
        world.path(0, "a").unwrap().priority,
        1,
        "the clock shows 1970, which does not count as another month"
    );
    world.hosts[0].clock = 31 * 86_400;
    world.run(SOON);
    assert_eq!(world.path(0, "a").unwrap().priority, 3);
}

/// Sends packets of 1000 bytes at 8 Mbit/s for two seconds. Returns how many of them arrive.
fn delivered(world: &mut World, from: usize, to: usize) -> usize {
    let mut numbers = Vec::new();
    for _ in 0..2_000 {
        numbers.push(world.send(from, inner(to), 1_000));
        world.run(Duration::from_millis(1));
    }
    world.run(SECOND);
    numbers.iter().filter(|number| world.delivered.contains_key(number)).count()
}

#[test]
fn rates_of_peers_and_paths_are_kept_to_as_soon_as_the_file_says_them() {
    let mut world = up();
    let server = SERVERS[0];
    assert!(delivered(&mut world, server, 0) > 1_800 && delivered(&mut world, 0, server) > 1_800);
    // At 1 Mbit/s, 250 packets arrive during the two seconds of sending, and up to 125 more in the second
    // after that.
    let kept = 180..400;
    let of_peer = |what: &str| server_text([true; CLIENTS], "").replace("name = \"c0\"", what);
    world.reload(server, &of_peer("name = \"c0\"\nrate = \"1M\""));
    let carried = delivered(&mut world, server, 0);
    assert!(kept.contains(&carried), "{carried} to the peer");
    assert!(delivered(&mut world, server, 1) > 1_800, "another peer is not limited");
    world.reload(server, &of_peer("name = \"c0\"\nreceive_rate = \"1M\""));
    let carried = delivered(&mut world, 0, server);
    assert!(kept.contains(&carried), "{carried} from the peer");
    assert!(world.status(server).tun.drops["over_rate"] > 1_000);
    world.reload(server, &of_peer("name = \"c0\""));
    let file = ClientFile { second: None, ..ClientFile::new() }.text(0);
    world.reload(0, &file.replace("interface =", "rate = \"1M\"\ninterface ="));
    let carried = delivered(&mut world, 0, server);
    assert!(kept.contains(&carried), "{carried} over the path");
}

#[test]
fn the_interface_follows_the_paths_and_senders_are_told() {
    let mut world = up();
    let before = world.hosts[0].mtu;
    assert_eq!(before, 1500 - 64 - 28);
    for interface in ["p0", "p1"] {
        world.change(0, interface, |access| access.mtu = 1400);
    }
    for _ in 0..200 {
        world.send(0, inner(SERVERS[0]), usize::from(before));
        world.run(Duration::from_millis(50));
    }
    let now = world.hosts[0].mtu;
    assert!((1300..=1400 - 64 - 28).contains(&now), "{now}");
    let fits = world.send(0, inner(SERVERS[0]), usize::from(now));
    let large = world.send(0, inner(SERVERS[0]), usize::from(before));
    world.run(SECOND);
    assert!(world.delivered.contains_key(&fits) && !world.delivered.contains_key(&large));
    assert!(logged(&world, 0, "icmp"), "the sender of the large packet is told");
    // The server's interface keeps the size that the other client needs. Only hosts that send to the narrow
    // client get the smaller limit.
    assert_eq!(world.hosts[SERVERS[0]].mtu, before);
    let large = world.send(SERVERS[0], inner(1), usize::from(before));
    world.run(SECOND);
    assert!(world.delivered.contains_key(&large));
}

/// The clock of a router without a battery starts in 1970, but the server remembers later timestamps from the
/// router's handshakes.
#[test]
fn a_client_whose_clock_is_set_back_gets_in() {
    let mut world = up_with([ClientFile::of_one_server(), ClientFile::new()], "");
    world.hosts[0].clock = -(UNIX as i64);
    world.hosts[0].restart(world.now);
    world.run(Duration::from_secs(20));
    assert!(logged(&world, 0, "new handshakes use the time of that one"));
    assert!(world.reaches(0, SERVERS[0]));
}

#[test]
fn each_end_may_restart() {
    let mut world = up();
    for host in [0, SERVERS[0]] {
        world.hosts[host].restart(world.now);
        world.run(Duration::from_secs(40));
        let server = world.server_of(0).unwrap();
        assert!(world.reaches(0, server) && world.reaches(server, 0), "after host {host}");
    }
}

#[test]
fn a_name_leads_elsewhere_when_its_address_does_not_answer() {
    let named = ClientFile { remote: "\"hub.test\"".into(), ..ClientFile::new() };
    let mut world = up_with([named, ClientFile::new()], "");
    assert_eq!(world.server_of(0), Some(SERVERS[0]));
    world.hosts[SERVERS[0]].stopped = true;
    world.hosts[0].dns = 2;
    world.run(Duration::from_secs(40));
    assert_eq!(world.server_of(0), Some(SERVERS[1]));
}

/// The interfaces of the simulated clients have only IPv4 addresses.
#[test]
fn a_pattern_finds_the_address_of_a_name_that_its_interface_can_reach() {
    let remote = format!("\"{BOTH_VERSIONS}\"");
    let named = ClientFile { interface: "p*", second: None, remote, ..ClientFile::new() };
    let world = up_with([named, ClientFile::new()], "");
    assert_eq!(world.server_of(0), Some(SERVERS[0]), "{:?}", world.hosts[0].log);
}

/// A pattern may also match the name of the tunnel's own interface.
#[test]
fn a_path_does_not_move_to_the_interface_of_the_tunnel() {
    let extra = "interface = \"p1\"".into();
    let file = ClientFile { interface: "p*", second: None, extra, ..ClientFile::of_one_server() };
    let mut world = up_with([file, ClientFile::new()], "");
    world.change(0, "p0", |access| access.up = false);
    world.run(SECOND * 10);
    let used: Vec<&str> = world.hosts[0].sockets.values().map(|socket| socket.interface.as_str()).collect();
    assert_eq!(used, ["p0"]);
}

#[test]
fn commands_are_answered_once_and_change_what_they_say() {
    let mut world = up();
    let now = world.now;
    let host = &mut world.hosts[0];
    let prio = |name: &str| Command::PathPrio { peer: None, name: name.into(), priority: Prio(7) };
    let (good, bad) = (host.command(now, prio("a")), host.command(now, prio("z")));
    let last = |name: &str| Command::PathDel { peer: None, name: name.into() };
    let (gone, kept) = (host.command(now, last("b")), host.command(now, last("a")));
    let add = |interface: &str| {
        let text = format!("name = \"{interface}\"\ninterface = \"{interface}\"\nremote = \"198.51.100.1\"");
        Command::PathAdd { peer: Some("hub".into()), path: toml::from_str(&text).unwrap() }
    };
    let (absent, present) = (host.command(now, add("eth9")), host.command(now, add("p1")));
    world.run(SOON);
    let host = &world.hosts[0];
    for (id, works) in
        [(good, true), (bad, false), (gone, true), (kept, false), (absent, false), (present, true)]
    {
        assert_eq!(host.replies[&id] == Answer::Done, works, "{:?}", host.replies[&id]);
    }
    assert_eq!(world.path(0, "a").unwrap().priority, 7);
    assert_eq!(world.path(0, "p1").unwrap().state, "up");
    assert!(
        world.peer(0, "hub").unwrap().paths.iter().all(|path| path.name != "eth9"),
        "a path that cannot be opened is not kept"
    );
}

#[test]
fn shutting_down_tells_the_peer() {
    let mut world = up();
    let id = world.hosts[0].command(world.now, Command::ShutDown);
    assert_eq!(world.hosts[0].replies[&id], Answer::Done);
    world.run(SECOND);
    assert!(world.hosts[0].stopped);
    assert_eq!(world.peer(SERVERS[0], "c0").unwrap().state, "none");
}

#[test]
fn an_unreachable_peer_does_not_hold_up_the_end() {
    let mut world = up();
    SERVERS.iter().for_each(|server| world.hosts[*server].stopped = true);
    world.hosts[0].command(world.now, Command::ShutDown);
    world.run(Duration::from_secs(3));
    assert!(world.hosts[0].stopped);
}

#[test]
fn a_pattern_takes_the_interface_that_works() {
    let file = ClientFile { interface: "p*", second: None, ..ClientFile::new() };
    let mut world = up();
    world.hosts[0].reload(world.now, &file.text(0));
    world.run(SOON);
    let on = |world: &World| world.hosts[0].sockets.values().map(|s| s.interface.clone()).collect::<Vec<_>>();
    assert_eq!(on(&world), ["p0"]);
    world.change(0, "p0", |access| access.up = false);
    world.run(SOON);
    assert_eq!(on(&world), ["p1"]);
    assert!(world.server_of(0).is_some_and(|server| world.reaches(0, server)));
}

/// The tunnel saves the last second's volume and the newest handshake, even if it ends immediately.
#[test]
fn a_tunnel_that_ends_saves_what_must_outlive_it() {
    let mut world = up();
    let one = ClientFile { quota: true, ..ClientFile::new() };
    world.hosts[0].reload(world.now, &one.text(0));
    world.run(SOON);
    world.hosts[0].sockets.values_mut().for_each(|socket| socket.bytes += 123_456);
    let handshake = world.hosts[0].sockets.values().map(|socket| socket.handshake).max().unwrap();
    world.hosts[0].command(world.now, Command::ShutDown);
    world.run(SECOND);
    let saved = &world.hosts[0].saved;
    assert!(saved[&StateFile::Timestamp].parse::<u64>().unwrap() >= handshake.as_secs());
    assert!(saved[&StateFile::Volumes].contains("\"bytes\": 12"), "{saved:?}");
}

/// The traffic between the last look at a socket and its end counts toward the quota.
#[test]
fn a_path_that_closes_is_charged_to_its_end() {
    for (with_peer, ends) in [(false, false), (true, false), (false, true)] {
        let file = ClientFile { quota: true, ..ClientFile::new() };
        let mut world = up_with([file.clone(), ClientFile::new()], "");
        let use_path = |world: &mut World, bytes| {
            let path = world.hosts[0].sockets.values_mut().find(|socket| socket.interface == "p0");
            path.unwrap().bytes += bytes;
        };
        use_path(&mut world, 600_000);
        let now = world.now;
        match with_peer {
            false => world.hosts[0].command(now, Command::PathDel { peer: None, name: "a".into() }),
            true => world.hosts[0].reload(now, &file.text(0).replace("\"hub\"", "\"other\"")),
        };
        // The server sends until it knows.
        use_path(&mut world, 200_000);
        if ends {
            world.hosts[0].command(now, Command::ShutDown);
        }
        world.run(SOON);
        let saved = &world.hosts[0].saved[&StateFile::Volumes];
        let volumes: serde_json::Value = serde_json::from_str(saved).unwrap();
        assert!(
            volumes["hub/a"]["bytes"].as_u64() >= Some(800_000),
            "with peer: {with_peer}, end: {ends}: {saved}"
        );
    }
}

/// If a client keeps reconnecting, the number of log lines about it is limited.
#[test]
fn a_peer_cannot_fill_the_log() {
    let mut world = up();
    let before = world.hosts[SERVERS[0]].log.len();
    for _ in 0..60 {
        world.hosts[0].restart(world.now);
        world.run(Duration::from_millis(500));
    }
    let lines = &world.hosts[SERVERS[0]].log[before..];
    assert!((20..60).contains(&lines.len()), "{} lines: {lines:#?}", lines.len());
    assert!(lines.iter().any(|line| line.contains("most further ones are suppressed")));
    assert!(lines.iter().any(|line| line.contains("earlier messages about this peer were suppressed")));
}

/// With one or two servers behind satellite links, a session opens, reopens after an outage, and its channels
/// renew their keys.
#[test]
fn long_paths_open() {
    for file in [ClientFile::of_one_server(), ClientFile::new()] {
        for delay in [10, 300, 400] {
            let (remote, files) = (&file.remote, [file.clone(), ClientFile::new()]);
            let mut world = World::new(files, &server_text([true; CLIENTS], ""));
            world.delay = Duration::from_millis(delay);
            world.run(SECOND * 8);
            let server =
                world.server_of(0).unwrap_or_else(|| panic!("{remote} {delay} ms: {:?}", world.hosts[0].log));
            assert!(world.reaches(0, server), "{remote} {delay} ms");
        }
    }
}

/// The attempts to open a session must become long enough for two round trips after the channel's handshake.
#[test]
fn a_path_with_a_queue_of_six_seconds_opens() {
    for second in [None, Some(3)] {
        let file = ClientFile { second, ..ClientFile::of_one_server() };
        let mut world = World::new([file, ClientFile::new()], &server_text([true; CLIENTS], ""));
        world.delay = SECOND * 3;
        let opens = (0..400).any(|_| {
            world.run(Duration::from_millis(100));
            world.server_of(0).is_some()
        });
        assert!(opens, "{second:?}: {:?}", world.hosts[0].log);
    }
}
