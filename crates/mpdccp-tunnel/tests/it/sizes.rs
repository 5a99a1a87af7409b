//! Tests with paths whose MTU is smaller than that of other paths, smaller than IPv6 requires, or smaller
//! than before.

use crate::world::{CLIENTS, ClientFile, SECOND, SERVER, World, inner, inner6, server_text, talk, up_with};
use etherparse::{IpNumber, Ipv6Header};
use mpdccp_tunnel::{Command, Packet};
use mpdccp_units::Duration;

/// Size of the largest inner packet on a path with an MTU of 1500 bytes.
const FULL: usize = 1500 - 64 - 28;

/// Returns a world whose paths have been up for a while. `extra` is added to the clients' files.
fn up(extra: &str) -> World {
    let client = || ClientFile { v6: true, extra: extra.into(), ..ClientFile::new() };
    let mut server = server_text([true; CLIENTS], "");
    for n in 0..CLIENTS {
        let (v4, v6) = (inner(n), inner6(n));
        server = server.replace(&format!("\"{v4}/32\""), &format!("\"{v4}/32\", \"{v6}/128\""));
    }
    server = server.replace("\"10.0.0.1/24\"", &format!("\"10.0.0.1/24\", \"{}/64\"", inner6(SERVER)));
    let mut world = World::new([client(), client()], &server);
    world.run(SECOND * 5);
    world
}

/// Makes one of the first client's access networks drop packets larger than `mtu`. Returns once both ends
/// have noticed.
fn narrow(world: &mut World, interface: &str, mtu: u16) {
    world.change(0, interface, |access| access.mtu = mtu);
    talk(world, SECOND * 8, FULL);
}

fn passes(world: &mut World, from: usize, to: usize, len: usize) -> bool {
    let number = world.send(from, inner(to), len);
    world.run(SECOND);
    world.delivered.get(&number) == Some(&to)
}

fn v6(from: usize, to: usize, len: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    let header = Ipv6Header {
        payload_length: len as u16 - 40,
        next_header: IpNumber::UDP,
        hop_limit: 9,
        source: inner6(from).octets(),
        destination: inner6(to).octets(),
        ..Ipv6Header::default()
    };
    header.write(&mut packet).unwrap();
    packet.extend((40..len).map(|n| n as u8));
    packet
}

/// Only the first fragment has the ports by which the rule matches.
#[test]
fn fragments_follow_the_rule_of_their_packet() {
    let rule = "[[policy_rule]]\nprotocol = \"tcp\"\nports = 80\npaths = \"a\"";
    let mut world = up(&format!("scheduler = \"rr\"\n{rule}"));
    let mut packet = vec![0; 1_600];
    packet[..10].copy_from_slice(&[0x45, 0, 6, 64, 0, 1, 0, 0, 64, 6]);
    packet[12..16].copy_from_slice(&inner(0).octets());
    packet[16..20].copy_from_slice(&inner(SERVER).octets());
    packet[20..24].copy_from_slice(&[0x9c, 0x40, 0, 80]);
    for _ in 0..20 {
        world.hosts[0].packet(world.now, Packet::Interface(packet.clone()));
        world.run(Duration::from_millis(20));
    }
    assert_eq!(world.segments.len(), 2 * 20);
    assert_eq!(world.peer(0, "hub").unwrap().policy_rules["rule-1"].packets, 2 * 20);
}

/// Linux ignores ICMPv6 errors that report an MTU below 1280 bytes, the minimum of IPv6. So if the paths
/// carry less, the tunnel sends IPv6 packets of up to 1280 bytes in pieces.
#[test]
fn ipv6_packets_of_1280_bytes_pass_where_the_paths_carry_less() {
    for mtu in [1200, 700] {
        let mut world = up("");
        for interface in ["p0", "p1"] {
            narrow(&mut world, interface, mtu);
        }
        for (from, to) in [(0, SERVER), (SERVER, 0)] {
            world.v6.clear();
            let packets = [1280, 1279, 1109].map(|len| v6(from, to, len));
            for packet in &packets {
                world.hosts[from].packet(world.now, Packet::Interface(packet.clone()));
            }
            world.run(SECOND);
            assert!(world.v6 == packets.map(|packet| (to, packet)), "{from} to {to} over {mtu}");
            world.v6.clear();
            world.hosts[from].packet(world.now, Packet::Interface(v6(from, to, 1281)));
            world.run(SECOND);
            let [(at, answer)] = &world.v6[..] else { panic!("{:?}", world.v6) };
            assert_eq!((*at, answer[6], answer[40], &answer[44..48]), (from, 58, 2, &[0, 0, 5, 0][..]));
        }
    }
}

