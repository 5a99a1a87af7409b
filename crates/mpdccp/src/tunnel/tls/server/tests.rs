use super::*;
use crate::tunnel::tls::certificate;
use crate::tunnel::tls::tests::{config, receive};
use mpdccp_tunnel::config::TlsCheck;
use mpdccp_units::Duration;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use std::net::TcpStream;

#[path = "../../../../../../tests/limited.rs"]
mod limited;

use limited::is_limited;

/// A server on the loopback interface.
struct Served(TlsServer);

impl Served {
    fn new(limits: Limits) -> Served {
        Served(TlsServer::limited(&config(), ([0; 4], 0).into(), None, limits).unwrap())
    }

    /// Opens a connection from 127.0.0.`host`.
    fn connect(&mut self, host: u8) -> TcpStream {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, host], 0)).into()).unwrap();
        let port = self.0.local_addr().unwrap().port();
        socket.connect(&SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(true).unwrap();
        self.turn();
        stream
    }

    /// Opens a connection whose address is then replaced by another one.
    fn connect_as(&mut self, ip: &str) -> TcpStream {
        let stream = self.connect(1);
        let id = *self.0.by_remote.get(&stream.local_addr().unwrap()).unwrap();
        let mut guest = self.0.remove(id).unwrap();
        guest.remote.set_ip(ip.parse().unwrap());
        self.0.put(guest);
        stream
    }

    /// Opens a connection, completes the handshake, and sends one packet.
    fn join(&mut self, host: u8) -> Connection {
        let name = ServerName::try_from("vpn.example.org").unwrap();
        let tls = ClientConnection::new(certificate::client(TlsCheck::None).unwrap(), name).unwrap();
        let mut client = Connection::new(self.connect(host), tls, UNACKNOWLEDGED).unwrap();
        while !client.is_ready() {
            client.write().unwrap();
            self.turn();
            client.read(&mut |_| {}).unwrap();
        }
        client.send(std::iter::once(&[1; 100][..])).unwrap();
        while self.turn() == 0 {}
        client
    }

    fn turn(&mut self) -> usize {
        self.0.receive(&mut |_| {}).unwrap()
    }

    fn send(&mut self, to: &Connection, bytes: &[u8]) {
        let remote = to.stream.local_addr().unwrap();
        self.0.send(&Burst::of_one(None, remote, bytes)).unwrap();
    }

    fn drops(&self, why: &str) -> u64 {
        self.0.drops().iter().find(|(name, _)| *name == why).map_or(0, |(_, n)| *n)
    }
}

#[test]
fn peers_behind_one_address_are_as_many_as_they_like_and_strangers_are_not() {
    let mut server = Served::new(Limits { of_source: 3, ..LIMITS });
    let office: Vec<Connection> = (0..8)
        .map(|_| {
            let client = server.join(1);
            server.send(&client, &[2; 40]);
            client
        })
        .collect();
    let strangers: Vec<TcpStream> = (0..3).map(|_| server.connect(1)).collect();
    assert_eq!(server.drops("tls_refused_source"), 0);
    let fourth = server.connect(1);
    assert_eq!(server.drops("tls_refused_source"), 1);
    // One source's limit does not apply to another source.
    let other = server.connect(2);
    assert_eq!(server.drops("tls_refused_source"), 1);
    // Once strangers have left, others may connect.
    drop((strangers, fourth, other));
    while server.drops("tls_closed") < 4 {
        server.turn();
    }
    let client = server.join(1);
    // A cookie and a response do not count as an answer, because anyone can get a cookie, or replay a
    // recorded handshake.
    for kind in [u64::MAX - 2, u64::MAX - 1] {
        let message = [&[0x52][..], &[0; 7], &kind.to_be_bytes(), &[0; 40]].concat();
        server.send(&client, &message);
    }
    let _two = [server.connect(1), server.connect(1)];
    let _refused = server.connect(1);
    assert_eq!(server.drops("tls_refused_source"), 2);
    drop(office);
}

#[test]
fn a_full_server_takes_from_the_source_with_the_most() {
    for (limits, met) in [(Limits { all: 4, ..LIMITS }, true), (Limits { strangers: 4, ..LIMITS }, false)] {
        let mut server = Served::new(limits);
        let first: Vec<Connection> = (0..4)
            .map(|_| {
                let client = server.join(1);
                if met {
                    server.send(&client, &[2; 40]);
                }
                client
            })
            .collect();
        let _other = server.connect(2);
        assert_eq!((server.drops("tls_displaced"), server.drops("tls_refused_full")), (1, 0), "{met}");
        let _more = server.connect(1);
        assert_eq!((server.drops("tls_displaced"), server.drops("tls_refused_full")), (1, 1), "{met}");
        // The server has ended the connection that had been idle longest.
        let mut gone = first;
        let mut ends = gone.iter_mut().map(|client| client.read(&mut |_| {}).is_err());
        assert!(ends.next().unwrap(), "{met}");
        assert!(!ends.any(|end| end), "{met}");
    }
}

