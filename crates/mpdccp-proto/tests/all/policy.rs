//! Policy rules: each packet takes the paths allowed for it, and no packet delays packets of another rule.

use crate::common::End::{Client, Server};
use crate::common::*;
use dccp_wire::Packet;
use mpdccp_proto::policy::{Criteria, Otherwise, Policy, Rule};
use mpdccp_proto::reorder::ReorderConfig;
use mpdccp_proto::*;
use mpdccp_units::{Duration, Rate};

const EF: u8 = 46;

fn for_calls(rule: Rule) -> Policy {
    let criteria = Criteria { dscp: vec![EF], ..Criteria::default() };
    Policy(vec![Rule { name: "calls".into(), criteria, ..rule }])
}

fn only(path: &str) -> Rule {
    Rule { paths: vec![PathName::of(path)], otherwise: Otherwise::Wait, ..Rule::default() }
}

fn net(cfg: &SessionConfig) -> (Net, SessionId) {
    Net::named(cfg.clone(), cfg.clone())
}

fn send(net: &mut Net, from: crate::common::End, id: SessionId, n: u32, dscp: u8) {
    let now = net.now;
    net.end(from).send(
        now,
        id,
        datagram(n),
        PktInfo { dscp, flow: u32::from(dscp) + 1, ..PktInfo::default() },
    );
    net.drain();
}

