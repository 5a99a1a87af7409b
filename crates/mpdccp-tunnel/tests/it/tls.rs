//! Tests of paths over TLS.

use crate::world::{CLIENTS, ClientFile, SECOND, SERVERS, SOON, World, server_text, up, up_with};
use mpdccp_tunnel::Answer;
use mpdccp_tunnel::config::Config;
use mpdccp_tunnel::tls::Over;
use mpdccp_units::Duration;
use std::net::IpAddr;
use std::path::Path;

/// Behind a load balancer, a TLS connection is sure to reach the right server only at that server's own
/// address.
#[test]
fn sockets_for_tls_learn_what_the_server_advertises() {
    let own: IpAddr = [203, 0, 113, 9].into();
    for (encapsulation, knows) in [("tls", vec![own]), ("auto", vec![own]), ("udp", vec![])] {
        let extra = format!("encapsulation = \"{encapsulation}\"");
        let remote = "[\"198.51.100.1\"]".to_owned();
        let one = || ClientFile { extra: extra.clone(), remote: remote.clone(), ..ClientFile::new() };
        let server = server_text([true; CLIENTS], "encapsulation = \"auto\"\nadvertise = [\"203.0.113.9\"]");
        let mut world = World::new([one(), one()], &server);
        world.run(SOON);
        let told =
            |world: &World| -> Vec<Vec<IpAddr>> { world.hosts[0].advertised.values().cloned().collect() };
        assert_eq!(told(&world), vec![knows.clone(); knows.len() * 2], "{encapsulation}: both paths");
        // Without a session, the client may use any server.
        world.hosts[SERVERS[0]].stopped = true;
        world.run(Duration::from_secs(120));
        assert!(told(&world).concat().is_empty(), "{encapsulation}");
    }
}

#[test]
fn paths_over_tls_know_port_and_name_of_their_server() {
    let paths = |own: &str| {
        let (of_file, of_path) = own.split_once('|').unwrap();
        let remote = format!("[\"hub.example.org\"]\n{of_path}");
        let one = || ClientFile {
            extra: of_file.into(),
            remote: remote.clone(),
            second: None,
            ..ClientFile::new()
        };
        let mut world = World::new([one(), one()], &server_text([true; CLIENTS], ""));
        world.run(SECOND);
        let first = world.hosts[0].opened[0].clone();
        (first.remote.port(), first.tls.map(|tls| (tls.auto, tls.port, tls.name.unwrap())))
    };
    let tls = |auto, port, name: &str| Some((auto, port, name.to_owned()));
    let udp = Some(Over::Udp);
    let hub = "hub.example.org";
    assert_eq!(paths("encapsulation = \"tls\"|"), (443, tls(None, 443, hub)));
    assert_eq!(paths("encapsulation = \"tls\"\ntls_port = 8443|"), (8443, tls(None, 8443, hub)));
    let own = "encapsulation = \"auto\"\ntls_port = 9443\ntls_name = \"www.example.org\"";
    assert_eq!(paths(&format!("tls_port = 8443|{own}")), (6511, tls(udp, 9443, "www.example.org")));
    assert_eq!(paths("tls_port = 8443|"), (6511, None));
}

#[test]
fn a_reload_opens_paths_again_whose_encapsulation_changed() {
    let mut world = up();
    let file = |extra: &str| {
        let remote = "[\"198.51.100.1\"]".into();
        ClientFile { extra: extra.into(), remote, ..ClientFile::new() }.text(0)
    };
    for (extra, port) in [
        ("encapsulation = \"tls\"", 443),
        ("encapsulation = \"tls\"\ntls_port = 8443", 8443),
        ("encapsulation = \"auto\"\ntls_port = 8443", 6511),
    ] {
        let before = world.hosts[0].opened.len();
        let id = world.hosts[0].reload(world.now, &file(extra));
        let Some(Answer::Reloaded(words)) = world.hosts[0].replies.get(&id) else { panic!() };
        assert!(words.contains("2 path(s) changed"), "{extra}: {words}");
        world.run(SOON);
        let opened = world.hosts[0].opened[before..].iter().map(|path| path.remote.port());
        let opened: Vec<u16> = opened.collect();
        assert_eq!(opened, [port; 2], "{extra}");
        assert_eq!(world.hosts[0].sockets.len(), 2, "{extra}");
    }
    // A server's listening sockets cannot change at run time, so a reload refuses these keys.
    let cfg = |extra: &str| Config::parse(Path::new("s"), &server_text([true; CLIENTS], extra), 1).unwrap();
    let now = "tls_port = 443\nencapsulation = \"auto\"\ntls_certificate = \"/c\"\ntls_key = \"/k\"";
    for (key, old, new) in [
        ("tls_port", "443", "444"),
        ("encapsulation", "auto", "tls"),
        ("tls_certificate", "/c", "/d"),
        ("tls_key", "/k", "/d"),
    ] {
        let error = cfg(now).check_change(&cfg(&now.replace(old, new))).unwrap_err();
        assert!(error.starts_with(&format!("{key} cannot change")), "{error}");
    }
    assert_eq!(cfg(now).check_change(&cfg(now)), Ok(()));
}

