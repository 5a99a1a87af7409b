//! Sends packets through the encapsulations over loopback. They must arrive with their ECN field, addresses
//! and size.

use dccp_net::{Batch, Bind, Burst, Clock, Encapsulation, RawEncapsulation, UdpEncapsulation};
use dccp_proto::{Ecn, Route, Sink};
use dccp_wire::{Header, Packet, PacketType, Seq};
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::process::Command;
use std::time::{Duration, Instant};

struct Got {
    local: Option<IpAddr>,
    remote: SocketAddr,
    ecn: Ecn,
    ip_len: u32,
    bytes: Vec<u8>,
}

/// Receives until `n` packets have arrived. Gives up after a while, so that a lost packet fails an assertion
/// instead of blocking the test.
fn receive(encapsulation: &mut dyn Encapsulation, n: usize) -> Vec<Got> {
    let mut got = Vec::new();
    let patience = Instant::now();
    while got.len() < n && patience.elapsed() < Duration::from_secs(10) {
        encapsulation
            .receive(&mut |p| {
                assert!(p.at <= Clock.now());
                got.push(Got {
                    local: p.local,
                    remote: p.remote,
                    ecn: p.ecn,
                    ip_len: p.ip_len,
                    bytes: p.bytes.to_vec(),
                });
            })
            .unwrap();
    }
    got
}

/// Receiving many packets at once takes longer than the shortest round trips, but the times of the packets
/// must still be right.
#[test]
fn nothing_arrives_before_it_was_sent() {
    let mut a = UdpEncapsulation::new(bind("127.0.0.1:0")).unwrap();
    let mut b = UdpEncapsulation::new(bind("127.0.0.1:0")).unwrap();
    let remote = b.local_addr().unwrap();
    let patience = Instant::now();
    for _ in 0..20 {
        let sent: Vec<_> = (0..2u8)
            .map(|n| {
                let (now, bytes) = (Clock.now(), vec![n; 44 * 1_400]);
                let ecn = Ecn::Ect0;
                a.send(&Burst { local: None, remote, dscp: 0, ecn, segment: 1_400, bytes: &bytes }).unwrap();
                now
            })
            .collect();
        let mut got = 0;
        while got < 2 * 44 && patience.elapsed() < Duration::from_secs(10) {
            let after_it_left = |p: dccp_net::Received<'_>| assert!(p.at >= sent[usize::from(p.bytes[0])]);
            got += b.receive(&mut { after_it_left }).unwrap();
        }
        assert_eq!(got, 2 * 44);
    }
}

fn bind(addr: &str) -> Bind {
    Bind { addr: addr.parse().unwrap(), interface: None }
}

fn dccp(seq: u64, payload: usize) -> Vec<u8> {
    let header = Header::new((1, 2), PacketType::Data, Seq::new(seq));
    let mut packet = vec![0; header.packet_len(0, payload)];
    header.emit(&[], &mut packet).fill(seq as u8);
    packet
}

fn udp_pair(addr: &str) {
    let (mut a, mut b) =
        (UdpEncapsulation::new(bind(addr)).unwrap(), UdpEncapsulation::new(bind(addr)).unwrap());
    let route = Route { socket: 0, local: None, remote: b.local_addr().unwrap() };
    let mut batch = Batch::default();
    let sizes = [1000, 1000, 1000, 400, 1200, 30];
    for (i, len) in sizes.into_iter().enumerate() {
        let ecn = if i < 5 { Ecn::Ect0 } else { Ecn::Ce };
        batch.reserve(&route, ecn, len).fill(i as u8);
    }
    for run in batch.runs() {
        a.send(&run.burst()).unwrap();
    }
    let got = receive(&mut b, sizes.len());
    let shape: Vec<(usize, u8, Ecn)> = got.iter().map(|g| (g.bytes.len(), g.bytes[0], g.ecn)).collect();
    let e = Ecn::Ect0;
    assert_eq!(
        shape,
        [(1000, 0, e), (1000, 1, e), (1000, 2, e), (400, 3, e), (1200, 4, e), (30, 5, Ecn::Ce)]
    );
    assert!(got.iter().all(|g| g.remote == a.local_addr().unwrap() && g.local.is_none()));
    assert!(got.iter().all(|g| g.ip_len == u32::from(b.overhead()) + g.bytes.len() as u32));
    assert_eq!((a.stats().tx_packets, b.stats().rx_packets), (6, 6));
}