/// A customer's IPv6 prefix contains thousands of sources.
#[test]
fn a_site_with_many_prefixes_cannot_take_all_places() {
    for limits in [Limits { all: 4, ..LIMITS }, Limits { strangers: 4, ..LIMITS }] {
        let mut server = Served::new(limits);
        let _site: Vec<TcpStream> =
            (1..=4).map(|n| server.connect_as(&format!("2001:db8:1:{n}::1"))).collect();
        assert!(!server.0.has_room("2001:db8:1:5::1".parse().unwrap()), "the same site");
        assert!(server.0.has_room("2001:db8:2::1".parse().unwrap()));
        assert_eq!((server.drops("tls_displaced"), server.0.guests.len()), (1, 3));
    }
}

#[test]
fn strangers_have_a_time_and_bytes_and_a_rate() {
    let mut server = Served::new(Limits { at_once: 2, per_second: 0, ..LIMITS });
    let _all = [server.connect(1), server.connect(1), server.connect(1)];
    assert_eq!(server.drops("tls_refused_rate"), 1);

    let mut server = Served::new(Limits { bytes: 5_000, ..LIMITS });
    let (mut stranger, mut peer) = (server.join(1), server.join(1));
    server.send(&peer, &[2; 40]);
    for client in [&mut peer, &mut stranger] {
        client.send(std::iter::repeat_n(&[1; 1_000][..], 8)).unwrap();
    }
    while server.drops("tls_too_much") == 0 {
        server.turn();
    }
    server.send(&peer, &[2; 40]);

    let mut server = Served::new(Limits { patience: Duration::ZERO, ..LIMITS });
    let (_stranger, peer) = (server.join(1), server.join(1));
    server.send(&peer, &[2; 40]);
    server.0.expire(now());
    assert_eq!((server.drops("tls_timed_out"), server.drops("tls_idle")), (1, 0));
    server.send(&peer, &[2; 40]);
    let mut server = Served::new(Limits { idle: Duration::ZERO, ..LIMITS });
    let peer = server.join(1);
    server.send(&peer, &[2; 40]);
    server.0.expire(now());
    assert_eq!((server.drops("tls_timed_out"), server.drops("tls_idle")), (0, 1));
}

#[test]
fn a_connection_goes_to_another_shard_a_few_times() {
    let mut shards = [Served::new(LIMITS), Served::new(LIMITS)];
    let mut client = shards[0].join(1);
    let remote = client.stream.local_addr().unwrap();
    for turn in 0..8 {
        let connection = shards[turn % 2].0.give(remote).unwrap();
        shards[1 - turn % 2].0.take(connection);
        // Bytes that were read before the move are still held by the connection.
        client.send(std::iter::once(&[1; 100][..])).unwrap();
        while !shards[1 - turn % 2].0.poll.ready().iter().any(|id| *id > TIMER) {}
        assert!(shards[turn % 2].0.poll.ready().is_empty(), "the packet must wake only the new shard");
        while shards[1 - turn % 2].turn() == 0 {}
    }
    shards[0].send(&client, &[2; 40]);
    assert_eq!(receive(&mut client, 1), [[2; 40]]);
    assert!(shards[0].0.give(remote).is_none());
    assert_eq!(shards[0].drops("tls_moved_too_often"), 1);
}

/// A stranger can choose the shard by the header of its first message.
#[test]
fn limits_apply_to_connections_from_other_shards() {
    let mut shards = [Served::new(LIMITS), Served::new(Limits { of_source: 1, ..LIMITS })];
    let clients = [shards[0].connect(1), shards[0].connect(1)];
    for client in &clients {
        let connection = shards[0].0.give(client.local_addr().unwrap()).unwrap();
        shards[1].0.take(connection);
    }
    assert_eq!((shards[1].drops("tls_refused_source"), shards[1].0.guests.len()), (1, 1));
}

#[test]
fn the_rate_of_connections_recovers() {
    let mut server = Served::new(Limits { at_once: 1, per_second: 1_000_000, ..LIMITS });
    let _all = [server.connect(1), server.connect(1), server.connect(1)];
    assert_eq!((server.drops("tls_refused_rate"), server.0.guests.len()), (0, 3));
}

