//! Tests reliable streams alongside datagrams. These tests need no privileges.

use crate::relay::Relay;
use crate::{PATIENT, pair};
use dccp_sockets::{
    Connection, Event, Listener, Named, Options, Path, Reason, RecvError, SchedulerKind, StreamError,
};
use sha2::{Digest, Sha256};
use std::io::{ErrorKind, Read, Write};
use std::net::IpAddr;
use std::time::Duration;

fn options() -> Options {
    Options::default().streams(true)
}

fn noise(length: usize) -> Vec<u8> {
    (0..length as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
}

#[test]
fn a_file_arrives_intact_over_two_lossy_paths() {
    let listener = Listener::bind("127.0.0.1:0", options()).unwrap();
    let (one, other) = (Relay::new(listener.local_addr(), 25), Relay::new(listener.local_addr(), 25));
    let local = |last: u8| IpAddr::from([127, 0, 0, last]);
    let client = options().scheduler(SchedulerKind::named("rr").unwrap());
    let client = client.path(Path::from(local(2)).to(one.addr)).path(Path::from(local(3)).to(other.addr));
    let here = Connection::connect(one.addr, client).unwrap();
    let there = listener.accept_timeout(PATIENT).unwrap();
    let both_up = |_: &Event| {
        let paths = here.stats().paths;
        paths.len() == 2 && paths.iter().all(|path| path.state.is_up())
    };
    assert!(here.events().any(|event| both_up(&event)));
    let file = noise(3_000_000);
    let sum = Sha256::digest(&file);
    let sender = std::thread::spawn(move || {
        let mut stream = here.open_stream().unwrap();
        stream.write_all(&file).unwrap();
        // Datagrams are sent at the same time, and some of them are lost.
        (0..50).for_each(|_| here.send(b"beside").unwrap());
        stream.finish().unwrap();
        here.finish().unwrap()
    });
    let mut copy = Vec::new();
    there.accept_stream(Some(PATIENT)).unwrap().read_to_end(&mut copy).unwrap();
    assert_eq!(Sha256::digest(&copy), sum);
    let stats = sender.join().unwrap();
    assert!(stats.paths.iter().filter(|path| path.sent > 0).count() == 2 && stats.lost > 0, "{stats:?}");
    let datagrams = std::iter::from_fn(|| there.recv_timeout(PATIENT).ok()).count();
    assert!(datagrams > 25, "{datagrams} of 50");
}

/// A stream that nobody reads does not block other streams, and takes up only its share of memory.
#[test]
fn streams_do_not_wait_for_each_other() {
    let (_listener, here, there) = pair(options(), options());
    let idle = here.open_stream().unwrap();
    let mut filled = 0;
    // Write until the stream accepts no more bytes.
    while let Ok(n) = idle.write_timeout(&[1; 65_536], Some(Duration::from_millis(300))) {
        filled += n;
    }
    assert!(filled > 0 && filled < 64 << 20, "{filled}");
    for n in 0..20u8 {
        let mut stream = there.open_stream().unwrap();
        stream.write_all(&[n; 100_000]).unwrap();
        stream.end();
        let mut got = Vec::new();
        let theirs = here.accept_stream(Some(PATIENT)).unwrap();
        (&theirs).read_to_end(&mut got).unwrap();
        assert!(got == [n; 100_000] && theirs.id() == stream.id());
        drop(theirs);
        stream.finish().unwrap();
    }
    // The idle stream continues when it is read.
    let reader = there.accept_stream(Some(PATIENT)).unwrap();
    let (mut total, mut buf) = (0, vec![0; 1 << 16]);
    while total < filled {
        total += reader.read_timeout(&mut buf, Some(PATIENT)).unwrap();
    }
    assert_eq!(total, filled);
}

#[test]
fn a_stream_without_bytes_is_finished_when_the_peer_closes() {
    let (_listener, here, there) = pair(options(), options());
    let mut written = here.open_stream().unwrap();
    written.write_all(b"all").unwrap();
    written.end();
    let (read, mut got) = (there.accept_stream(Some(PATIENT)).unwrap(), Vec::new());
    let empty = there.open_stream().unwrap();
    (&read).read_to_end(&mut got).unwrap();
    assert_eq!(got, b"all");
    here.close();
    assert!(matches!(there.recv_timeout(PATIENT), Err(RecvError::Closed(_))));
    assert_eq!(empty.finish_timeout(Some(PATIENT)), Ok(()));
    // After the orderly end, a write fails with a broken pipe. A read fails with a reset, because the data of
    // the stream has no end.
    assert_eq!((&empty).write(b"late").unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert_eq!((&empty).read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_reader_that_finishes_first_acknowledges_the_last_bytes() {
    for _ in 0..50 {
        let (_listener, here, there) = pair(options(), options());
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            there.accept_stream(Some(PATIENT)).unwrap().read_to_end(&mut got).unwrap();
            there.finish().unwrap();
        });
        let mut stream = here.open_stream().unwrap();
        stream.write_all(&[1; 3000]).unwrap();
        stream.finish_timeout(Some(PATIENT)).unwrap();
        reader.join().unwrap();
    }
}

/// The connection closes only after all written data has arrived, including the data of a dropped stream.
#[test]
fn written_bytes_arrive_before_the_connection_closes() {
    let (_listener, here, there) = pair(options(), options());
    let sent = noise(2_000_000);
    let expected = sent.clone();
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        let whole = there.accept_stream(Some(PATIENT)).unwrap().read_to_end(&mut got);
        (whole.is_ok(), got == expected, there.recv_timeout(PATIENT))
    });
    let mut stream = here.open_stream().unwrap();
    stream.write_all(&sent).unwrap();
    drop(stream);
    here.finish().unwrap();
    assert_eq!(reader.join().unwrap(), (true, true, Err(RecvError::Closed(Reason::ClosedByPeer))));
}

