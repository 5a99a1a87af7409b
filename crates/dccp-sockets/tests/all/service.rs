//! Tests features for public servers and media senders: unknown clients with keys, refusals, probes, events
//! and marks.

use crate::{PATIENT, until};
use dccp_sockets::{
    ConnectError, Connection, Connector, Encapsulation, Event, Listener, Options, Path, PrivateKey, Rate,
    Reason, RecvError,
};
use nix::sys::socket::sockopt::IpRecvTos;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};
use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

fn key(n: u8) -> PrivateKey {
    PrivateKey::from_random([n; 32])
}

/// Returns a UDP port that probably no other program will use during the test.
fn closed() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn a_server_for_everybody_knows_each_client_by_its_key() {
    let options = Options::default().key(key(1)).any_peer(true).max_connections_per_source(3);
    let listener = Listener::bind("127.0.0.1:0", options).unwrap();
    let client = |n| Options::default().key(key(n)).peer(key(1).public());
    let mut open = Vec::new();
    for n in [2, 3, 2] {
        let here = Connection::connect(listener.local_addr(), client(n)).unwrap();
        let there = listener.accept_timeout(PATIENT).unwrap();
        assert_eq!(there.peer_key(), Some(key(n).public()));
        assert_eq!(here.peer_key(), Some(key(1).public()));
        here.send(&[n]).unwrap();
        assert_eq!(there.recv_timeout(PATIENT).unwrap(), [n]);
        there.send(b"welcome").unwrap();
        assert_eq!(here.recv_timeout(PATIENT).unwrap(), b"welcome");
        open.push((here, there));
    }
    // The limit per source applies to all keys of that source together.
    assert!(matches!(
        Connection::connect(listener.local_addr(), client(4)),
        Err(ConnectError::Refused(Reason::ResetByPeer(_)))
    ));
    // A removed peer loses its connections, while the others stay connected.
    listener.remove_peer(key(2).public()).unwrap();
    assert_eq!(open[0].1.recv_timeout(PATIENT), Err(RecvError::Closed(Reason::Aborted)));
    assert_eq!(open[2].1.recv_timeout(PATIENT), Err(RecvError::Closed(Reason::Aborted)));
    open[1].0.send(b"still here").unwrap();
    assert_eq!(open[1].1.recv_timeout(PATIENT).unwrap(), b"still here");
}

#[test]
fn any_peer_needs_a_key_of_ones_own() {
    let bind = |options| Listener::bind("127.0.0.1:0", options).map(drop);
    assert!(matches!(bind(Options::default().any_peer(true)), Err(ConnectError::Options(_))));
    assert!(matches!(bind(Options::default().dscp(64)), Err(ConnectError::Options(_))));
    let short = Duration::from_millis(300);
    let listener = Listener::bind("127.0.0.1:0", Options::default().key(key(1))).unwrap();
    let client = Options::default().key(key(2)).peer(key(1).public()).connect_timeout(short);
    let refused = Connection::connect(listener.local_addr(), client);
    assert!(matches!(refused, Err(ConnectError::TimedOut)), "unknown peers are refused by default");
}

#[test]
fn addresses_and_interfaces_that_are_mistaken_are_named() {
    let told = |address: &str, options| Connection::connect(address, options).unwrap_err().to_string();
    let error = told("127.0.0.1", Options::default());
    assert!(error.contains("expected HOST:PORT"), "{error}");
    let error = told("127.0.0.1:1", Options::default().path(Path::on("127.0.0.2")));
    assert!(error.contains("local address of a path"), "{error}");
    let error = told("127.0.0.1:1", Options::default().interface("::1"));
    assert!(error.contains("local address of a path"), "{error}");
    let error = Listener::bind("127.0.0.1", Options::default()).unwrap_err().to_string();
    assert!(error.contains("expected HOST:PORT"), "{error}");
}

