use super::*;
use crate::tunnel::tls::tests::config;
use crate::tunnel::tls::{ALPN, certificate};
use mpdccp_tunnel::config::TlsCheck;
use rustls::{ServerConnection, StreamOwned};
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::thread::JoinHandle;

type Stream = StreamOwned<ServerConnection, TcpStream>;

/// A server on the loopback interface.
struct Host(TcpListener);

impl Host {
    fn new() -> Host {
        Host(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// Opens a TCP and a UDP socket on the same port. Retries if another program is using the UDP port.
    fn with_udp() -> (Host, UdpSocket) {
        let both = || {
            let host = Host::new();
            UdpSocket::bind(host.addr()).map(|udp| (host, udp))
        };
        std::iter::repeat_with(both).find_map(Result::ok).unwrap()
    }

    fn addr(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// Accepts a connection, and performs the handshake on a separate thread.
    fn accept(&self) -> JoinHandle<Stream> {
        let listener = self.0.try_clone().unwrap();
        std::thread::spawn(move || {
            let tls = ServerConnection::new(certificate::server(&config()).unwrap()).unwrap();
            let mut stream = StreamOwned::new(tls, listener.accept().unwrap().0);
            stream.flush().unwrap();
            while stream.conn.is_handshaking() {
                stream.conn.complete_io(&mut stream.sock).unwrap();
            }
            stream
        })
    }
}

/// Reads the next packet from the stream.
fn packet(stream: &mut Stream) -> Vec<u8> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).unwrap();
    let mut packet = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut packet).unwrap();
    packet
}

fn path(port: u16) -> TlsPath {
    TlsPath { auto: None, port, name: None, check: TlsCheck::None, proxy: None, advertised: Vec::new() }
}

fn bind() -> Bind {
    Bind { addr: ([0; 4], 0).into(), interface: None }
}

fn client(remote: SocketAddr, path: &TlsPath) -> TlsClient {
    TlsClient::new(bind(), None, remote, path).unwrap()
}

fn send(client: &mut TlsClient, bytes: &[u8]) -> Result<(), SendError> {
    client.send(&Burst::of_one(None, client.remote, bytes))
}

fn turn(client: &mut TlsClient) {
    client.receive(&mut |_| {}).unwrap();
}

/// Runs the client until `done` returns true. A generous time limit turns an endless wait into a failure.
fn until(client: &mut TlsClient, done: impl Fn(&TlsClient) -> bool) {
    let since = std::time::Instant::now();
    while !done(client) {
        turn(client);
        assert!(since.elapsed().as_secs() < 60, "timed out");
    }
}

/// Runs the client until the other end's thread is done.
fn run<T>(client: &mut TlsClient, other: JoinHandle<T>) -> T {
    until(client, |_| other.is_finished());
    turn(client);
    other.join().unwrap()
}

/// Returns a connected client and the other end of its connection.
fn connected(host: &Host, path: &TlsPath) -> (TlsClient, Stream) {
    let mut client = client(host.addr(), path);
    let other = host.accept();
    let _ = send(&mut client, b"first");
    let stream = run(&mut client, other);
    until(&mut client, |client| client.ready);
    (client, stream)
}

fn drops(client: &TlsClient, why: &str) -> u64 {
    client.drops().iter().find(|(name, _)| *name == why).map_or(0, |(_, n)| *n)
}

#[test]
fn a_client_names_the_server_and_looks_like_https() {
    let host = Host::new();
    for name in [None, Some("vpn.example.org".to_owned())] {
        let (_, stream) = connected(&host, &TlsPath { name: name.clone(), ..path(host.addr().port()) });
        assert_eq!(
            stream.conn.server_name().map(str::to_owned),
            name,
            "an address is not sent as a server name"
        );
        assert_eq!(stream.conn.alpn_protocol(), Some(ALPN));
    }
}

#[test]
fn the_next_connection_carries_the_last_packet_again() {
    let host = Host::new();
    let (mut client, mut stream) = connected(&host, &path(host.addr().port()));
    assert_eq!(packet(&mut stream), b"first", "the packet waited for the connection");
    send(&mut client, b"second").unwrap();
    assert_eq!(packet(&mut stream), b"second");
    // The next server gets the packet too, because the first server may have been the wrong one.
    let other = host.accept();
    drop(stream);
    let mut stream = run(&mut client, other);
    until(&mut client, |client| client.ready);
    assert_eq!(packet(&mut stream), b"second");
    send(&mut client, b"third").unwrap();
    assert_eq!(packet(&mut stream), b"third", "once");
}

