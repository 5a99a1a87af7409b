//! A client's change of server.

use crate::world::{CLIENTS, ClientFile, SERVERS, World, server_text};
use mpdccp_tunnel::Command;
use mpdccp_units::Duration;
use std::net::IpAddr;

const SOON: Duration = Duration::from_secs(5);

/// Client 0's server leaves: it asks its clients to go, or falls silent.
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

/// The host may take a while to open a socket.
#[test]
fn a_socket_that_opens_after_the_change_of_server_is_closed() {
    for orderly in [true, false] {
        let one = || ClientFile { second: None, ..ClientFile::new() };
        let mut world = World::new([one(), one()], &server_text([true; CLIENTS], ""));
        world.run(SOON);
        world.hosts[0].slow = true;
        let now = world.now;
        world.hosts[0].reload(now, &ClientFile::new().text(0));
        leave(&mut world, orderly);
        world.run(SOON);
        let now = world.now;
        world.hosts[0].hurry(now);
        world.run(Duration::from_secs(20));
        assert_eq!(world.server_of(0), Some(SERVERS[1]));
        let remotes: Vec<IpAddr> = world.hosts[0].sockets.values().map(|socket| socket.remote.ip()).collect();
        assert_eq!(remotes, [crate::world::server_ip(SERVERS[1]); 2], "orderly: {orderly}");
    }
}
