//! Tests that lost data is retransmitted, and that no other data is.

use crate::common::{Link, Net, ms};
use dccp_streams::{Event, Reason};
use mpdccp_units::Duration;

#[test]
fn paths_of_unequal_delay_look_lossless() {
    let mut net = Net::plain(vec![Link::new(ms(5), 20), Link::new(ms(300), 20)]);
    let id = net.stream(0);
    let read = net.bulk(&[id], Duration::from_secs(8))[0];
    assert!(read > 8 * 20_000_000 / 8, "{read} bytes read: only one path was used");
    assert_eq!(net.ends[0].stats().bytes_repaired, 0);
}

#[test]
fn little_more_is_repaired_than_was_lost() {
    let mut net = Net::plain(vec![Link { loss: 20, ..Link::new(ms(25), 50) }]);
    let id = net.stream(0);
    let read = net.bulk(&[id], Duration::from_secs(10))[0];
    assert!(read > 50_000_000 / 8 * 10 * 9 / 10, "{read}");
    let stats = net.ends[0].stats();
    let repaired = stats.bytes_repaired as f64 / stats.bytes_sent as f64;
    assert!(repaired < 0.025, "{repaired} of 0.02");
}

#[test]
fn a_path_that_reorders_is_given_time() {
    let mut net = Net::plain(vec![Link { jitter: ms(10), ..Link::new(ms(20), 50) }]);
    let id = net.stream(0);
    net.bulk(&[id], Duration::from_secs(5));
    let stats = net.ends[0].stats();
    assert!(stats.losses_taken_back > 0 && stats.bytes_repaired * 100 < stats.bytes_sent, "{stats:?}");
}

/// The path is like a satellite link that spreads packets over 50 ms, so hundreds of packets are out of order
/// at any time.
#[test]
fn a_fast_path_that_reorders_far_is_used_and_little_is_sent_twice() {
    let mut net = Net::plain(vec![Link { jitter: ms(50), loss: 10, ..Link::new(ms(25), 100) }]);
    let id = net.stream(0);
    net.bulk(&[id], Duration::from_secs(5));
    let before = net.ends[0].stats();
    let read = net.bulk(&[id], Duration::from_secs(5))[0];
    let after = net.ends[0].stats();
    let repaired = (after.bytes_repaired - before.bytes_repaired) as f64;
    let repaired = repaired / (after.bytes_sent - before.bytes_sent) as f64;
    assert!(repaired < 0.015 && read > 5 * 90_000_000 / 8, "{repaired} of 0.01, {read}");
}

/// Returns the longest time between two reads of a bulk stream while `happens` disturbs its first path.
fn longest_gap(happens: impl Fn(&mut Net)) -> Duration {
    let mut net = Net::plain(vec![Link::new(ms(20), 20), Link::new(ms(20), 20)]);
    let id = net.stream(0);
    net.bulk(&[id], Duration::from_secs(2));
    happens(&mut net);
    let (mut last, mut longest) = (net.now, Duration::ZERO);
    for _ in 0..2_000 {
        if net.bulk(&[id], ms(1))[0] > 0 {
            longest = longest.max(net.now - last);
            last = net.now;
        }
    }
    assert!(net.now - last < ms(50), "the transfer stopped");
    longest
}

#[test]
fn a_dead_path_costs_a_round_trip_if_told() {
    let gap = longest_gap(|net| {
        net.links[0].alive = false;
        net.links[0].offered = false;
        net.ends.iter_mut().for_each(|end| end.on_path_down(0));
    });
    assert!(gap <= ms(60), "{gap:?}");
}

/// The owner reports a path as down because it has stalled, but the packets in flight arrive.
#[test]
fn data_that_arrives_over_a_path_that_is_down_is_not_sent_again() {
    let mut net = Net::plain(vec![Link::new(ms(50), 50), Link::new(ms(20), 2)]);
    let id = net.stream(0);
    net.bulk(&[id], Duration::from_secs(2));
    let before = net.ends[0].stats();
    net.links[0].offered = false;
    net.ends[0].on_path_down(0);
    net.bulk(&[id], Duration::from_secs(3));
    let after = net.ends[0].stats();
    let lost = after.packets_lost - before.packets_lost;
    let repaired = after.bytes_repaired - before.bytes_repaired;
    // The other path carries 750 kB in three seconds.
    assert!(lost > 200 && repaired < 100_000, "{lost} packets lost, {repaired} bytes repaired");
}

