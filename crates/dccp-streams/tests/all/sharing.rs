//! Tests concurrent streams: fair shares, priorities, slow readers.

use crate::common::{Link, Net, ms};
use dccp_streams::{Config, Event, Reason, StreamId};
use mpdccp_units::Duration;

fn one_path() -> Net {
    Net::plain(vec![Link::new(ms(10), 20)])
}

fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|n| *n as f64).sum();
    let squares: f64 = shares.iter().map(|n| (*n as f64).powi(2)).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[test]
fn sixteen_streams_get_equal_shares_of_two_unequal_paths() {
    let mut net = Net::plain(vec![Link::new(ms(10), 20), Link { loss: 20, ..Link::new(ms(40), 5) }]);
    let ids: Vec<_> = (0..16).map(|_| net.stream(1)).collect();
    let read = net.bulk(&ids, Duration::from_secs(5));
    assert!(jain(&read) >= 0.95, "{read:?}");
    assert!(read.iter().sum::<u64>() > 25_000_000 / 8 * 5 * 9 / 10, "{read:?}");
}

#[test]
fn an_urgent_stream_goes_first_and_leaves_the_rest() {
    let mut net = one_path();
    let ids = [net.stream(3), net.stream(0)];
    let read = net.bulk(&ids, Duration::from_secs(1));
    assert!(read[1] > 20 * read[0], "{read:?}");
    net.ends[0].set_priority(ids[1], 5).unwrap();
    let read = net.bulk(&ids, Duration::from_secs(1));
    assert!(read[0] > 20 * read[1], "{read:?}");
}

#[test]
fn a_short_exchange_does_not_wait_behind_bulk() {
    let mut net = one_path();
    let ids: Vec<_> = (0..8).map(|_| net.stream(1)).collect();
    let short = net.stream(1);
    net.bulk(&ids, Duration::from_secs(1));
    net.ends[0].write(short, &[1; 500]).unwrap();
    let mut waited = Duration::ZERO;
    while net.read(1, short).is_empty() {
        net.bulk(&ids, ms(1));
        waited += ms(1);
    }
    // This is the delay of the path plus the time for one or two packets, even though more than 100 ms' worth
    // of other data is waiting.
    assert!(waited <= ms(13), "{waited:?}");
}

#[test]
fn a_reader_that_stops_holds_back_its_own_stream_only() {
    let mut net = one_path();
    let (stalled, read) = (net.stream(1), net.stream(1));
    let block = vec![7; 64 << 10];
    for _ in 0..2_000 {
        let _ = net.ends[0].write(stalled, &block);
        net.run(ms(1));
    }
    let stats = net.ends[1].stream_stats(stalled).unwrap();
    assert_eq!(stats.window, stats.unread, "the window must be zero");
    assert!(stats.unread <= 64 << 10, "{stats:?}");
    let sent = net.packets;
    net.run(Duration::from_secs(3_600));
    assert!(net.packets[0] - sent[0] <= 2, "a blocked stream must not keep sending");
    let rate = net.bulk(&[read], Duration::from_secs(1))[0];
    assert!(rate > 2_000_000, "{rate} bytes of the other stream");
    assert!(net.bulk(&[stalled], Duration::from_secs(1))[0] > 2_000_000, "the stalled stream did not resume");
}

#[test]
fn many_readers_that_stop_do_not_use_up_the_memory_for_all() {
    let config = Config { receive_memory: 1 << 20, send_memory: 1 << 20, ..Config::default() };
    let mut net = Net::new(vec![Link::new(ms(10), 50)], [config; 2]);
    // The windows of these streams together are six times as large as the memory.
    let stalled: Vec<_> = (0..100).map(|_| net.stream(1)).collect();
    let read = net.stream(1);
    for _ in 0..1_000 {
        for id in &stalled {
            let _ = net.ends[0].write(*id, &[7; 10_000]);
        }
        net.run(ms(1));
    }
    let unread: u64 = stalled.iter().map(|id| net.ends[1].stream_stats(*id).unwrap().unread).sum();
    assert!(unread <= 1 << 20, "{unread}");
    let new = net.stream(1);
    for id in [read, new] {
        let bytes = net.bulk(&[id], Duration::from_secs(1))[0];
        assert!(bytes > 100_000, "{bytes}");
    }
}

/// A reader stops in the middle of a bulk transfer. The test measures how much memory the reader's stream
/// then holds beyond the bandwidth-delay product.
#[test]
fn a_stream_holds_little_more_than_the_bandwidth_delay_product() {
    let mut net = Net::plain(vec![Link::new(ms(50), 100)]);
    let id = net.stream(1);
    net.bulk(&[id], Duration::from_secs(8));
    let rate = net.bulk(&[id], Duration::from_secs(4))[0] / 4;
    assert!(rate > 11_500_000, "{rate} bytes/s {:?}", net.ends[1].stream_stats(id));
    for _ in 0..1_000 {
        let _ = net.ends[0].write(id, &[7; 64 << 10]);
        net.run(ms(1));
    }
    let product = 100_000_000 / 8 / 10;
    let here = net.ends[0].stream_stats(id).unwrap();
    let there = net.ends[1].stream_stats(id).unwrap();
    let held = here.unsent + here.in_flight + there.unread;
    assert!(held <= product + (256 << 10), "{held} bytes: {here:?} {there:?}");
}