/// While a bulk transfer fills the path, the request to stop reading leaves before the stream's first bytes.
#[test]
fn a_stream_that_is_dropped_at_once_arrives() {
    let (_listener, here, there) = pair(options(), options());
    let reader = std::thread::spawn(move || {
        let bulk = there.accept_stream(Some(PATIENT)).unwrap();
        std::thread::spawn(move || (&bulk).read_to_end(&mut Vec::new()));
        let read = || {
            let mut got = Vec::new();
            there.accept_stream(Some(PATIENT)).unwrap().read_to_end(&mut got).unwrap();
            got
        };
        (0..20).map(|_| read()).collect::<Vec<_>>()
    });
    let mut bulk = here.open_stream().unwrap();
    bulk.write_all(&noise(2_000_000)).unwrap();
    for n in 0..20 {
        here.open_stream().unwrap().write_all(&[n]).unwrap();
    }
    let mut got = reader.join().unwrap();
    got.sort();
    assert_eq!(got, (0..20).map(|n| vec![n]).collect::<Vec<_>>());
}

#[test]
fn both_ends_learn_how_a_stream_ended() {
    let (_listener, here, there) = pair(options(), options());
    let timeout = Some(PATIENT);
    let (mine, mut buf) = (here.open_stream().unwrap(), [0; 16]);
    mine.write_timeout(b"one", timeout).unwrap();
    let theirs = there.accept_stream(timeout).unwrap();
    assert_eq!(theirs.read_timeout(&mut buf, timeout), Ok(3));
    assert_eq!(theirs.read_timeout(&mut buf, Some(Duration::ZERO)), Err(StreamError::TimedOut));
    mine.reset(77);
    assert_eq!(theirs.read_timeout(&mut buf, timeout), Err(StreamError::Reset(77)));
    let told = std::iter::repeat_with(|| (&theirs).write(b"x")).find_map(Result::err).unwrap();
    assert_eq!(told.kind(), ErrorKind::BrokenPipe);
    assert_eq!(mine.write_timeout(b"more", timeout), Err(StreamError::Ended));
    assert_eq!(mine.finish(), Err(StreamError::Ended));

    // Dropping a stream makes the peer stop sending.
    let mine = here.open_stream().unwrap();
    mine.write_timeout(b"two", timeout).unwrap();
    drop(there.accept_stream(timeout).unwrap());
    let told = std::iter::repeat_with(|| mine.write_timeout(&[0; 9_999], timeout)).find_map(Result::err);
    assert_eq!(told, Some(StreamError::Stopped(0)));

    let mine = here.open_stream().unwrap();
    mine.write_timeout(b"three", timeout).unwrap();
    let theirs = there.accept_stream(timeout).unwrap();
    assert_eq!(theirs.read_timeout(&mut buf, timeout), Ok(5));
    here.abort();
    let lost = std::iter::repeat_with(|| (&theirs).read(&mut buf)).find_map(Result::err).unwrap();
    assert_eq!(lost.kind(), ErrorKind::ConnectionReset, "{lost}");
    assert!(matches!(there.accept_stream(timeout), Err(StreamError::Closed(_))));
    assert!(matches!(there.open_stream(), Err(StreamError::Closed(_))));
    assert!(matches!(mine.finish(), Err(StreamError::Closed(_))));
}

#[test]
fn without_streams_at_both_ends_there_are_none() {
    let listener = Listener::bind("127.0.0.1:0", Options::default()).unwrap();
    for client in [options(), Options::default()] {
        let here = Connection::connect(listener.local_addr(), client).unwrap();
        assert_eq!(here.open_stream().map(drop), Err(StreamError::Unsupported));
        here.send(b"datagrams go").unwrap();
        let there = listener.accept_timeout(PATIENT).unwrap();
        assert_eq!(there.recv_timeout(PATIENT).unwrap(), b"datagrams go");
    }
}

/// A stream's descriptor is readable while there is data, or while a write that found no room can be retried.
#[test]
fn a_descriptor_tells_of_bytes_and_of_room() {
    let (_listener, here, there) = pair(options(), options());
    let (mine, zero) = (here.open_stream().unwrap(), Some(Duration::ZERO));
    let readable = |stream: &dccp_sockets::ByteStream, seconds| {
        crate::readiness::readable(stream.descriptor().unwrap(), seconds)
    };
    mine.write_timeout(b"hello", zero).unwrap();
    let theirs = there.accept_stream(Some(PATIENT)).unwrap();
    assert!(readable(&theirs, 20) && !readable(&mine, 0));
    let mut buf = [0; 1 << 16];
    assert_eq!(theirs.read_timeout(&mut buf, zero), Ok(5));
    assert!(!readable(&theirs, 0));
    while mine.write_timeout(&buf, Some(Duration::from_millis(200))).is_ok() {}
    assert_eq!(mine.write_timeout(&buf, zero), Err(StreamError::TimedOut));
    assert!(!readable(&mine, 0));
    let reader = std::thread::spawn(move || {
        let mut buf = vec![0; 1 << 16];
        while theirs.read_timeout(&mut buf, Some(PATIENT)).is_ok_and(|n| n > 0) {}
    });
    assert!(readable(&mine, 20));
    mine.write_timeout(&buf, zero).unwrap();
    mine.finish().unwrap();
    reader.join().unwrap();
}