/// No call waits for the timeout; if one did, the test would not end in time.
#[test]
fn a_closed_port_is_told_at_once() {
    let patient = || Options::default().connect_timeout(Duration::from_secs(3600));
    let encrypted = || patient().key(key(2)).peer(key(1).public());
    let both = |options: Options| {
        options.path(Path::from([127, 0, 0, 1].into())).path(Path::from([127, 0, 0, 2].into()))
    };
    for options in [patient(), encrypted(), both(patient()), both(encrypted()), patient().multipath(true)] {
        let refused = Connection::connect(closed(), options).map(drop).unwrap_err();
        assert!(matches!(refused, ConnectError::Refused(Reason::NobodyListens)), "{refused}");
        assert_eq!(refused.errno(), rustix::io::Errno::CONNREFUSED.raw_os_error());
    }
    // The next address, or the next path, is tried at once.
    let listener = Listener::bind("127.0.0.1:0", Options::default()).unwrap();
    let addrs = [closed(), listener.local_addr()];
    let elsewhere = Connection::connect(&addrs[..], patient()).unwrap();
    assert_eq!(elsewhere.peer_addr(), Some(listener.local_addr()));
    let first = Path::from([127, 0, 0, 1].into()).to(closed());
    let detour = patient().path(first).path(Path::from([127, 0, 0, 2].into()));
    let detour = Connection::connect(listener.local_addr(), detour).unwrap();
    assert_eq!(detour.peer_addr(), Some(listener.local_addr()));
}

/// If one peer's host refuses packets with ICMP, other connections on the same thread continue.
#[test]
fn a_refusal_disturbs_no_other_connection() {
    let listener = Listener::bind("127.0.0.1:0", Options::default()).unwrap();
    let connector = Connector::new(Options::default()).unwrap();
    let here = connector.connect(listener.local_addr()).unwrap();
    let there = listener.accept_timeout(PATIENT).unwrap();
    for n in 0..20 {
        assert!(connector.connect(closed()).is_err());
        here.send(&[n]).unwrap();
        assert_eq!(there.recv_timeout(PATIENT).unwrap(), [n]);
    }
    assert_eq!((here.stats().lost, here.stats().dropped), (0, 0));
}

#[test]
fn a_probe_sends_padding_that_the_peers_application_does_not_see() {
    let listener = Listener::bind("127.0.0.1:0", Options::default()).unwrap();
    for options in [Options::default(), Options::ccid(2), Options::default().multipath(true)] {
        let here = Connection::connect(listener.local_addr(), options.tell_rate(10)).unwrap();
        let there = listener.accept_timeout(PATIENT).unwrap();
        here.probe(Rate::from_mbps(8.0), Duration::from_secs(3600));
        until(|| here.stats().paths[0].sent >= 100);
        here.send(b"data goes on").unwrap();
        assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"data goes on");
        let mut events = std::iter::from_fn(|| here.event_timeout(PATIENT));
        assert!(events.any(|event| matches!(event, Event::Rate(rate) if rate > Rate::ZERO)));
        // Waiting data is sent in place of padding. Finishing the connection ends the probe.
        let stats = here.finish().unwrap();
        assert_eq!((stats.sent, stats.sent_bytes), (1, 12));
        assert_eq!(there.recv_timeout(PATIENT), Err(RecvError::Closed(Reason::ClosedByPeer)));
        assert_eq!(there.stats().received, 1);
    }
}

/// Packets arrive with the configured DSCP, and with the ECN field that congestion control has chosen.
#[test]
fn packets_bear_the_dscp_of_the_options() {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    setsockopt(&peer, IpRecvTos, &true).unwrap();
    let connector = Connector::new(Options::default().dscp(46)).unwrap();
    let _here = connector.start(peer.local_addr().unwrap(), None);
    let (mut bytes, mut control) = ([0; 100], nix::cmsg_space!(u8));
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let request =
        recvmsg::<SockaddrStorage>(peer.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty());
    let tos = request.unwrap().cmsgs().unwrap().find_map(|message| match message {
        ControlMessageOwned::Ipv4Tos(tos) => Some(tos),
        _ => None,
    });
    assert_eq!(tos.map(|tos| tos >> 2), Some(46));
}

/// No client could connect to port 0.
#[test]
fn a_listener_with_raw_needs_a_port() {
    let listener = Listener::bind("127.0.0.1:0", Options::default().encapsulation(Encapsulation::Raw));
    assert!(matches!(listener, Err(ConnectError::Options(_))), "{listener:?}");
}

#[test]
fn keys_go_with_raw() {
    let raw = |n| Options::default().encapsulation(Encapsulation::Raw).key(key(n)).connect_timeout(PATIENT);
    let listener = match Listener::bind("127.0.0.1:5017", raw(1).any_peer(true)) {
        Err(ConnectError::Io(e)) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("SKIPPED keys with raw: {e}");
            return;
        }
        listener => listener.unwrap(),
    };
    let here = Connection::connect("127.0.0.1:5017", raw(2).peer(key(1).public())).unwrap();
    here.send(b"sealed").unwrap();
    assert_eq!(listener.accept_timeout(PATIENT).unwrap().recv_timeout(PATIENT).unwrap(), b"sealed");
}
