//! Runs random events in a world and compares it with a small model, which covers reachability, the paths in
//! use, and leftovers (there must be none).

use crate::world::{CLIENTS, ClientFile, SERVERS, World, is_up, server_text};
use mpdccp_tunnel::Command;
use mpdccp_units::Duration;
use proptest::prelude::*;

/// A random event.
#[derive(Clone, Debug)]
enum Op {
    Wait(u64),
    Link { client: usize, interface: u8, up: bool },
    Roam { client: usize, interface: u8, to: u8 },
    Mtu { client: usize, interface: u8, mtu: u16 },
    Client { client: usize, pattern: bool, second: Option<u8>, quota: bool },
    Server { server: usize, peers: [bool; CLIENTS] },
    Drain(usize),
    Restart(usize),
    ShutDown(usize),
    Carry { client: usize, bytes: u64 },
    Dns(u8),
    Clock { client: usize, seconds: i64 },
    Send { from: usize, to: usize, len: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let client = || 0..CLIENTS;
    let server = || prop::sample::select(SERVERS.to_vec());
    let host = || 0..4usize;
    prop_oneof![
        4 => (1u64..6_000).prop_map(Op::Wait),
        2 => (client(), 0u8..2, any::<bool>()).prop_map(|(client, interface, up)| Op::Link { client, interface, up }),
        1 => (client(), 0u8..2, 100u8..250).prop_map(|(client, interface, to)| Op::Roam { client, interface, to }),
        1 => (client(), 0u8..2, 1280u16..=1500).prop_map(|(client, interface, mtu)| Op::Mtu { client, interface, mtu }),
        2 => (client(), any::<bool>(), prop::option::of(1u8..=5), any::<bool>())
            .prop_map(|(client, pattern, second, quota)| Op::Client { client, pattern, second, quota }),
        2 => (server(), any::<[bool; CLIENTS]>()).prop_map(|(server, peers)| Op::Server { server, peers }),
        1 => server().prop_map(Op::Drain),
        1 => host().prop_map(Op::Restart),
        1 => client().prop_map(Op::ShutDown),
        1 => (client(), 0u64..2_000_000).prop_map(|(client, bytes)| Op::Carry { client, bytes }),
        1 => (1u8..=2).prop_map(Op::Dns),
        1 => (client(), -40_000_000i64..40_000_000).prop_map(|(client, seconds)| Op::Clock { client, seconds }),
        4 => (host(), host(), 36usize..1_500).prop_map(|(from, to, len)| Op::Send { from, to, len }),
    ]
}

/// The configurations of all hosts.
struct Model {
    clients: [ClientFile; CLIENTS],
    peers: [[bool; CLIENTS]; 2],
    /// Additional lines of the servers' configurations.
    of_servers: &'static str,
}

/// Additional lines of a server's configuration: one or two shards, with addresses from the file or from a
/// pool.
const SERVER_LINES: [&str; 4] = ["", "shards = 2", POOL, POOL_OF_TWO];
const POOL: &str = "[assign]\npool = [\"10.0.0.0/28\"]\nroutes = [\"10.9.0.0/16\"]\n";
const POOL_OF_TWO: &str = "shards = 2\n[assign]\npool = [\"10.0.0.0/28\"]\nroutes = [\"10.9.0.0/16\"]\n";

fn play(world: &mut World, model: &mut Model, op: Op) {
    let now = world.now;
    match op {
        Op::Wait(ms) => world.run(Duration::from_millis(ms)),
        Op::Link { client, interface, up } => world.change(client, &format!("p{interface}"), |a| a.up = up),
        Op::Roam { client, interface, to } => {
            world.change(client, &format!("p{interface}"), |a| a.ip = [192, 0, 2, to].into());
        }
        Op::Mtu { client, interface, mtu } => world.change(client, &format!("p{interface}"), |a| a.mtu = mtu),
        Op::Client { client, pattern, second, quota } if !world.hosts[client].stopped => {
            // The pattern matches any working interface.
            let (interface, second) = if pattern { ("p*", None) } else { ("p0", second) };
            model.clients[client] = ClientFile { interface, second, quota, ..model.clients[client].clone() };
            world.hosts[client].reload(now, &model.clients[client].text(client));
        }
        Op::Server { server, peers } => {
            model.peers[server - SERVERS[0]] = peers;
            world.reload(server, &server_text(peers, model.of_servers));
        }
        Op::Drain(server) => world.command(server, &Command::Drain),
        Op::Restart(host) => {
            let text = world.hosts[host].text.clone();
            world.restart(host, &text);
        }
        Op::ShutDown(client) => drop(world.hosts[client].command(now, Command::ShutDown)),
        Op::Carry { client, bytes } => {
            world.hosts[client].sockets.values_mut().for_each(|socket| socket.bytes += bytes);
        }
        Op::Dns(last) => world.hosts.iter_mut().for_each(|host| host.dns = last),
        Op::Clock { client, seconds } => world.hosts[client].clock = seconds,
        Op::Send { from, to, len } if !world.hosts[from].stopped => {
            world.send(from, world.address(to), len);
        }
        Op::Client { .. } | Op::Send { .. } => {}
    }
    for server in SERVERS {
        for client in 0..CLIENTS {
            let name = format!("c{client}");
            let there = world.peer(server, &name).is_some();
            assert_eq!(there, model.peers[server - SERVERS[0]][client], "peers are those of the file");
        }
    }
}

/// Checks invariants while no event is pending: paths and priorities are as configured, and each socket
/// belongs to a path.
fn check_clients(world: &mut World, model: &Model) {
    for client in (0..CLIENTS).filter(|client| !world.hosts[*client].stopped) {
        let Some(peer) = world.peer(client, "hub") else { panic!("the peer of the file is missing") };
        let file = &model.clients[client];
        let paths = 1 + usize::from(file.second.is_some());
        assert_eq!(
            world.hosts[client].sockets.len(),
            paths,
            "sockets of client {client}: {:?}",
            world.hosts[client].log
        );
        for path in peer.paths.iter().filter(|path| is_up(path)) {
            let used_up = path.quota_bytes.zip(path.quota_used_bytes).is_some_and(|(all, used)| used >= all);
            let said = if path.name == "a" { 3 } else { file.second.unwrap() };
            assert_eq!(
                path.priority,
                if used_up { said.min(1) } else { said },
                "{} of client {client}",
                path.name
            );
            assert_eq!(path.quota_bytes.is_some(), path.name == "a" && file.quota);
        }
        let host = &world.hosts[client];
        assert_eq!(host.routes.iter().map(|net| net.to_string()).collect::<Vec<_>>(), ["10.9.0.0/16"]);
        assert_eq!(host.replies.len() as u64, host.commands, "each command is answered");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn worlds_heal(named in any::<bool>(), lines in 0..SERVER_LINES.len(), ops in prop::collection::vec(op(), 1..25)) {
        let mut clients = [ClientFile::new(), ClientFile::new()];
        if named {
            clients[1].remote = "\"hub.test\"".into();
        }
        let of_servers = SERVER_LINES[lines];
        if of_servers.contains("pool") {
            clients.iter_mut().for_each(|client| client.extra = "addresses = \"auto\"".into());
        }
        let mut model = Model { clients, peers: [[true; CLIENTS]; 2], of_servers };
        let mut world = World::new(model.clients.clone(), &server_text([true; CLIENTS], of_servers));
        for op in ops {
            play(&mut world, &mut model, op);
        }
        // After all outages have ended, packets of every client must arrive.
        for client in 0..CLIENTS {
            for interface in ["p0", "p1"] {
                world.change(client, interface, |access| (access.up, access.mtu) = (true, 1500));
            }
            if world.hosts[client].stopped || world.hosts[client].tunnel.status(&world.hosts[client].endpoint, world.now, None).peers.is_empty() {
                world.hosts[client].restart(world.now);
            }
        }
        SERVERS.iter().for_each(|server| world.restart(*server, &server_text([true; CLIENTS], of_servers)));
        model.peers = [[true; CLIENTS]; 2];
        world.run(Duration::from_secs(90));
        for client in 0..CLIENTS {
            if world.hosts[client].stopped {
                world.hosts[client].restart(world.now);
                world.run(Duration::from_secs(30));
            }
        }
        check_clients(&mut world, &model);
        for client in 0..CLIENTS {
            let server = world.server_of(client);
            prop_assert!(server.is_some(), "client {client}: {:?}", world.hosts[client].log);
            let server = server.unwrap();
            prop_assert!(world.reaches(client, server), "client {client} to {server}: {:?}", world.hosts[client].log);
            prop_assert!(world.reaches(server, client), "{server} to client {client}: {:?}", world.hosts[server].log);
        }
        if world.server_of(0) == world.server_of(1) {
            prop_assert_ne!(world.address(0), world.address(1), "an address of two clients");
        }
        (0..CLIENTS).for_each(|client| world.command(client, &Command::ShutDown));
        world.run(Duration::from_secs(3));
        for client in 0..CLIENTS {
            prop_assert!(world.hosts[client].stopped, "client {client} ends");
            for server in SERVERS {
                let peer = world.peer(server, &format!("c{client}")).unwrap();
                prop_assert_eq!(peer.state, "none", "no session is left over");
            }
        }
    }
}
