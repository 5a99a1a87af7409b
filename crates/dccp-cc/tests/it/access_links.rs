//! Links on which a competitor fills the queue, or with a queue that is shorter than a burst.

use crate::model::scenario::{CFG, at, bbr, bulk, ccid, drop_tail, link, ms};
use crate::model::{WIRE, full, summary};
use dccp_cc::{Bbr1, Bbr1Tuning, Controller, Cubic};
use mpdccp_linkem::{Aggregation, LinkConfig, Model, RateModel};

#[test]
fn a_competitors_queue_does_not_confirm_itself_as_the_path() {
    let flows = vec![(0.0, bbr(Bbr1Tuning::TUNED)(3)), (3.0, Box::new(Cubic::new(&CFG)) as _)];
    let mut w = bulk(link(20.0, ms(40.0), 4.0), flows);
    w.run(at(60.0));
    let probes = w.sessions[0].phases.iter().filter(|p| p.1 == "probe_rtt").count();
    let share = summary(&w.sessions[0].got, at(30.0), at(60.0)).mbps / full(20.0);
    println!("{probes} times in ProbeRTT, {share} of the link");
    // If the competitor's queue confirmed RTprop, there would be only one ProbeRTT.
    assert!(probes >= 3 && share < 0.65, "{probes}, {share}");
}

#[test]
fn bursts_fit_a_short_queue() {
    // On a link of 500 Mbit/s and 2 ms, a millisecond of the rate is twice the queue of a quarter of a BDP.
    let link = LinkConfig { queue: drop_tail(31_250), ..link(500.0, ms(2.0), 0.25) };
    let mut w = bulk(link, vec![(0.0, bbr(Bbr1Tuning::TUNED)(3))]);
    w.run(at(3.0));
    let s = summary(&w.sessions[0].got, at(1.0), at(3.0));
    let (share, lost) = (s.mbps / full(500.0), w.sessions[0].sender(0).lost);
    println!("{share}, {lost} lost");
    assert!(share > 0.9, "{share}");
}

/// Returns the rate of the flow divided by the rate of a competing CUBIC, in the second half of a minute.
fn share(tuning: Bbr1Tuning, mbps: f64, rtt: f64, bdps: f64) -> f64 {
    let bytes = mbps * 125.0 * rtt * bdps;
    let link = LinkConfig { queue: drop_tail(bytes as u64), ..link(mbps, ms(rtt), bdps) };
    let flows = vec![(0.0, bbr(tuning)(3)), (0.0, Box::new(Cubic::new(&CFG)) as _)];
    let mut w = bulk(link, flows);
    w.run(at(60.0));
    let [a, b] = [0, 1].map(|flow: usize| summary(&w.sessions[flow].got, at(30.0), at(60.0)).mbps);
    a / b
}

#[test]
fn cubic_gets_its_share_of_a_short_queue() {
    let without = Bbr1Tuning { heed_competitors: false, ..Bbr1Tuning::TUNED };
    println!("rate over that of CUBIC: with `heed_competitors`, without");
    for (mbps, rtt, bdps) in [(10.0, 40.0, 0.5), (20.0, 40.0, 1.0), (50.0, 40.0, 0.5), (50.0, 40.0, 4.0)] {
        let (with, without) = (share(Bbr1Tuning::TUNED, mbps, rtt, bdps), share(without, mbps, rtt, bdps));
        println!("{mbps} Mbit/s, {rtt} ms, {bdps} BDP: {with:.2}, {without:.2}");
        assert!((0.4..2.5).contains(&with), "{with}");
        assert!(bdps > 1.0 || without > 1.5, "{without}");
    }
}

/// Returns the rate of a bulk flow, in Mbit/s, and the latency p95, in ms. Both are means of three runs.
fn alone(make: &dyn Fn(u64) -> Box<dyn Controller>, link: &dyn Fn(u64) -> LinkConfig) -> [f64; 2] {
    let runs = [1, 2, 3].map(|seed| {
        let mut w = bulk(link(seed), vec![(0.0, make(seed))]);
        w.run(at(20.0));
        summary(&w.sessions[0].got, at(5.0), at(20.0))
    });
    [runs.iter().map(|s| s.mbps).sum::<f64>() / 3.0, runs.iter().map(|s| s.latency[1]).sum::<f64>() / 3.0]
}

#[test]
fn lumps_form_a_short_queue() {
    println!("Mbit/s, p95 ms");
    let wifi = Model::named("wifi").unwrap();
    // The Wi-Fi station gets the medium every 10 ms on average.
    let lumps = |_| {
        let aggregation = Some(Aggregation { access: ms(10.0), packets: 64 });
        LinkConfig { aggregation, ..link(50.0, ms(40.0), 4.0) }
    };
    let room = |seed| {
        let steps = wifi.course(seed).take(40).map(|step| (step.at, step.ways[1].rate)).collect();
        LinkConfig { rate: RateModel::Steps(steps), ..wifi.usual()[1].clone() }
    };
    // The link sends its packets in a lump every 10 ms, although its round trip is only 2 ms.
    let short = |_| {
        let aggregation = Some(Aggregation { access: ms(10.0), packets: 64 });
        LinkConfig { aggregation, queue: drop_tail(400_000), ..link(50.0, ms(2.0), 4.0) }
    };
    for (name, link) in [("10 ms", &lumps as &dyn Fn(u64) -> LinkConfig), ("short", &short), ("Wi-Fi", &room)]
    {
        let [ours, cubic, third] = [5, 7, 250].map(|n| alone(&|seed| ccid(n, seed), link));
        let linux = alone(&|seed| Box::new(Bbr1::tcp(1500, seed)), link);
        println!("{name}: CCID 5 {ours:.1?}, CCID 7 {cubic:.1?}, CCID 250 {third:.1?}, BBR {linux:.1?}");
        assert!(ours[0].min(third[0]) > 0.9 * linux[0], "{name}: {ours:?} {third:?} {linux:?}");
        assert!(ours[1].max(third[1]) < 1.5 * linux[1] + 3.0, "{name}: {ours:?} {third:?} {linux:?}");
    }
}

/// Runs a flow over a link of 50 Mbit/s and 800 ms whose queue holds `bdps` BDPs. Returns the number of
/// packets lost within 30 round trips, in BDPs.
fn flood(cc: Box<dyn Controller>, bdps: f64) -> f64 {
    let mut w = bulk(link(50.0, ms(800.0), bdps), vec![(0.0, cc)]);
    w.run(at(24.0));
    w.sessions[0].sender(0).lost as f64 * f64::from(WIRE) / (50e6 * 0.8 / 8.0)
}

#[test]
fn a_long_path_is_not_flooded() {
    for bdps in [0.5, 1.0] {
        let [reno, ours] = [2, 5].map(|n| flood(ccid(n, 3), bdps));
        let linux = flood(Box::new(Bbr1::tcp(1500, 3)), bdps);
        println!("BDPs lost with a queue of {bdps}: CCID 2 {reno:.2}, CCID 5 {ours:.2}, BBR {linux:.2}");
        // The receiver acknowledges every second packet, so the last round of slow start adds half of the
        // window's size.
        assert!(reno < 0.55 * (1.0 + bdps) && ours < linux, "{bdps}: {reno} {ours} {linux}");
    }
}
