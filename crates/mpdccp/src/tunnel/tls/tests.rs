use super::connection::{Connection, End};
use super::server::{LIMITS, Limits};
use super::{MTU, TlsServer, certificate, now, proxy};
use dccp_net::{Burst, Encapsulation};
use dccp_proto::Ecn;
use mpdccp_tunnel::config::{Config, TlsCheck};
use mpdccp_units::Duration;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

fn config() -> Config {
    // The directory is not writable, so the certificate lasts only for this process.
    config_with("state = \"/proc/mpdccp\"")
}

fn config_with(more: &str) -> Config {
    let key = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
    let text = format!(
        "{more}\nrole = \"server\"\nlisten = \"127.0.0.1\"\nencapsulation = \"tls\"\naddresses = [\"10.0.0.1/24\"]\nprivate_key = \"{key}\"\n[[peer]]\nname = \"c\"\npublic_key = \"{key}\"\nallowed_ips = [\"10.0.0.2/32\"]\n"
    );
    Config::parse(Path::new("t"), &text, 1).unwrap()
}

/// Two ends of a TCP connection that do not block.
fn pair() -> [TcpStream; 2] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let ends = [client, listener.accept().unwrap().0];
    ends.iter().for_each(|end| end.set_nonblocking(true).unwrap());
    ends
}

/// Both ends after the handshake, or the error of the client.
fn connected(check: TlsCheck) -> Result<[Connection; 2], String> {
    let [client, server] = pair();
    let name = ServerName::try_from("vpn.example.org").unwrap();
    let client_tls = ClientConnection::new(certificate::client(check)?, name).unwrap();
    let server_tls = ServerConnection::new(certificate::server(&config())?).unwrap();
    let mut c = Connection::new(client, client_tls).unwrap();
    let mut s = Connection::new(server, server_tls).unwrap();
    while !c.is_ready() || !s.is_ready() {
        c.write().unwrap();
        s.read(&mut |_| {}).map_err(|end| format!("server: {end:?}"))?;
        c.read(&mut |_| {}).map_err(|end| format!("{end:?}"))?;
    }
    Ok([c, s])
}

/// The certificate of this process's servers.
fn shared_certificate() -> Vec<u8> {
    let [client, server] = pair();
    let name = ServerName::try_from("vpn.example.org").unwrap();
    let mut c = ClientConnection::new(certificate::client(TlsCheck::None).unwrap(), name).unwrap();
    let tls = ServerConnection::new(certificate::server(&config()).unwrap()).unwrap();
    let mut s = Connection::new(server, tls).unwrap();
    let mut stream = client;
    while c.is_handshaking() {
        while c.wants_write() {
            c.write_tls(&mut stream).unwrap();
        }
        s.read(&mut |_| {}).unwrap();
        if c.read_tls(&mut stream).is_ok() {
            c.process_new_packets().unwrap();
        }
    }
    c.peer_certificates().unwrap()[0].to_vec()
}

/// The next `n` packets.
fn receive(end: &mut Connection, n: usize) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    while packets.len() < n {
        end.read(&mut |packet| packets.push(packet.to_vec())).unwrap();
    }
    packets
}

#[test]
fn packets_pass_both_ways_and_what_does_not_fit_is_dropped() {
    let [mut c, mut s] = connected(TlsCheck::None).unwrap();
    let packets: Vec<Vec<u8>> = [40, 1_472, 9_000].map(|n| vec![n as u8; n]).into();
    assert_eq!(c.send(packets.iter().map(Vec::as_slice)).unwrap(), 3);
    assert_eq!(receive(&mut s, 3), packets);
    assert_eq!(s.send(packets.iter().rev().map(Vec::as_slice)).unwrap(), 3);
    assert_eq!(receive(&mut c, 3)[0], packets[2]);
    // Nobody reads: the buffers are bounded, and sending does not block.
    let many = vec![vec![7; usize::from(MTU)]; 100];
    let sent: usize = (0..1_000).map(|_| s.send(many.iter().map(Vec::as_slice)).unwrap()).sum();
    assert!(s.is_full() && sent < 50_000, "{sent} of 100000");
    assert_eq!(s.send(many.iter().map(Vec::as_slice)).unwrap(), 0);
    // All accepted packets arrive.
    let mut arrived = 0;
    while arrived < sent {
        c.read(&mut |packet| arrived += usize::from(packet == &many[0][..])).unwrap();
        s.write().unwrap();
    }
}

