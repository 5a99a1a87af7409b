//! Tests of paths that begin from the capacity that they had before.

use crate::features::logged;
use crate::host::UNIX;
use crate::world::{CLIENTS, ClientFile, SERVERS, SOON, World, inner, server_text, up_with};
use mpdccp_tunnel::{Command, StateFile};
use mpdccp_units::Duration;

/// Sends 80 Mbit/s for two seconds, then waits a minute until the tunnel writes the capacity file.
fn carry(world: &mut World, from: usize, to: usize) {
    burst(world, from, to);
    world.run(Duration::from_secs(60));
}

/// Sends 80 Mbit/s for two seconds.
fn burst(world: &mut World, from: usize, to: usize) {
    for _ in 0..100 {
        for _ in 0..200 {
            world.send(from, inner(to), 1_000);
        }
        world.run(Duration::from_millis(20));
    }
}

/// The server restarts twice.
#[test]
fn a_restarted_server_begins_from_what_its_paths_carried() {
    let mut world = up_with([ClientFile::of_one_server(), ClientFile::of_one_server()], "");
    carry(&mut world, SERVERS[0], 0);
    // The server is killed. Its capacity file is at most a minute old.
    let saved = world.hosts[SERVERS[0]].saved[&StateFile::Capacities].clone();
    assert!(saved.contains("c0 a ") && !saved.contains("c1"), "{saved}");
    let words = "peer c0: path a carried";
    assert!(!logged(&world, SERVERS[0], words));
    let again = |world: &mut World| {
        let now = world.now;
        world.hosts[SERVERS[0]].restart(now);
        world.hosts[0].restart(now);
        world.run(Duration::from_secs(20));
        assert!(world.reaches(0, SERVERS[0]));
    };
    again(&mut world);
    assert!(logged(&world, SERVERS[0], words), "{:?}", world.hosts[SERVERS[0]].log);
    // An entry is removed from the file once it has been used, and an entry older than an hour is not used.
    world.run(Duration::from_secs(61));
    assert_eq!(world.hosts[SERVERS[0]].saved[&StateFile::Capacities].trim(), "{}");
    world.hosts[SERVERS[0]].log.clear();
    world.hosts[SERVERS[0]].saved.insert(StateFile::Capacities, saved);
    world.hosts[SERVERS[0]].clock = 7_200;
    again(&mut world);
    assert!(!logged(&world, SERVERS[0], words));
}

#[test]
fn a_tunnel_that_ends_stores_what_its_paths_carried() {
    let mut world = up_with([ClientFile::of_one_server(), ClientFile::of_one_server()], "");
    burst(&mut world, SERVERS[0], 0);
    world.command(SERVERS[0], &Command::ShutDown);
    let saved = world.hosts[SERVERS[0]].saved.get(&StateFile::Capacities);
    assert!(saved.is_some_and(|saved| saved.contains("c0 a ")), "{saved:?}");
}

/// The clock of a router without a battery is set only after the start. Until then, its time says nothing
/// about the age of a measurement.
#[test]
fn a_capacity_is_stored_once_the_clock_is_set() {
    let one = || ClientFile { second: None, ..ClientFile::of_one_server() };
    let mut world = up_with([one(), one()], "");
    let again = |world: &mut World| {
        let now = world.now;
        world.hosts[0].restart(now);
        world.run(Duration::from_secs(20));
    };
    world.hosts[0].clock = -(UNIX as i64);
    again(&mut world);
    carry(&mut world, 0, SERVERS[0]);
    assert_eq!(world.hosts[0].saved[&StateFile::Capacities].trim(), "{}");
    world.hosts[0].clock = 0;
    carry(&mut world, 0, SERVERS[0]);
    again(&mut world);
    assert!(logged(&world, 0, "peer hub: path a carried"), "{:?}", world.hosts[0].log);
}

/// The path is down for 30 s. The session continues on its other path.
#[test]
fn a_path_that_joins_again_begins_from_what_it_carried() {
    let mut world = up_with([ClientFile::of_one_server(), ClientFile::of_one_server()], "");
    carry(&mut world, SERVERS[0], 0);
    world.change(0, "p0", |access| access.up = false);
    world.run(Duration::from_secs(30));
    let words = "peer c0: path a carried";
    assert!(!logged(&world, SERVERS[0], words));
    world.change(0, "p0", |access| access.up = true);
    world.run(Duration::from_secs(20));
    let log = &world.hosts[SERVERS[0]].log;
    assert!(logged(&world, SERVERS[0], words), "{log:?}");
    assert!(
        !logged(&world, SERVERS[0], "session closed") && !logged(&world, SERVERS[0], "replaces"),
        "{log:?}"
    );
}

#[test]
fn paths_begin_afresh_without_careful_resume() {
    let off = server_text([true; CLIENTS], "careful_resume = false");
    let mut world = World::new([ClientFile::of_one_server(), ClientFile::of_one_server()], &off);
    world.run(SOON);
    carry(&mut world, SERVERS[0], 0);
    assert_eq!(world.hosts[SERVERS[0]].saved.get(&StateFile::Capacities), None, "no capacity is stored");
    world.hosts[SERVERS[0]].reload(world.now, &server_text([true; CLIENTS], ""));
    carry(&mut world, SERVERS[0], 0);
    assert!(world.hosts[SERVERS[0]].saved[&StateFile::Capacities].contains("c0 a "));
    world.restart(SERVERS[0], &off);
    world.hosts[0].restart(world.now);
    world.run(Duration::from_secs(20));
    assert!(world.reaches(0, SERVERS[0]) && !logged(&world, SERVERS[0], "carried"));
}
