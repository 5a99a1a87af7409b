//! Bulk flows in the model: utilisation and queue at many rates and delays, with competition, jitter and
//! loss.
//!
//! `cargo test -p dccp-cc --test it bulk -- --nocapture` prints the tables.

use crate::model::scenario::{CFG, at, bbr, bulk, jittery, link, ms};
use crate::model::{WIRE, bins, full, jain, summary};
use dccp_cc::{Bbr1Tuning, Reno};
use mpdccp_linkem::{Jitter, LossModel, Spread};

const VARIANTS: [(&str, Bbr1Tuning); 2] = [("draft", Bbr1Tuning::DRAFT), ("tuned", Bbr1Tuning::TUNED)];

#[test]
fn rates_and_delays() {
    println!("Mbit/s    RTT | of the link: draft tuned | queue p50, p95 ms: draft, tuned");
    let grid = [1.0, 10.0, 100.0].into_iter().flat_map(|m| [1.0, 10.0, 50.0, 300.0].map(|r| (m, r)));
    for (mbps, rtt) in grid.chain([(1000.0, 1.0), (1000.0, 20.0)]) {
        let (mut shares, mut queues) = (String::new(), String::new());
        for (name, tuning) in VARIANTS {
            let mut w = bulk(link(mbps, ms(rtt), 2.0), vec![(0.0, bbr(tuning)(3))]);
            let (from, to) = if mbps > 500.0 { (at(1.0), at(4.0)) } else { (at(6.0), at(36.0)) };
            w.run(to);
            let s = summary(&w.sessions[0].got, from, to);
            let base = rtt / 2.0 + f64::from(WIRE) * 8.0 / mbps / 1e3;
            let share = s.mbps / full(mbps);
            shares += &format!(" {:5.1}%", 100.0 * share);
            queues += &format!(" {:7.1} {:7.1}", s.latency[0] - base, s.latency[1] - base);
            // At 300 ms, the draft's ProbeRTT takes half a second of every ten.
            let least = if name == "draft" && rtt > 200.0 { 0.93 } else { 0.95 };
            assert!(share >= least, "{name} {mbps} Mbit/s {rtt} ms: {share}");
        }
        println!("{mbps:6} {rtt:6} |             {shares} | {queues}");
    }
}

#[test]
fn a_queue_in_a_whole_round_ends_startup() {
    for (rtt, jitter) in [(20.0, 0.0), (100.0, 0.0), (100.0, 5.0)] {
        let jitter = Jitter { spread: Spread::Uniform(ms(jitter)), ..Jitter::default() };
        let link = mpdccp_linkem::LinkConfig { jitter, ..link(100.0, ms(rtt), 8.0) };
        let mut w = bulk(link, vec![(0.0, bbr(Bbr1Tuning::TUNED)(3))]);
        w.run(at(rtt / 20.0)); // 50 round trips
        let queued = w.sessions[0].got.iter().filter(|got| got.at - got.born > ms(1.5 * rtt)).count();
        let rounds = queued as f64 / (100e6 / 8.0 / f64::from(WIRE) * rtt / 1e3);
        println!("{rtt} ms: {rounds:.1} BDPs arrived with a queue of one round trip");
        assert!(rounds < 15.0, "{rtt}: {rounds}");
    }
}

#[test]
fn two_flows_share() {
    println!("20 Mbit/s, queue of 4 BDP, second flow 3 s later, 10 s to 40 s");
    for (name, tuning) in VARIANTS {
        for rtt in [2.0, 20.0, 100.0] {
            let mut w = bulk(link(20.0, ms(rtt), 4.0), vec![(0.0, bbr(tuning)(1)), (3.0, bbr(tuning)(2))]);
            w.run(at(40.0));
            let [a, b] = [0, 1].map(|i| summary(&w.sessions[i].got, at(10.0), at(40.0)));
            let base = rtt / 2.0 + f64::from(WIRE) * 8.0 / 20.0 / 1e3;
            let [x, y] = [&a, &b].map(|s| 100.0 * s.mbps / full(20.0));
            let [p50, p95] = [a.latency[0], a.latency[1]].map(|l| l - base);
            println!("{name} {rtt:3} ms: {x:4.1}% {y:4.1}%  queue p50, p95 {p50:6.1} {p95:6.1} ms");
            assert!(x + y > 95.0, "{name} {rtt}: {x} + {y}");
            assert!(jain(&[x, y]) > 0.9, "{name} {rtt}: {x} {y}");
        }
    }
}

