//! Tests what event loops need: a descriptor to wait on, calls that do not wait, and batches.

use crate::relay::{Relay, through_a_relay};
use crate::{PATIENT, pair, until};
use dccp_sockets::{
    AcceptError, ConnectError, Connection, Connector, Delivery, Event, Listener, Options, RecvError,
    SendError,
};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Returns whether a descriptor is readable now or within this time.
pub(crate) fn readable(fd: BorrowedFd<'_>, seconds: i64) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: seconds, tv_nsec: 0 })).unwrap() == 1
}

#[test]
fn a_descriptor_is_readable_until_all_is_drained() {
    let listener = Listener::bind("127.0.0.1:0", Options::default()).unwrap();
    let arrivals = listener.descriptor().unwrap();
    assert!(!readable(arrivals, 0));
    assert!(matches!(listener.try_accept(), Err(AcceptError::Empty)));
    let here = Connection::connect(listener.local_addr(), Options::default()).unwrap();
    assert!(readable(arrivals, 20));
    let there = listener.try_accept().unwrap();
    assert!(!readable(arrivals, 0));

    // First wait for the path's event, which may or may not have occurred already.
    let fd = there.descriptor().unwrap();
    until(|| there.try_event() == Some(Event::PathUp(dccp_sockets::PathId(0))));
    there.ready();
    assert!(!readable(fd, 0));
    assert_eq!(there.try_recv(), Err(RecvError::Empty));
    (0..3u8).for_each(|n| here.send(&[n]).unwrap());
    for n in 0..3 {
        assert!(readable(fd, 20), "datagram {n}");
        assert!(there.ready().readable && there.ready().writable);
        assert_eq!(there.try_recv(), Ok(vec![n]));
    }
    assert!(!readable(fd, 0) && !there.ready().readable);
    here.finish().unwrap();
    // Read all events, because earlier events also make the descriptor readable.
    there.events().for_each(drop);
    assert!(readable(fd, 20) && there.ready().closed, "the end stays readable");
    assert!(readable(fd, 0));
}

#[test]
fn a_descriptor_tells_once_of_room() {
    let (_listener, here, there) = pair(Options::default(), Options::default().queue(2));
    let fd = here.descriptor().unwrap();
    let size = here.max_datagram_size();
    while here.try_send(&vec![0; size]) != Err(SendError::Full) {}
    while !here.ready().writable {
        assert!(readable(fd, 20));
    }
    std::thread::spawn(move || while there.recv().is_ok() {});
    // No sender is waiting for room any more, so free room no longer makes the descriptor readable.
    while here.try_event().is_some() {}
    here.ready();
    assert!(!readable(fd, 0));
}

#[test]
fn a_stream_tells_of_room_after_it_accepted_only_a_part() {
    let (_listener, here, there) = pair(Options::default().streams(true), Options::default().streams(true));
    let stream = here.open_stream().unwrap();
    let data = vec![1; 4 << 20];
    assert!(stream.write_timeout(&data, Some(Duration::ZERO)).unwrap() < data.len());
    let reader = std::thread::spawn(move || {
        let mut stream = there.accept_stream(Some(PATIENT)).unwrap();
        std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
        (there, stream)
    });
    let fd = stream.descriptor().unwrap();
    assert!(readable(fd, 20));
    assert_eq!(stream.ready(), (false, true));
    assert!(!readable(fd, 0), "the caller knows that there is room");
    // A caller that ends writing instead of writing the rest no longer waits for room.
    assert!(stream.write_timeout(&data, Some(Duration::ZERO)).unwrap() < data.len());
    stream.finish_timeout(Some(PATIENT)).unwrap();
    let _open = reader.join().unwrap();
    assert!(!readable(fd, 0));
}

