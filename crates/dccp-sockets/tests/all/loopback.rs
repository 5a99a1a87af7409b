//! Tests a listener and connections over the loopback interface. These tests need no privileges.

use crate::{PATIENT, pair, until};
use dccp_sockets::{
    AcceptError, CcidError, ConnectError, Connection, Connector, Delivery, Event, FinishError, Listener,
    Named, Options, Path, PresharedKey, PrivateKey, Reason, RecvError, Remembered, ResetCode, ResumePhase,
    SchedulerKind, SendError, SendPolicy,
};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const SOON: Duration = Duration::from_millis(50);

/// Receives all datagrams until the end. Returns their number and the reason for the end.
fn drain(connection: &Connection) -> (u64, RecvError) {
    let mut received = 0;
    loop {
        match connection.recv_timeout(PATIENT) {
            Ok(_) => received += 1,
            Err(e) => return (received, e),
        }
    }
}

#[test]
fn datagrams_go_both_ways_under_every_ccid() {
    for ccid in dccp_sockets::known_ccids() {
        let (listener, here, there) = pair(Options::ccid(ccid), Options::ccid(ccid));
        here.send(b"to the server").unwrap();
        assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"to the server", "CCID {ccid}");
        there.send(b"to the client").unwrap();
        assert_eq!(here.recv_timeout(PATIENT).unwrap(), b"to the client", "CCID {ccid}");
        assert_eq!(here.stats().paths[0].ccids, Some((ccid, ccid)));
        assert_eq!(here.peer_addr(), Some(listener.local_addr()));
        assert_eq!(here.recv_timeout(SOON), Err(RecvError::TimedOut));
    }
}

/// Other sockets report IPv4 peers in this form.
#[test]
fn a_mapped_address_is_an_ipv4_address() {
    let mapped = |port| SocketAddr::from(([0u16, 0, 0, 0, 0, 0xffff, 0x7f00, 1], port));
    let listener = Listener::bind(mapped(0), Options::default()).unwrap();
    let addr = listener.local_addr();
    assert_eq!(addr.ip(), IpAddr::from([127, 0, 0, 1]));
    let options = Options::default().path(Path::from(mapped(0).ip()));
    let here = Connection::connect(mapped(addr.port()), options).unwrap();
    assert_eq!(here.peer_addr(), Some(addr));
    here.send(b"mapped").unwrap();
    assert_eq!(listener.accept().unwrap().recv_timeout(PATIENT).unwrap(), b"mapped");
}

/// Only one connection starts with the stored capacity. The resulting rate does no harm, even if it exceeds
/// the capacity of the path.
#[test]
fn one_connection_begins_from_what_is_remembered() {
    let listener = Listener::bind("127.0.0.1:0", Options::ccid(7)).unwrap();
    let saved = Remembered { window: 400_000, min_rtt: Duration::from_millis(50) };
    let connector = Connector::new(Options::ccid(7).resume(saved)).unwrap();
    let (one, one_there) = (connector.connect(listener.local_addr()).unwrap(), listener.accept().unwrap());
    let (two, _two_there) = (connector.connect(listener.local_addr()).unwrap(), listener.accept().unwrap());
    let phase = |connection: &Connection| connection.stats().paths[0].resumption;
    assert_eq!((phase(&one), phase(&two)), (Some(ResumePhase::Reconnaissance), None));
    let reader = std::thread::spawn(move || drain(&one_there));
    (0..5_000).for_each(|_| one.send(&[1; 1_000]).unwrap());
    assert_ne!(phase(&one), Some(ResumePhase::Reconnaissance));
    one.finish().unwrap();
    reader.join().unwrap();
}

