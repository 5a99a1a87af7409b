//! Calls of the owner's hook program, and name servers behind the tunnel.

use crate::world::{CLIENTS, ClientFile, SECOND, SERVERS, World, inner, server_text, talk, up_with};
use mpdccp_tunnel::{Command, Hook, HookEvent};
use mpdccp_units::Duration;
use std::net::IpAddr;

fn told(world: &mut World, host: usize) -> Vec<(HookEvent, String, Option<String>)> {
    let hooks = std::mem::take(&mut world.hosts[host].hooks);
    hooks.into_iter().map(|Hook { event, peer, path, .. }| (event, peer, path)).collect()
}

#[test]
fn hooks_and_name_servers_follow_sessions_and_paths() {
    let extra = "dns = [\"10.0.0.1\"]\nhook = \"/etc/mpdccp/hook\"".to_owned();
    let files = [ClientFile { extra, ..ClientFile::new() }, ClientFile::new()];
    let mut world = up_with(files, "");
    let up = |path: &str| (HookEvent::PathUp, "hub".to_owned(), Some(path.to_owned()));
    let first = told(&mut world, 0);
    assert_eq!(first[0], (HookEvent::SessionUp, "hub".to_owned(), None), "{first:?}");
    assert!(first.contains(&up("a")) && first.contains(&up("b")), "{first:?}");
    assert_eq!(world.hosts[0].dns_set, [vec![IpAddr::from(inner(SERVERS[0]))]]);
    // A server runs no hook, not even for the sessions of its clients.
    assert_eq!(told(&mut world, SERVERS[0]), []);
    world.change(0, "p0", |access| access.up = false);
    for _ in 0..100 {
        world.send(0, inner(SERVERS[0]), 500);
        world.send(SERVERS[0], inner(0), 500);
        world.run(Duration::from_millis(20));
    }
    let down = (HookEvent::PathDown, "hub".to_owned(), Some("a".to_owned()));
    assert_eq!(told(&mut world, 0), [down], "once");
    world.hosts[0].command(world.now, Command::ShutDown);
    world.run(SECOND * 3);
    let last = told(&mut world, 0);
    assert_eq!(last.iter().filter(|(event, ..)| *event == HookEvent::SessionDown).count(), 1, "{last:?}");
    assert_eq!(world.hosts[0].dns_set.last(), Some(&Vec::new()));
}

/// The name servers behind the tunnel are as far away as the server.
#[test]
fn the_name_of_the_server_or_its_proxy_is_looked_up_outside_the_tunnel_in_an_outage() {
    for (encapsulation, remote) in
        [("udp", "\"hub.test\""), ("tls", "\"198.51.100.1\"\nproxy = \"proxy.test:3128\"")]
    {
        let extra = format!("dns = [\"10.0.0.1\"]\nencapsulation = \"{encapsulation}\"");
        let file = ClientFile { remote: remote.into(), extra, ..ClientFile::new() };
        let mut world = up_with([file, ClientFile::new()], "");
        let cut = |world: &mut World, up| {
            for interface in ["p0", "p1"] {
                world.change(0, interface, |access| access.up = up);
            }
        };
        cut(&mut world, false);
        talk(&mut world, SECOND * 30, 500);
        let behind = vec![IpAddr::from(inner(SERVERS[0]))];
        assert_eq!(world.hosts[0].dns_set, [behind.clone(), Vec::new()], "{remote}");
        cut(&mut world, true);
        talk(&mut world, SECOND * 10, 500);
        assert_eq!(world.hosts[0].dns_set, [behind.clone(), Vec::new(), behind], "{remote}");
    }
}

/// Returns how often the hook was run for the end of the session with this peer.
fn ends(world: &mut World, peer: &str) -> usize {
    let told = told(world, 0);
    told.iter().filter(|(event, name, _)| *event == HookEvent::SessionDown && name == peer).count()
}

#[test]
fn hooks_follow_sessions_that_this_end_gives_up() {
    let file =
        || ClientFile { second: None, extra: "hook = \"/etc/mpdccp/hook\"".into(), ..ClientFile::new() };
    let mut world = up_with([file(), file()], "");
    assert_eq!(ends(&mut world, "hub"), 0);
    // The reload replaces the only path.
    world.hosts[0].reload(world.now, &ClientFile { interface: "p1", ..file() }.text(0));
    world.run(SECOND * 5);
    assert_eq!(ends(&mut world, "hub"), 1);
    // The server falls silent.
    world.hosts[SERVERS[0]].stopped = true;
    for _ in 0..100 {
        world.send(0, inner(SERVERS[0]), 500);
        world.run(Duration::from_millis(100));
    }
    assert_eq!(world.server_of(0), Some(SERVERS[1]));
    assert_eq!(ends(&mut world, "hub"), 1);
    // The reload replaces the peer.
    world.hosts[0].reload(world.now, &file().text(0).replace("\"hub\"", "\"other\""));
    world.run(SECOND);
    assert_eq!(ends(&mut world, "hub"), 1);
}

/// A client that has crashed opens a new session. The server then ends the old one.
#[test]
fn hooks_of_a_server_follow_sessions_that_are_replaced() {
    let server = server_text([true; CLIENTS], "hook = \"/etc/mpdccp/hook\"");
    let mut world = World::new([ClientFile::new(), ClientFile::new()], &server);
    let of_session = |world: &mut World| -> Vec<HookEvent> {
        let told = told(world, SERVERS[0]).into_iter();
        told.filter(|(_, peer, path)| peer == "c0" && path.is_none()).map(|(event, ..)| event).collect()
    };
    world.run(SECOND * 5);
    assert_eq!(of_session(&mut world), [HookEvent::SessionUp]);
    world.hosts[0].restart(world.now);
    world.run(SECOND * 20);
    assert_eq!(of_session(&mut world), [HookEvent::SessionDown, HookEvent::SessionUp]);
}
