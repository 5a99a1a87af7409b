//! Interaction of a session with the congestion control of its paths.

use crate::common::End::{Client, Server};
use crate::common::*;
use dccp_proto::Config;
use mpdccp_proto::*;
use mpdccp_units::{Duration, Rate};

fn ccid5(scheduler: sched::SchedulerKind) -> SessionConfig {
    let connection = Config { service_code: 7, tx_ccids: vec![5], rx_ccids: vec![5], ..Config::default() };
    SessionConfig { connection, scheduler, ..SessionConfig::default() }
}

#[test]
fn two_paths_are_never_in_probe_rtt_at_once() {
    // Without this setting, identical wires in lockstep would count as one bottleneck, and all paths would
    // probe together.
    let (mut net, id) = Net::connected(1, 3, SessionConfig { coupling: false, ..ccid5(scheduler("rr")) });
    net.wires.iter_mut().for_each(|w| w.rate = Some(Rate::from_mbps(4.0)));
    let (mut alone, mut together) = ([0; 3], 0);
    // The client offers 20 Mbit/s to paths that together carry 12 Mbit/s. The delay of all paths grows, but
    // too slowly to count as a route change. Without ProbeRTT, no path therefore measures its minimum RTT
    // again.
    for n in 0..50_000 {
        if n % 2500 == 0 {
            net.wires.iter_mut().for_each(|w| w.delay += Duration::from_micros(500));
        }
        net.stream(Client, id, n, 1, Duration::from_micros(400));
        net.got.clear();
        net.log.clear();
        if n % 10 != 0 {
            continue;
        }
        let status = net.status(Client, id);
        let probing: Vec<bool> =
            status.paths.iter().map(|p| p.tx.as_ref().is_some_and(|tx| tx.probing_rtt)).collect();
        probing.iter().zip(&mut alone).for_each(|(p, n)| *n += u32::from(*p));
        together += u32::from(probing.iter().filter(|p| **p).count() > 1);
    }
    assert!(alone.iter().all(|n| *n > 0), "each path must probe alone: {alone:?}");
    assert_eq!(together, 0);
}

/// A path dies in its ProbeRTT. The other path must not postpone its own ProbeRTT for as long as the dead
/// path is kept.
#[test]
fn a_path_that_dies_in_probe_rtt_holds_back_no_other_path() {
    let (mut net, id) = Net::connected(1, 2, SessionConfig { coupling: false, ..ccid5(scheduler("rr")) });
    net.wires.iter_mut().for_each(|w| w.rate = Some(Rate::from_mbps(4.0)));
    let mut died = None;
    for n in 0..100_000 {
        // The delay grows too slowly to count as a route change.
        if n % 2500 == 0 {
            net.wires.iter_mut().for_each(|w| w.delay += Duration::from_micros(500));
        }
        net.stream(Client, id, n, 1, Duration::from_micros(400));
        net.got.clear();
        net.log.clear();
        let status = net.status(Client, id);
        let probes = |k: usize| status.paths[k].tx.as_ref().is_some_and(|tx| tx.probing_rtt);
        if died.is_none() && probes(0) {
            net.wires[0].up = false;
            died = Some(net.now);
        }
        if died.is_some() && probes(1) {
            break;
        }
    }
    let waited = net.now.since(died.expect("path 0 is in ProbeRTT at some time"));
    assert!(waited < Duration::from_secs(12), "{waited:?}");
}

/// Only the path's own packets can measure the new route.
#[test]
fn a_path_on_another_route_stays_in_use_and_is_measured() {
    let (mut net, id) = Net::connected(1, 2, ccid5(scheduler("auto")));
    net.wires.iter_mut().for_each(|w| w.rate = Some(Rate::from_mbps(10.0)));
    // The client offers 16 Mbit/s to paths that together carry 20 Mbit/s.
    net.stream(Client, id, 0, 6000, Duration::from_micros(500));
    let (now, before) = (net.now, net.log.len());
    net.client.change_path(now, id, PathId(1));
    net.stream(Client, id, 6000, 4000, Duration::from_micros(500));
    let on = |l: &&Logged| l.from == Client && l.path == 1 && l.bytes.len() > 1000;
    let sent = net.log[before..].iter().filter(on).count();
    let rtt = net.status(Client, id).paths[1].tx.as_ref().and_then(|tx| tx.rtt.srtt());
    assert!(sent > 200 && rtt.is_some(), "{sent} packets on the path, which takes {rtt:?}");
}

/// The timeouts of the old route do not apply to the new one, whose round trip is longer.
#[test]
fn a_path_on_a_longer_route_does_not_become_suspect() {
    let (mut net, id, server) = Net::both(1, 2, ccid5(scheduler("rr")));
    net.stream(Client, id, 0, 1_000, Duration::from_millis(1));
    // No packet of the old route is in flight any more.
    net.run(Duration::from_secs(1));
    net.wires[1].delay = Duration::from_millis(150);
    net.client.change_path(net.now, id, PathId(1));
    net.server.change_path(net.now, server, PathId(1));
    net.stream(Client, id, 1_000, 500, Duration::from_millis(1));
    assert!(!net.events_of(Client).contains(&SessionEvent::PathSuspect(PathId(1))));
}

