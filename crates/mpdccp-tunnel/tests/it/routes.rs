//! Tests of the routes into the tunnel's interface.

use crate::world::{CLIENTS, ClientFile, SERVERS, SOON, World, inner, server_text, up_with};
use ipnet::IpNet;
use mpdccp_tunnel::{Command, HostEvent};
use mpdccp_units::Duration;
use std::net::IpAddr;

#[test]
fn routes_follow_the_sessions() {
    let files = [ClientFile::new(), ClientFile::new()];
    // A network that the file lists twice has one route.
    let net = "\"10.0.0.2/32\"";
    let text = |clients| server_text(clients, "routes = \"sessions\"").replace(net, &format!("{net}, {net}"));
    let mut world = World::new(files, &text([true; CLIENTS]));
    let nets = |clients: &[usize]| clients.iter().map(|c| IpNet::from(IpAddr::from(inner(*c)))).collect();
    assert_eq!(world.hosts[SERVERS[0]].routes, nets(&[]), "no client is connected");
    world.run(SOON);
    assert_eq!(world.hosts[SERVERS[0]].routes, nets(&[0, 1]));
    assert_eq!(world.hosts[SERVERS[1]].routes, nets(&[]));
    // The first server stops, so its clients move to the second server. When the first server runs again, it
    // notices that they are gone.
    world.hosts[SERVERS[0]].stopped = true;
    world.run(Duration::from_secs(20));
    assert_eq!(world.hosts[SERVERS[1]].routes, nets(&[0, 1]));
    world.hosts[SERVERS[0]].stopped = false;
    world.run(Duration::from_secs(10));
    assert_eq!(world.hosts[SERVERS[0]].routes, nets(&[]));
    // A peer is removed from the second server and returns to the first. Then the second server is drained.
    let now = world.now;
    world.hosts[SERVERS[1]].reload(now, &text([true, false]));
    assert_eq!(world.hosts[SERVERS[1]].routes, nets(&[0]));
    world.hosts[SERVERS[1]].command(now, Command::Drain);
    world.run(Duration::from_secs(10));
    assert_eq!(world.hosts[SERVERS[0]].routes, nets(&[0, 1]));
    assert_eq!(world.hosts[SERVERS[1]].routes, nets(&[]));
}

#[test]
fn routes_and_addresses_come_back_after_the_interface_was_off() {
    let file = ClientFile { v6: true, ..ClientFile::new() };
    let mut world = up_with([file, ClientFile::new()], "routes = \"sessions\"");
    let now = world.now;
    for number in [0, SERVERS[0]] {
        let host = &mut world.hosts[number];
        let before = (host.routes.clone(), host.addresses.clone());
        assert!(!before.0.is_empty());
        host.routes.clear();
        host.addresses.retain(|net| net.addr().is_ipv4());
        host.tell(now, HostEvent::SwitchedOn);
        assert_eq!((host.routes.clone(), host.addresses.clone()), before);
    }
}

/// Routers take seconds to react when a route disappears and returns, so a short outage must not remove the
/// route.
#[test]
fn a_pause_withdraws_no_route() {
    let mut world = World::new(
        [ClientFile::new(), ClientFile::new()],
        &server_text([true; CLIENTS], "routes = \"sessions\""),
    );
    world.run(SOON);
    let net = IpNet::from(IpAddr::from(inner(0)));
    let outage = |world: &mut World, up| ["p0", "p1"].map(|p| world.change(0, p, |access| access.up = up));
    let mut suspect = false;
    outage(&mut world, false);
    for _ in 0..15 {
        world.send(SERVERS[0], inner(0), 500);
        world.run(Duration::from_millis(100));
        suspect |= world.peer(SERVERS[0], "c0").unwrap().paths.iter().all(|path| path.state != "up");
        assert!(world.hosts[SERVERS[0]].routes.contains(&net));
    }
    assert!(suspect, "the server notices the pause");
    outage(&mut world, true);
    world.run(Duration::from_secs(3));
    assert!(world.hosts[SERVERS[0]].routes.contains(&net));
    outage(&mut world, false);
    for _ in 0..45 {
        world.send(SERVERS[0], inner(0), 500);
        world.run(Duration::from_millis(100));
    }
    assert!(!world.hosts[SERVERS[0]].routes.contains(&net));
}

/// The tunnel's own packets stay out of the default route, but not out of the other routes into the
/// interface.
#[test]
fn routes_that_capture_the_tunnels_own_packets_are_warned_of() {
    let file = |own: &str| {
        let text = ClientFile { second: None, extra: own.into(), ..ClientFile::of_one_server() }.text(0);
        text.replace("\"10.9.0.0/16\"", "\"0.0.0.0/0\", \"198.51.100.0/24\"")
    };
    let unbound = |text: String| text.replace("interface = \"p0\"", "local = \"192.0.2.0\"");
    let proxied = |text: String| {
        let proxy = "remote = \"203.0.113.1\"\nencapsulation = \"tls\"\nproxy = \"198.51.100.9:3128\"";
        text.replace("remote = \"198.51.100.1\"", proxy)
    };
    let whole = "default_route = true";
    for (text, captured) in [
        (file(whole), None),
        (unbound(file("")), Some("its remote 198.51.100.1 is within 198.51.100.0/24")),
        (unbound(file(whole)), Some("its remote 198.51.100.1 is within 198.51.100.0/24")),
        (proxied(unbound(file(whole))), Some("its proxy 198.51.100.9 is within 198.51.100.0/24")),
    ] {
        let mut world = World::usual();
        world.hosts[0].text = text;
        world.hosts[0].restart(world.now);
        let warned = world.hosts[0].warned.iter().find(|line| line.contains("routes into itself"));
        assert_eq!(warned.is_some(), captured.is_some(), "{warned:?}");
        assert!(captured.is_none_or(|words| warned.is_some_and(|line| line.contains(words))), "{warned:?}");
    }
}