/// A path becomes slow while many packets are in flight on it: they arrive 30 ms apart, the last one after
/// five seconds.
#[test]
fn data_that_is_stuck_on_a_path_that_became_slow_leaves_over_another() {
    let mut net = Net::plain(vec![Link::new(ms(20), 50), Link::new(ms(20), 50)]);
    let id = net.stream(0);
    net.bulk(&[id], Duration::from_secs(2));
    for _ in 0..3 {
        net.run(Duration::from_secs(1));
        net.read(1, id);
    }
    net.links[0].offered = false;
    net.links[1].serial = Duration::ZERO;
    for _ in 0..4 {
        assert_eq!(net.ends[0].write(id, &[5; 60_000]), Ok(60_000));
        while net.ends[0].has_packet(net.now, 0) {
            net.send();
            net.links[1].delay += ms(30);
        }
    }
    assert!(net.links[1].delay > ms(5_000));
    (net.links[0].offered, net.links[1].offered) = (true, false);
    net.run(ms(1_500));
    assert_eq!(net.read(1, id).len(), 240_000);
}

#[test]
fn a_path_that_dies_in_silence_is_noticed() {
    // The owner does not report the path as down, but merely stops offering it, as if congestion control
    // blocked the path.
    let gap = longest_gap(|net| {
        net.links[0].alive = false;
        net.links[0].offered = false;
    });
    assert!(gap <= ms(250), "{gap:?}");
}

#[test]
fn the_last_packet_is_repaired_though_nothing_follows() {
    let mut net = Net::plain(vec![Link::new(ms(20), 20), Link::new(ms(20), 20)]);
    let id = net.stream(0);
    net.links[0].alive = false;
    net.ends[0].write(id, b"tail").unwrap();
    net.ends[0].finish(id).unwrap();
    net.send();
    net.links[0].offered = false;
    net.run(Duration::from_secs(2));
    assert_eq!(net.read(1, id), b"tail");
    assert_eq!(net.ends[0].stats().probe_timeouts, 1);
    assert!(net.events(0).contains(&Event::Delivered(id)));
}

#[test]
fn a_later_reset_follows_what_was_written_before() {
    let mut net = Net::plain(vec![Link::new(ms(20), 20)]);
    let id = net.stream(0);
    net.links[0].alive = false;
    net.ends[0].write(id, b"answer").unwrap();
    net.ends[0].reset_later(id, Reason::Reset).unwrap();
    net.send();
    net.links[0].alive = true;
    let (mut got, mut reset) = (Vec::new(), None);
    for _ in 0..1_000 {
        net.run(ms(1));
        for event in net.events(1) {
            match event {
                Event::Readable(_) => got.extend(net.read(1, id)),
                Event::Reset(_, why) => reset = Some(why),
                _ => {}
            }
        }
    }
    assert_eq!((&got[..], reset), (&b"answer"[..], Some(Reason::Reset)));
    // Nothing waits any more, so the next reset is sent at once.
    let id = net.stream(0);
    net.ends[0].reset_later(id, Reason::Reset).unwrap();
    net.run(ms(30));
    assert!(net.events(1).contains(&Event::Reset(id, Reason::Reset)));
}

/// As with TCP in Linux, a reset does not discard data that has arrived before.
#[test]
fn a_late_reader_gets_what_arrived_before_a_reset() {
    let mut net = Net::plain(vec![Link::new(ms(20), 20)]);
    let id = net.stream(0);
    net.ends[0].write(id, b"answer").unwrap();
    net.ends[0].reset_later(id, Reason::Reset).unwrap();
    net.run(ms(500));
    let (reset, stopped) = (Event::Reset(id, Reason::Reset), Event::Stopped(id, Reason::Reset));
    assert_eq!(net.events(1), [Event::Readable(id), reset, stopped]);
    assert_eq!(net.ends[1].read(id, &mut [0; 9]), Ok(6));
    assert!(net.ends.iter().all(|end| end.is_empty()));
}

/// An end owes an acknowledgement that no path can carry, and the packet that it sent before is lost.
#[test]
fn an_acknowledgement_that_waits_for_a_path_hides_no_timer() {
    let mut net = Net::plain(vec![Link::new(ms(20), 20)]);
    let id = net.stream(0);
    net.links[0].alive = false;
    net.ends[1].write(id, b"lost").unwrap();
    net.send();
    net.links[0].alive = true;
    net.ends[0].write(id, b"arrives").unwrap();
    net.send();
    net.links[0].offered = false;
    net.run(ms(50));
    assert!(net.ends[1].owes_ack() && net.ends[1].poll_timeout().unwrap() < net.now);
    let probe = net.ends[1].poll_timeout_after(net.now).unwrap();
    net.ends[1].handle_timeout(probe);
    assert_eq!(net.ends[1].stats().probe_timeouts, 1);
}

