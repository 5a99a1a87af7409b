//! BBRv3 in the model: utilisation, queue, losses, marks and competition. The model also covers some of the
//! draft's example cases.
//!
//! `cargo test -p dccp-cc --test it bbr3 -- --nocapture` prints the tables.

use crate::model::scenario::{CFG, at, bbr, bulk, jittery, link, ms, one_path_drops, two_paths_drop};
use crate::model::{WIRE, bins, full, summary};
use dccp_cc::{Bbr1Tuning, Bbr3, CcConfig, Controller, Cubic};
use mpdccp_linkem::{Jitter, Limit, LinkConfig, LossModel, Policer, QueueKind, Spread};
use mpdccp_units::Rate;

fn bbr3(seed: u64) -> Box<dyn Controller> {
    Box::new(Bbr3::new(&CcConfig { seed, ..CFG }))
}

fn draft(seed: u64) -> Box<dyn Controller> {
    Box::new(Bbr3::new(&CcConfig { seed, draft: true, ..CFG }))
}

#[test]
fn rates_and_delays() {
    println!("Mbit/s    RTT | of the link | queue p50, p95 ms | lost");
    for (mbps, rtt) in [1.0, 10.0, 100.0].into_iter().flat_map(|m| [1.0, 10.0, 50.0, 300.0].map(|r| (m, r))) {
        let mut w = bulk(link(mbps, ms(rtt), 2.0), vec![(0.0, bbr3(3))]);
        w.run(at(36.0));
        let s = summary(&w.sessions[0].got, at(6.0), at(36.0));
        let base = rtt / 2.0 + f64::from(WIRE) * 8.0 / mbps / 1e3;
        let share = 100.0 * s.mbps / full(mbps);
        let [p50, p95] = [s.latency[0], s.latency[1]].map(|l| l - base);
        println!("{mbps:6} {rtt:6} | {share:10.1}% | {p50:6.1} {p95:6.1} | {}", w.sessions[0].sender(0).lost);
        assert!(share > 90.0, "{mbps} Mbit/s {rtt} ms: {share}");
    }
}

#[test]
fn bandwidth_drops() {
    for (name, cc) in
        [("bbr3", &bbr3 as &dyn Fn(u64) -> Box<dyn Controller>), ("bbr1 tuned", &bbr(Bbr1Tuning::TUNED))]
    {
        let mut a = one_path_drops(cc, 10.0, 125_000);
        a.run(at(10.0));
        let mut b = two_paths_drop(cc, 10.0, 125_000);
        b.run(at(20.0));
        let [sa, sb] = [(&a, 10.0), (&b, 20.0)].map(|(w, end)| summary(&w.sessions[0].got, at(5.0), at(end)));
        let worst =
            bins(&b.sessions[0].got, None, at(5.3), at(20.0), ms(200.0)).into_iter().fold(f64::MAX, f64::min);
        println!(
            "{name}: A {:.2} Mbit/s p50 {:.1} p95 {:.1}; B {:.2} {:.1} {:.1}, worst {worst:.2}",
            sa.mbps, sa.latency[0], sa.latency[1], sb.mbps, sb.latency[0], sb.latency[1]
        );
        // After the link's rate drops by a factor of a hundred, the flow settles at the new rate.
        let end = summary(&a.sessions[0].got, at(8.0), at(10.0));
        assert!(end.mbps > 9.0, "{name}: {}", end.mbps);
    }
}

#[test]
fn ten_times_more_and_ten_times_less() {
    let mut w = bulk(link(10.0, ms(20.0), 4.0), vec![(0.0, bbr3(3))]);
    w.run(at(5.0));
    w.set_rate(0, 100.0);
    w.run(at(15.0));
    let more = summary(&w.sessions[0].got, at(12.0), at(15.0)).mbps / full(100.0);
    w.set_rate(0, 10.0);
    w.run(at(35.0));
    let less = summary(&w.sessions[0].got, at(25.0), at(35.0)).mbps / full(10.0);
    let bw = w.sessions[0].sender(0).cc.bottleneck().unwrap().mbps();
    println!("more {more:.3}; less {less:.3}, max_bw {bw:.1} Mbit/s");
    assert!(more > 0.9 && less > 0.9, "{more} {less}");
    // Only the current and the previous cycle remember the old rate.
    assert!((9.0..11.0).contains(&bw), "{bw}");
}