/// Returns the paths on which datagrams of 1000 bytes were sent.
fn paths_of(net: &Net, from: crate::common::End, wanted: impl Fn(u32) -> bool) -> Vec<usize> {
    let number = |l: &Logged| {
        let payload = l.packet().payload;
        (payload.len() == 1000).then(|| u32::from_be_bytes(payload[..4].try_into().unwrap()))
    };
    let sent = net.log.iter().filter(|l| l.from == from);
    let mut paths: Vec<usize> = sent.filter(|l| number(l).is_some_and(&wanted)).map(|l| l.path).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

#[test]
fn a_rule_keeps_its_packets_to_its_path_at_both_ends() {
    let cfg = SessionConfig { policy: for_calls(only("b")), ..config() };
    let (mut net, id) = net(&cfg);
    let server = net.server_id();
    for n in 0..40 {
        let dscp = if n % 2 == 0 { EF } else { 0 };
        send(&mut net, Client, id, n, dscp);
        send(&mut net, Server, server, n, dscp);
        net.run(Duration::from_millis(5));
    }
    for from in [Client, Server] {
        // The server learns the paths' names from the client.
        assert_eq!(paths_of(&net, from, |n| n % 2 == 0), [1], "{from:?}");
        assert_eq!(paths_of(&net, from, |n| n % 2 == 1), [0, 1], "{from:?}");
    }
    let rules = net.status(Client, id).rules;
    assert_eq!((rules[0].0.as_str(), rules[0].1.packets, rules[0].1.bytes), ("calls", 20, 20_000));
}

#[test]
fn packets_that_wait_for_one_path_do_not_delay_packets_for_another() {
    let cfg = SessionConfig { policy: for_calls(only("b")), ..config() };
    let (mut net, id) = net(&cfg);
    net.client.cap_path(net.now, id, PathId(1), Some(Rate::from_bps(80_000)));
    for n in 0..20 {
        send(&mut net, Client, id, n, EF);
    }
    for n in 20..40 {
        send(&mut net, Client, id, n, 0);
    }
    // The window of a new path is small, so the twenty datagrams take a few round trips.
    net.run(Duration::from_millis(150));
    let got = net.numbers(Server);
    assert_eq!(got.iter().filter(|n| **n >= 20).count(), 20, "{got:?}");
    assert!(got.len() < 25, "the slow path carries ten datagrams per second: {got:?}");
}

#[test]
fn a_limit_of_the_rtt_excludes_a_path_whose_route_has_become_longer() {
    let rule = Rule { max_rtt: Some(Duration::from_millis(50)), ..Rule::default() };
    let (mut net, id) = net(&SessionConfig { policy: for_calls(rule), ..config() });
    net.wires[0].delay = Duration::from_millis(60);
    for n in 0..1_600 {
        send(&mut net, Client, id, n, 0);
        net.run(Duration::from_millis(100));
    }
    assert_eq!(paths_of(&net, Client, |n| n > 1_000), [0, 1]);
    // The rule judges idle paths by their minimum RTT.
    net.run(Duration::from_secs(1));
    for n in 2_000..2_010 {
        send(&mut net, Client, id, n, EF);
        net.run(Duration::from_millis(5));
    }
    assert_eq!(paths_of(&net, Client, |n| n >= 2_000), [1]);
}

#[test]
fn rules_change_under_what_waits() {
    let (mut net, id) = net(&config());
    net.wires[0].up = false;
    net.wires[1].up = false;
    for n in 0..30 {
        send(&mut net, Client, id, n, EF);
    }
    let waiting = net.status(Client, id).queue.packets;
    assert!(waiting > 0);
    net.client.set_policy(net.now, id, &for_calls(Rule { drop: true, ..Rule::default() }));
    let status = net.status(Client, id);
    assert_eq!((status.queue.packets, status.rules[0].1.dropped), (0, u64::from(waiting)));
    assert_eq!(status.queue_stats.accepted, 30);
    send(&mut net, Client, id, 30, EF);
    assert_eq!(net.status(Client, id).rules[0].1.dropped, u64::from(waiting) + 1);
    net.client.set_policy(net.now, id, &Policy::default());
    send(&mut net, Client, id, 31, EF);
    assert_eq!(net.status(Client, id).queue.packets, 1);
    assert!(net.status(Client, id).rules.is_empty());
}

/// Without rules, all packets wait in one queue.
#[test]
fn packets_that_do_not_fit_after_a_change_of_rules_count_as_dropped() {
    let queue = QueueConfig { max_packets: 10, ..QueueConfig::default() };
    let (mut net, id) = net(&SessionConfig { policy: for_calls(Rule::default()), queue, ..config() });
    for n in 0..60 {
        send(&mut net, Client, id, n, if n % 2 == 0 { EF } else { 0 });
    }
    let before = net.status(Client, id);
    net.client.set_policy(net.now, id, &Policy::default());
    let after = net.status(Client, id);
    assert_eq!((before.queue.packets, after.queue.packets), (20, 10));
    assert_eq!(after.queue_stats.dropped_full, before.queue_stats.dropped_full + 10);
    assert_eq!(after.queue_stats.accepted, 60);
}

#[test]
fn a_rule_has_a_scheduler_of_its_own() {
    let redundant = Rule { scheduler: Some(scheduler("redundant")), ..Rule::default() };
    let (mut net, id) = net(&SessionConfig { policy: for_calls(redundant), ..config() });
    for n in 0..10 {
        send(&mut net, Client, id, n, if n < 5 { EF } else { 0 });
        net.run(Duration::from_millis(20));
    }
    let copies = |wanted: &dyn Fn(u32) -> bool| {
        let number = |l: &Logged| u32::from_be_bytes(l.packet().payload[..4].try_into().unwrap());
        net.log.iter().filter(|l| l.packet().payload.len() == 1000 && wanted(number(l))).count()
    };
    assert_eq!((copies(&|n| n < 5), copies(&|n| n >= 5)), (10, 5));
}

#[test]
fn without_a_path_of_its_rule_a_packet_is_dropped_if_that_is_wanted() {
    let rule = Rule { otherwise: Otherwise::Drop, ..only("c") };
    let (mut net, id) = net(&SessionConfig { policy: for_calls(rule), ..config() });
    send(&mut net, Client, id, 0, EF);
    send(&mut net, Client, id, 1, 0);
    net.run(Duration::from_millis(100));
    assert_eq!(net.numbers(Server), [1]);
    let status = net.status(Client, id);
    assert_eq!((status.rules[0].1.dropped, counter(&status, "dropped_by_scheduler")), (1, 1));
}

/// A large packet waits for the only path with a sufficient MTU, while smaller packets of other flows pass
/// it.
#[test]
fn a_large_packet_does_not_hold_up_smaller_ones() {
    let (mut net, id) = net(&config());
    net.client.set_mtu(net.now, id, PathId(1), 700);
    net.client.cap_path(net.now, id, PathId(0), Some(Rate::from_bps(200_000)));
    let mut put = |n: u32, len: usize, flow: u32| {
        let mut data = datagram(n);
        data.resize(len, 0);
        net.client.send(net.now, id, data, PktInfo { flow, ..PktInfo::default() });
    };
    for n in 0..10 {
        put(n, 1000, 1);
    }
    put(10, 500, 1);
    for n in 11..21 {
        put(n, 500, 2);
    }
    net.run(Duration::from_millis(60));
    let got = net.numbers(Server);
    assert!((11..21).all(|n| got.contains(&n)), "{got:?}");
    assert!(!got.contains(&10), "a packet must not pass those of its own flow: {got:?}");
    net.run(Duration::from_secs(2));
    let got = net.numbers(Server);
    let own: Vec<u32> = got.into_iter().filter(|n| *n <= 10).collect();
    assert!(own.is_sorted() && own.len() >= 2, "{own:?}");
    let status = net.status(Client, id);
    assert_eq!(status.queue.packets, 0);
    assert_eq!(
        own.len() as u64 + status.queue_stats.dropped_old,
        11,
        "each packet must be sent or dropped once"
    );
}

/// One of four packets is lost. It is restored from the others and their FEC packet within a round trip, and
/// delivered only once.
#[test]
fn a_lost_packet_is_made_from_the_others_and_their_fec_packet() {
    for reorder in [ReorderConfig::passive(), ReorderConfig::adaptive(Duration::from_millis(250))] {
        let rule = Rule { fec: Some(4), scheduler: Some(scheduler("handover")), ..Rule::default() };
        let cfg = SessionConfig { policy: for_calls(rule), reorder, repair: false, ..config() };
        let (mut net, id) = net(&cfg);
        for n in 0..40 {
            send(&mut net, Client, id, n, EF);
            net.run(Duration::from_millis(20));
        }
        let before = net.status(Client, id).fec;
        assert_eq!((before.sent, before.dropped), (10, 0), "there must be one FEC packet for four packets");
        // Packet 41 is the second of the next four, and is lost. The FEC packet takes another path.
        let path = paths_of(&net, Client, |n| n >= 30)[0];
        net.meddler = Some(Box::new(move |from, on, bytes| {
            let payload = bytes.len().checked_sub(1000).map_or(&[][..], |at| &bytes[at..]);
            let lost = payload.starts_with(&41u32.to_be_bytes());
            !(from == Client && on == path && lost)
        }));
        for n in 40..44 {
            // The restored packet waits no longer than the one-way delay of the last packet.
            net.run(Duration::from_millis(12));
            send(&mut net, Client, id, n, EF);
        }
        net.run(Duration::from_millis(12));
        let mut got: Vec<u32> = net.numbers(Server).into_iter().filter(|n| *n >= 40).collect();
        got.sort_unstable();
        assert_eq!(got, (40..44).collect::<Vec<_>>());
        let server = net.server_id();
        let stats = net.status(Server, server).fec;
        assert_eq!((stats.restored, stats.received), (1, 11));
        assert!(net.log.iter().any(|l| l.path != path && l.packet().payload.len() == 1000 + 7 + 8));
        let whole = net.got[&Server].iter().all(|data| data.len() == 1000);
        assert!(whole, "a restored packet has the wrong length");
    }
}

/// A byte of an FEC packet's options, header or payload changes in transit. Neither the FEC packet nor a
/// wrongly restored packet is delivered.
#[test]
fn a_fec_packet_that_changes_on_the_way_is_no_data() {
    let rule = Rule { fec: Some(2), scheduler: Some(scheduler("handover")), ..Rule::default() };
    let cfg = SessionConfig {
        policy: for_calls(rule),
        reorder: ReorderConfig::passive(),
        repair: false,
        ..config()
    };
    for at in 0..32 {
        let (mut net, id) = net(&cfg);
        net.meddler = Some(Box::new(move |from, _, bytes| {
            let payload = Packet::parse(bytes).map_or(0, |p| p.payload.len());
            let start = bytes.len().saturating_sub(1000);
            let second = payload == 1000 && bytes[start..].starts_with(&1u32.to_be_bytes());
            if from == Client && payload > 1000 {
                let first = bytes.len() - payload - 20;
                bytes[first + at] ^= 1;
            }
            !(from == Client && second)
        }));
        for n in 0..4 {
            send(&mut net, Client, id, n, EF);
            net.run(Duration::from_millis(5));
        }
        net.run(Duration::from_millis(100));
        let mut got = net.numbers(Server);
        got.sort_unstable();
        assert!(got == [0, 2, 3] || got == [0, 1, 2, 3], "byte {at}: {got:?}");
        assert!(net.got[&Server].iter().all(|data| data.len() == 1000), "byte {at}");
    }
}

/// FEC packets count towards the rate limit that all sessions share, as they do towards that of one session.
#[test]
fn fec_packets_count_towards_the_limit_of_all_sessions() {
    let rule = Rule { fec: Some(1), ..Rule::default() };
    let (mut net, id) = net(&SessionConfig { policy: for_calls(rule), ..config() });
    net.client.cap_all(Some(Rate::from_bps(1_600_000)));
    let sent = |net: &Net| -> u64 {
        let paths = net.status(Client, id).paths;
        paths.iter().map(|path| path.tx.as_ref().unwrap().sent.bytes).sum()
    };
    let mut before = 0;
    for n in 0..3_000 {
        if n == 1_000 {
            before = sent(&net);
        }
        send(&mut net, Client, id, n, EF);
        net.run(Duration::from_millis(1));
    }
    // In two seconds, the limit allows 400,000 bytes of datagrams and FEC packets. Each of these has about
    // 1,000 bytes and is sent as an IP packet of less than 1,080 bytes.
    let bytes = sent(&net) - before;
    assert!((350_000..=450_000).contains(&bytes), "{bytes}");
    assert!(net.status(Client, id).fec.sent > 100);
}

/// Large packets avoid a path that seems to lose them, even right after that path carried an FEC packet.
#[test]
fn an_fec_packet_leads_no_large_packets_to_a_path_of_doubtful_size() {
    let rule = Rule { fec: Some(1), ..Rule::default() };
    let mut cfg = SessionConfig { policy: for_calls(rule), ..config() };
    cfg.connection.probe_mtu = true;
    let (mut net, id) = net(&cfg);
    net.run(Duration::from_secs(5));
    net.make_size_doubtful();
    for n in 0..800 {
        // There are as many large packets as small ones, which the FEC packets protect.
        let (len, dscp) = if n % 2 == 0 { (1_400, 0) } else { (500, EF) };
        let (now, mut data) = (net.now, datagram(n));
        data.resize(len, 0);
        net.client.send(now, id, data, PktInfo { dscp, ..PktInfo::default() });
        if n % 4 == 3 {
            net.run(Duration::from_millis(10));
        }
    }
    let sent = net.sent_in_doubt();
    assert!(sent.iter().all(|l| l.bytes.len() < 1_300), "a large packet took the path");
    assert!(sent.iter().any(|l| l.packet().payload.len() > 500), "no FEC packet took the path");
}

#[test]
fn without_a_peer_that_makes_use_of_them_there_are_no_parities() {
    let rule = Rule { fec: Some(1), ..Rule::default() };
    let cfg = SessionConfig { policy: for_calls(rule), ..config() };
    let mut net = Net::new(7, 1, cfg.clone());
    // The meddler removes the private options, as if the peer did not support them.
    net.meddler = Some(Box::new(|_, _, bytes| {
        while let Some(at) = bytes.windows(4).position(|w| w == b"mpd1") {
            bytes[at] = b'x';
        }
        true
    }));
    let id = net.connect(cfg);
    net.run(Duration::from_millis(500));
    for n in 0..10 {
        send(&mut net, Client, id, n, EF);
        net.run(Duration::from_millis(20));
    }
    assert_eq!(net.numbers(Server), (0..10).collect::<Vec<_>>());
    assert_eq!(net.status(Client, id).fec, FecStats::default());
}

/// On a path that reorders, only packets that overtake others give RTT samples. The second path has the
/// smaller minimum RTT, but most of its packets take longer.
#[test]
fn a_path_whose_packets_overtake_each_other_is_not_taken_for_near() {
    let (mut net, id) = Net::connected(1, 2, config());
    (net.wires[0].delay, net.wires[1].delay) = (Duration::from_millis(25), Duration::from_millis(10));
    net.wires[1].jitter = Duration::from_millis(80);
    net.stream(Client, id, 0, 3000, Duration::from_millis(1));
    let rows = net.client.rows(net.now, id);
    assert!(rows[1].srtt < rows[0].srtt, "{rows:?}");
    let mean = (rows[1].one_way().as_millis(), rows[0].one_way().as_millis());
    assert!(
        (40..60).contains(&mean.0) && (24..27).contains(&mean.1),
        "mean delays {mean:?}; expected 10 ms plus up to 80 ms, and 25 ms"
    );
}