#[test]
fn the_congestion_control_changes_while_data_flows() {
    let (_listener, here, there) = pair(Options::ccid(2), Options::ccid(2));
    let reader = std::thread::spawn(move || drain(&there));
    for ccid in [5, 3, 2] {
        here.set_ccid(ccid).unwrap();
        // Keep sending, because the change takes a round trip and data must flow in the meantime.
        until(|| {
            here.send(&[1; 500]).unwrap();
            here.stats().paths[0].ccids.map(|(tx, _)| tx) == Some(ccid)
        });
        (0..50).for_each(|_| here.send(&[2; 500]).unwrap());
    }
    let unknown = here.set_ccid(99).unwrap_err();
    assert_eq!(unknown, CcidError::Unknown(99));
    assert!(unknown.to_string().starts_with("unknown CCID 99, expected one of: 2, 3, "), "{unknown}");
    let stats = here.finish().unwrap();
    assert_eq!(here.set_ccid(2), Err(CcidError::NotOpen));
    let (received, _) = reader.join().unwrap();
    assert!(received + stats.lost >= stats.sent, "{received} of {}, {} lost", stats.sent, stats.lost);
}

#[test]
fn a_full_queue_drops_what_its_policy_says() {
    let client = Options::default().queue(4).send_policy(SendPolicy::Priority);
    let (_listener, here, there) = pair(Options::default(), client);
    let size = here.max_datagram_size();
    // This loop is faster than any window allows. One in a hundred datagrams has a higher priority.
    for n in 0..5_000u32 {
        let priority = u8::from(n % 100 == 0);
        here.send_with(&vec![priority; size], Delivery { priority, ..Delivery::default() }).unwrap();
    }
    let stats = here.finish().unwrap();
    assert!(stats.displaced > 0 && stats.sent == 5_000, "{stats:?}");
    let (mut received, mut urgent) = (0, 0);
    while let Ok(datagram) = there.recv_timeout(PATIENT) {
        received += 1;
        urgent += u64::from(datagram[0]);
    }
    let gone = stats.displaced + stats.lost;
    assert!(
        received + gone >= stats.sent && received <= stats.sent - stats.displaced,
        "{received}, {stats:?}"
    );
    assert!((urgent + stats.lost) * 100 >= received, "{urgent} urgent datagrams of {received}");
}

#[test]
fn finish_waits_until_everything_has_arrived() {
    let (_listener, here, there) = pair(Options::default(), Options::default());
    const MESSAGES: u64 = 2_000;
    let sender = std::thread::spawn(move || {
        let data = vec![7; here.max_datagram_size()];
        (0..MESSAGES).for_each(|_| here.send(&data).unwrap());
        let stats = here.finish().unwrap();
        assert_eq!(here.send(&data), Err(SendError::Closed(Reason::Closed)));
        stats
    });
    let (received, end) = drain(&there);
    let stats = sender.join().unwrap();
    assert_eq!((stats.sent, stats.queued, stats.dropped), (MESSAGES, 0, 0));
    assert!(received + stats.lost >= MESSAGES, "{received} of {MESSAGES} arrived, {} were lost", stats.lost);
    assert_eq!(end, RecvError::Closed(Reason::ClosedByPeer));
    assert_eq!(there.stats().received, received);
}

#[test]
fn refused_datagrams_are_returned_with_the_reason() {
    let (_listener, here, _there) = pair(Options::default(), Options::default().queue(3));
    let max = here.max_datagram_size();
    assert!(max > 1_000);
    assert_eq!(here.try_send(&vec![0; max + 1]), Err(SendError::TooBig { len: max + 1, max }));
    assert_eq!(here.send(&vec![0; max + 1]), Err(SendError::TooBig { len: max + 1, max }));
    assert_eq!(here.send(&[]), Err(SendError::Empty));
    // This loop is faster than any window allows, so the queue fills.
    let refused = (0..1_000_000).find_map(|_| here.try_send(&vec![0; max]).err());
    assert_eq!(refused, Some(SendError::Full));
    here.abort();
    assert!(matches!(here.finish(), Err(FinishError(Reason::Aborted))));
    let stats = here.stats();
    assert_eq!(stats.queued, 0);
    assert!(matches!(here.send(&[0]), Err(SendError::Closed(_))));
    assert!(here.end().is_some());
}

#[test]
fn unread_datagrams_are_counted() {
    let (_listener, here, there) = pair(Options::default().receive_queue(2), Options::default());
    (0..10).for_each(|_| here.send(b"x").unwrap());
    let sent = here.finish().unwrap();
    there.events().for_each(drop);
    let stats = there.stats();
    assert_eq!(stats.received, sent.sent - sent.lost);
    assert_eq!(stats.unread, stats.received - 2);
    assert_eq!(drain(&there), (2, RecvError::Closed(Reason::ClosedByPeer)));
}