/// A path that reached the wrong server waits until it learns the advertised address.
#[test]
fn sockets_are_told_at_once_what_the_server_advertises() {
    let extra = "encapsulation = \"auto\"\nadvertise = [\"203.0.113.9\"]";
    let one = || ClientFile { extra: "encapsulation = \"auto\"".into(), ..ClientFile::new() };
    let mut world = World::new([one(), one()], &server_text([true; CLIENTS], extra));
    // Keep the second path down, because a path that comes up would also cause the socket to be told.
    world.change(0, "p1", |access| access.mute = true);
    let mut steps = |done: &dyn Fn(&World) -> bool| {
        let steps = (0..500).take_while(|_| {
            world.run(Duration::from_millis(10));
            !done(&world)
        });
        steps.count()
    };
    assert!(steps(&|world| world.peer(0, "hub").is_some_and(|peer| peer.state == "open")) < 500);
    // The limit is a few round trips of 20 ms. Without the event, the next periodic check could be a second
    // later.
    assert!(steps(&|world| world.hosts[0].advertised.values().any(|told| !told.is_empty())) < 10);
}

/// If UDP does not answer on a path, the path starts with TLS at the next server.
#[test]
fn a_path_over_tls_begins_with_tls_at_the_next_server() {
    let one = || ClientFile { extra: "encapsulation = \"auto\"".into(), ..ClientFile::new() };
    let mut world = up_with([one(), one()], "");
    let begins = |world: &World| -> Vec<Option<Over>> {
        world.hosts[0].opened.iter().map(|path| path.tls.as_ref().unwrap().auto).collect()
    };
    assert_eq!(begins(&world), [Some(Over::Udp); 2]);
    world.hosts[0].over_tls = true;
    world.run(SECOND * 2);
    world.hosts[SERVERS[0]].stopped = true;
    world.run(SOON);
    assert_eq!(begins(&world)[2..4], [Some(Over::Tls); 2]);
}

/// A client that may use TLS waits longer before it moves to the next server, because its sockets would start
/// with UDP again there.
#[test]
fn a_path_has_time_to_find_out_that_udp_does_not_answer() {
    for (encapsulation, tries) in [("udp", [true, true]), ("auto", [false, true])] {
        let extra = format!("encapsulation = \"{encapsulation}\"");
        let one = || ClientFile { extra: extra.clone(), ..ClientFile::new() };
        let mut world = World::new([one(), one()], &server_text([true; CLIENTS], ""));
        SERVERS.iter().for_each(|server| world.hosts[*server].stopped = true);
        for (seconds, tried) in [9, 2].into_iter().zip(tries) {
            world.run(SECOND * seconds);
            let logged = world.hosts[0].log.iter().any(|line| line.contains("switching to server 2 of 2"));
            assert_eq!(logged, tried, "{encapsulation}");
        }
    }
}

#[test]
fn a_path_that_fails_follows_the_name_of_its_proxy() {
    let remote = "\"198.51.100.1\"\nproxy = \"proxy.test:3128\"";
    let one = || ClientFile {
        extra: "encapsulation = \"tls\"".into(),
        remote: remote.into(),
        second: None,
        ..ClientFile::new()
    };
    let mut world = World::new([one(), one()], &server_text([true; CLIENTS], ""));
    let proxy =
        |world: &World| Some(world.hosts[0].opened.last()?.tls.as_ref()?.proxy.as_ref()?.0.to_string());
    world.run(SOON);
    world.hosts[0].dns = 2;
    world.run(SECOND * 20);
    assert_eq!(proxy(&world).as_deref(), Some("198.51.100.1:3128"), "the path works");
    world.change(0, "p0", |access| access.up = false);
    world.run(SECOND * 20);
    assert_eq!(proxy(&world).as_deref(), Some("198.51.100.2:3128"));
}
