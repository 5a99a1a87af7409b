//! CCID 5 alone on links whose rate changes all the time, compared with a model of Linux's BBR.
//!
//! `cargo test -p dccp-cc --test it walks -- --nocapture` prints the tables.

use crate::model::scenario::{Make, at, bbr, bulk, drop_tail, link, ms};
use crate::model::summary;
use dccp_cc::{Bbr1, Bbr1Tuning};
use mpdccp_linkem::{LinkConfig, Model, RateModel};
use mpdccp_units::Rate;

const SEEDS: u64 = 5;

/// Returns means of the rate, in Mbit/s, and of the latency p95, in ms.
fn mean(make: Make, link: &dyn Fn(u64) -> LinkConfig) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for seed in 1..=SEEDS {
        let mut w = bulk(link(seed), vec![(0.0, make(seed))]);
        w.run(at(40.0));
        let s = summary(&w.sessions[0].got, at(5.0), at(40.0));
        sums = [sums[0] + s.mbps, sums[1] + s.latency[1]];
    }
    sums.map(|sum| sum / SEEDS as f64)
}

fn check(what: &str, link: &dyn Fn(u64) -> LinkConfig) {
    let alone = Bbr1Tuning { heed_competitors: false, ..Bbr1Tuning::TUNED };
    let ours = mean(&bbr(Bbr1Tuning::TUNED), link);
    let without = mean(&bbr(alone), link);
    let linux = mean(&|seed| Box::new(Bbr1::tcp(1500, seed)), link);
    println!("{what}: {ours:.1?}, without `heed_competitors` {without:.1?}, BBR {linux:.1?}");
    let base = link(1).delay.as_secs_f64() * 1e3;
    let [queue, linux_queue] = [ours, linux].map(|[_, p95]| p95 - base);
    // These are the limits of `mpdccp lab judge`.
    assert!(ours[0] > 0.9 * linux[0] && queue < 1.5 * linux_queue + 3.0, "{what}: {ours:?} {linux:?}");
    // There are no competitors, so `heed_competitors` must cost next to nothing.
    assert!(ours[0] > 0.95 * without[0], "{what}: {ours:?} {without:?}");
}

#[test]
fn lte_is_used_with_any_queue() {
    println!("Mbit/s, p95 ms");
    let lte = Model::named("lte").unwrap();
    for queue in [75_000, 300_000, 1_200_000] {
        check(&format!("{queue} B"), &|seed| {
            let steps = lte.course(seed).take(400).map(|step| (step.at, step.ways[1].rate)).collect();
            let queue = drop_tail(queue);
            LinkConfig { rate: RateModel::Steps(steps), queue, ..link(13.0, ms(50.0), 1.0) }
        });
    }
}

/// The rate rises from 5 to 50 Mbit/s and falls back, in 20 s.
#[test]
fn ramps_are_followed() {
    println!("Mbit/s, p95 ms");
    for queue in [75_000, 250_000] {
        check(&format!("{queue} B"), &|seed| {
            let step = |i: u32| {
                let turn = (f64::from(i) / 200.0 + seed as f64 / SEEDS as f64).fract();
                let mbps = 50.0 - 45.0 * (2.0 * turn - 1.0).abs();
                (ms(100.0) * i, Rate::from_mbps(mbps))
            };
            let rate = RateModel::Steps((0..400).map(step).collect());
            LinkConfig { rate, queue: drop_tail(queue), ..link(50.0, ms(40.0), 1.0) }
        });
    }
}