#[test]
fn random_loss() {
    // Losses below the threshold of 2 % hardly reduce the rate; losses above it do.
    for (loss, least) in [(0.001, 90.0), (0.01, 80.0)] {
        let mut l = link(20.0, ms(40.0), 2.0);
        l.loss = LossModel::Bernoulli(loss);
        let mut w = bulk(l, vec![(0.0, bbr3(3))]);
        w.run(at(30.0));
        let share = 100.0 * summary(&w.sessions[0].got, at(2.0), at(30.0)).mbps / full(20.0) / (1.0 - loss);
        println!("loss {loss}: {share:.1}%");
        assert!(share > least, "{loss}: {share}");
    }
}

/// Compares the variants' shares of the rate on two paths. The first path loses 1 % of the packets. On the
/// second path, the variation of delay exceeds the minimum delay.
#[test]
fn tuned_carries_on_where_the_draft_falls_back() {
    println!("share of the rate, %: 1 % lost, normal jitter of 20 ms on a delay of 5 ms");
    let [tuned, draft] = [false, true].map(|draft| {
        let make = || Box::new(Bbr3::new(&CcConfig { seed: 3, draft, ..CFG }));
        let mut lossy = link(100.0, ms(50.0), 1.0);
        lossy.loss = LossModel::Bernoulli(0.01);
        let mut lossy = bulk(lossy, vec![(0.0, make())]);
        let jitter = Jitter { spread: Spread::Normal(ms(20.0)), ..Jitter::default() };
        let mut varying = jittery(50.0, 5.0, jitter, 1.0, make());
        [(&mut lossy, 100.0), (&mut varying, 50.0)].map(|(w, mbps)| {
            w.run(at(20.0));
            100.0 * summary(&w.sessions[0].got, at(4.0), at(20.0)).mbps / full(mbps)
        })
    });
    println!("tuned {tuned:.1?}, draft {draft:.1?}");
    assert!(tuned[0] > 88.0 && draft[0] < 85.0, "lossy");
    assert!(tuned[1] > 70.0 && draft[1] < 30.0, "varying");
}

/// On a path that loses more than the tolerated 2 %, losses reduce the rate between probes. Probes must not
/// wait until the losses fall to 2 %, because on this path they never do.
#[test]
fn many_losses_of_the_path_do_not_delay_probes() {
    println!("share of the rate, %, 3 and 5 % lost at random");
    for (mbps, rtt) in [(10.0, 20.0), (10.0, 80.0)] {
        let shares = [0.03, 0.05].map(|loss| {
            let mut l = link(mbps, ms(rtt), 1.0);
            l.loss = LossModel::Bernoulli(loss);
            let mut w = bulk(l, vec![(0.0, bbr3(3))]);
            w.run(at(40.0));
            100.0 * summary(&w.sessions[0].got, at(4.0), at(40.0)).mbps / full(mbps) / (1.0 - loss)
        });
        println!("{mbps:6} Mbit/s {rtt:6} ms {shares:.1?}");
        assert!(shares[0] > 70.0 && shares[1] > 60.0, "{mbps} Mbit/s, {rtt} ms: {shares:.1?}");
    }
}

/// The path's own losses cost about the same share at any rate.
#[test]
fn one_per_cent_costs_alike_at_any_rate() {
    println!("share of the rate with 1 % lost at random, 50 ms");
    for mbps in [3.0, 5.0, 10.0, 20.0, 50.0, 100.0] {
        let mut l = link(mbps, ms(50.0), 1.0);
        l.loss = LossModel::Bernoulli(0.01);
        let mut w = bulk(l, vec![(0.0, bbr3(3))]);
        w.run(at(40.0));
        let share = 100.0 * summary(&w.sessions[0].got, at(4.0), at(40.0)).mbps / full(mbps);
        println!("{mbps:6} Mbit/s {share:.1}");
        assert!(share > 85.0, "{mbps} Mbit/s: {share}");
    }
}

/// Startup ends after the first round in which the bandwidth does not grow and a queue is seen. Two further
/// rounds would lose a window of packets each.
#[test]
fn a_long_path_is_not_flooded_in_startup() {
    let mut w = bulk(link(50.0, ms(800.0), 0.5), vec![(0.0, bbr3(3))]);
    w.run(at(12.0));
    let bdp = 50e6 * 0.8 / 8.0 / f64::from(WIRE);
    let lost = w.sessions[0].sender(0).lost as f64;
    let share = summary(&w.sessions[0].got, at(8.0), at(12.0)).mbps / full(50.0);
    println!("50 Mbit/s, 800 ms: {:.2} BDP lost in 12 s, then {share:.2} of the rate", lost / bdp);
    assert!(lost < 0.75 * bdp && share > 0.7, "{lost} of {bdp}, {share}");
}