#[test]
fn nobody_there_and_refusals_are_told_apart() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let impatient = Options::default().connect_timeout(Duration::from_millis(200));
    let error = Connection::connect(silent.local_addr().unwrap(), impatient).unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut), "{error}");

    let listener = Listener::bind("127.0.0.1:0", Options::default().service("SC:this")).unwrap();
    let error =
        Connection::connect(listener.local_addr(), Options::default().service("SC:that")).unwrap_err();
    let wrong = Reason::ResetByPeer(ResetCode::BadServiceCode);
    assert!(matches!(error, ConnectError::Refused(reason) if reason == wrong), "{error}");
    let error = Connection::connect(listener.local_addr(), Options::default().dccp_port(9)).unwrap_err();
    let unbound = Reason::ResetByPeer(ResetCode::ConnectionRefused);
    assert!(matches!(error, ConnectError::Refused(reason) if reason == unbound), "{error}");
    assert!(matches!(listener.accept_timeout(SOON), Err(AcceptError::TimedOut)));
}

#[test]
fn options_that_cannot_be_are_errors() {
    for options in [
        Options::ccid(1),
        Options::default().service("chat"),
        Options::default().peer(PrivateKey::from_random([1; 32]).public()),
        Options::default()
            .key(PrivateKey::from_random([1; 32]))
            .peer(PrivateKey::from_random([1; 32]).public()),
    ] {
        let error = Listener::bind("127.0.0.1:0", options).unwrap_err();
        assert!(matches!(error, ConnectError::Options(_)), "{error}");
    }
}

#[test]
fn errors_name_what_they_are_about() {
    for nowhere in ["224.0.0.1:7", "0.0.0.0:7", "[ff02::1]:7", "127.0.0.1:0"] {
        let error = Connection::connect(nowhere, Options::default()).unwrap_err();
        assert!(error.to_string().starts_with("invalid remote address"), "{nowhere}: {error}");
    }
    let error = Listener::bind("127.0.0.1:0", Options::default().qlog("/nowhere/x")).unwrap_err();
    assert!(error.to_string().contains("/nowhere/x"), "{error}");
    let error = Listener::bind("203.0.113.7:7", Options::default()).unwrap_err();
    assert!(error.to_string().contains("203.0.113.7:7"), "{error}");
}

/// RFC 5595 section 3.3: connections to a port must not conflict, so a port accepts no second listener,
/// not even with another Service Code.
#[test]
fn a_port_that_is_taken_takes_no_second_listener() {
    let taken = Listener::bind("127.0.0.1:0", Options::default().service("SC:this")).unwrap();
    for code in ["SC:this", "SC:that"] {
        let error = Listener::bind(taken.local_addr(), Options::default().service(code)).unwrap_err();
        assert!(matches!(error, ConnectError::Io(e) if e.kind() == std::io::ErrorKind::AddrInUse));
    }
}

#[test]
fn a_connection_outlives_its_listener_and_is_finished_when_dropped() {
    let (listener, here, there) = pair(Options::default(), Options::default());
    let addr = listener.local_addr();
    drop(listener);
    let impatient = Options::default().connect_timeout(PATIENT);
    let error = Connection::connect(addr, impatient).unwrap_err();
    assert!(matches!(error, ConnectError::Refused(_)), "{error}");
    there.send(b"still here").unwrap();
    drop(there);
    assert_eq!(here.recv_timeout(PATIENT).unwrap(), b"still here");
    assert_eq!(drain(&here), (0, RecvError::Closed(Reason::ClosedByPeer)));
}

#[test]
fn a_connection_that_outlives_its_listener_gets_further_paths() {
    let local = |last: u8| IpAddr::from([127, 0, 0, last]);
    let options = Options::default().path(Path::from(local(2))).multipath(true);
    let (listener, here, _there) = pair(Options::default(), options);
    let addr = listener.local_addr();
    drop(listener);
    let second = here.add_path(Path::from(local(3))).unwrap();
    until(|| here.try_event() == Some(Event::PathUp(second)));
    let refused = Connection::connect(addr, Options::default()).unwrap_err();
    let expected = Reason::ResetByPeer(ResetCode::ConnectionRefused);
    assert!(matches!(refused, ConnectError::Refused(reason) if reason == expected), "{refused:?}");
}

