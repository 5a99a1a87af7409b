//! Tests two roaming clients behind one NAT. The first client's address changes during a transfer. A third
//! host replays and spoofs packets of the second client.

use crate::common::spaces::Spaces;
use crate::common::{inside, socket, udp_payloads, wait_for};
use dccp_secure::PrivateKey;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SERVER: &str = "203.0.113.1";
const NAT: &str = "203.0.113.2";

/// Creates the namespaces. Clients `c0` and `c1` are in a LAN behind `nat`. Server `s` and stranger `x` are
/// in the outside network.
fn world() -> Option<Spaces> {
    let world = Spaces::new("mpn", &["c0", "c1", "nat", "s", "x"], &["nft"])?;
    // The bridge in the NAT's namespace is the LAN; the bridge in the server's namespace is the outside
    // network.
    world
        .sh("nat", "ip link add lan type bridge && ip addr add 192.168.5.1/24 dev lan && ip link set lan up");
    world.sh(
        "s",
        &format!("ip link add net type bridge && ip addr add {SERVER}/24 dev net && ip link set net up"),
    );
    for (i, (name, bridge, address)) in [
        ("c0", "nat", "192.168.5.10"),
        ("c1", "nat", "192.168.5.11"),
        ("nat", "s", NAT),
        ("x", "s", "203.0.113.66"),
    ]
    .into_iter()
    .enumerate()
    {
        let port = format!("port{i}");
        world.link((name, "wan"), (bridge, &port));
        let master = if bridge == "nat" { "lan" } else { "net" };
        world.sh(bridge, &format!("ip link set {port} master {master} up"));
        world.sh(name, &format!("ip addr add {address}/24 dev wan && ip link set wan up"));
    }
    for name in ["c0", "c1"] {
        world.sh(name, "ip route add default via 192.168.5.1");
    }
    world.sh("nat", "sysctl -qw net.ipv4.ip_forward=1; nft add table ip t; \
        nft add chain ip t nat '{ type nat hook postrouting priority srcnat; }'; nft add rule ip t nat oifname wan masquerade");
    Some(world)
}

/// Sends numbered datagrams from a client through the tunnel to the server.
struct Stream {
    sent: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Stream {
    fn start(world: &Spaces, client: u8) -> Stream {
        let socket = socket(&world.space(&format!("c{client}")), &format!("10.8.0.{}:0", 2 + client));
        let stream = Stream { sent: Arc::default(), stop: Arc::default() };
        let (sent, stop) = (stream.sent.clone(), stream.stop.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let mut packet = [client; 600];
                packet[..8].copy_from_slice(&sent.fetch_add(1, Ordering::Relaxed).to_be_bytes());
                let _ = socket.send_to(&packet, "10.8.0.1:7000");
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        stream
    }
}

/// The numbers of the datagrams that arrived from each client. Each number may arrive only once. `wrong`
/// lists all other packets.
#[derive(Default)]
struct Arrived {
    numbers: [BTreeSet<u64>; 2],
    wrong: Vec<String>,
}

fn receive(socket: &UdpSocket, arrived: &Mutex<Arrived>, stop: &AtomicBool) {
    let mut bytes = [0; 2000];
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, from)) = socket.recv_from(&mut bytes) else { continue };
        let mut arrived = arrived.lock().unwrap();
        let client = usize::from(bytes[8]);
        let number = u64::from_be_bytes(*bytes.first_chunk().unwrap());
        let right = len == 600
            && client < 2
            && bytes[8..600].iter().all(|b| usize::from(*b) == client)
            && from.ip().to_string() == format!("10.8.0.{}", 2 + client);
        if !right || !arrived.numbers[client].insert(number) {
            arrived.wrong.push(format!("{len} bytes from {from}, number {number}"));
        }
    }
}

#[test]
fn two_roaming_clients_behind_one_nat() {
    roam(1);
}

/// The client's new port may select another of the server's sockets, but the session stays on its shard.
#[test]
fn two_roaming_clients_of_two_shards() {
    roam(2);
}