#[test]
fn datagrams_go_in_batches_and_into_the_callers_memory() {
    let (_listener, here, there) = pair(Options::default(), Options::default().queue(100));
    let datagrams: Vec<Vec<u8>> = (1..=5u8).map(|n| vec![n; usize::from(n) * 100]).collect();
    assert_eq!(here.try_send_many(datagrams.iter().map(Vec::as_slice)), Ok(5));
    let mut got = Vec::new();
    while got.len() < 4 {
        let before = got.len();
        let received = there.recv_many(&mut got, 4 - before).unwrap();
        assert_eq!(got.len(), before + received);
    }
    assert_eq!(there.recv_many(&mut got, 0), Ok(0), "one more datagram is on its way");
    assert_eq!(got, datagrams[..4]);
    let mut small = [0; 10];
    assert_eq!(there.recv_into(&mut small), Err(RecvError::BufferTooSmall { len: 500 }));
    let mut large = [0; 1_000];
    assert_eq!(there.recv_into(&mut large), Ok(500), "the datagram stayed in the queue");
    assert_eq!(large[..500], datagrams[4]);
    // The datagrams that do not fit stay with the caller, in the same order.
    let many = vec![[7u8]; 1_000];
    let taken = here.try_send_many(many.iter().map(|one| &one[..])).unwrap();
    assert!((100..1_000).contains(&taken), "{taken}");
    let max = here.max_datagram_size();
    assert_eq!(here.try_send_many([&vec![0; max + 1][..]]), Err(SendError::TooBig { len: max + 1, max }));
}

#[test]
fn the_queue_is_all_that_waits() {
    let listener = Listener::bind("127.0.0.1:0", Options::default()).unwrap();
    let relay = Relay::new(listener.local_addr(), 0);
    let options = Options::default().queue(3).queue_time(Duration::from_millis(200));
    let here = Connection::connect(relay.addr, options).unwrap();
    relay.cut.store(true, Relaxed);
    // Send until the window is full.
    let mut full = 0;
    while full < 50 {
        match here.try_send(&[1; 1_000]) {
            Ok(()) => full = 0,
            Err(SendError::Full) => full += 1,
            Err(e) => panic!("{e}"),
        }
        std::thread::sleep(Duration::from_millis(1));
        if full == 20 {
            let stats = here.stats();
            assert!((1..=3).contains(&stats.queued) && stats.oldest.is_some(), "{stats:?}");
        }
    }
    until(|| {
        let _ = here.try_send(&[1; 1_000]);
        here.stats().expired > 0
    });
    here.abort();
}

#[test]
fn the_rate_of_a_path_that_was_not_filled_is_not_known() {
    // Losses keep the window of CCID 2 at a few packets. Without them, a busy host may send more slowly than
    // the path allows.
    let listener = Listener::bind("127.0.0.1:0", Options::ccid(2)).unwrap();
    let relay = Relay::new(listener.local_addr(), 10);
    let here = Connection::connect(relay.addr, Options::ccid(2)).unwrap();
    let there = listener.accept_timeout(PATIENT).unwrap();
    let stats = here.stats();
    assert_eq!((stats.rate, stats.app_limited, stats.oldest), (None, true, None), "{stats:?}");
    assert!(stats.allowed.bps() > 0, "{stats:?}");
    let reader = std::thread::spawn(move || while there.recv().is_ok() {});
    let size = here.max_datagram_size();
    until(|| {
        (0..100).for_each(|_| here.send(&vec![1; size]).unwrap());
        !here.stats().app_limited
    });
    assert!(here.stats().sent > 0);
    here.finish().unwrap();
    reader.join().unwrap();
}

#[test]
fn addresses_of_both_ends_are_known() {
    let (listener, here, there) = pair(Options::default(), Options::default());
    assert_eq!(
        (here.peer_addr(), there.local_addr()),
        (Some(listener.local_addr()), Some(listener.local_addr()))
    );
    assert_eq!(here.local_addr(), there.peer_addr());
    assert!(here.local_addr().is_some_and(|addr| addr.ip().is_loopback() && addr.port() != 0));
}

#[test]
fn closing_lets_waiting_threads_go() {
    let (listener, relay, here, there) = through_a_relay(Options::default(), Options::default());
    there.send(b"first").unwrap();
    assert_eq!(here.recv(), Ok(b"first".to_vec()));
    // The peer does not answer, so the connection cannot end in an orderly way.
    relay.cut.store(true, Relaxed);
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| here.recv());
        let watcher = scope.spawn(|| here.events().count());
        let acceptor = scope.spawn(|| listener.accept().map(|_| ()));
        std::thread::sleep(Duration::from_millis(50));
        here.close();
        listener.close();
        assert!(matches!(receiver.join().unwrap(), Err(RecvError::Closed(_))));
        watcher.join().unwrap();
        assert_eq!(acceptor.join().unwrap(), Err(AcceptError::Closed));
    });
    assert_eq!(here.end(), None);
    assert!(matches!(here.recv(), Err(RecvError::Closed(_))) && here.try_send(b"late").is_err());
    assert!(readable(here.descriptor().unwrap(), 0) && readable(listener.descriptor().unwrap(), 0));
    assert!(here.ready().readable && !here.ready().closed);
}