#[test]
fn the_scheduler_changes_while_data_flows() {
    let local = |last: u8| Path::from([127, 0, 0, last].into());
    let (_listener, here, _there) =
        pair(Options::default(), Options::default().path(local(2)).path(local(3)));
    let mut up = 0;
    until(|| {
        up += usize::from(matches!(here.try_event(), Some(Event::PathUp(_))));
        up == 2
    });
    let carried = || here.stats().paths.iter().map(|path| path.sent).sum::<u64>();
    for scheduler in ["rr", "redundant"] {
        here.set_scheduler(SchedulerKind::named(scheduler).unwrap());
        let before = carried();
        for _ in 0..100 {
            here.send(&[1; 500]).unwrap();
            // A path whose pacer still waits for the last datagram would get no copy.
            std::thread::sleep(Duration::from_millis(2));
        }
        until(|| here.stats().queued == 0);
        let more = carried() - before;
        assert_eq!(more >= 150, scheduler == "redundant", "{scheduler}: {more}");
    }
}

#[test]
fn paths_come_and_go() {
    let local = |last: u8| IpAddr::from([127, 0, 0, last]);
    let options = Options::default().path(Path::from(local(2)).priority(5)).multipath(true);
    let (_listener, here, there) = pair(Options::default(), options);
    assert!(here.is_multipath() && there.is_multipath());
    let second = here.add_path(Path::from(local(3))).unwrap();
    assert!(here.events().any(|event| event == Event::PathUp(second)));
    let stats = here.stats();
    assert!(stats.paths.iter().all(|path| path.state.is_up()) && stats.paths.len() == 2, "{stats:?}");
    (0..100).for_each(|_| here.send(&[1; 1000]).unwrap());
    here.remove_path(second);
    assert!(here.events().any(|event| matches!(event, Event::PathDown(path, _) if path == second)));
    here.send(b"last").unwrap();
    let sent = here.finish().unwrap();
    let (received, end) = drain(&there);
    assert!(received + sent.lost >= 101, "{received} arrived, {} lost", sent.lost);
    assert_eq!(end, RecvError::Closed(Reason::ClosedByPeer));
}

/// With fixed ports, the socket of a removed path would be in the way of the next path from its address.
#[test]
fn a_path_comes_back_after_it_was_removed() {
    let local = |last: u8| IpAddr::from([127, 0, 0, last]);
    let port = std::net::UdpSocket::bind((local(2), 0)).unwrap().local_addr().unwrap().port();
    let options = Options::default().path(Path::from(local(2))).multipath(true).source_ports(port, 0);
    let (_listener, here, _there) = pair(Options::default(), options);
    for _ in 0..2 {
        let second = here.add_path(Path::from(local(3))).unwrap();
        until(|| here.try_event() == Some(Event::PathUp(second)));
        here.remove_path(second);
        until(|| matches!(here.try_event(), Some(Event::PathDown(path, _)) if path == second));
    }
}

#[test]
fn keys_let_in_whom_they_name_and_nobody_else() {
    let key = |n: u8| PrivateKey::from_random([n; 32]);
    let server = Options::default().key(key(1)).peer(key(2).public()).peer(key(3).public());
    let client = |n: u8| {
        Options::default().key(key(n)).peer(key(1).public()).connect_timeout(Duration::from_millis(500))
    };
    let (listener, here, there) = pair(server, client(3).connect_timeout(PATIENT));
    assert_eq!(there.peer_key(), Some(key(3).public()));
    assert_eq!(here.peer_key(), Some(key(1).public()));
    let peer = there.peer_addr().unwrap();
    assert!(peer.ip() == listener.local_addr().ip() && peer.port() != 0, "{peer}");
    here.send(b"secret").unwrap();
    assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"secret");
    let addr: SocketAddr = listener.local_addr();
    assert!(
        matches!(Connection::connect(addr, client(4)), Err(ConnectError::TimedOut)),
        "the key is unknown"
    );
    let open = Options::default().connect_timeout(Duration::from_millis(500));
    assert!(matches!(Connection::connect(addr, open), Err(ConnectError::TimedOut)), "the client has no key");
}

