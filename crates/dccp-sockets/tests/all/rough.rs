//! Tests applications under real-world network conditions: loss, small packets, outages, and a peer that
//! restarts or does not read.

use crate::relay::{Relay, through_a_relay};
use crate::{PATIENT, until};
use dccp_sockets::{Connection, Event, Listener, Options, Reason, RecvError, ResetCode, SendError};
use std::io::Write;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

fn skipped(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

/// Receives all datagrams until the end. Returns their number.
fn drain(connection: &Connection) -> u64 {
    std::iter::from_fn(|| connection.recv_timeout(PATIENT).ok()).count() as u64
}

#[test]
fn each_direction_has_its_ccid_and_what_is_lost_is_counted() {
    for (up, down) in [(2, 5), (3, 7), (4, 2)] {
        let listener = Listener::bind("127.0.0.1:0", Options::ccid(down).mtu(576)).unwrap();
        let relay = Relay::new(listener.local_addr(), 50);
        let here = Arc::new(Connection::connect(relay.addr, Options::ccid(up).mtu(576)).unwrap());
        let there = Arc::new(listener.accept_timeout(PATIENT).unwrap());
        assert!(here.max_datagram_size() < 576);
        const EACH: u64 = 300;
        let send = |connection: &Arc<Connection>| {
            let connection = connection.clone();
            std::thread::spawn(move || (0..EACH).for_each(|_| connection.send(&[7; 400]).unwrap()))
        };
        let receive = |connection: &Arc<Connection>| {
            let connection = connection.clone();
            std::thread::spawn(move || drain(&connection))
        };
        let readers = [receive(&here), receive(&there)];
        for writer in [send(&here), send(&there)] {
            writer.join().unwrap();
        }
        assert_eq!(here.stats().paths[0].ccids, Some((up, down)));
        // Wait until the server has sent everything, so that the client closes the connection after that.
        while there.stats().queued > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let sent = here.finish().unwrap();
        let [_, arrived] = readers.map(|reader| reader.join().unwrap());
        assert_eq!((sent.sent, sent.dropped), (EACH, 0));
        assert!(arrived < EACH, "the relay loses some");
        // If the last few packets are lost, no later packet reveals the loss. CCIDs 3 and 4 report loss
        // events instead of packets, and on a busy host all losses may fall into one round-trip time.
        let counted = if up == 2 { arrived + sent.lost + 3 >= EACH } else { sent.lost > 0 };
        assert!(counted, "CCID {up}: {arrived} arrived, {} lost", sent.lost);
    }
}

/// RFC 8899: the network drops large packets without an ICMP error.
#[test]
fn both_ends_find_the_size_that_a_path_carries() {
    let listener = Listener::bind("127.0.0.1:0", Options::default()).unwrap();
    let relay = Relay::new(listener.local_addr(), 0);
    relay.carries.store(1300, Relaxed);
    let here = Connection::connect(relay.addr, Options::default()).unwrap();
    let there = listener.accept_timeout(PATIENT).unwrap();
    // Check this before the first call of `stats`, because `stats` would itself update the sizes.
    until(|| [&here, &there].iter().all(|end| end.max_datagram_size() < 1300));
    until(|| here.try_event() == Some(Event::Size(here.max_datagram_size())));
    assert!([&here, &there].iter().all(|end| end.stats().paths[0].path_mtu <= 1300));
    for (from, to) in [(&here, &there), (&there, &here)] {
        let data = vec![1; from.max_datagram_size()];
        from.send(&data).unwrap();
        assert_eq!(to.recv_timeout(PATIENT).unwrap(), data);
    }
}

#[test]
fn without_probing_the_size_is_that_of_the_interface() {
    let options = Options::ccid(2).mtu_probing(false);
    let (_listener, relay, here, there) = through_a_relay(options.clone(), options);
    relay.carries.store(1300, Relaxed);
    here.send(&vec![1; here.max_datagram_size()]).unwrap();
    (0..10).for_each(|_| here.send(b"small").unwrap());
    (0..10).for_each(|_| assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"small"));
    assert_eq!(here.stats().paths[0].path_mtu, 1500);
    let sent = here.finish().unwrap();
    assert_eq!((sent.lost, sent.dropped), (1, 0));
}

#[test]
fn acknowledgements_ride_on_answers() {
    for ccid in [2, 5] {
        let (_listener, relay, here, there) = through_a_relay(Options::ccid(ccid), Options::ccid(ccid));
        const ECHOES: u32 = 200;
        for _ in 0..ECHOES {
            here.send(b"question").unwrap();
            there.send(&there.recv_timeout(PATIENT).unwrap()).unwrap();
            here.recv_timeout(PATIENT).unwrap();
        }
        // If Acks were sent separately, there would be twice as many packets as echoes.
        let packets = relay.of_client.load(Relaxed);
        assert!(packets < ECHOES * 3 / 2, "CCID {ccid}: {packets} packets");
    }
}

/// The peer is gone, so neither acknowledgements nor errors come back.
#[test]
fn unacknowledged_datagrams_count_as_lost_at_the_end() {
    for ccid in [2, 3, 5] {
        let (_listener, relay, here, there) = through_a_relay(Options::default(), Options::ccid(ccid));
        here.send(b"one").unwrap();
        assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"one");
        // The answer also acknowledges the question.
        there.send(b"answer").unwrap();
        assert_eq!(here.recv_timeout(PATIENT).unwrap(), b"answer");
        relay.cut.store(true, Relaxed);
        here.send(b"two").unwrap();
        let stats = here.finish().unwrap();
        assert_eq!((stats.sent, stats.lost), (2, 1), "CCID {ccid}");
        assert_eq!(here.stats().lost, 1);
    }
}

