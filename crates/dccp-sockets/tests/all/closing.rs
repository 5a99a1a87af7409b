//! Tests connections that end while in use: during calls in other threads, with a full queue, or many at
//! once.

use crate::relay::through_a_relay;
use crate::{PATIENT, until};
use dccp_sockets::{
    Connection, Connector, Listener, Options, Reason, RecvError, SendError, SendPolicy, Stats,
};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

fn drain(connection: &Connection) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| connection.recv_timeout(PATIENT).ok()).collect()
}

/// The peer never answers, so only closing can end the sender's wait.
#[test]
fn a_close_frees_a_thread_that_sends() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let connector = Connector::new(Options::default().connect_timeout(Duration::from_secs(3600))).unwrap();
    let connection = Arc::new(connector.start(silent.local_addr().unwrap(), None));
    let here = connection.clone();
    let sender = std::thread::spawn(move || here.send(b"waits"));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!sender.is_finished());
    connection.close();
    until(|| sender.is_finished());
    assert!(matches!(sender.join().unwrap(), Err(SendError::Closed(_))));
    connection.abort();
}

/// The client's acknowledgement of the handshake arrives after the listener has closed.
#[test]
fn a_closed_listener_ends_connections_that_are_still_opening() {
    let listener = Listener::bind("127.0.0.1:0", Options::default()).unwrap();
    let [front, back] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    back.connect(listener.local_addr()).unwrap();
    let limit = |time| [&front, &back].map(|socket| socket.set_read_timeout(Some(time)).unwrap());
    limit(PATIENT);
    let connector = Connector::new(Options::default().connect_timeout(PATIENT)).unwrap();
    let here = connector.start(front.local_addr().unwrap(), None);
    let mut packet = [0; 2048];
    let (len, client) = front.recv_from(&mut packet).unwrap();
    back.send(&packet[..len]).unwrap();
    let len = back.recv(&mut packet).unwrap();
    listener.close();
    front.send_to(&packet[..len], client).unwrap();
    limit(Duration::from_millis(20));
    until(|| {
        if let Ok(len) = front.recv(&mut packet) {
            back.send(&packet[..len]).unwrap();
        }
        if let Ok(len) = back.recv(&mut packet) {
            front.send_to(&packet[..len], client).unwrap();
        }
        here.end().is_some()
    });
    assert!(matches!(here.end(), Some(Reason::ResetByPeer(_))), "{:?}", here.end());
}

#[test]
fn a_close_sends_what_is_queued() {
    let (_, relay, here, there) = through_a_relay(Options::default(), Options::default().queue(300));
    (0..300u32).for_each(|n| here.send(&n.to_be_bytes()).unwrap());
    here.close();
    let arrived = drain(&there);
    until(|| here.end().is_some());
    let Stats { sent, lost, dropped, .. } = here.stats();
    assert!((sent, dropped) == (300, 0) && arrived.len() as u64 + lost >= 300, "{}, {lost}", arrived.len());
    assert_eq!(there.end(), Some(Reason::ClosedByPeer));
    drop(relay);
}

/// Tests [`SendPolicy::DropOldest`] from the receiver's point of view.
#[test]
fn a_full_queue_drops_its_oldest_datagrams() {
    let (_, relay, here, there) =
        through_a_relay(Options::default(), Options::ccid(2).queue(4).send_policy(SendPolicy::DropOldest));
    relay.cut.store(true, Relaxed);
    until(|| {
        here.send(b"earlier").unwrap();
        here.stats().displaced > 0
    });
    (0..10u8).for_each(|n| here.send(&[n]).unwrap());
    relay.cut.store(false, Relaxed);
    here.close();
    let arrived = drain(&there).into_iter().filter(|datagram| datagram.len() == 1);
    let arrived = arrived.flatten().collect::<Vec<u8>>();
    // The session had already taken one of the four datagrams.
    assert!([7, 8, 9].ends_with(&arrived) && !arrived.is_empty(), "{arrived:?}");
}

/// On each connection, two threads send and two threads receive.
#[test]
fn many_connections_and_threads_over_ipv6() {
    if UdpSocket::bind("[::1]:0").is_err() {
        return println!("SKIPPED many_connections_and_threads_over_ipv6: this host has no IPv6");
    }
    const MANY: usize = 50;
    const EACH: u64 = 40;
    let listener = Listener::bind("[::1]:0", Options::default().backlog(MANY)).unwrap();
    let connector = Connector::new(Options::default()).unwrap();
    let all: Vec<_> = (0..MANY).map(|_| connector.start(listener.local_addr(), None)).map(Arc::new).collect();
    let server = std::thread::spawn(move || {
        let accepted: Vec<_> = (0..MANY).map(|_| listener.accept_timeout(PATIENT).unwrap()).collect();
        let count = |connection: &Connection| {
            // Two threads read the datagrams of the same connection.
            std::thread::scope(|scope| {
                let readers = [(); 2].map(|()| scope.spawn(|| drain(connection).len() as u64));
                readers.map(|reader| reader.join().unwrap()).iter().sum::<u64>()
            })
        };
        accepted.iter().map(count).sum::<u64>()
    });
    let senders: Vec<_> = all
        .iter()
        .flat_map(|connection| [connection.clone(), connection.clone()])
        .map(|connection| {
            std::thread::spawn(move || (0..EACH).for_each(|_| connection.send(&[1; 1_000]).unwrap()))
        })
        .collect();
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let lost: u64 = all.iter().map(|connection| connection.finish().unwrap().lost).sum();
    let arrived = server.join().unwrap();
    let sent = 2 * EACH * MANY as u64;
    assert!(arrived <= sent && arrived + lost >= sent, "{arrived} of {sent}, {lost} lost");
    assert!(all.iter().all(|connection| connection.recv() == Err(RecvError::Closed(Reason::Closed))));
}