/// A stream reaches the receiver's limit of gaps, and the next packet has a frame of that stream and one of
/// another stream. The peer must send the refused frame again, although the other one was accepted.
#[test]
fn a_packet_with_a_refused_frame_is_not_acknowledged() {
    let mut net = Net::plain(vec![Link::new(ms(20), 1_000)]);
    let (gaps, other) = (net.stream(0), net.stream(1));
    let written = 130;
    for n in 0..written {
        net.links[0].alive = n % 2 == 1;
        net.ends[0].write(gaps, b"x").unwrap();
        if n == written - 1 {
            net.ends[0].write(other, b"y").unwrap();
        }
        net.run(Duration::from_micros(15));
    }
    net.run(Duration::from_secs(2));
    assert!(net.ends[1].stats().too_many_gaps > 0);
    assert_eq!((net.read(1, gaps).len(), net.read(1, other).len()), (written, 1));
}

#[test]
fn acknowledgements_are_few() {
    let mut net = Net::plain(vec![Link::new(ms(20), 50), Link::new(ms(40), 50)]);
    let id = net.stream(0);
    let before = net.packets;
    net.bulk(&[id], Duration::from_secs(4));
    let [data, back] = [net.packets[0] - before[0], net.packets[1] - before[1]];
    // In each of four seconds, path 0 has 25 round trips and path 1 has 13. Expect four acknowledgements per
    // round trip, and sixteen frames with new windows per round trip of path 1. The factor of two is a safety
    // margin.
    assert!(
        data > 30_000 && back < 4 * (4 * 25 + 4 * 13 + 16 * 13) * 2,
        "{back} acknowledgements for {data} packets"
    );
}

#[test]
fn idle_streams_are_silent() {
    let mut net = Net::plain(vec![Link::new(ms(20), 50)]);
    let ids: Vec<_> = (0..50).map(|_| net.stream(0)).collect();
    net.bulk(&ids, ms(300));
    net.run(Duration::from_secs(5));
    ids.iter().for_each(|id| drop(net.read(1, *id)));
    net.run(Duration::from_secs(5));
    let before = net.packets;
    net.run(Duration::from_secs(36_000));
    assert_eq!(net.packets, before);
}

#[test]
fn halves_close_by_themselves_and_a_finished_half_is_no_reset() {
    let mut net = Net::plain(vec![Link::new(ms(20), 50)]);
    let id = net.stream(0);
    net.ends[0].finish(id).unwrap();
    net.run(ms(100));
    assert_eq!(net.ends[1].read(id, &mut [0; 9]), Ok(0));
    net.run(Duration::from_secs(3_600));
    assert_eq!(net.ends[1].write(id, b"still here"), Ok(10));
    net.run(ms(100));
    assert_eq!(net.read(0, id), b"still here");
    net.ends[1].finish(id).unwrap();
    net.run(ms(100));
    assert_eq!(net.ends[0].read(id, &mut [0; 9]), Ok(0));
    assert!(!net.events(0).iter().chain(&net.events(1)).any(|e| matches!(e, Event::Reset(..))));
    assert!(net.ends.iter().all(|end| end.is_empty()));
}

#[test]
fn a_session_that_ends_is_no_end_of_its_streams() {
    let mut net = Net::plain(vec![Link::new(ms(20), 50)]);
    let id = net.stream(0);
    net.ends[0].write(id, b"half of").unwrap();
    net.run(ms(100));
    net.ends[0] = dccp_streams::Streams::new(dccp_streams::Role::Client, Default::default());
    net.run(Duration::from_secs(60));
    assert_eq!(net.read(1, id), b"half of");
    assert!(net.ends[1].read(id, &mut [0; 9]).is_err(), "the stream must be neither readable nor at its end");
}

#[test]
fn reasons_reach_the_other_end() {
    let mut net = Net::plain(vec![Link::new(ms(20), 50)]);
    let id = net.ends[0].open(b"10.0.0.1:80", 0).unwrap();
    net.ends[0].write(id, b"GET /").unwrap();
    net.run(ms(100));
    net.ends[1].reset(id, Reason::Icmp4(3, 13)).unwrap();
    net.run(ms(100));
    assert_eq!(
        net.events(0),
        [Event::Reset(id, Reason::Icmp4(3, 13)), Event::Stopped(id, Reason::Icmp4(3, 13))]
    );
    net.run(ms(500));
    assert!(net.ends.iter().all(|end| end.is_empty()));
}