/// The interface must have an MTU of at least 1280 bytes before the server assigns an IPv6 address.
#[test]
fn a_server_assigns_ipv6_addresses_where_the_paths_carry_less() {
    let file = |own: &str| ClientFile {
        v6: true,
        remote: "\"198.51.100.1\"\nmtu = 1300".into(),
        extra: format!("addresses = \"auto\"\n{own}"),
        ..ClientFile::new()
    };
    let pool = "[assign]\npool = [\"10.0.0.0/29\", \"fd00::1:0/112\"]\n";
    let world = up_with([file(""), file("mtu = 1200")], pool);
    assert_eq!((world.hosts[0].addresses.len(), world.hosts[0].mtu), (2, 1280));
    // This end's file allows no IPv6 address.
    let why = world.status(1).no_address.unwrap();
    assert!(why.contains("this end's mtu = 1200 is too small for IPv6"), "{why}");
}

/// Linux deletes the IPv6 routes into an interface when its MTU falls below 1280 bytes. IPv6 packets would
/// then bypass the tunnel.
#[test]
fn an_interface_that_ipv6_packets_enter_stays_wide_enough_for_them() {
    let mut world = World::usual();
    for (client, net) in [(0, "\"::/0\""), (1, "\"0.0.0.0/0\"")] {
        let file = ClientFile {
            remote: "\"198.51.100.1\"\nmtu = 1300".into(),
            extra: "default_route = true".into(),
            ..ClientFile::new()
        };
        world.restart(client, &file.text(client).replace("\"10.9.0.0/16\"", net));
    }
    world.run(SECOND * 5);
    assert_eq!([world.hosts[0].mtu, world.hosts[1].mtu], [1280, 1300 - 64 - 28]);
}

#[test]
fn a_server_that_routes_ipv6_keeps_its_interface_wide_enough() {
    let v4 = server_text([true, false], "");
    let mut world = World::new([ClientFile::of_one_server(), ClientFile::of_one_server()], &v4);
    world.run(SECOND * 5);
    narrow(&mut world, "p0", 1300);
    narrow(&mut world, "p1", 1300);
    assert!(world.hosts[SERVER].mtu < 1280, "{}", world.hosts[SERVER].mtu);
    world.reload(SERVER, &v4.replace("/32\"]", "/32\", \"fd01::/64\"]"));
    assert_eq!(world.hosts[SERVER].mtu, 1280);
    narrow(&mut world, "p0", 1250);
    narrow(&mut world, "p1", 1250);
    assert_eq!(world.hosts[SERVER].mtu, 1280);
}

#[test]
fn a_closed_path_does_not_keep_the_interface_narrow() {
    let mut world = World::usual();
    let file = ClientFile::new().text(0);
    world.restart(0, &file.replacen("interface = \"p0\"", "mtu = 1400\ninterface = \"p0\"", 1));
    world.run(SECOND * 5);
    assert_eq!(world.hosts[0].mtu, 1400 - 64 - 28);
    world.hosts[0].command(world.now, Command::PathDel { peer: None, name: "a".into() });
    world.run(SECOND * 5);
    assert_eq!(world.hosts[0].mtu, FULL as u16);
}

#[test]
fn the_interface_does_not_follow_each_change_of_a_path_that_flaps() {
    let mut world = World::usual();
    let file = ClientFile::new().text(0);
    world.restart(0, &file.replacen("interface = \"p0\"", "mtu = 1400\ninterface = \"p0\"", 1));
    world.run(SECOND * 5);
    world.hosts[0].log.clear();
    let remote = ClientFile::new().remote;
    let path = format!("name = \"a\"\ninterface = \"p0\"\nremote = {remote}\nmtu = 1400");
    for _ in 0..10 {
        let delete = Command::PathDel { peer: None, name: "a".into() };
        let add = Command::PathAdd { peer: None, path: toml::from_str(&path).unwrap() };
        for command in [delete, add] {
            world.hosts[0].command(world.now, command);
            world.run(Duration::from_millis(200));
        }
    }
    assert_eq!(world.path(0, "a").map(|path| path.state), Some("up".into()));
    let changes = world.hosts[0].log.iter().filter(|line| line.contains("MTU changed")).count();
    assert!((1..=4).contains(&changes), "{changes}: {:?}", world.hosts[0].log);
    world.run(SECOND * 5);
    assert_eq!(world.hosts[0].mtu, 1400 - 64 - 28);
}

