//! Reloads of the configuration.

use crate::features::logged;
use crate::leases::assigned;
use crate::world::{CLIENTS, ClientFile, SERVERS, SOON, World, inner, server_text, up, up_with};
use ipnet::IpNet;
use mpdccp_tunnel::config::Config;
use mpdccp_tunnel::{Answer, Command};
use mpdccp_units::Duration;
use std::net::IpAddr;

#[test]
fn a_reload_adds_and_removes_paths_and_keeps_the_session() {
    let mut world = up();
    let one = ClientFile { second: None, ..ClientFile::new() };
    let id = world.hosts[0].reload(world.now, &one.text(0));
    let Some(Answer::Reloaded(words)) = world.hosts[0].replies.get(&id) else { panic!() };
    assert!(words.contains("0 peer(s) added, 0 removed, 1 path(s) changed"), "{words}");
    world.run(SOON);
    assert_eq!(world.hosts[0].sockets.len(), 1, "its socket is closed");
    assert!(world.path(0, "b").is_none_or(|path| path.state == "down"));
    world.hosts[0].reload(world.now, &ClientFile { second: Some(5), ..ClientFile::new() }.text(0));
    world.run(SOON);
    assert_eq!(world.path(0, "b").map(|path| (path.state, path.priority)), Some(("up".into(), 5)));
    assert!(!logged(&world, 0, "session closed"), "{:?}", world.hosts[0].log);
    assert!(world.reaches(0, SERVERS[0]));
}

#[test]
fn a_path_that_was_removed_by_command_stays_away_until_the_file_changes_it() {
    let mut world = up();
    world.hosts[0].command(world.now, Command::PathDel { peer: None, name: "b".into() });
    let mut paths = |file: &ClientFile| {
        world.hosts[0].reload(world.now, &file.text(0));
        world.run(SOON);
        world.hosts[0].sockets.values().map(|socket| socket.interface.clone()).collect::<Vec<_>>()
    };
    assert_eq!(paths(&ClientFile { quota: true, ..ClientFile::new() }), ["p0"]);
    assert_eq!(paths(&ClientFile { second: Some(5), ..ClientFile::new() }).len(), 2);
    // A peer keeps at least one path.
    world.hosts[0].command(world.now, Command::PathDel { peer: None, name: "b".into() });
    let text = world.hosts[0].text.replace("\"a\"", "\"b\"");
    let (before, after) = text.split_once("[[peer.path]]").unwrap();
    let (_, after) = after.split_once("[[peer.path]]").unwrap();
    world.hosts[0].reload(world.now, &format!("{before}[[peer.path]]{after}"));
    world.run(SOON);
    assert_eq!(world.path(0, "b").map(|path| path.state), Some("up".into()));
}

/// To keep a path that a command has added, users write it into the file.
#[test]
fn a_path_added_by_command_gets_the_settings_that_the_file_then_has_for_it() {
    let one = ClientFile { second: None, ..ClientFile::new() };
    let mut world = up_with([one, ClientFile::new()], "");
    let text = format!("name = \"b\"\ninterface = \"p1\"\nremote = {}", ClientFile::new().remote);
    let add = Command::PathAdd { peer: None, path: toml::from_str(&text).unwrap() };
    world.hosts[0].command(world.now, add);
    world.run(SOON);
    assert_eq!(world.path(0, "b").map(|path| (path.state, path.priority)), Some(("up".into(), 3)));
    let sockets = |world: &World| world.hosts[0].sockets.keys().copied().collect::<Vec<_>>();
    let before = sockets(&world);
    let file = ClientFile { second: Some(5), ..ClientFile::new() }.text(0);
    let id = world.hosts[0].reload(world.now, &file);
    let Some(Answer::Reloaded(words)) = world.hosts[0].replies.get(&id) else { panic!() };
    assert!(words.contains("1 path(s) changed"), "{words}");
    world.run(SOON);
    assert_eq!(world.path(0, "b").map(|path| (path.state, path.priority)), Some(("up".into(), 5)));
    assert_eq!(sockets(&world), before, "the path stays open");
    // Settings that need another socket apply, too.
    world.hosts[0].command(world.now, Command::PathDel { peer: None, name: "b".into() });
    world.run(SOON);
    world.hosts[0].reload(world.now, &ClientFile { second: None, ..ClientFile::new() }.text(0));
    let add = Command::PathAdd { peer: None, path: toml::from_str(&text).unwrap() };
    world.hosts[0].command(world.now, add);
    world.run(SOON);
    world.hosts[0].reload(world.now, &file.replace("priority", "mtu = 1400\npriority"));
    world.run(SOON);
    assert_eq!(world.path(0, "b").map(|path| path.mtu), Some(1400));
}

#[test]
fn a_reload_cannot_change_which_ip_versions_the_default_route_carries() {
    let cfg = |default_route: bool, nets: &str| {
        let extra = format!("default_route = {default_route}");
        let text = ClientFile { extra, ..ClientFile::new() }.text(0).replace("\"10.9.0.0/16\"", nets);
        Config::parse("test.toml".as_ref(), &text, 1).unwrap()
    };
    let both = "\"0.0.0.0/0\", \"::/0\"";
    let v4 = cfg(true, "\"0.0.0.0/0\"");
    for (from, to) in [(&v4, cfg(true, both)), (&cfg(true, both), cfg(true, "\"::/0\""))] {
        assert!(from.check_change(&to).unwrap_err().contains("in allowed_ips cannot change"));
    }
    assert_eq!(v4.check_change(&cfg(true, "\"0.0.0.0/0\", \"10.8.0.0/16\"")), Ok(()));
    assert_eq!(cfg(false, "\"0.0.0.0/0\"").check_change(&cfg(false, both)), Ok(()));
}