#[test]
fn a_browser_gets_404() {
    let [client, server] = pair();
    client.set_nonblocking(false).unwrap();
    let server_tls = ServerConnection::new(certificate::server(&config()).unwrap()).unwrap();
    let mut s = Connection::new(server, server_tls).unwrap();
    let browser = std::thread::spawn(move || {
        let name = ServerName::try_from("vpn.example.org").unwrap();
        let mut tls = ClientConnection::new(certificate::client(TlsCheck::None).unwrap(), name).unwrap();
        let mut client = client;
        let mut stream = rustls::Stream::new(&mut tls, &mut client);
        stream.write_all(b"GET / HTTP/1.1\r\nHost: vpn.example.org\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(tls.alpn_protocol(), Some(super::ALPN));
        answer
    });
    let end = loop {
        if let Err(end) = s.read(&mut |_| panic!("no packet")) {
            break end;
        }
    };
    assert!(matches!(end, End::NotFrames), "{end:?}");
    s.refuse();
    assert!(browser.join().unwrap().starts_with("HTTP/1.1 404 "));
}

#[test]
fn a_client_checks_what_its_file_says() {
    assert!(connected(TlsCheck::None).is_ok());
    let wrong = connected(TlsCheck::Sha256([7; 32])).unwrap_err();
    assert!(wrong.contains("ApplicationVerificationFailure"), "{wrong}");
    let own = certificate::digest(&shared_certificate());
    assert!(connected(TlsCheck::Sha256(own)).is_ok(), "the right digest");
    // Nobody issued the certificate.
    let unknown = connected(TlsCheck::Name);
    assert!(unknown.is_err(), "self-signed");
}

#[test]
fn the_certificate_stays_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let state = |name: &str| {
        let cfg = config_with(&format!("state = \"{}/{name}\"", directory.path().display()));
        certificate::own(&cfg).unwrap().0
    };
    let first = state("a");
    assert_eq!(state("a"), first);
    assert_ne!(state("b"), first);
    let file = directory.path().join("a/mpdccp0.tls.pem");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o077, 0, "it has the key");
    // The certificate comes from the owner's files.
    let files = format!("tls_certificate = \"{0}\"\ntls_key = \"{0}\"", file.display());
    assert_eq!(certificate::own(&config_with(&files)).unwrap().0, first);
    std::fs::write(&file, "nothing").unwrap();
    let wrong = certificate::own(&config_with(&files)).unwrap_err();
    assert!(wrong.contains("tls_certificate: ") && wrong.contains("expected PEM"), "{wrong}");
}

#[test]
fn proxies_accept_or_say_why_not() {
    let ask = |answer: &str, has_login| {
        let [mut proxy, client] = pair();
        let mut read = Vec::new();
        // In two parts.
        let (begin, end) = answer.split_at(answer.len() / 2);
        proxy.write_all(begin.as_bytes()).unwrap();
        assert!(!proxy::accepts(&client, &mut read, has_login).unwrap());
        proxy.write_all(end.as_bytes()).unwrap();
        drop(proxy);
        loop {
            match proxy::accepts(&client, &mut read, has_login) {
                Ok(false) => {}
                Ok(true) => return "ok".to_owned(),
                Err(End::Failed(e)) => return e.to_string(),
                Err(end) => return format!("{end:?}"),
            }
        }
    };
    assert_eq!(ask("HTTP/1.1 200 Connection established\r\nVia: a\r\n\r\n", false), "ok");
    assert_eq!(ask("HTTP/1.0 204 Fine\r\n\r\n", false), "ok");
    assert!(ask("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", false).contains("requires a password"));
    assert!(ask("HTTP/1.1 407 No\r\n\r\n", true).contains("refuses the user or password"));
    assert_eq!(ask("HTTP/1.1 403 Not\x1b here\r\n\r\n", false), "the proxy refuses: HTTP/1.1 403 Not here");
    assert_eq!(ask("SSH-2.0-x 200\r\n\r\n", false), "the proxy refuses: SSH-2.0-x 200");
    assert!(ask(&"x".repeat(9_000), false).contains("too long"));
    assert_eq!(ask("HTTP/1.1 200 cut", false), "Closed");
    let to = "[2001:db8::1]:443".parse().unwrap();
    let secret = "ann:pass word".to_owned().into();
    assert_eq!(
        *proxy::request(to, Some(&secret)),
        "CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\nProxy-Authorization: Basic YW5uOnBhc3Mgd29yZA==\r\n\r\n"
    );
    assert!(!proxy::request(to, None).contains("Authorization"));
}

/// A server on loopback.
struct Served(TlsServer);

impl Served {
    fn new(limits: Limits) -> Served {
        Served(TlsServer::limited(&config(), ([0; 4], 0).into(), None, limits).unwrap())
    }

    /// A connection from 127.0.0.`host`.
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

    /// A connection after its handshake, and a packet.
    fn join(&mut self, host: u8) -> Connection {
        let name = ServerName::try_from("vpn.example.org").unwrap();
        let tls = ClientConnection::new(certificate::client(TlsCheck::None).unwrap(), name).unwrap();
        let mut client = Connection::new(self.connect(host), tls).unwrap();
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
        let segment = bytes.len();
        self.0.send(&Burst { local: None, remote, dscp: 0, ecn: Ecn::NotEct, segment, bytes }).unwrap();
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
    // Another source has its own share.
    let other = server.connect(2);
    assert_eq!(server.drops("tls_refused_source"), 1);
    // Strangers that leave make room.
    drop((strangers, fourth, other));
    while server.drops("tls_closed") < 4 {
        server.turn();
    }
    let client = server.join(1);
    // A cookie does not count as an answer, because any sender gets one.
    let cookie = [&[0x52][..], &[0; 7], &(u64::MAX - 2).to_be_bytes(), &[0; 40]].concat();
    server.send(&client, &cookie);
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
        // The connection that was silent longest has ended.
        let mut gone = first;
        let mut ends = gone.iter_mut().map(|client| client.read(&mut |_| {}).is_err());
        assert!(ends.next().unwrap(), "{met}");
        assert!(!ends.any(|end| end), "{met}");
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
        // It keeps the bytes that it has read.
        client.send(std::iter::once(&[1; 100][..])).unwrap();
        while shards[1 - turn % 2].turn() == 0 {}
    }
    shards[0].send(&client, &[2; 40]);
    assert_eq!(receive(&mut client, 1), [[2; 40]]);
    assert!(shards[0].0.give(remote).is_none());
    assert_eq!(shards[0].drops("tls_moved_too_often"), 1);
}
