//! Tests of addresses that the server assigns.

use crate::features::logged;
use crate::world::{CLIENTS, ClientFile, SERVERS, SOON, World, server_text};
use ipnet::IpNet;
use mpdccp_tunnel::StateFile;
use mpdccp_units::Duration;

const POOL: &str = "[assign]\npool = [\"10.0.0.0/29\"]\nroutes = [\"10.9.0.0/16\", \"172.16.0.0/12\"]\n";

pub(crate) fn assigned() -> World {
    let auto = || ClientFile { extra: "addresses = \"auto\"".into(), ..ClientFile::new() };
    World::new([auto(), auto()], &server_text([true; CLIENTS], POOL))
}

#[test]
fn leases_differ_and_outlive_a_restart() {
    let mut world = assigned();
    world.run(SOON);
    let own = |world: &World, n: usize| {
        world.hosts[n].addresses.iter().map(|net| net.to_string()).collect::<Vec<_>>()
    };
    let before = [own(&world, 0), own(&world, 1)];
    assert!(before.iter().all(|nets| nets.len() == 1) && before[0] != before[1], "{before:?}");
    assert!(before.iter().flatten().all(|net| net.ends_with("/24") && net != "10.0.0.1/24"));
    // The routes exclude networks that the client does not allow, and the server's own network.
    let routes: Vec<String> = world.hosts[0].routes.iter().map(|net| net.to_string()).collect();
    assert_eq!(routes, ["10.9.0.0/16"]);
    assert!(world.hosts[SERVERS[0]].saved.contains_key(&StateFile::Leases));
    assert_eq!(world.hosts[SERVERS[0]].leases_saved, 1, "leases of the same second are saved together");
    // After the restart, the clients request addresses in the other order.
    let now = world.now;
    world.hosts[SERVERS[0]].restart(now);
    world.hosts[1].restart(now);
    world.run(Duration::from_secs(20));
    world.hosts[0].restart(now);
    world.run(Duration::from_secs(20));
    assert_eq!([own(&world, 0), own(&world, 1)], before);
}

#[test]
fn addresses_that_the_file_gives_a_peer_are_nobody_elses_lease() {
    let mut world = assigned();
    world.run(SOON);
    let own = |world: &World, n: usize| world.hosts[n].addresses.iter().map(IpNet::addr).collect::<Vec<_>>();
    let first = own(&world, 0)[0];
    // The new file assigns the first client's leased address to the second client.
    let text = server_text([true; CLIENTS], POOL)
        .replace("name = \"c1\"\n", &format!("name = \"c1\"\nallowed_ips = [\"{first}/32\"]\n"));
    let now = world.now;
    world.hosts[SERVERS[0]].reload(now, &text);
    world.hosts[0].restart(now);
    world.hosts[1].restart(now);
    world.run(Duration::from_secs(20));
    assert_eq!(own(&world, 1), [first], "a peer with a single address in the file gets that address");
    assert!(own(&world, 0).len() == 1 && own(&world, 0) != [first], "{:?}", own(&world, 0));
}

#[test]
fn a_server_gives_no_more_than_allowed_ips() {
    // The assigned address comes with a wider network than the client allows, so the client sets the address
    // without a route to that network.
    let auto = || ClientFile { extra: "addresses = \"auto\"".into(), ..ClientFile::new() };
    let wide = |text: String| text.replace("10.0.0.1/24", "10.0.0.1/1");
    let world_with = |pool: &str| {
        let mut world = World::new([auto(), auto()], &wide(server_text([true; CLIENTS], pool)));
        world.run(SOON);
        world
    };
    let world = world_with(POOL);
    let own = &world.hosts[0].addresses;
    assert!(own.len() == 1 && own.iter().all(|net| net.prefix_len() == 32), "{own:?}");
    // The client refuses an address outside its allowed networks.
    let world = world_with(&POOL.replace("10.0.0.0/29", "8.8.8.8/31"));
    assert!(world.hosts[0].addresses.is_empty(), "{:?}", world.hosts[0].addresses);
    assert!(logged(&world, 0, "not within allowed_ips"));
    // A prefix of length 0 allows every address but no route, not even one to the network of an address.
    let mut world = world_with(POOL);
    world.hosts[0].text = world.hosts[0].text.replace("\"10.0.0.0/24\", \"10.9.0.0/16\"", "\"0.0.0.0/0\"");
    world.hosts[0].restart(world.now);
    world.run(Duration::from_secs(20));
    let own = &world.hosts[0].addresses;
    assert!(own.len() == 1 && own.iter().all(|net| net.prefix_len() == 32), "{own:?}");
    assert!(world.hosts[0].routes.is_empty(), "{:?}", world.hosts[0].routes);
}

#[test]
fn an_exhausted_pool_is_told_and_counted() {
    let small = |pool: &str| {
        let mut world = assigned();
        let text = server_text([true; CLIENTS], &POOL.replace("10.0.0.0/29", pool));
        SERVERS.iter().for_each(|server| world.reload(*server, &text));
        world.run(SOON);
        let given = world.hosts[..CLIENTS].iter().filter(|host| !host.addresses.is_empty()).count();
        (world, given)
    };
    assert_eq!(small("10.0.0.2/31").1, 2);
    let (world, given) = small("10.0.0.2/32");
    assert_eq!(given, 1);
    assert!(world.status(SERVERS[0]).tun.drops["no_address_to_assign"] >= 1);
    assert!((0..CLIENTS).any(|n| logged(&world, n, "no free address left")));
}