/// A path that opens after the application has changed the CCID changes to it, too. If the peer refuses the
/// CCID, all paths keep the old one.
#[test]
fn a_change_of_the_ccid_applies_to_later_paths_if_the_peer_agrees() {
    let SessionConfig { connection, .. } = ccid5(scheduler("rr"));
    let connection = Config { rx_ccids: vec![5, 2], ..connection };
    for (set, agreed) in [(7, 5), (2, 2)] {
        let server = SessionConfig { connection: connection.clone(), ..ccid5(scheduler("rr")) };
        let mut net = Net::new(1, 1, server);
        let id = net.connect(ccid5(scheduler("rr")));
        net.run(Duration::from_millis(500));
        assert!(net.client.set_ccid(net.now, id, set));
        net.run(Duration::from_secs(1));
        net.add_wire();
        net.client.add_path(net.now, id, path(1)).unwrap();
        net.run(Duration::from_secs(2));
        assert_eq!(net.state(Client, id), [PathState::Up; 2]);
        let ccids: Vec<_> = net.status(Client, id).paths.iter().map(|path| path.ccids).collect();
        assert_eq!(ccids, [Some((agreed, 5)); 2], "CCID {set}");
    }
}

#[test]
fn the_saturated_path_is_not_application_limited() {
    let mut net = Net::new(1, 2, ccid5(scheduler("cpf")));
    net.wires.iter_mut().for_each(|w| w.rate = Some(Rate::from_mbps(10.0)));
    let id = net.client.connect(net.now, ccid5(scheduler("cpf")), path(0));
    net.client.add_path(net.now, id, PathConfig { prio: 2, ..path(1) });
    net.run(Duration::from_secs(1));
    // The client offers 4 Mbit/s, and the preferred path slows down to 2 Mbit/s.
    net.stream(Client, id, 0, 1000, Duration::from_millis(2));
    net.wires[0].rate = Some(Rate::from_mbps(2.0));
    net.stream(Client, id, 1000, 2000, Duration::from_millis(2));
    let before = net.numbers(Server).len();
    let (mut limited, mut rate) = ([0; 2], Rate::ZERO);
    for n in 0..1000 {
        net.stream(Client, id, 3000 + n, 1, Duration::from_millis(2));
        let status = net.status(Client, id);
        assert!(status.queue.packets < 20, "the queue must stay short");
        for (p, count) in status.paths.iter().zip(&mut limited) {
            *count += u32::from(p.tx.as_ref().is_some_and(|tx| tx.app_limited));
        }
        rate = status.paths[0].tx.as_ref().and_then(|tx| tx.bottleneck).unwrap_or_default();
    }
    net.run(Duration::from_millis(200));
    assert!(limited[0] < 50 && limited[1] > 900, "{limited:?} of 1000");
    assert!((1.8..2.3).contains(&rate.mbps()), "the estimate must match the path's rate: {rate:?}");
    assert!(net.numbers(Server).len() - before > 950);
}

#[test]
fn sessions_that_share_have_one_window_until_the_last_ends() {
    let own = ccid5(scheduler("rr"));
    let shared = SessionConfig { share_congestion: true, ..own.clone() };
    let mut net = Net::new(1, 1, own.clone());
    net.wires[0].rate = Some(Rate::from_mbps(8.0));
    let ids = [&shared, &shared, &own].map(|cfg| net.connect(cfg.clone()));
    net.run(Duration::from_millis(500));
    let windows = |net: &Net| ids.map(|id| net.status(Client, id).paths[0].tx.as_ref().map(|tx| tx.cwnd));
    let all_send = |net: &mut Net, ids: &[SessionId]| {
        for n in 0..2000 {
            ids.iter().for_each(|id| net.client.send(net.now, *id, datagram(n), PktInfo::default()));
            net.run(Duration::from_millis(1));
        }
    };
    all_send(&mut net, &ids);
    let seen = windows(&net);
    assert_eq!(seen[0], seen[1]);
    assert_ne!(seen[0], seen[2]);
    // One session ends while the window is full, after which the other session gets the whole window.
    net.client.abort(net.now, ids[0]);
    net.drain();
    all_send(&mut net, &ids[1..2]);
    net.run(Duration::from_secs(1));
    let tx = net.status(Client, ids[1]).paths[0].tx.clone().unwrap();
    assert_eq!(tx.inflight.packets, 0);
    assert!(tx.delivered.packets > 1500, "{tx:?}");
    // A session that starts after the last one has ended inherits no congestion state.
    net.client.close(net.now, ids[1]);
    net.run(Duration::from_secs(1));
    let id = net.connect(shared);
    net.run(Duration::from_millis(500));
    let tx = net.status(Client, id).paths[0].tx.clone().unwrap();
    assert_eq!(
        (tx.phase, tx.rtt.max().is_some_and(|(rtt, _)| rtt < Duration::from_millis(60))),
        ("startup", true)
    );
}
