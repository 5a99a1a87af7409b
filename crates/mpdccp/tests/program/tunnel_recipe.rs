//! Runs the recipes of docs/guides/office.md with exactly the commands and files given on the page.

use crate::common::spaces::Spaces;
use crate::common::{blocks, inside, ip, printed, run, wait_for, write_private};
use dccp_secure::PrivateKey;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const PAGE: &str = include_str!("../../../../docs/guides/office.md");

/// Creates namespaces for the LAN, the router, the Internet and the server. Returns `None` if one of
/// `programs` is missing or this host cannot create namespaces.
fn office(programs: &[&str]) -> Option<Spaces> {
    let office = Spaces::new("mpr", &["lan", "router", "net", "server"], programs)?;
    for ((a, at, address), (b, bt, other)) in [
        (("lan", "eth0", "192.168.88.9/24"), ("router", "lan0", "192.168.88.1/24")),
        (("router", "eth0", "192.0.2.10/24"), ("net", "dsl", "192.0.2.1/24")),
        (("router", "wwan0", "198.51.100.10/24"), ("net", "lte", "198.51.100.1/24")),
        (("server", "eth0", "203.0.113.1/24"), ("net", "hub", "203.0.113.254/24")),
    ] {
        office.link((a, at), (b, bt));
        for (name, interface, address) in [(a, at, address), (b, bt, other)] {
            office.sh(name, &format!("ip addr add {address} dev {interface} && ip link set {interface} up"));
        }
    }
    // The usual MTU of DSL is 1492 bytes.
    office.sh("router", "ip link set eth0 mtu 1492");
    office.sh("net", "ip link set dsl mtu 1492 && sysctl -qw net.ipv4.ip_forward=1");
    office.sh("net", "ip addr add 198.18.0.1/32 dev lo");
    office.sh("lan", "ip route add default via 192.168.88.1");
    office.sh("server", "ip route add default via 203.0.113.254");
    Some(office)
}

/// Starts an end with one of the recipe's configurations, after filling in the keys.
fn up(office: &mut Spaces, name: &str, text: &str, own: &PrivateKey, peer: &PrivateKey) {
    let key = office.path(&format!("{name}.key"));
    write_private(&key, &own.to_base64());
    let (before, rest) = text.split_once('<').unwrap();
    let (_, after) = rest.split_once('>').unwrap();
    let text = format!("{before}{}{after}", peer.public());
    office.up(name, &text.replace("/etc/mpdccp/private.key", key.to_str().unwrap()));
}

#[test]
fn an_office_with_two_lines() {
    let Some(mut office) = office(&["nft"]) else { return };
    // This setting is the default on many distributions.
    office.sh("router", "sysctl -qw net.ipv4.conf.all.rp_filter=1");
    let title = "An office with two lines";
    let (commands, files) = (blocks(PAGE, title, "sh"), blocks(PAGE, title, "toml"));
    assert_eq!((commands.len(), files.len()), (2, 2));
    office.sh("router", commands[0]);
    office.sh("server", commands[1]);
    let [router, server] = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
    up(&mut office, "server", files[1], &server, &router);
    up(&mut office, "router", files[0], &router, &server);
    wait_for("both lines", || office.is_healthy("router"));

    // A host in the LAN connects to a host on the Internet. The Internet host sees the server's address.
    let listen = || TcpListener::bind("198.18.0.1:80").unwrap();
    let listener = inside(&office.space("net"), listen);
    let connect = || TcpStream::connect("198.18.0.1:80").unwrap();
    let client = inside(&office.space("lan"), connect);
    let (web, from) = listener.accept().unwrap();
    assert_eq!(from.ip().to_string(), "203.0.113.1");
    let data: Vec<u8> = (0..500_000u32).map(|i| i as u8).collect();
    let back_and_forth = || {
        for (a, mut b) in [(&client, &web), (&web, &client)] {
            let (mut writer, sent) = (a.try_clone().unwrap(), data.clone());
            let writing = std::thread::spawn(move || writer.write_all(&sent).unwrap());
            let mut got = vec![0; data.len()];
            b.read_exact(&mut got).unwrap();
            writing.join().unwrap();
            assert!(got == data);
        }
    };
    back_and_forth();
    // The server forwards a port to the LAN. The host in the LAN sees the address of the connecting client.
    office.sh("server", blocks(PAGE, "A port of the server for a host in the LAN", "sh")[0]);
    let https = inside(&office.space("lan"), || TcpListener::bind("192.168.88.9:443").unwrap());
    let visitor = inside(&office.space("net"), || TcpStream::connect("203.0.113.1:8443").unwrap());
    let (mut answering, from) = https.accept().unwrap();
    assert_eq!(from.ip().to_string(), "203.0.113.254");
    answering.write_all(b"welcome").unwrap();
    let mut got = [0; 7];
    (&visitor).read_exact(&mut got).unwrap();
    assert_eq!(&got, b"welcome");
    // DSL fails. The connection continues.
    office.sh("net", "ip link set dsl down");
    back_and_forth();
}