#[test]
fn failed_attempts_wait_longer_each_time_and_not_all_alike() {
    let host = Host::new();
    let mut client = client(host.addr(), &path(host.addr().port()));
    let at = Time::from_millis(100_000);
    for least in [200, 400, 800, 1_600, 3_200, 5_000, 5_000] {
        client.fail(at, "no", "tls_connect_failed");
        let wait = client.retry_at.since(at).as_millis() as u64;
        assert!((least..=least + least / 4).contains(&wait), "{wait} ms, at least {least}");
    }
    let waits: std::collections::BTreeSet<_> = (0..50)
        .map(|n| {
            let at = at + Duration::from_nanos(n * 123_456_789);
            client.fail(at, "no", "tls_connect_failed");
            client.retry_at.since(at).as_nanos()
        })
        .collect();
    assert!(waits.len() > 40, "the attempts of many clients are spread over time");
    // The next attempt starts only after the delay.
    let due = client.retry_at;
    client.step(due - Duration::from_nanos(1));
    assert!(matches!(client.link, Link::Idle));
    client.step(due);
    assert!(matches!(client.link, Link::Connecting(_)));
    // After a connection that worked, the client reconnects at once.
    (client.ready, client.unanswered) = (true, None);
    client.fail(at, "lost", "tls_lost");
    assert_eq!(client.retry_at, at);
}

#[test]
fn attempts_without_an_interface_do_not_wait_longer_each_time() {
    let host = Host::new();
    let mut client = client(host.addr(), &path(host.addr().port()));
    client.bind.interface = Some("absent".into());
    for _ in 0..5 {
        let due = client.retry_at;
        client.step(due);
        let wait = client.retry_at.since(due);
        assert!(wait >= RETRY.0 && wait < RETRY.0 * 2, "{wait:?}");
    }
    client.bind.interface = None;
    client.step(client.retry_at);
    assert!(matches!(client.link, Link::Connecting(_)), "the interface is back");
}

/// A web server completes the handshake and then closes the connection.
#[test]
fn a_server_that_never_sends_a_packet_is_not_called_again_at_once() {
    let host = Host::new();
    let (mut client, mut stream) = connected(&host, &path(host.addr().port()));
    for attempts in 1..3 {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        until(&mut client, |client| !client.ready);
        assert!(client.failed, "the path is down");
        assert_eq!(client.wait, RETRY.0 * 2u32.pow(attempts), "the delay grows");
        stream = run(&mut client, host.accept());
        until(&mut client, |client| client.ready);
    }
    // A packet shows that the connection works, so the delay is back to its shortest value.
    stream.write_all(&[0, 1, 7]).unwrap();
    until(&mut client, |client| client.wait == RETRY.0);
    drop(stream);
    until(&mut client, |client| !client.ready);
    assert!(!client.failed);
}

#[test]
fn a_path_whose_attempt_failed_is_down_until_the_next_one_succeeds() {
    // No connection uses this address as its source, so the port stays free.
    let host = Host(TcpListener::bind("127.0.0.78:0").unwrap());
    let (mut client, mut stream) = connected(&host, &path(host.addr().port()));
    let remote = client.remote;
    stream.write_all(&[0, 1, 7]).unwrap();
    until(&mut client, |client| client.unanswered.is_none());
    drop((stream, host));
    until(&mut client, |client| !client.ready);
    assert!(client.check(remote).is_ok(), "the connection worked, so the client reconnects at once");
    until(&mut client, |client| client.failed);
    assert!(client.check(remote).unwrap_err().to_string().starts_with("TLS: "));
    assert!(matches!(send(&mut client, b"second"), Err(SendError::LinkDown(_))));
    let host = Host(TcpListener::bind(remote).unwrap());
    let other = host.accept();
    // Nothing is sent or received here, so only the periodic check can connect.
    let due = client.retry_at;
    while now() < due {}
    assert!(client.check(remote).is_err() && matches!(client.link, Link::Connecting(_)));
    until(&mut client, |client| client.ready);
    assert!(client.check(remote).is_ok());
    assert_eq!(packet(&mut other.join().unwrap()), b"second");
}

#[test]
fn an_attempt_without_an_answer_ends_after_ten_seconds() {
    let host = Host::new();
    let mut client = client(host.addr(), &path(host.addr().port()));
    let _ = send(&mut client, b"first");
    // The kernel accepts the connection, but no program answers on it.
    until(&mut client, |client| matches!(client.link, Link::Tls(_)));
    let begun = client.since;
    client.step(begun + CONNECT - Duration::from_nanos(1));
    assert_eq!(drops(&client, "tls_connect_failed"), 0);
    client.step(begun + CONNECT);
    assert_eq!((drops(&client, "tls_connect_failed"), client.failure()), (1, Some("no answer")));
}