#[test]
fn a_full_server_takes_the_one_that_was_silent_longest() {
    let mut server = Served::new(Limits { all: 4, ..LIMITS });
    let mut clients: Vec<Connection> = (0..4).map(|_| server.join(1)).collect();
    for client in &clients {
        server.send(client, &[2; 40]);
    }
    // One connection sends, and the other one receives.
    clients[0].send(std::iter::once(&[1; 100][..])).unwrap();
    while server.turn() == 0 {}
    server.send(&clients[1], &[2; 40]);
    let _other = server.connect(2);
    let gone = clients.iter_mut().position(|client| client.read(&mut |_| {}).is_err());
    assert_eq!((server.drops("tls_displaced"), gone), (1, Some(2)));
}

#[test]
fn strangers_displace_strangers_only() {
    let mut server = Served::new(Limits { strangers: 3, ..LIMITS });
    let mut peer = server.join(1);
    server.send(&peer, &[2; 40]);
    let _strangers = [server.connect(1), server.connect(1), server.connect(1)];
    let _other = server.connect(2);
    assert_eq!(server.drops("tls_displaced"), 1);
    server.send(&peer, &[3; 40]);
    assert_eq!(receive(&mut peer, 2)[1], [3; 40]);
}

#[test]
fn nothing_of_a_connection_stays() {
    let mut server = Served::new(LIMITS);
    let peer = server.join(1);
    server.send(&peer, &[2; 40]);
    let stranger = server.connect(2);
    assert!(server.0.armed && server.0.strangers == 1);
    drop((peer, stranger));
    while !server.0.guests.is_empty() {
        server.turn();
    }
    let TlsServer { guests, by_remote, by_source, strangers, armed, .. } = &server.0;
    assert!(guests.is_empty() && by_remote.is_empty() && by_source.is_empty());
    assert_eq!((*strangers, *armed), (0, false));
}

#[test]
fn one_port_serves_ipv4_and_ipv6_and_a_restarted_server() {
    let first = TlsServer::limited(&config(), ([127, 0, 0, 1], 0).into(), None, LIMITS).unwrap();
    let port = first.local_addr().unwrap().port();
    let listen =
        |ip: &str| TlsServer::limited(&config(), SocketAddr::new(ip.parse().unwrap(), port), None, LIMITS);
    let v6 = listen("::");
    assert!(v6.is_ok() || v6.is_err_and(|e| e.raw_os_error() == Some(nix::libc::EAFNOSUPPORT)));
    // The server closes the connection first, so the kernel keeps the port reserved for a while.
    let mut served = Served(first);
    let client = served.connect(1);
    drop(served);
    drop(client);
    assert!(listen("127.0.0.1").is_ok());
}

/// Only a privileged process can set a mark.
#[test]
fn a_server_that_has_a_default_route_marks_its_packets() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    for mark in [None, Some(0x1234)] {
        let server = TlsServer::limited(&config(), ([127, 0, 0, 1], 0).into(), mark, LIMITS).unwrap();
        assert_eq!(socket2::SockRef::from(&server.listener).mark().unwrap(), mark.unwrap_or(0));
    }
}

#[test]
fn a_lack_of_descriptors_keeps_no_thread_busy() {
    if !is_limited("ulimit -n 64", "tunnel::tls::server::tests::a_lack_of_descriptors_keeps_no_thread_busy") {
        return;
    }
    let mut server = Served::new(LIMITS);
    let _client = TcpStream::connect(("127.0.0.1", server.0.local_addr().unwrap().port())).unwrap();
    let all: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
    server.turn();
    assert_eq!(server.drops("tls_not_accepted"), 1);
    assert!(!server.0.poll.ready().contains(&LISTENER), "the connection must not wake the thread again");
    drop(all);
    assert!(server.0.armed, "the timer must end the pause");
    server.0.expire(now());
    server.turn();
    assert_eq!((server.0.guests.len(), server.0.paused), (1, false));
}

#[test]
fn a_server_may_have_as_many_descriptors_as_the_system_allows() {
    if !is_limited(
        "ulimit -S -n 64",
        "tunnel::tls::server::tests::a_server_may_have_as_many_descriptors_as_the_system_allows",
    ) {
        return;
    }
    let _server = TlsServer::new(&config(), ([127, 0, 0, 1], 0).into(), None).unwrap();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    assert_eq!(limit.current, limit.maximum);
}