#[test]
fn a_stream_waits_for_the_session_and_goes_on() {
    let config = Config { receive_memory: 1 << 20, ..Config::default() };
    let mut net = Net::new(vec![Link::new(ms(10), 100)], [config; 2]);
    let ids: Vec<_> = (0..20).map(|_| net.stream(1)).collect();
    for id in &ids {
        assert!(net.ends[0].write(*id, &[1; 120_000]).unwrap() >= 60_000);
    }
    net.run(Duration::from_secs(2));
    let unread = |net: &Net, id: &StreamId| net.ends[1].stream_stats(*id).unwrap().unread;
    let waiting: u64 = ids.iter().map(|id| unread(&net, id)).sum();
    assert!(waiting > 500_000 && waiting <= 1 << 20, "{waiting}");
    let read = net.bulk(&ids, Duration::from_secs(2));
    assert!(jain(&read) > 0.9, "{read:?}");
}

/// A peer may announce any window and acknowledge nothing. The path here could carry 600 kB per round trip.
#[test]
fn bytes_in_flight_are_limited_whatever_the_windows() {
    let most = 50_000;
    let config = Config { in_flight_memory: most, ..Config::default() };
    let mut net = Net::new(vec![Link::new(ms(50), 50)], [config; 2]);
    let ids = [net.stream(1), net.stream(1)];
    let in_flight =
        |net: &Net| -> u64 { ids.iter().map(|id| net.ends[0].stream_stats(*id).unwrap().in_flight).sum() };
    let (mut read, mut largest) = ([0; 2], 0);
    for _ in 0..400 {
        for (read, more) in read.iter_mut().zip(net.bulk(&ids, ms(5))) {
            *read += more;
        }
        largest = largest.max(in_flight(&net));
    }
    assert!((most / 2..=most).contains(&largest), "{largest}");
    assert!(read.iter().sum::<u64>() > 10 * most && jain(&read) > 0.9, "{read:?}");
    // A stream that uses up the limit and is reset makes room for the other.
    for _ in 0..4 {
        net.run(Duration::from_secs(2));
        ids.iter().for_each(|id| drop(net.read(1, *id)));
    }
    assert_eq!(in_flight(&net), 0);
    net.links[0].alive = false;
    net.ends[0].write(ids[0], &[7; 60_000]).unwrap();
    net.run(ms(100));
    net.ends[0].write(ids[1], &[8; 20_000]).unwrap();
    net.run(ms(100));
    assert_eq!(in_flight(&net), most);
    net.links[0].alive = true;
    net.ends[0].reset(ids[0], Reason::Cancelled).unwrap();
    net.run(Duration::from_secs(5));
    assert_eq!(net.read(1, ids[1]), [8; 20_000]);
}

#[test]
fn streams_of_a_peer_are_limited_and_limits_move_on() {
    let mut net = one_path();
    let first = net.ends[0].open(b"", 0).unwrap();
    for _ in 1..128 {
        net.ends[0].open(b"", 0).unwrap();
    }
    assert!(net.ends[0].open(b"", 0).is_err(), "opened more streams than the initial limit");
    net.run(Duration::from_secs(1));
    assert!(net.ends[0].open(b"", 0).is_ok(), "the raised limit did not arrive");
    assert_eq!(net.ends[1].header(first), Some(&b""[..]));
}

#[test]
fn half_open_streams_are_limited() {
    let config = Config { half_open: 5, ..Config::default() };
    let mut net = Net::new(vec![Link::new(ms(10), 20)], [config; 2]);
    let ids: Vec<_> = (0..8).map(|_| net.ends[0].open(b"x", 0).unwrap()).collect();
    net.run(Duration::from_secs(1));
    let refused: Vec<_> =
        net.events(0).into_iter().filter(|e| matches!(e, Event::Reset(_, Reason::Limit))).collect();
    assert_eq!(refused.len(), 3);
    assert_eq!(net.events(1).len(), 5);
    net.ends[1].accept(ids[0], b"").unwrap();
    net.ends[1].reset(ids[1], Reason::Refused).unwrap();
    net.ends[0].reset(ids[2], Reason::Cancelled).unwrap();
    net.run(Duration::from_secs(1));
    for _ in 0..3 {
        net.ends[0].open(b"x", 0).unwrap();
    }
    net.run(Duration::from_secs(1));
    assert_eq!(net.ends[1].stats().half_open_refused, 3, "three more streams must fit");
}

/// A hostile peer could otherwise make this end examine thousands of streams for each byte that it admits.
#[test]
fn a_window_of_a_few_bytes_wakes_no_streams() {
    let config = Config { receive_memory: 1 << 20, ..Config::default() };
    let mut net = Net::new(vec![Link::new(ms(10), 100)], [config; 2]);
    net.stream(1);
    // While the window is scarce, each stream may use 4 KiB of it.
    for _ in 0..300 {
        let id = net.ends[0].open(b"", 1).unwrap();
        net.ends[0].write(id, &[1; 10_000]).unwrap();
    }
    net.run(Duration::from_secs(2));
    let (now, end) = (net.now, &mut net.ends[0]);
    assert!(end.backlog() > 1 << 20 && !end.has_packet(now, 0));
    let session_window = |limit: u64| [&[0x20, 0x04][..], &(limit | 3 << 62).to_be_bytes()].concat();
    end.handle_packet(now, &session_window((1 << 20) + 100));
    assert!(!end.has_packet(now, 0));
    end.handle_packet(now, &session_window((1 << 20) + (16 << 10)));
    assert!(end.has_packet(now, 0));
}