#[test]
fn udp_over_ipv4() {
    udp_pair("127.0.0.1:0");
}

#[test]
fn udp_over_ipv6() {
    if UdpEncapsulation::new(bind("[::1]:0")).is_err() {
        println!("SKIPPED this host has no IPv6");
        return;
    }
    udp_pair("[::1]:0");
}

/// Asks a server that is bound to no address at one of the addresses of this host.
fn ask(server: &mut dyn Encapsulation, client: &mut dyn Encapsulation, asked: SocketAddr, packet: &[u8]) {
    client.send(&Burst::of_one(None, asked, packet)).unwrap();
    // A native server also receives the packets of other tests.
    let here = client.local_addr().unwrap().ip();
    let got = std::iter::repeat_with(|| receive(server, 1))
        .take_while(|got| !got.is_empty())
        .flatten()
        .find(|got| got.remote.ip() == here)
        .unwrap();
    assert_eq!(got.local, Some(asked.ip()));
    server.send(&Burst::of_one(got.local, got.remote, packet)).unwrap();
}

#[test]
fn a_server_answers_from_the_address_it_was_asked_at() {
    for interface in [None, Some("lo".to_owned())] {
        // A server on an interface has a fixed port.
        let free = std::net::UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap();
        let addr = if interface.is_some() { free } else { "0.0.0.0:0".parse().unwrap() };
        let mut server = UdpEncapsulation::new(Bind { addr, interface }).unwrap();
        let mut client = UdpEncapsulation::new(bind("127.0.0.1:0")).unwrap();
        let port = server.local_addr().unwrap().port();
        let asked = SocketAddr::new(Ipv4Addr::new(127, 0, 0, 7).into(), port);
        ask(&mut server, &mut client, asked, b"ask");
        assert_eq!(receive(&mut client, 1)[0].remote, asked);
    }
}

#[test]
fn a_native_server_answers_from_the_address_it_was_asked_at() {
    for interface in [None, Some("lo".to_owned())] {
        let addr = "0.0.0.0:0".parse().unwrap();
        let mut server = match RawEncapsulation::new(Bind { addr, interface }) {
            Ok(server) => server,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::PermissionDenied, "{e}");
                println!("SKIPPED raw sockets: {e}");
                return;
            }
        };
        let mut client = RawEncapsulation::new(bind("127.0.0.34:0")).unwrap();
        let asked = SocketAddr::new(Ipv4Addr::new(127, 0, 0, 35).into(), 0);
        ask(&mut server, &mut client, asked, &dccp(1, 5));
        assert_eq!(receive(&mut client, 1)[0].remote, asked);
    }
}

/// The host moves to another network. Runs in a separate network namespace, which only root can create.
#[test]
fn a_native_client_sends_from_the_address_that_the_host_uses_now() {
    let thread = std::thread::spawn(|| {
        if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_err() {
            return println!("SKIPPED raw sockets in a network namespace: they need root");
        }
        let ip = |args: &str| assert!(Command::new("ip").args(args.split(' ')).status().unwrap().success());
        ip("link set lo up");
        let sources = ["192.0.2.1", "192.0.2.2"];
        for source in sources {
            ip(&format!("addr add {source}/32 dev lo"));
        }
        let [mut server, mut client] = [(); 2].map(|()| RawEncapsulation::new(bind("0.0.0.0:0")).unwrap());
        let used = sources.map(|source| {
            ip(&format!("route replace local 203.0.113.0/24 dev lo src {source}"));
            client.send(&Burst::of_one(None, "203.0.113.1:0".parse().unwrap(), &dccp(1, 5))).unwrap();
            receive(&mut server, 1)[0].remote.ip().to_string()
        });
        assert_eq!(used, sources);
    });
    thread.join().unwrap();
}