/// A portal or a proxy may complete the handshake and then read without ever answering.
#[test]
fn a_connection_without_an_answer_ends_after_ten_seconds() {
    let host = Host::new();
    let (mut client, _stream) = connected(&host, &path(host.addr().port()));
    let ready = client.since;
    client.step(ready + CONNECT);
    assert!(client.ready, "an idle path gets no answers");
    (0..SENDS).for_each(|_| send(&mut client, b"second").unwrap());
    client.step(ready + CONNECT - Duration::from_nanos(1));
    assert_eq!(drops(&client, "tls_lost"), 0);
    client.step(ready + CONNECT);
    assert_eq!((drops(&client, "tls_lost"), client.failure()), (1, Some("no answer")));
    assert!(client.retry_at > ready + CONNECT, "the next attempt waits");
}

#[test]
fn a_host_that_moved_connects_again() {
    let host = Host::new();
    let (mut client, _first) = connected(&host, &path(host.addr().port()));
    let go = |client: &mut TlsClient, last: u8| {
        client.bind.addr = ([127, 0, 0, last], 0).into();
        client.udp = UdpEncapsulation::marked(client.bind.clone(), None).unwrap();
    };
    go(&mut client, 2);
    let looked = client.looked_at;
    client.step(looked + LOOK - Duration::from_nanos(1));
    assert_eq!(drops(&client, "tls_moved"), 0);
    client.step(looked + LOOK);
    assert_eq!(drops(&client, "tls_moved"), 1);
    // The host moves again while the client connects.
    go(&mut client, 3);
    client.step(looked + LOOK * 2);
    assert_eq!((drops(&client, "tls_moved"), client.failed), (2, false));
    drop(host.0.accept().unwrap());
    // The new connection has the right source address, so it stays.
    let _third = run(&mut client, host.accept());
    until(&mut client, |client| client.ready);
    let looked = client.looked_at;
    client.step(looked + LOOK);
    assert_eq!((drops(&client, "tls_moved"), client.ready), (2, true));
}

/// The connection is not bound to the interface that has the name now, as after the interface was removed and
/// created again.
#[test]
fn a_connection_on_a_former_interface_is_replaced() {
    let host = Host::new();
    let (mut client, _first) = connected(&host, &path(host.addr().port()));
    client.bind.interface = Some("lo".into());
    let looked = client.looked_at;
    client.step(looked + LOOK);
    assert_eq!(drops(&client, "tls_moved"), 1);
    // The new connection is bound to the interface, so it stays.
    let _second = run(&mut client, host.accept());
    until(&mut client, |client| client.ready);
    let looked = client.looked_at;
    client.step(looked + LOOK);
    assert_eq!((drops(&client, "tls_moved"), client.ready), (1, true));
}

#[test]
fn a_path_that_is_down_goes_to_the_server_of_its_session() {
    let [chosen, own] = [Host::new(), Host::new()];
    // The server has a different address but the same port.
    let port = chosen.addr().port();
    drop(own);
    let own = Host(TcpListener::bind(("127.0.0.9", port)).unwrap());
    let (mut client, mut stream) = connected(&chosen, &path(port));
    assert_eq!(packet(&mut stream), b"first");
    let (now, advertised) = (now(), [IpAddr::from([127, 0, 0, 9])]);
    client.on_advertised(now, &advertised, true);
    assert_eq!(drops(&client, "tls_redirected"), 0, "the path is up");
    let other = own.accept();
    client.on_advertised(now, &advertised, false);
    assert_eq!(drops(&client, "tls_redirected"), 1);
    assert!(matches!(client.link, Link::Connecting(_)), "the client connects at once");
    assert_eq!(
        packet(&mut run(&mut client, other)),
        b"first",
        "a handshake does not wait for its retransmission"
    );
}

#[test]
fn auto_carries_packets_by_udp_while_tls_is_lost_and_closes_it_when_udp_is_back() {
    let (host, udp) = Host::with_udp();
    let mut datagram = [0; 100];
    let auto = TlsPath { auto: Some(Over::Udp), ..path(host.addr().port()) };
    let mut client = client(host.addr(), &auto);
    send(&mut client, b"first").unwrap();
    assert_eq!((udp.recv(&mut datagram).unwrap(), client.name()), (5, "udp"));
    // The client starts with TLS, because UDP did not answer before.
    client.choice = Some(Choice::with_tls(now()));
    let other = host.accept();
    client.step(now());
    let mut stream = run(&mut client, other);
    until(&mut client, |client| client.ready);
    send(&mut client, b"second").unwrap();
    assert_eq!((packet(&mut stream), packet(&mut stream)), (b"first".to_vec(), b"second".to_vec()));
    assert_eq!(
        (client.name(), client.stats().tx_packets),
        ("tls", 2),
        "packets over UDP and TLS are counted"
    );
    assert_eq!(client.local_addr().unwrap(), stream.sock.peer_addr().unwrap());
    drop((stream, host));
    until(&mut client, |client| !client.ready);
    send(&mut client, b"third").unwrap();
    assert_eq!((udp.recv(&mut datagram).unwrap(), client.name()), (5, "tls"), "the client connects again");
    // UDP works again, so no connection is needed.
    client.choice = Some(Choice::new());
    client.link = Link::Connecting(
        TcpStream::connect(TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()).unwrap(),
    );
    client.step(now());
    assert!(matches!(client.link, Link::Idle));
    assert_eq!(client.name(), "udp");
}