fn roam(shards: u8) {
    let Some(mut world) = world() else { return };
    let keys = [1, 2, 3].map(|n| PrivateKey::from_random([n; 32]));
    let peer = |n: usize| {
        let key = keys[n].public();
        format!(
            "[[peer]]\nname = \"c{n}\"\npublic_key = \"{key}\"\nallowed_ips = [\"10.8.0.{}/32\"]\n",
            2 + n
        )
    };
    let own = |n: usize| format!("private_key = \"{}\"\n", *keys[n].to_base64());
    let server = format!(
        "role = \"server\"\nshards = {shards}\nlisten = [\"{SERVER}:6511\"]\naddresses = [\"10.8.0.1/24\"]\n{}{}{}",
        own(2),
        peer(0),
        peer(1)
    );
    world.up("s", &server);
    for n in 0..2 {
        let key = keys[2].public();
        let capture = world.path(&format!("c{n}.pcap"));
        let client = format!(
            "role = \"client\"\naddresses = [\"10.8.0.{}/24\"]\ncapture = {capture:?}\n{}[[peer]]\nname = \"s\"\n\
             public_key = \"{key}\"\nallowed_ips = [\"10.8.0.0/24\"]\n[[peer.path]]\nname = \"p\"\n\
             interface = \"wan\"\nremote = \"{SERVER}:6511\"\n",
            2 + n,
            own(n)
        );
        world.up(&format!("c{n}"), &client);
    }
    let remote =
        |n: usize| world.status("s")["peers"][n]["paths"][0]["remote"].as_str().unwrap_or("").to_owned();
    wait_for("the paths of both clients", || {
        (0..2).all(|n| world.status("s")["peers"][n]["paths"][0]["state"] == "up")
    });
    assert!((0..2).all(|n| remote(n).starts_with(NAT)) && remote(0) != remote(1), "both come from the NAT");

    let (arrived, stop) = (Arc::new(Mutex::new(Arrived::default())), Arc::new(AtomicBool::new(false)));
    let sink = socket(&world.space("s"), "10.8.0.1:7000");
    sink.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (to, end) = (arrived.clone(), stop.clone());
    let receiver = std::thread::spawn(move || receive(&sink, &to, &end));
    let streams = [0, 1].map(|client| Stream::start(&world, client));
    let count = |n: usize| arrived.lock().unwrap().numbers[n].len();
    wait_for("datagrams from both clients", || count(0) > 500 && count(1) > 500);

    // The first client gets a new address in the LAN, and therefore a new port on the NAT.
    let before = remote(0);
    world.sh("c0", "ip addr add 192.168.5.77/24 dev wan && ip addr del 192.168.5.10/24 dev wan; ip addr add 192.168.5.77/24 dev wan; \
        ip route replace default via 192.168.5.1");
    // The stranger replays packets of the second client, first from its own address and then from the NAT's.
    let second = remote(1);
    let port = second.rsplit_once(':').unwrap().1.to_owned();
    let seen = udp_payloads(&std::fs::read(world.path("c1.pcap")).unwrap());
    assert!(seen.len() > 500);
    let stranger = socket(&world.space("x"), "203.0.113.66:0");
    world.sh("x", &format!("ip addr add {NAT}/32 dev lo"));
    let spoofed = inside(&world.space("x"), move || UdpSocket::bind(format!("{NAT}:{port}")).unwrap());
    stranger.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    for bytes in &seen {
        let mut forged = bytes.clone();
        let last = forged.len() - 1;
        forged[last] ^= 1;
        for socket in [&stranger, &spoofed] {
            for bytes in [bytes, &forged] {
                let _ = socket.send_to(bytes, format!("{SERVER}:6511"));
            }
        }
    }
    assert!(stranger.recv_from(&mut [0; 2000]).is_err(), "a stranger got a packet back");
    let dropped = |why: &str| world.status("s")["channels"][why].as_u64().unwrap_or(0);
    wait_for("the counts of replayed and forged packets", || dropped("replayed") + dropped("forged") > 500);
    wait_for("the server follows the first client", || remote(0) != before && remote(0).starts_with(NAT));
    let (first, other) = (count(0), count(1));
    wait_for("more datagrams from both clients", || count(0) > first + 500 && count(1) > other + 500);
    assert_eq!(remote(1), second, "replayed packets do not move a client");

    let sent = streams.map(|stream| {
        stream.stop.store(true, Ordering::Relaxed);
        stream.sent.load(Ordering::Relaxed)
    });
    wait_for("the last datagrams", || {
        let arrived = arrived.lock().unwrap();
        (0..2).all(|n| arrived.numbers[n].last().is_some_and(|last| last + 3 >= sent[n]))
    });
    if shards > 1 {
        let sessions: Vec<Value> =
            (0..2).map(|n| world.status("s")["shards"][n]["sessions"].clone()).collect();
        assert_eq!(sessions, [1, 1]);
    }
    stop.store(true, Ordering::Relaxed);
    receiver.join().unwrap();
    let arrived = arrived.lock().unwrap();
    assert!(arrived.wrong.is_empty(), "{:?}", arrived.wrong);
    let lost = [0, 1].map(|n| sent[n] - arrived.numbers[n].len() as u64);
    // If a client is delayed because the machine is busy, the client's own queue drops old packets and counts
    // them.
    let own = [0, 1].map(|n| {
        let queue = world.status(&format!("c{n}"))["peers"][0]["queue"].clone();
        ["dropped_full", "dropped_old", "dropped_early"]
            .iter()
            .filter_map(|why| queue[why].as_u64())
            .sum::<u64>()
    });
    // Packets in flight when the address changes are lost. The other client loses hardly any packets.
    assert!(
        lost[0] < own[0] + 500 && lost[1] < own[1] + 20,
        "{lost:?} of {sent:?}, {own:?} by their own queues"
    );
}