#[test]
fn a_connection_is_started_without_waiting() {
    let listener = Listener::bind("127.0.0.1:0", Options::default()).unwrap();
    let connector = Connector::new(Options::default()).unwrap();
    let here = connector.start(listener.local_addr(), None);
    here.send(b"as soon as it opens").unwrap();
    assert!(readable(here.descriptor().unwrap(), 20));
    assert!(matches!(here.opened(Duration::ZERO), Some(Ok(()))));
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let waiting = connector.start(silent.local_addr().unwrap(), None);
    assert!(waiting.try_send(b"early") == Err(SendError::Full) && !waiting.ready().writable);
    waiting.close();
    assert!(matches!(waiting.send(b"late"), Err(SendError::Closed(_))));
    let other = Connector::new(Options::default().service("SC:else")).unwrap();
    let refused = other.start(listener.local_addr(), None);
    // Path events may come before the end.
    let known = loop {
        assert!(readable(refused.descriptor().unwrap(), 20));
        refused.ready();
        if let Some(known) = refused.opened(Duration::ZERO) {
            break known;
        }
    };
    assert!(matches!(known, Err(ConnectError::Refused(_))));
}

#[test]
fn waiting_with_a_limit_gives_up_and_leaves_what_there_is() {
    let (_listener, here, there) = pair(Options::default(), Options::default());
    let short = Duration::from_millis(1);
    let mut buffer = [0; 8];
    assert_eq!(here.recv_into_timeout(&mut buffer, short), Err(RecvError::TimedOut));
    there.send(b"four").unwrap();
    assert_eq!(here.recv_into_timeout(&mut buffer[..2], PATIENT), Err(RecvError::BufferTooSmall { len: 4 }));
    assert_eq!(here.recv_into_timeout(&mut buffer, PATIENT), Ok(4));
    while here.event_timeout(short).is_some() {}
    here.send_timeout(b"one", Delivery::default(), PATIENT).unwrap();
    assert!(here.finish_timeout(PATIENT).unwrap().is_ok());
    assert_eq!(here.event_timeout(PATIENT), Some(Event::Closed(dccp_sockets::Reason::Closed)));
}

#[test]
fn news_make_an_edge_although_nobody_reads_what_waits() {
    let (_listener, here, there) = pair(Options::default(), Options::default());
    let fd = here.descriptor().unwrap();
    let edges = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    epoll::add(&edges, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN | epoll::EventFlags::ET)
        .unwrap();
    let mut buffer = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
    let mut edge = |tv_sec| epoll::wait(&edges, &mut buffer, Some(&Timespec { tv_sec, tv_nsec: 0 })).unwrap();
    there.send(b"unread").unwrap();
    while !here.ready().readable {
        assert_eq!(edge(20), 1);
    }
    while edge(0) > 0 {}
    there.finish().unwrap();
    assert_eq!(edge(20), 1, "the end, in addition to the datagram");
}

/// As with other sockets, closing a handle removes it from event loops, although the connection lives on.
#[test]
fn a_descriptor_is_closed_with_its_handle() {
    let options = Options::default().streams(true);
    let (listener, relay, here, there) = through_a_relay(options.clone(), options);
    let stream = there.open_stream().unwrap();
    // The peer does not answer, so neither the connections nor the stream end.
    relay.cut.store(true, Relaxed);
    let watched = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let mut buffer = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
    let mut ready = || epoll::wait(&watched, &mut buffer, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
    for fd in [here.descriptor(), listener.descriptor(), stream.descriptor()] {
        epoll::add(&watched, fd.unwrap(), epoll::EventData::new_u64(0), epoll::EventFlags::IN).unwrap();
    }
    here.close();
    listener.close();
    stream.close();
    assert_eq!(ready(), 1);
    drop((here, listener, stream));
    // The data thread has handled the close of the stream.
    there.stats();
    assert_eq!((ready(), there.end()), (0, None));
}