#[test]
fn against_reno() {
    println!("with a CCID 2 flow, 20 Mbit/s, 40 ms, 10 s to 60 s");
    for (name, tuning) in VARIANTS {
        for bdps in [0.5, 1.0, 4.0] {
            let flows = vec![(0.0, bbr(tuning)(1)), (0.0, Box::new(Reno::new(&CFG)) as _)];
            let mut w = bulk(link(20.0, ms(40.0), bdps), flows);
            w.run(at(60.0));
            let [a, b] =
                [0, 1].map(|i| summary(&w.sessions[i].got, at(10.0), at(60.0)).mbps * 100.0 / full(20.0));
            println!("{name}, queue {bdps} BDP: {a:5.1}%, CCID 2 {b:5.1}%");
            assert!(a > 20.0 && a + b > 95.0, "{name} {bdps}: {a} {b}");
        }
    }
}

#[test]
fn varying_delay_and_random_loss() {
    println!("20 Mbit/s, share of the rate that the losses leave: draft, tuned");
    let cases = [
        ("20 ms +-5, in order", 20.0, Spread::Uniform(ms(5.0)), false, 0.0),
        ("20 ms +-10, in order", 20.0, Spread::Uniform(ms(10.0)), false, 0.0),
        ("20 ms +-5, reordering", 20.0, Spread::Normal(ms(5.0)), true, 0.0),
        ("20 ms +-20, reordering", 20.0, Spread::Normal(ms(20.0)), true, 0.0),
        ("5 ms +-5, in order", 5.0, Spread::Uniform(ms(5.0)), false, 0.0),
        ("5 ms +-5, reordering", 5.0, Spread::Normal(ms(5.0)), true, 0.0),
        ("20 ms, 1 % loss", 20.0, Spread::None, false, 0.01),
        ("20 ms, 5 % loss", 20.0, Spread::None, false, 0.05),
    ];
    for (what, delay, spread, reorder, loss) in cases {
        let mut line = format!("{what:24}");
        for (name, tuning) in VARIANTS {
            let mut l = link(20.0, ms(2.0 * delay), 4.0);
            l.jitter = Jitter { spread, reorder, ..Jitter::default() };
            l.loss = LossModel::Bernoulli(loss);
            let mut w = bulk(l, vec![(0.0, bbr(tuning)(3))]);
            w.run(at(30.0));
            let s = summary(&w.sessions[0].got, at(2.0), at(30.0));
            let share = s.mbps / full(20.0) / (1.0 - loss);
            line += &format!(" {:5.1}% p50 {:5.1} ms", 100.0 * share, s.latency[0]);
            assert!(share > 0.93, "{name}, {what}: {share}");
        }
        println!("{line}");
    }
}

/// If packets overtake each other, the fastest packets end a round long before most of the round's packets
/// arrive, and the minimum round trip is much shorter than the usual one. Startup must not end at a fraction
/// of the rate.
#[test]
fn startup_with_reordering() {
    println!("share of the rate in the first 2 s, and from 2 s to 5 s; mean of five runs");
    for (mbps, delay, by) in [(25.0, 100.0, 35.0), (100.0, 60.0, 10.0)] {
        let mut shares = [0.0; 2];
        for seed in 0..5 {
            let jitter = Jitter { spread: Spread::Normal(ms(by)), reorder: true, ..Jitter::default() };
            let mut w = jittery(mbps, delay, jitter, 50.0, bbr(Bbr1Tuning::TUNED)(seed));
            w.run(at(5.0));
            for (share, (from, to)) in shares.iter_mut().zip([(0.0, 2.0), (2.0, 5.0)]) {
                *share += summary(&w.sessions[0].got, at(from), at(to)).mbps / full(mbps) / 5.0;
            }
        }
        println!("{mbps:3} Mbit/s, {delay} ± {by} ms: {:.2} {:.2}", shares[0], shares[1]);
        assert!(shares[1] > 0.65, "{mbps} Mbit/s: {shares:?}");
    }
}

/// ProbeRTT keeps half of the amount that is usually in flight. With jitter, this is more than half a BDP of
/// the minimum round trip.
#[test]
fn probe_rtt_with_jitter() {
    let jitter = Jitter { spread: Spread::Normal(ms(25.0)), reorder: true, ..Jitter::default() };
    let mut w = jittery(50.0, 50.0, jitter, 1.0, bbr(Bbr1Tuning::TUNED)(1));
    w.run(at(40.0));
    let rates = bins(&w.sessions[0].got, None, at(10.0), at(40.0), ms(200.0));
    let least = rates.into_iter().fold(f64::MAX, f64::min) / full(50.0);
    println!("least share of the rate in 200 ms: {least:.2}");
    assert!(least > 0.2, "{least}");
}