#[test]
fn an_outage_ends_nothing() {
    let (_listener, relay, here, there) = through_a_relay(Options::default(), Options::default());
    here.send(b"before").unwrap();
    assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"before");
    relay.cut.store(true, Relaxed);
    here.send(b"lost").unwrap();
    there.send(b"lost").unwrap();
    assert_eq!(there.recv_timeout(Duration::from_secs(2)), Err(RecvError::TimedOut));
    relay.cut.store(false, Relaxed);
    // After each timeout, congestion control sends one packet at a time until an acknowledgement arrives.
    until(|| {
        let _ = here.try_send(b"question");
        if there.recv_timeout(Duration::from_millis(50)).is_ok() {
            let _ = there.try_send(b"answer");
        }
        assert_eq!((here.end(), there.end()), (None, None));
        here.recv_timeout(Duration::from_millis(50)).is_ok_and(|data| data == b"answer")
    });
}

#[test]
fn a_server_that_restarted_says_so_and_takes_the_client_again() {
    let (listener, relay, here, there) = through_a_relay(Options::default(), Options::default());
    let addr = listener.local_addr();
    // Drop all packets, so that the client does not learn of the server's end. To the client, it is as if the
    // server had been killed.
    relay.cut.store(true, Relaxed);
    there.abort();
    drop((there, listener));
    let begun = Instant::now();
    let listener = loop {
        match Listener::bind(addr, Options::default()) {
            Ok(listener) => break listener,
            Err(e) => assert!(begun.elapsed() < PATIENT, "{e}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    relay.restore();
    let told = Err(SendError::Closed(Reason::ResetByPeer(ResetCode::NoConnection)));
    until(|| here.send(b"still there?") == told);
    let again = Connection::connect(relay.addr, Options::default()).unwrap();
    let there = listener.accept_timeout(PATIENT).unwrap();
    again.send(b"again").unwrap();
    assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"again");
}

#[test]
fn connects_to_the_first_address_that_answers() {
    let impatient = Options::default().connect_timeout(Duration::from_millis(300));
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listener = Listener::bind("127.0.0.1:0", Options::default()).unwrap();
    let both = [silent, listener.local_addr()];
    let here = Connection::connect(&both[..], impatient.clone()).unwrap();
    here.send(b"x").unwrap();
    assert_eq!(listener.accept_timeout(PATIENT).unwrap().recv_timeout(PATIENT).unwrap(), b"x");
    assert!(Connection::connect(&[silent][..], impatient).is_err());
    // This host does not have the first address, but does have the second.
    let addrs: [SocketAddr; 2] = ["192.0.2.1:0".parse().unwrap(), "127.0.0.1:0".parse().unwrap()];
    let listener = Listener::bind(&addrs[..], Options::default()).unwrap();
    assert_eq!(listener.local_addr().ip(), addrs[1].ip());
}

/// Returns one of this host's link-local addresses, with its interface.
fn link_local() -> Option<SocketAddrV6> {
    let table = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
    table.lines().find(|line| line.starts_with("fe80")).and_then(|line| {
        let mut fields = line.split_whitespace();
        let ip = Ipv6Addr::from(u128::from_str_radix(fields.next()?, 16).ok()?);
        Some(SocketAddrV6::new(ip, 0, 0, u32::from_str_radix(fields.next()?, 16).ok()?))
    })
}

#[test]
fn link_local_addresses_keep_their_interface() {
    let Some(addr) = link_local().filter(|addr| UdpSocket::bind(addr).is_ok()) else {
        return skipped("link_local_addresses_keep_their_interface", "this host has no link-local address");
    };
    let listener = Listener::bind(addr, Options::default()).unwrap();
    let path = dccp_sockets::Path::from((*addr.ip()).into());
    for options in [Options::default(), Options::default().path(path).multipath(true)] {
        let here = Connection::connect(listener.local_addr(), options).unwrap();
        let there = listener.accept_timeout(PATIENT).unwrap();
        here.send(b"hello").unwrap();
        assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"hello");
        there.send(b"hello").unwrap();
        assert_eq!(here.recv_timeout(PATIENT).unwrap(), b"hello");
    }
}

/// By default, a client probes a path every 12 s, and a listener every 24 s, so twenty packets during the
/// test show that the shorter interval is in use.
#[test]
fn an_idle_end_asks_its_peer_at_every_keepalive() {
    let often = Options::default().keepalive(Duration::from_millis(20));
    for (server, client) in [(Options::default(), often.clone()), (often, Options::default())] {
        let (_listener, relay, _here, _there) = through_a_relay(server, client);
        until(|| relay.of_client.load(Relaxed) > 20);
    }
}

#[test]
fn a_peer_that_vanished_is_noticed_by_an_idle_end() {
    let second = Duration::from_secs(1);
    let options = Options::default().keepalive(second).survive(second);
    let (_listener, relay, here, _there) = through_a_relay(Options::default(), options);
    relay.cut.store(true, Relaxed);
    // Both ends are idle. With the default settings, the connection would last for more than a minute.
    assert!(matches!(here.recv_timeout(PATIENT), Err(RecvError::Closed(_))));
}
