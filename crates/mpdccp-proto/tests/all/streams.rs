//! Reliable byte streams over the paths of a session, next to its datagrams.

use crate::common::End::{Client, Server};
use crate::common::*;
use dccp_streams::{Event, StreamId, Streams};
use dccp_wire::{MpOption, PacketType};
use mpdccp_proto::policy::{Otherwise, Policy, Rule};
use mpdccp_proto::*;
use mpdccp_units::{Duration, Rate};

fn with_streams() -> SessionConfig {
    SessionConfig { streams: true, scheduler: scheduler("srtt"), ..config() }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

impl Net {
    fn streams<T>(&mut self, end: End, id: SessionId, act: impl FnOnce(&mut Streams) -> T) -> T {
        let now = self.now;
        let done = self.end(end).streams(now, id, act).expect("both ends have streams");
        self.drain();
        done
    }

    /// Opens a stream from the client, which the server accepts.
    fn open_stream(&mut self, id: SessionId) -> StreamId {
        let stream = self.streams(Client, id, |s| s.open(b"to whom", 1)).unwrap();
        self.run(ms(50));
        assert!(self.events_of(Server).contains(&SessionEvent::Stream(Event::Opened(stream))));
        let sid = self.server_id();
        self.streams(Server, sid, |s| s.accept(stream, b"")).unwrap();
        self.run(ms(50));
        stream
    }

    /// Reads the data that arrived at an end. Returns true if the stream has ended and all its data was read.
    fn read_stream(&mut self, end: End, stream: StreamId, into: &mut Vec<u8>) -> bool {
        let id = if end == Client { self.client.sessions()[0] } else { self.server_id() };
        self.streams(end, id, |s| {
            let mut buffer = [0; 4_096];
            loop {
                match s.read(stream, &mut buffer) {
                    Ok(0) => return true,
                    Ok(n) => into.extend(&buffer[..n]),
                    Err(_) => return false,
                }
            }
        })
    }

    /// Sends `data` and the end of the stream from client to server, and calls `each` every millisecond.
    /// Returns the received data, and whether the end arrived.
    fn transfer(
        &mut self,
        id: SessionId,
        stream: StreamId,
        data: &[u8],
        most: u64,
        mut each: impl FnMut(&mut Net, u64),
    ) -> (Vec<u8>, bool) {
        let (mut written, mut got) = (0, Vec::new());
        for n in 0..most {
            each(self, n);
            written += self.streams(Client, id, |s| s.write(stream, &data[written..])).unwrap_or(0);
            if written == data.len() {
                let _ = self.streams(Client, id, |s| s.finish(stream));
            }
            if self.read_stream(Server, stream, &mut got) {
                return (got, true);
            }
            self.run(ms(1));
        }
        (got, false)
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// Returns whether the packet has an empty MP_EXP and no MP_SEQ.
fn is_stream_packet(l: &Logged) -> bool {
    let options = l.mp();
    !l.packet().payload.is_empty()
        && options.contains(&MpOption::Exp(&[]))
        && !options.iter().any(|o| matches!(o, MpOption::Seq(_)))
}

#[test]
fn every_byte_arrives_over_two_lossy_paths_of_which_one_dies() {
    let (mut net, id) = Net::connected(1, 2, with_streams());
    for wire in &mut net.wires {
        (wire.loss, wire.rate) = (10, Some(Rate::from_mbps(20.0)));
    }
    let (stream, data) = (net.open_stream(id), pattern(1_000_000));
    let before = net.log.len();
    let mut died = 0;
    let (got, whole) = net.transfer(id, stream, &data, 20_000, |net, n| {
        if n == 100 {
            net.wires[1].up = false;
            died = net.log.len();
        }
    });
    assert!(whole && got == data, "{} of {} bytes arrived", got.len(), data.len());
    let on = |path| net.log[before..died].iter().filter(|l| l.path == path && is_stream_packet(l)).count();
    assert!(on(0) > 20 && on(1) > 20, "stream packets per path: {} and {}", on(0), on(1));
    let stats = net.status(Client, id).streams.unwrap().stats;
    assert!(stats.bytes_repaired > 0, "{stats:?}");
    assert_eq!(counter(&net.status(Server, net.server_id()), "data_without_mp_seq"), 0);
}

/// On a path that takes a longer route, the streams do not retransmit packets before the answers can arrive.
#[test]
fn streams_wait_for_the_answers_of_a_longer_route() {
    let (mut net, id) = Net::connected(1, 1, with_streams());
    let (stream, server) = (net.open_stream(id), net.server_id());
    net.run(ms(1_000));
    net.wires[0].delay = ms(300);
    net.client.change_path(net.now, id, PathId(0));
    net.server.change_path(net.now, server, PathId(0));
    for n in 0..5 {
        net.streams(Client, id, |s| s.write(stream, &[n; 10])).unwrap();
        net.run(ms(2_000));
    }
    let mut got = Vec::new();
    net.read_stream(Server, stream, &mut got);
    let stats = net.status(Client, id).streams.unwrap().stats;
    assert_eq!((got.len(), stats.bytes_repaired), (50, 0), "{stats:?}");
}

#[test]
fn packets_are_cut_to_the_size_of_the_path_they_take() {
    let (mut net, id) = Net::connected(1, 2, with_streams());
    net.client.set_mtu(net.now, id, PathId(1), 1_300);
    let (stream, data) = (net.open_stream(id), pattern(500_000));
    let (got, whole) = net.transfer(id, stream, &data, 5_000, |_, _| {});
    assert!(whole && got == data);
    let largest = |path| {
        let sizes = net.log.iter().filter(|l| l.from == Client && l.path == path && is_stream_packet(l));
        sizes.map(|l| l.bytes.len() + 28).max().unwrap()
    };
    assert!((1_290..=1_300).contains(&largest(1)), "{}", largest(1));
    assert!((1_490..=1_500).contains(&largest(0)), "{}", largest(0));
}

#[test]
fn packets_are_small_while_the_size_of_a_path_is_in_doubt() {
    let mut cfg = with_streams();
    cfg.connection.probe_mtu = true;
    let (mut net, id) = Net::connected(1, 1, cfg);
    net.run(ms(5_000));
    net.wires[0].rate = Some(Rate::from_mbps(10.0));
    let stream = net.open_stream(id);
    net.make_size_doubtful();
    net.transfer(id, stream, &pattern(20_000_000), 2_000, |_, _| {});
    let sizes: Vec<_> = net.sent_in_doubt().iter().map(|l| l.bytes.len() + 28).collect();
    // A packet has at most 1200 bytes of stream data, and sometimes an acknowledgement.
    assert!(!sizes.is_empty() && sizes.iter().all(|size| *size < 1_250), "{sizes:?}");
}

#[test]
fn streams_and_datagrams_share_a_path() {
    let (mut net, id) = Net::connected(1, 1, with_streams());
    net.wires[0].rate = Some(Rate::from_mbps(10.0));
    let (stream, data) = (net.open_stream(id), pattern(20_000_000));
    let (got, _) = net.transfer(id, stream, &data, 3_000, |net, n| {
        (0..2).for_each(|k| net.client.send(net.now, id, datagram(2 * n as u32 + k), PktInfo::default()));
    });
    assert_eq!(got[..], data[..got.len()]);
    let datagrams = 1_000 * net.got[&Server].len();
    // In three seconds, the path carries 3.75 MB. Datagrams and the stream share it by bytes.
    let (least, most) = (datagrams.min(got.len()), datagrams.max(got.len()));
    assert!(
        most < 2 * least && least > 1_000_000,
        "{datagrams} bytes of datagrams, {} of the stream",
        got.len()
    );
}

#[test]
fn small_datagrams_get_their_share_of_the_bytes_next_to_a_stream() {
    let (mut net, id) = Net::connected(1, 1, with_streams());
    net.wires[0].rate = Some(Rate::from_mbps(10.0));
    let (stream, data) = (net.open_stream(id), pattern(20_000_000));
    // The datagrams need 3.2 Mbit/s without headers, less than half of the path.
    let (got, _) = net.transfer(id, stream, &data, 3_000, |net, _| {
        (0..2).for_each(|_| net.client.send(net.now, id, vec![7; 200], PktInfo::default()));
    });
    let arrived = net.got[&Server].len();
    assert!(arrived > 4_500 && got.len() > 1_000_000, "{arrived} datagrams of 6000, {} bytes", got.len());
}

#[test]
fn an_outage_keeps_streams_and_the_end_of_the_session_ends_them_without_a_fin() {
    let (mut net, id) = Net::connected(1, 2, with_streams());
    let (stream, data) = (net.open_stream(id), pattern(3_000_000));
    let (got, whole) = net.transfer(id, stream, &data, 60_000, |net, n| match n {
        50 => net.wires.iter_mut().for_each(|w| w.up = false),
        30_000 => net.wires.iter_mut().for_each(|w| w.up = true),
        _ => {}
    });
    assert!(whole && got == data, "{} of {} bytes arrived", got.len(), data.len());
    let next = net.open_stream(id);
    net.streams(Client, id, |s| s.write(next, b"no end")).unwrap();
    net.run(ms(100));
    let (now, before) = (net.now, net.events.len());
    net.client.abort(now, id);
    net.drain();
    let sid = net.server_id();
    assert_eq!(net.client.streams(now, id, |s| s.len()), None);
    net.run(ms(100));
    assert_eq!(net.server.streams(net.now, sid, |s| s.len()), None);
    let after: Vec<_> = net.events[before..].iter().map(|(.., event)| event).collect();
    assert!(after.iter().all(|event| !matches!(event, SessionEvent::Stream(_))), "{after:?}");
}

#[test]
fn nothing_is_sent_while_streams_are_idle() {
    let (mut net, id) = Net::connected(1, 2, with_streams());
    let stream = net.open_stream(id);
    net.streams(Client, id, |s| s.write(stream, b"hello")).unwrap();
    net.run(Duration::from_secs(1));
    let before = net.log.len();
    net.run(Duration::from_secs(3_600));
    assert!(!net.log[before..].iter().any(is_stream_packet));
    let mut got = Vec::new();
    assert!(!net.read_stream(Server, stream, &mut got));
    assert_eq!(got, b"hello");
}

#[test]
fn a_peer_without_streams_sees_none() {
    for (client, server) in [(with_streams(), config()), (config(), with_streams())] {
        let mut net = Net::new(1, 1, server);
        let id = net.connect(client);
        net.run(ms(500));
        let (now, sid) = (net.now, net.server_id());
        assert_eq!(net.client.streams(now, id, |s| s.len()), None);
        assert_eq!(net.server.streams(now, sid, |s| s.len()), None);
        net.stream(Client, id, 0, 50, ms(2));
        net.run(ms(100));
        assert_eq!(net.numbers(Server).len(), 50);
        assert!(!net.log.iter().any(|l| l.mp().contains(&MpOption::Exp(&[]))));
    }
}

#[test]
fn hostile_bytes_in_stream_packets_do_no_harm() {
    let (mut net, id) = Net::connected(1, 2, with_streams());
    let (stream, data) = (net.open_stream(id), pattern(300_000));
    let mut state = 7u32;
    net.meddler = Some(Box::new(move |_, _, bytes| {
        let packet = dccp_wire::Packet::parse(bytes).unwrap();
        let (len, ptype) = (packet.payload.len(), packet.header.ptype);
        if len > 0 && matches!(ptype, PacketType::Data | PacketType::DataAck) {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if state >> 30 == 0 {
                let at = bytes.len() - len + (state >> 8) as usize % len.min(24);
                bytes[at] ^= (state >> 3) as u8 | 1;
            }
        }
        true
    }));
    net.transfer(id, stream, &data, 3_000, |_, _| {});
    let stats = net.status(Server, net.server_id()).streams.unwrap().stats;
    assert!(stats.malformed + stats.violations > 2, "{stats:?}");
    // The session continues.
    net.meddler = None;
    net.stream(Client, id, 0, 50, ms(2));
    net.run(ms(200));
    assert_eq!(net.numbers(Server).iter().filter(|n| **n < 50).count(), 50);
}

#[test]
fn a_writer_hears_of_room_as_soon_as_there_is_some() {
    let (mut net, id) = Net::connected(1, 1, with_streams());
    let (stream, data) = (net.open_stream(id), pattern(2_000_000));
    // The window of a new path is too small for all the data of one write.
    let mut got = Vec::new();
    for _ in 0..500 {
        let _ = net.streams(Client, id, |s| s.write(stream, &data));
        net.run(ms(1));
        net.read_stream(Server, stream, &mut got);
    }
    net.run(ms(300));
    net.read_stream(Server, stream, &mut got);
    net.run(ms(100));
    let now = net.now;
    net.client.streams(now, id, |s| while s.write(stream, &data).is_ok() {}).unwrap();
    net.intercept(Client);
    assert!(net.client.poll_timeout().unwrap().0 <= now, "the endpoint must ask to be drained");
    assert_eq!(net.client.poll_event(), Some((id, SessionEvent::Stream(Event::Writable(stream)))));
}

#[test]
fn the_last_bytes_are_sent_again_if_nothing_follows_them() {
    let (mut net, id) = Net::connected(1, 1, with_streams());
    let stream = net.open_stream(id);
    net.wires[0].up = false;
    net.streams(Client, id, |s| s.write(stream, b"last")).unwrap();
    net.wires[0].up = true;
    net.run(Duration::from_secs(1));
    let mut got = Vec::new();
    net.read_stream(Server, stream, &mut got);
    assert_eq!(got, b"last");
}

#[test]
fn stream_data_of_a_path_that_goes_down_leaves_at_once_over_another() {
    let (mut net, id) = Net::connected(1, 2, SessionConfig { scheduler: scheduler("rr"), ..with_streams() });
    let stream = net.open_stream(id);
    net.wires[0].delay = ms(400);
    let mut got = Vec::new();
    for _ in 0..20 {
        net.streams(Client, id, |s| s.write(stream, &[1; 1_000])).unwrap();
        net.run(ms(1_000));
        net.read_stream(Server, stream, &mut got);
    }
    net.wires[0].up = false;
    net.streams(Client, id, |s| s.write(stream, &pattern(5_000))).unwrap();
    net.client.set_link(net.now, id, PathId(0), false);
    net.run(ms(100));
    net.read_stream(Server, stream, &mut got);
    assert_eq!(got.len(), 25_000);
}

#[test]
fn more_streams_than_a_peer_assumes_may_be_opened_at_once() {
    let (mut net, id) = Net::connected(1, 1, with_streams());
    assert!(net.streams(Client, id, |s| (0..1_000).all(|_| s.open(b"", 1).is_ok())));
    net.run(ms(500));
    let opened = |e: &&SessionEvent| matches!(e, SessionEvent::Stream(Event::Opened(_)));
    assert_eq!(net.events_of(Server).iter().filter(opened).count(), 1_000);
}

/// Creates a network with two paths, called `a` and `b`, and a rule that no packet matches on its own.
fn ruled(rule: Rule) -> (Net, SessionId) {
    let criteria = policy::Criteria { dscp: vec![63], ..policy::Criteria::default() };
    let cfg = SessionConfig { policy: Policy(vec![Rule { criteria, ..rule }]), ..with_streams() };
    Net::named(cfg, with_streams())
}

/// Returns how many full-size stream packets the client has sent on each path since log entry `from`.
fn full(net: &Net, from: usize) -> [usize; 2] {
    let sent = |path| {
        let full =
            |l: &&Logged| l.from == Client && l.path == path && is_stream_packet(l) && l.bytes.len() > 1_000;
        net.log[from..].iter().filter(full).count()
    };
    [sent(0), sent(1)]
}

#[test]
fn streams_of_a_class_take_the_paths_of_its_rule_and_hold_up_no_others() {
    for otherwise in [Otherwise::Wait, Otherwise::Drop] {
        kept_to_its_path(Rule { paths: vec![PathName::of("b")], otherwise, ..Rule::default() });
    }
}

fn kept_to_its_path(rule: Rule) {
    let (mut net, id) = ruled(rule);
    let (stream, other, data) = (net.open_stream(id), net.open_stream(id), pattern(300_000));
    net.streams(Client, id, |s| s.classify(stream, 1, 0)).unwrap();
    let (got, whole) = net.transfer(id, stream, &data, 5_000, |_, _| {});
    assert!(whole && got == data);
    let [a, b] = full(&net, 0);
    assert!(a == 0 && b > 200, "full packets per path: {a} and {b}");
    let met = net.status(Client, id).rules[0].1;
    assert!(met.bytes > 300_000 && met.packets > 200, "{met:?}");
    // Under the `wait` rule, a stream whose path is missing waits, while other streams continue. It resumes
    // once it is put under another rule.
    let waits = net.open_stream(id);
    net.streams(Client, id, |s| s.classify(waits, 1, 0)).unwrap();
    net.wires[1].up = false;
    net.client.set_link(net.now, id, PathId(1), false);
    net.run(ms(500));
    net.streams(Client, id, |s| s.write(waits, &data)).unwrap();
    let before = net.log.len();
    let (got, whole) = net.transfer(id, other, &data, 5_000, |_, _| {});
    assert!(whole && got == data);
    let mut late = Vec::new();
    net.read_stream(Server, waits, &mut late);
    assert_eq!((full(&net, before)[1], late.len()), (0, 0));
    assert_eq!(
        counter(&net.status(Client, id), "dropped_by_scheduler"),
        0,
        "packets of a stream must not be dropped"
    );
    net.client.set_policy(net.now, id, &Policy::default());
    net.run(ms(500));
    net.read_stream(Server, waits, &mut late);
    assert!(late.len() > 50_000, "{}", late.len());
}

#[test]
fn a_redundant_class_has_a_copy_on_each_path_and_waits_for_no_repair() {
    let (mut net, id) = ruled(Rule { scheduler: Some(scheduler("redundant")), ..Rule::default() });
    let (stream, data) = (net.open_stream(id), pattern(300_000));
    net.streams(Client, id, |s| s.classify(stream, 1, 0)).unwrap();
    net.wires[0].loss = 20;
    let (before, from) = (net.now, net.log.len());
    let (got, whole) = net.transfer(id, stream, &data, 5_000, |_, _| {});
    assert!(whole && got == data);
    let [a, b] = full(&net, from);
    // Losses keep the window of the first path small, so the second path is used too.
    assert!(a > 80 && b > 200, "full packets per path: {a} and {b}");
    assert!(net.status(Client, id).streams.unwrap().stats.bytes_copied > 80_000);
    assert!(net.now.since(before) < ms(1_000), "{:?}", net.now.since(before));
}

/// Returns the number of bytes of a stream that arrive in one second, after the limit's initial burst has
/// been used up.
fn second(net: &mut Net, id: SessionId, stream: StreamId) -> usize {
    let data = pattern(8_000_000);
    net.transfer(id, stream, &data, 500, |_, _| {});
    let (got, _) = net.transfer(id, stream, &data, 1_000, |_, _| {});
    got.len()
}

#[test]
fn bounds_on_paths_on_sessions_and_on_all_hold_for_streams() {
    // The limit is 100 kB per second, with a tolerance of a fifth in either direction.
    let kept = 80_000..120_000;
    let rate = Some(Rate::from_bps(800_000));
    let (mut net, id) = Net::connected(1, 2, with_streams());
    let stream = net.open_stream(id);
    net.client.cap(net.now, id, rate);
    let got = second(&mut net, id, stream);
    assert!(kept.contains(&got), "{got} bytes with a limit on the session");
    net.client.cap(net.now, id, None);
    net.client.cap_all(rate);
    let got = second(&mut net, id, stream);
    assert!(kept.contains(&got), "{got} bytes with a limit on all sessions");
    net.client.cap_all(None);
    let half = Some(Rate::from_bps(400_000));
    [0, 1].into_iter().for_each(|path| net.client.cap_path(net.now, id, PathId(path), half));
    let got = second(&mut net, id, stream);
    assert!(kept.contains(&got), "{got} bytes with a limit on each of two paths");
}

#[test]
fn bulk_uses_a_distant_path_and_short_exchanges_do_not() {
    let (mut net, id) =
        Net::connected(1, 2, SessionConfig { scheduler: scheduler("auto"), ..with_streams() });
    for (wire, delay) in net.wires.iter_mut().zip([10, 200]) {
        (wire.delay, wire.rate) = (ms(delay), Some(Rate::from_mbps(10.0)));
    }
    net.run(ms(2_000));
    let (bulk, short, data) = (net.open_stream(id), net.open_stream(id), pattern(40_000_000));
    net.transfer(id, bulk, &data, 8_000, |_, _| {});
    let (mut asked, mut slowest, mut answer) = (None, ms(0), Vec::new());
    let (more, _) = net.transfer(id, bulk, &data, 4_000, |net, n| {
        if n % 200 == 0 {
            assert_eq!(asked.replace(net.now), None, "the last exchange is not complete");
            net.streams(Client, id, |s| s.write(short, &[7; 1_000])).unwrap();
        }
        net.read_stream(Server, short, &mut answer);
        if answer.len() >= 1_000 {
            slowest = slowest.max(net.now.since(asked.take().unwrap()));
            answer.clear();
        }
    });
    // In four seconds, the near path alone carries at most 5 MB.
    assert!(more.len() > 6_000_000, "{}", more.len());
    assert!(slowest < ms(150), "{slowest:?}");
}

#[test]
fn a_distant_path_that_only_streams_use_does_not_delay_datagrams() {
    let only = |name| Rule {
        criteria: policy::Criteria { dscp: vec![63], ..policy::Criteria::default() },
        paths: vec![PathName::of(name)],
        otherwise: Otherwise::Wait,
        ..Rule::default()
    };
    let cfg = SessionConfig {
        policy: Policy(vec![only("a"), only("b")]),
        queue: QueueConfig::of_ip_packets(),
        reorder: reorder::ReorderConfig::adaptive(ms(250)),
        ..with_streams()
    };
    let mut net = Net::new(7, 2, cfg.clone());
    net.wires[1].delay = ms(300);
    let named = |k| PathConfig { name: PathName::of(["a", "b"][k]), ..path(k) };
    let id = net.client.connect(net.now, cfg, named(0));
    net.client.add_path(net.now, id, named(1));
    net.run(ms(3_000));
    // Datagrams take path `a`, and the stream takes path `b`.
    let (stream, data, info) =
        (net.open_stream(id), pattern(8_000_000), PktInfo { flow: 9, class: 1, ..PktInfo::default() });
    net.streams(Client, id, |s| s.classify(stream, 2, 0)).unwrap();
    let before = net.log.len();
    net.transfer(id, stream, &data, 3_000, |net, n| {
        if n % 10 == 0 {
            net.client.send(net.now, id, datagram(n as u32), info);
        }
    });
    let [a, b] = full(&net, before);
    assert!(a == 0 && b > 20, "full stream packets per path: {a} and {b}");
    let told = net.log[before..].iter().filter(|l| l.from == Client).filter_map(Logged::repair_time).max();
    assert!(told.is_some_and(|ms| ms < 300), "a hole lasts {told:?} ms");
    // The flow does not react to congestion signals, so its packets wait as long as they are allowed to.
    net.wires[0].rate = Some(Rate::from_mbps(10.0));
    let mut oldest = Duration::ZERO;
    net.transfer(id, stream, &data, 3_000, |net, n| {
        (0..2).for_each(|k| net.client.send(net.now, id, datagram(2 * n as u32 + k), info));
        oldest = oldest.max(net.status(Client, id).queue.oldest);
    });
    assert!((ms(90)..=ms(110)).contains(&oldest), "{oldest:?}");
}

/// Nobody reads one of the streams, so its data waits as long as the connection lasts. The first path carries
/// the other stream easily, but its rate limit spaces the packets of each burst.
#[test]
fn data_that_the_peer_does_not_admit_is_no_reason_to_take_a_secondary_path() {
    let mut net = Net::new(1, 2, with_streams());
    net.wires[1].delay = ms(40);
    let id = net.client.connect(net.now, with_streams(), path(0));
    net.client.add_path(net.now, id, PathConfig { prio: 2, ..path(1) });
    net.run(ms(1_000));
    net.client.cap_path(net.now, id, PathId(0), Some(Rate::from_mbps(10.0)));
    let (unread, busy, data) = (net.open_stream(id), net.open_stream(id), pattern(64 << 10));
    for _ in 0..50 {
        let _ = net.streams(Client, id, |s| s.write(unread, &data));
        net.run(ms(10));
    }
    let exchange = |net: &mut Net| {
        let (from, mut got) = (net.log.len(), Vec::new());
        for n in 0..2_000 {
            if n % 10 == 0 {
                let _ = net.streams(Client, id, |s| s.write(busy, &data[..5_000]));
            }
            net.run(ms(1));
            net.read_stream(Server, busy, &mut got);
        }
        full(net, from)
    };
    // At first, the second path may help, because the window of the first path is small.
    exchange(&mut net);
    let [a, b] = exchange(&mut net);
    assert!(a > 500 && b < a / 10, "full packets per path: {a} and {b}");
}