#[test]
fn two_sites_without_translation() {
    let Some(mut office) = office(&[]) else { return };
    office.sh("router", "sysctl -qw net.ipv4.conf.all.rp_filter=2; ip route replace default via 192.0.2.1 dev eth0 metric 100; ip route replace default via 198.51.100.1 dev wwan0 metric 200");
    // Create the other LAN and a host in it.
    let there = "ip link add lan1 type bridge; ip addr add 192.168.99.1/24 dev lan1; ip link set lan1 up";
    office.sh("server", there);
    let title = "Two sites that see each other's addresses";
    let (commands, files) = (blocks(PAGE, title, "sh"), blocks(PAGE, title, "toml"));
    assert_eq!((commands.len(), files.len()), (1, 1));
    for name in ["router", "server"] {
        office.sh(name, commands[0]);
    }
    let [router, server] = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
    up(&mut office, "server", blocks(PAGE, "An office with two lines", "toml")[1], &server, &router);
    up(&mut office, "router", files[0], &router, &server);
    wait_for("both lines", || office.is_healthy("router"));
    for (from, to, address, source) in [
        ("lan", "server", "192.168.99.1:80", "192.168.88.9"),
        ("server", "lan", "192.168.88.9:80", "192.168.99.1"),
    ] {
        let listener = inside(&office.space(to), move || TcpListener::bind(address).unwrap());
        let connect = move || {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.bind(&format!("{source}:0").parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
            socket.connect(&address.parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
            TcpStream::from(socket)
        };
        let client = inside(&office.space(from), connect);
        let (_, seen) = listener.accept().unwrap();
        assert_eq!(seen.ip().to_string(), source, "the source address is not translated");
        drop(client);
    }
    // Only traffic between the two LANs goes through the tunnel.
    let router = office.space("router");
    assert!(ip(&format!("-n {router} route get 198.18.0.1")).contains("dev eth0"));
}

#[test]
fn a_network_of_ipv6_behind_a_client() {
    let Some(mut office) = office(&[]) else { return };
    let title = "An IPv6 network behind a client";
    let (commands, files) = (blocks(PAGE, title, "sh"), blocks(PAGE, title, "toml"));
    assert_eq!((commands.len(), files.len()), (2, 2));
    // Turn off duplicate address detection, so that addresses can be used at once.
    for name in ["lan", "router", "net", "server"] {
        office.sh(name, "sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0");
        office.sh(name, "for d in /proc/sys/net/ipv6/conf/*/accept_dad; do echo 0 > $d; done");
    }
    office.sh("router", "ip route replace default via 192.0.2.1 dev eth0 metric 100");
    // The Internet has a route to the prefix. The router also has a route that avoids the tunnel, which must
    // not be used.
    office.sh("net", "ip addr add 2001:db8:ffff::1/128 dev lo; sysctl -qw net.ipv6.conf.all.forwarding=1");
    office.sh("net", "ip addr add 2001:db8:1::2/64 dev hub; ip addr add 2001:db8:2::2/64 dev dsl");
    office.sh("server", "ip addr add 2001:db8:1::1/64 dev eth0; ip route add default via 2001:db8:1::2");
    office.sh("net", "ip route add 2001:db8:77::/48 via 2001:db8:1::1");
    office.sh("router", "ip addr add 2001:db8:2::1/64 dev eth0; ip route add default via 2001:db8:2::2");
    office.sh("lan", "ip addr add 2001:db8:77:88::9/64 dev eth0; ip route add default via 2001:db8:77:88::1");
    office.sh("router", commands[0]);
    office.sh("server", commands[1]);
    let [router, server] = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
    up(&mut office, "server", files[1], &server, &router);
    up(&mut office, "router", files[0], &router, &server);
    wait_for("the line", || office.is_healthy("router"));

    let listener = inside(&office.space("net"), || TcpListener::bind("[2001:db8:ffff::1]:80").unwrap());
    let connect = || TcpStream::connect("[2001:db8:ffff::1]:80").unwrap();
    let client = inside(&office.space("lan"), connect);
    let (mut web, from) = listener.accept().unwrap();
    assert_eq!(from.ip().to_string(), "2001:db8:77:88::9", "the source address is not translated");
    (&client).write_all(&[7; 100_000]).unwrap();
    let mut got = vec![0; 100_000];
    web.read_exact(&mut got).unwrap();
    // A host on the Internet connects to a host behind the client.
    let inside_host = inside(&office.space("lan"), || TcpListener::bind("[2001:db8:77:88::9]:80").unwrap());
    let from_outside = || TcpStream::connect("[2001:db8:77:88::9]:80").unwrap();
    let outside = inside(&office.space("net"), from_outside);
    drop((inside_host.accept().unwrap(), outside));
    // After the tunnel is killed, nothing bypasses it, although another route exists.
    let router = office.space("router");
    let way = || printed(&run("ip", &format!("-n {router} -6 route get 2001:db8:ffff::1")));
    assert!(way().contains("dev mpdccp0"), "{}", way());
    office.ends[1].kill().unwrap();
    office.ends[1].wait().unwrap();
    wait_for("the interface is gone", || {
        !run("ip", &format!("-n {router} link show mpdccp0")).status.success()
    });
    assert!(!way().contains("dev eth0"), "{}", way());
    // Once the tunnel runs again, packets are no longer blocked. When it ends cleanly, the routes are as
    // before.
    wait_for("the control socket is gone", || !office.path("router.sock").exists());
    let [own, peer] = [1, 2].map(|n| PrivateKey::from_random([n; 32]));
    up(&mut office, "router", files[0], &own, &peer);
    wait_for("the tunnel again", || office.is_healthy("router") && way().contains("dev mpdccp0"));
    let pid = rustix::process::Pid::from_child(&office.ends[2]);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(office.ends[2].wait().unwrap().success());
    assert!(way().contains("dev eth0"), "{}", way());
}