/// Over UDP, a load balancer could pass the handshake packet to another server, whose keys would then be
/// wrong for the channel. The handshake packet therefore waits until TLS is connected.
#[test]
fn a_handshake_waits_for_tls_at_the_next_server() {
    let (host, udp) = Host::with_udp();
    let mut client = client(host.addr(), &TlsPath { auto: Some(Over::Tls), ..path(host.addr().port()) });
    send(&mut client, b"first").unwrap_err();
    let mut stream = run(&mut client, host.accept());
    until(&mut client, |client| client.ready);
    assert_eq!(packet(&mut stream), b"first");
    udp.set_nonblocking(true).unwrap();
    assert!(udp.recv(&mut [0; 10]).is_err());
}

#[test]
fn the_last_packet_over_udp_goes_by_tls_too_when_packets_move() {
    // No program answers over UDP.
    let (host, _udp) = Host::with_udp();
    let mut client = client(host.addr(), &TlsPath { auto: Some(Over::Udp), ..path(host.addr().port()) });
    client.choice.as_mut().unwrap().on_udp_refused(now());
    let other = host.accept();
    client.step(now());
    let mut stream = run(&mut client, other);
    until(&mut client, |client| client.ready);
    let mut sent = 0;
    while client.name() == "udp" {
        sent += 1;
        send(&mut client, &[sent; 10]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(sent > 1, "UDP gets a last chance to answer");
    assert_eq!((packet(&mut stream), packet(&mut stream)), (vec![sent - 1; 10], vec![sent; 10]));
}

#[test]
fn packets_that_wait_for_room_leave_once_there_is_room() {
    let host = Host::new();
    let (mut client, mut stream) = connected(&host, &path(host.addr().port()));
    assert_eq!(packet(&mut stream), b"first");
    let mut sent = 0;
    while send(&mut client, &[7; 1_000]).is_ok() {
        sent += 1;
    }
    assert!((1..50_000).contains(&sent), "{sent}: the buffers are bounded");
    let reader = std::thread::spawn(move || (0..sent).all(|_| packet(&mut stream) == [7; 1_000]));
    assert!(run(&mut client, reader));
}

#[test]
fn a_server_that_sends_no_packets_is_left() {
    let host = Host::new();
    let (mut client, mut stream) = connected(&host, &path(host.addr().port()));
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    until(&mut client, |client| !client.ready);
    assert_eq!((drops(&client, "tls_lost"), client.failure()), (1, Some("the other end is not a tunnel")));
}

#[test]
fn sizes_and_routes_are_those_of_the_connection() {
    // No program answers at this address.
    let remote = SocketAddr::from(([203, 0, 113, 1], 443));
    let proxy = Some((([127, 0, 0, 9], 3128).into(), None));
    let client = client(remote, &TlsPath { proxy, ..path(443) });
    assert!(client.source(remote).unwrap().is_loopback());
    assert_eq!(client.device(remote).unwrap(), "lo");
    // TCP splits the data to fit the network, so the network's MTU does not matter.
    assert_eq!((client.path_mtu(remote).unwrap(), client.device_mtu(remote).unwrap()), (MTU, MTU));
    let auto = TlsPath { auto: Some(Over::Udp), ..path(443) };
    let near = SocketAddr::from(([127, 0, 0, 1], 443));
    assert!(self::client(near, &auto).path_mtu(near).unwrap() > MTU, "UDP uses the MTU of the network");
}

#[test]
fn connections_leave_where_the_path_does() {
    let host = Host::new();
    let addr = ([127, 0, 0, 2], 0).into();
    let bind = Bind { addr, interface: Some("lo".into()) };
    let stream = connect(&bind, None, host.addr()).unwrap();
    assert_eq!(stream.local_addr().unwrap().ip(), addr.ip());
    let socket = socket2::SockRef::from(&stream);
    assert_eq!(socket.device().unwrap().as_deref(), Some(&b"lo"[..]));
    assert_eq!(socket.mark().unwrap(), 0);
    // Only a privileged process can set a mark.
    if nix::unistd::geteuid().is_root() {
        let marked = connect(&self::bind(), Some(0x1234), host.addr()).unwrap();
        assert_eq!(socket2::SockRef::from(&marked).mark().unwrap(), 0x1234);
    }
}