/// Opens more connections at once than the number of handshakes that one source may start. This works because
/// the connections of a connector share a channel.
#[test]
fn connections_of_a_connector_share_one_channel() {
    const MANY: usize = 300;
    let key = |n: u8| PrivateKey::from_random([n; 32]);
    let server = Options::default().key(key(1)).peer(key(2).public()).backlog(MANY);
    let listener = Listener::bind("127.0.0.1:0", server).unwrap();
    let connector = Connector::new(Options::default().key(key(2)).peer(key(1).public())).unwrap();
    let all: Vec<Connection> = (0..MANY).map(|_| connector.connect(listener.local_addr()).unwrap()).collect();
    let accepted: Vec<Connection> = (0..MANY).map(|_| listener.accept_timeout(PATIENT).unwrap()).collect();
    let one = all[0].local_addr();
    assert!(all.iter().all(|connection| connection.local_addr() == one), "all share one socket");
    assert!(accepted.iter().all(|connection| connection.peer_addr() == one));
    all[0].send(b"first").unwrap();
    all[MANY - 1].send(b"last").unwrap();
    assert_eq!(accepted[0].recv_timeout(PATIENT).unwrap(), b"first");
    assert_eq!(accepted[MANY - 1].recv_timeout(PATIENT).unwrap(), b"last");
}

#[test]
fn peers_come_and_go_while_it_listens() {
    let key = |n: u8| PrivateKey::from_random([n; 32]);
    let listener = Listener::bind("127.0.0.1:0", Options::default().key(key(1))).unwrap();
    let connect = |n: u8, timeout| {
        let options = Options::default().key(key(n)).connect_timeout(timeout);
        Connector::new(options).unwrap().connect_peer(listener.local_addr(), key(1).public())
    };
    let short = Duration::from_millis(300);
    assert!(matches!(connect(2, short), Err(ConnectError::TimedOut)), "no peer is accepted yet");
    for n in [2, 3] {
        listener.add_peer(key(n).public(), PresharedKey::default()).unwrap();
    }
    let (two, three) = (connect(2, PATIENT).unwrap(), connect(3, PATIENT).unwrap());
    let accepted = [listener.accept_timeout(PATIENT).unwrap(), listener.accept_timeout(PATIENT).unwrap()];
    assert_eq!(accepted[0].peer_key(), Some(key(2).public()));
    assert_eq!(accepted[1].peer_key(), Some(key(3).public()));
    listener.remove_peer(key(2).public()).unwrap();
    assert_eq!(drain(&accepted[0]).1, RecvError::Closed(Reason::Aborted));
    let told = drain(&two).1;
    assert!(matches!(told, RecvError::Closed(Reason::AbortedByPeer | Reason::ResetByPeer(_))), "{told:?}");
    assert!(matches!(connect(2, short), Err(ConnectError::TimedOut)), "the peer was removed");
    three.send(b"still here").unwrap();
    assert_eq!(accepted[1].recv_timeout(PATIENT).unwrap(), b"still here");
    assert!(listener.add_peer(key(1).public(), PresharedKey::default()).is_err(), "the listener's own key");
}

#[test]
fn a_path_leaves_through_its_interface() {
    let listener = Listener::bind("127.0.0.1:0", Options::default().interface("lo")).unwrap();
    let addr = listener.local_addr();
    let here = Connection::connect(addr, Options::default().path(Path::on("lo"))).unwrap();
    let there = listener.accept_timeout(PATIENT).unwrap();
    here.send(b"through lo").unwrap();
    assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"through lo");
    let missing = Path::from([127, 0, 0, 1].into()).interface("nosuch0");
    for options in [Options::default().path(missing), Options::default().interface("nosuch0")] {
        let error = Connection::connect(addr, options).unwrap_err();
        assert!(error.to_string().contains("nosuch0"), "{error}");
    }
    // A connection that is bound to an interface does not share a socket with one that is not.
    let connector = Connector::new(Options::default().path(Path::on("lo"))).unwrap();
    let [one, two] = [(); 2].map(|()| connector.connect(addr).unwrap());
    assert_eq!(one.local_addr(), two.local_addr());
    assert_ne!(one.local_addr(), here.local_addr());
}