#[test]
fn a_peer_that_a_reload_removes_is_out_at_once() {
    let mut world = up();
    world.hosts[SERVERS[0]].reload(world.now, &server_text([false, true], ""));
    assert!(!world.reaches(0, SERVERS[0]) && !world.reaches(SERVERS[0], 0));
    assert!(world.reaches(1, SERVERS[0]));
    assert_eq!(world.hosts[SERVERS[0]].routes.len(), 0, "its prefix is within the server's own network");
    for server in SERVERS {
        world.hosts[server].reload(world.now, &server_text([true; CLIENTS], ""));
    }
    world.run(Duration::from_secs(40));
    let server = world.server_of(0).unwrap();
    assert!(world.reaches(0, server) && world.reaches(server, 0));
}

#[test]
fn a_quota_that_a_reload_takes_away_binds_no_more() {
    let mut file = ClientFile { quota: true, ..ClientFile::new() };
    let mut world = up_with([file.clone(), ClientFile::new()], "");
    world.hosts[0].sockets.values_mut().for_each(|socket| socket.bytes += 2_000_000);
    world.run(SOON);
    assert_eq!(world.path(0, "a").unwrap().priority, 1);
    file.quota = false;
    world.hosts[0].reload(world.now, &file.text(0));
    world.run(SOON);
    assert_eq!(world.path(0, "a").unwrap().priority, 3);
}

#[test]
fn a_reload_changes_the_scheduler_of_open_sessions() {
    let mut world = up();
    let sent = |world: &mut World| {
        let before = world.carried();
        for _ in 0..100 {
            world.send(0, inner(SERVERS[0]), 1_000);
            world.run(Duration::from_millis(20));
        }
        let after = world.carried();
        ["p0", "p1"].map(|path| after[path] - before[path])
    };
    let [a, b] = sent(&mut world);
    assert!(a.min(b) < 50_000, "one path is enough: {a} and {b}");
    let redundant = ClientFile { extra: "scheduler = \"redundant\"".into(), ..ClientFile::new() };
    world.hosts[0].reload(world.now, &redundant.text(0));
    let [a, b] = sent(&mut world);
    assert!(a.min(b) > 100_000, "{a} and {b}");
}

/// The first file has "100" (bit/s) by mistake, at which a packet of 1000 bytes takes 80 s.
#[test]
fn a_corrected_rate_applies_at_once() {
    let (mut world, server) = (up(), SERVERS[0]);
    for (key, from, to) in [("rate", server, 0), ("receive_rate", 0, server)] {
        for rate in ["100", "100M"] {
            let peer = format!("name = \"c0\"\n{key} = {rate:?}");
            world.reload(server, &server_text([true; CLIENTS], "").replace("name = \"c0\"", &peer));
            world.send(from, inner(to), 1_000);
            world.run(Duration::from_secs(1));
        }
        assert!(world.reaches(from, to), "{key}");
    }
}

#[test]
fn a_route_from_the_server_ends_when_the_file_no_longer_allows_it() {
    let mut world = assigned();
    world.run(SOON);
    assert_eq!(world.hosts[0].routes.len(), 1);
    let text = world.hosts[0].text.replace(", \"10.9.0.0/16\"", "");
    world.reload(0, &text);
    assert!(world.hosts[0].routes.is_empty(), "{:?}", world.hosts[0].routes);
}

#[test]
fn a_path_that_gets_a_pattern_opens_at_once() {
    let mut world = up();
    let file = ClientFile { interface: "p*", second: None, ..ClientFile::new() };
    world.hosts[0].reload(world.now, &file.text(0));
    assert_eq!(world.hosts[0].opened.last().unwrap().interface.as_deref(), Some("p0"));
    assert!(!logged(&world, 0, "path a waits"), "{:?}", world.hosts[0].log);
}

/// While a user searches for an error in the file, a reload or a restart may find no [assign] in it.
#[test]
fn leases_outlive_a_file_without_a_pool() {
    for restart in [false, true] {
        let (mut world, server) = (assigned(), SERVERS[0]);
        world.run(SOON);
        let leased = |world: &World| ["c0", "c1"].map(|name| world.peer(server, name).unwrap().leased);
        let (before, text) = (leased(&world), world.hosts[server].text.clone());
        assert!(before.iter().all(|leased| leased.len() == 1), "{before:?}");
        let without = server_text([true; CLIENTS], "");
        match restart {
            true => world.restart(server, &without),
            false => world.reload(server, &without),
        }
        assert!(leased(&world).iter().all(Vec::is_empty));
        world.reload(server, &text);
        assert_eq!(leased(&world), before);
    }
}

/// Routers take seconds to react when a route disappears and returns.
#[test]
fn a_reload_keeps_the_route_to_a_client_in_a_short_outage() {
    let text = server_text([true; CLIENTS], "routes = \"sessions\"");
    let mut world = World::new([ClientFile::new(), ClientFile::new()], &text);
    world.run(SOON);
    let talk = |world: &mut World, packets: usize| {
        for _ in 0..packets {
            world.send(SERVERS[0], inner(0), 500);
            world.run(Duration::from_millis(100));
        }
    };
    for p in ["p0", "p1"] {
        world.change(0, p, |access| access.up = false);
    }
    talk(&mut world, 15);
    let paths = world.peer(SERVERS[0], "c0").unwrap().paths;
    assert!(paths.iter().all(|path| path.state != "up"), "{paths:?}");
    world.reload(SERVERS[0], &text);
    let net = IpNet::from(IpAddr::from(inner(0)));
    assert!(world.hosts[SERVERS[0]].routes.contains(&net));
    talk(&mut world, 30);
    assert!(!world.hosts[SERVERS[0]].routes.contains(&net), "the outage is no longer short");
}