#[test]
fn marks_keep_the_queue_short() {
    println!("20 Mbit/s, 20 ms, queue of 4 BDP, marks above 10 packets");
    let run = |marking: bool| {
        let mut l = link(20.0, ms(20.0), 4.0);
        if marking {
            l.queue.kind = QueueKind::MarkAbove(Limit::Packets(10));
        }
        let mut w = bulk(l, vec![(0.0, bbr3(1)), (1.0, bbr3(2))]);
        w.ecn = true;
        w.run(at(40.0));
        let [a, b] = [0, 1].map(|i| summary(&w.sessions[i].got, at(10.0), at(40.0)));
        let [x, y] = [&a, &b].map(|s| 100.0 * s.mbps / full(20.0));
        let tx = w.sessions[0].sender(0);
        println!(
            "marking {marking}: {x:.1}% {y:.1}%, p50 {:.1} p95 {:.1} ms, marked {} lost {}",
            a.latency[0], a.latency[1], tx.marked, tx.lost
        );
        (x, y, a.latency[1], tx.marked)
    };
    let (plain, marked) = (run(false), run(true));
    assert!(marked.3 > 0 && plain.3 == 0);
    assert!(marked.2 < plain.2, "{marked:?} {plain:?}");
    for (x, y, ..) in [plain, marked] {
        assert!(x + y > 90.0 && x > 20.0 && y > 20.0, "{x} {y}");
    }
}

#[test]
fn against_cubic() {
    println!("with a CUBIC flow, 20 Mbit/s, 40 ms, 10 s to 60 s");
    for bdps in [0.5, 1.0, 4.0] {
        let mut w =
            bulk(link(20.0, ms(40.0), bdps), vec![(0.0, bbr3(1)), (0.0, Box::new(Cubic::new(&CFG)) as _)]);
        w.run(at(60.0));
        let [a, b] =
            [0, 1].map(|i| summary(&w.sessions[i].got, at(10.0), at(60.0)).mbps * 100.0 / full(20.0));
        println!("queue {bdps} BDP: {a:5.1}%, CUBIC {b:5.1}%");
        assert!(a > 5.0 && b > 5.0 && a + b > 90.0, "{bdps}: {a} {b}");
    }
}

/// With a dozen packets per round trip, a loss in a full queue must not count as the path's own, because TCP
/// would starve.
#[test]
fn small_windows_heed_every_loss() {
    let mut w = bulk(link(10.0, ms(20.0), 0.5), vec![(0.0, bbr3(1)), (0.0, Box::new(Cubic::new(&CFG)) as _)]);
    w.run(at(60.0));
    let [a, b] = [0, 1].map(|i| summary(&w.sessions[i].got, at(30.0), at(60.0)).mbps);
    println!("competing with CUBIC, 10 Mbit/s, 20 ms, half a BDP: {:.1} times its rate", a / b);
    assert!(a / b < 3.0, "{a} {b}");
}

/// On a short round trip, the draft probes several times a second, and each probe loses packets.
#[test]
fn probes_of_a_policer_lose_little() {
    let lost = |cc| {
        let policer = Some(Policer { rate: Rate::from_mbps(10.0), burst: 50_000 });
        let mut w = bulk(LinkConfig { policer, ..link(100.0, ms(5.0), 1.0) }, vec![(0.0, cc)]);
        w.run(at(5.0));
        let before = (w.sessions[0].sender(0).lost, w.sessions[0].got.len());
        w.run(at(30.0));
        let lost = (w.sessions[0].sender(0).lost - before.0) as f64;
        100.0 * lost / (lost + (w.sessions[0].got.len() - before.1) as f64)
    };
    let [tuned, draft] = [lost(bbr3(3)), lost(draft(3))];
    println!("lost at a policer: {tuned:.1} %, draft {draft:.1} %");
    assert!(tuned < 3.0 && draft > 8.0, "{tuned} {draft}");
}

/// The path's round trip grows from 20 to 200 ms. ProbeRTT shows that this is not due to a queue.
#[test]
fn a_longer_path_is_found_within_seconds() {
    let share = |cc| {
        let mut w = bulk(link(50.0, ms(20.0), 4.0), vec![(0.0, cc)]);
        w.run(at(5.0));
        w.set_delay(0, ms(190.0));
        w.run(at(12.0));
        100.0 * summary(&w.sessions[0].got, at(9.0), at(12.0)).mbps / full(50.0)
    };
    let [tuned, draft] = [share(bbr3(3)), share(draft(3))];
    println!("20 to 200 ms, 4 to 7 s later: {tuned:.0} %, draft {draft:.0} %");
    assert!(tuned > 70.0 && draft < 50.0, "{tuned} {draft}");
}
