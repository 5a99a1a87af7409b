//! Links unlike those of the paper. A competitor fills the queue, or the queue is shorter than a burst.

use crate::model::scenario::{CFG, at, bbr, bulk, link, ms};
use crate::model::{full, summary};
use dccp_cc::{Bbr1Tuning, Cubic};
use mpdccp_linkem::{Limit, LinkConfig, QueueConfig, QueueKind};

#[test]
fn a_competitors_queue_does_not_confirm_itself_as_the_path() {
    let flows = vec![(0.0, bbr(Bbr1Tuning::TUNED)(3)), (3.0, Box::new(Cubic::new(&CFG)) as _)];
    let mut w = bulk(link(20.0, ms(40.0), 4.0), flows);
    w.run(at(60.0));
    let probes = w.sessions[0].phases.iter().filter(|p| p.1 == "probe_rtt").count();
    let share = summary(&w.sessions[0].got, at(30.0), at(60.0)).mbps / full(20.0);
    println!("{probes} times in ProbeRTT, {share} of the link");
    // If the queue of the competitor confirmed RTprop, there would be one probe.
    assert!(probes >= 3 && share < 0.65, "{probes}, {share}");
}

#[test]
fn bursts_fit_a_short_queue() {
    // On a link of 500 Mbit/s and 2 ms, a millisecond of the rate is twice the queue of a quarter of a BDP.
    let queue = QueueConfig { kind: QueueKind::DropTail, limit: Limit::Bytes(31_250) };
    let link = LinkConfig { queue, ..link(500.0, ms(2.0), 0.25) };
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
    let queue = QueueConfig { kind: QueueKind::DropTail, limit: Limit::Bytes(bytes as u64) };
    let link = LinkConfig { queue, ..link(mbps, ms(rtt), bdps) };
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
        assert!(bdps > 1.0 || without > 2.5, "{without}");
    }
}