/// At the start of a host, some of its lines may not be up yet.
#[test]
fn a_path_that_opens_later_counts_for_the_size_of_the_interface() {
    let mut world = World::usual();
    let file = |extra: &str| {
        let file = ClientFile { extra: extra.into(), ..ClientFile::new() }.text(0);
        file.replacen("interface = \"p0\"", "mtu = 1300\ninterface = \"p0\"", 1)
    };
    let line = world.hosts[0].access.remove("p1").unwrap();
    world.restart(0, &file("mtu = 1400"));
    assert_eq!(world.hosts[0].mtu, 1400, "the tunnel starts");
    world.restart(0, &file("").replacen("interface = \"p1\"", "mtu = 1350\ninterface = \"p1\"", 1));
    assert_eq!(world.hosts[0].mtu, 1350 - 64 - 28);
    world.restart(0, &file(""));
    world.run(SECOND * 5);
    assert_eq!(world.hosts[0].mtu, 1300 - 64 - 28);
    world.hosts[0].access.insert("p1".into(), line);
    world.run(SECOND * 5);
    assert_eq!(world.hosts[0].mtu, FULL as u16);
}

#[test]
fn a_narrow_path_carries_small_packets_and_large_ones_take_the_wide_one() {
    let mut world = up("scheduler = \"rr\"");
    narrow(&mut world, "p0", 1200);
    assert_eq!(world.path(0, "a").map(|path| path.mtu), Some(1200));
    let warned = "path a (198.51.100.1:6511) changed its MTU from 1500 to 1200 bytes; packets of mpdccp0 over 1108 bytes take other paths";
    assert!(world.hosts[0].warned.iter().any(|line| line.contains(warned)), "{:?}", world.hosts[0].warned);
    assert_eq!(world.hosts[0].mtu, FULL as u16);
    for (from, to) in [(0, SERVER), (SERVER, 0)] {
        assert!(passes(&mut world, from, to, FULL), "{from} to {to}");
    }
    let sent = |world: &World| world.path(0, "a").unwrap().sent_packets;
    let before = sent(&world);
    talk(&mut world, SECOND, 1_000);
    assert!(sent(&world) - before > 20, "small packets still take the path");
    // When the wide path fails, hosts that send large packets get an ICMP error.
    world.change(0, "p1", |access| access.up = false);
    talk(&mut world, SECOND * 2, 500);
    world.hosts[0].log.clear();
    assert!(!passes(&mut world, 0, SERVER, FULL) && world.hosts[0].log.iter().any(|line| line == "icmp"));
    assert!(passes(&mut world, 0, SERVER, 1_108));
}

/// A standby path may cost money, so its larger MTU is no reason to use it.
#[test]
fn a_wide_standby_path_is_no_place_for_large_packets() {
    let mut world = up("");
    let file = ClientFile { v6: true, second: Some(1), ..ClientFile::new() };
    world.hosts[0].reload(world.now, &file.text(0));
    narrow(&mut world, "p0", 1200);
    let before = world.path(0, "b").unwrap().sent_packets;
    world.hosts[0].log.clear();
    assert!(!passes(&mut world, 0, SERVER, FULL) && world.hosts[0].log.iter().any(|line| line == "icmp"));
    assert!(passes(&mut world, 0, SERVER, 1_108));
    assert_eq!(world.path(0, "b").unwrap().sent_packets, before);
}

#[test]
fn a_healed_path_grows_while_traffic_flows_and_is_not_probed_without() {
    let mut world = up("scheduler = \"rr\"");
    for interface in ["p0", "p1"] {
        narrow(&mut world, interface, 1200);
    }
    talk(&mut world, SECOND * 12, 500);
    world.hosts[0].access.values_mut().for_each(|access| access.mtu = 1500);
    world.run(SECOND * 120);
    let sizes = |world: &World| ["a", "b"].map(|name| world.path(0, name).unwrap().mtu);
    assert_eq!(sizes(&world), [1200, 1200], "idle");
    let mut waited = 0;
    while sizes(&world) != [1500, 1500] {
        talk(&mut world, SECOND, 1_000);
        waited += 1;
        assert!(waited <= 30, "{:?}", sizes(&world));
    }
    assert!(passes(&mut world, 0, SERVER, FULL) && passes(&mut world, SERVER, 0, FULL));
}

/// All packets are too large for the narrow path, so it carries none of them.
#[test]
fn a_healed_path_grows_if_all_traffic_is_too_large_for_it() {
    let mut world = up("");
    narrow(&mut world, "p0", 1200);
    assert_eq!(world.path(0, "a").map(|path| path.mtu), Some(1200));
    world.hosts[0].access.get_mut("p0").unwrap().mtu = 1500;
    talk(&mut world, SECOND * 30, FULL);
    assert_eq!(world.path(0, "a").map(|path| path.mtu), Some(1500));
}