#[test]
fn errors_are_told_apart_and_counted() {
    let mut udp = UdpEncapsulation::new(bind("127.0.0.1:0")).unwrap();
    let big = vec![0; 66_000];
    let here = "127.0.0.1:9".parse().unwrap();
    assert!(matches!(udp.send(&Burst::of_one(None, here, &big)), Err(dccp_net::SendError::TooBig)));
    // A packet with a loopback source address cannot leave the host.
    let there = "192.0.2.1:9".parse().unwrap();
    assert!(matches!(udp.send(&Burst::of_one(None, there, b"x")), Err(dccp_net::SendError::LinkDown(_))));
    assert!(udp.check(there).is_err());
    assert_eq!((udp.stats().tx_too_big, udp.stats().tx_link_down), (1, 1));
    assert!(udp.check(here).is_ok());
    assert!(udp.path_mtu(here).unwrap() > 1500);

    let port = udp.local_addr().unwrap();
    let taken = UdpEncapsulation::new(Bind { addr: port, interface: None }).err().unwrap();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    let foreign = UdpEncapsulation::new(bind("192.0.2.1:0")).err().unwrap();
    assert_eq!(foreign.kind(), std::io::ErrorKind::AddrNotAvailable);
}

fn raw_pair(addr: &str, header: u32) {
    let (mut a, mut b) = match (RawEncapsulation::new(bind(addr)), RawEncapsulation::new(bind(addr))) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(e), _) | (_, Err(e)) => {
            // Only a missing privilege, or a host without IPv6, may cause this error.
            let kind = e.kind();
            assert!(matches!(kind, ErrorKind::PermissionDenied | ErrorKind::AddrNotAvailable), "{e}");
            println!("SKIPPED raw sockets on {addr}: {e}");
            return;
        }
    };
    // Clients read ICMP unreachable messages on sockets of both IP versions.
    a.heed_refusals().unwrap();
    let remote = b.local_addr().unwrap();
    let packets = [dccp(1, 500), dccp(2, 500), dccp(3, 7)];
    let bytes = packets.concat();
    let segment = packets[0].len();
    a.send(&Burst { local: None, remote, dscp: 0, ecn: Ecn::Ect0, segment, bytes: &bytes }).unwrap();
    // Both sockets receive packets to the address that they share.
    let got = receive(&mut b, 3);
    for (got, sent) in got.iter().zip(&packets) {
        assert_eq!(got.ip_len, header + sent.len() as u32);
        assert_eq!((got.ecn, got.remote), (Ecn::Ect0, remote));
        assert_eq!(Packet::parse(&got.bytes).unwrap().payload, Packet::parse(sent).unwrap().payload);
    }
    assert_eq!((b.stats().rx_packets, b.stats().rx_bad_checksum), (3, 0));

    // Send a packet with a wrong checksum, through a socket that computes none. The receiver must drop it.
    let raw = socket2::Socket::new(
        socket2::Domain::for_address(remote),
        socket2::Type::RAW,
        Some(socket2::Protocol::from(33)),
    )
    .unwrap();
    raw.send_to(&dccp(4, 9), &remote.into()).unwrap();
    a.send(&Burst { local: None, remote, dscp: 0, ecn: Ecn::NotEct, segment, bytes: &packets[0] }).unwrap();
    assert_eq!(receive(&mut b, 1).len(), 1);
    assert_eq!((b.stats().rx_packets, b.stats().rx_bad_checksum), (4, 1));
    // A socket on all interfaces must be told that of a link-local address.
    let mut any = RawEncapsulation::new(bind(if remote.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" })).unwrap();
    any.send(&Burst::of_one(None, remote, &packets[2])).unwrap();
    assert_eq!(receive(&mut b, 1).len(), 1);
    if remote.is_ipv4() {
        // RFC 8899 section 3 (2): Don't Fragment must be set. Raw IPv4 sockets also receive the IP header.
        // `raw` has also received the earlier packets.
        let mut bytes = [0; 2048];
        raw.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        while (&raw).read(&mut bytes).unwrap() != 20 + segment {}
        assert_eq!(bytes[6] & 0x40, 0x40);
    }
}

#[test]
fn native_over_ipv4() {
    raw_pair("127.0.0.33:0", 20);
}

#[test]
fn native_over_ipv6() {
    raw_pair("[::1]:0", 40);
}

#[test]
fn native_over_a_link_local_address() {
    let table = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let Some(line) = table.lines().find(|line| line.starts_with("fe80")) else {
        return println!("SKIPPED native_over_a_link_local_address: this host has no link-local address");
    };
    let mut fields = line.split_whitespace();
    let ip = u128::from_str_radix(fields.next().unwrap(), 16).unwrap();
    let interface = u32::from_str_radix(fields.next().unwrap(), 16).unwrap();
    raw_pair(&SocketAddrV6::new(ip.into(), 0, 0, interface).to_string(), 40);
}