/// Large packets are lost on all paths at once. The tunnel sends them in pieces until it knows the path MTUs;
/// from then on it answers with ICMP errors.
#[test]
fn an_mtu_black_hole_of_all_paths_stops_large_packets_for_half_a_second_at_most() {
    for further in [0, 20, 90] {
        let mut world = up("");
        world.change(0, "p1", |access| access.delay = Duration::from_millis(further));
        talk(&mut world, SECOND * 10, 1_250);
        for interface in ["p0", "p1"] {
            world.change(0, interface, |access| access.mtu = 1200);
        }
        for (from, since) in longest_silence(&mut world, SECOND * 5, 1_250) {
            assert!(since < Duration::from_millis(500), "from {from}, {further} ms further: {since:?}");
        }
    }
}

/// Sends packets in both directions for a while. Returns each sender with its longest outage: the longest
/// time during which none of its packets arrived or was answered with ICMP.
fn longest_silence(world: &mut World, time: Duration, len: usize) -> [(usize, Duration); 2] {
    let ends = [(0, SERVER), (SERVER, 0)];
    let mut of = ends.map(|(from, _)| (from, world.now, Duration::ZERO, 0, Vec::new()));
    for _ in 0..time.as_millis() / 10 {
        for ((from, to), end) in ends.into_iter().zip(&mut of) {
            end.4.push(world.send(from, inner(to), len));
        }
        world.run(Duration::from_millis(10));
        for (from, since, longest, handled, sent) in &mut of {
            let arrived = sent.iter().filter(|number| world.delivered.contains_key(number)).count();
            let now = arrived + world.hosts[*from].log.iter().filter(|line| *line == "icmp").count();
            if std::mem::replace(handled, now) < now {
                *since = world.now;
            }
            *longest = world.now.since(*since).max(*longest);
        }
    }
    of.map(|(from, _, longest, ..)| (from, longest))
}

/// From the first packet on and for every path MTU, the tunnel delivers each packet, answers it with ICMP, or
/// counts it as dropped.
#[test]
fn nothing_is_lost_silently_while_the_size_of_a_path_is_unknown() {
    for mtu in [1500, 1300] {
        let mut world = World::usual();
        world.hosts[0].access.values_mut().for_each(|access| access.mtu = mtu);
        let mut numbers = Vec::new();
        for _ in 0..1_000 {
            numbers.push(world.send(0, inner(SERVER), 1_400));
            world.run(Duration::from_millis(5));
        }
        world.run(SECOND);
        let delivered = numbers.iter().filter(|number| world.delivered.contains_key(number)).count() as u64;
        let status = world.status(0);
        let queue = status.peers[0].queue.clone().unwrap();
        let counted = status.tun.drops.values().sum::<u64>()
            + queue.dropped_old
            + queue.dropped_early
            + queue.dropped_full
            + queue.dropped_too_big;
        assert_eq!(delivered + counted, 1_000, "{mtu}: {:?} {queue:?}", status.tun.drops);
        assert!(delivered > 950 || mtu < 1500, "{delivered}: {:?} {queue:?}", status.tun.drops);
    }
}

/// The tunnel sends packets of a size before the probe of that size is answered, because some paths never
/// answer probes.
#[test]
fn the_first_large_packets_wait_for_no_probe() {
    for mtu in [1500, 1250] {
        for delay in [10, 300] {
            let files = [ClientFile::of_one_server(), ClientFile::new()];
            let mut world = World::new(files, &server_text([true; CLIENTS], ""));
            world.delay = Duration::from_millis(delay);
            world.hosts[0].access.values_mut().for_each(|access| access.mtu = mtu);
            let open = |world: &World| {
                let peer = world.peer(SERVER, "c0");
                world.server_of(0).is_some() && peer.is_some_and(|peer| peer.state == "open")
            };
            let opens = (0..30_000).any(|_| {
                world.run(Duration::from_millis(1));
                open(&world)
            });
            assert!(opens, "no session over {mtu}, {delay} ms: {:?}", world.hosts[0].log);
            for (from, to) in [(0, SERVER), (SERVER, 0)] {
                let numbers: Vec<u64> = (0..5).map(|_| world.send(from, inner(to), 1_328)).collect();
                world.run(world.delay + Duration::from_millis(100));
                let lost = numbers.iter().filter(|number| !world.delivered.contains_key(number)).count();
                assert!(
                    lost == 0 || mtu < 1500 && from == SERVER,
                    "{lost} of 5 from {from} over {mtu}, {delay} ms"
                );
            }
        }
    }
}

#[test]
fn icmp_errors_about_packets_to_one_peer_leave_those_of_others() {
    let mut world = up("");
    for to in [0, 1] {
        for _ in 0..150 {
            world.hosts[SERVER].packet(world.now, Packet::Interface(v6(SERVER, to, 1_500)));
        }
    }
    assert_eq!(world.status(SERVER).tun.drops["too_big_told"], 2 * 100);
}
