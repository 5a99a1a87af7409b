//! Paths that change in the model: the rate changes, the delay changes once or varies all the time, the path
//! has outages, or a host sleeps.
//!
//! `cargo test -p dccp-cc --test it path_changes -- --nocapture` prints the tables.

use crate::model::scenario::{at, bbr, bulk, jittery, link, ms, one_path_drops};
use crate::model::{World, full, page, summary};
use dccp_cc::Bbr1Tuning;
use mpdccp_linkem::{Jitter, Spread};

const VARIANTS: [(&str, Bbr1Tuning); 2] = [("draft", Bbr1Tuning::DRAFT), ("tuned", Bbr1Tuning::TUNED)];

/// Returns the used share of the link, in per cent, and the latency p95, in ms. The path changes at 5 s. The
/// measured period is from 1 s to 15 s after the change or, for an outage, after its end.
fn after(make: crate::model::scenario::Make, mbps: (f64, f64), rtt: (f64, f64), outage: bool) -> (f64, f64) {
    let mut w = bulk(link(mbps.0, ms(rtt.0), 4.0), vec![(0.0, make(3))]);
    w.run(at(5.0));
    w.set_rate(0, mbps.1);
    w.set_delay(0, ms(rtt.1 / 2.0));
    if outage {
        w.set_up(0, false);
        w.run(at(6.0));
        w.set_up(0, true);
    }
    let from = w.now + ms(1_000.0);
    let to = from + ms(14_000.0);
    w.run(to);
    let s = summary(&w.sessions[0].got, from, to);
    (100.0 * s.mbps / full(mbps.1), s.latency[1])
}

#[test]
fn one_change() {
    println!("share of the link and latency p95 from 1 s to 15 s after the change: draft, tuned");
    let same = (20.0, 20.0);
    for (what, mbps, rtt, outage, least, p95) in [
        ("10 to 50 Mbit/s", (10.0, 50.0), same, false, 99.0, 20.0),
        ("50 to 10 Mbit/s", (50.0, 10.0), same, false, 98.0, 20.0),
        ("50 to 40 Mbit/s", (50.0, 40.0), same, false, 98.0, 20.0),
        ("60 to 20 ms", (10.0, 10.0), (60.0, 20.0), false, 98.0, 20.0),
        // If the path has become longer, draining does not lower the RTT.
        ("20 to 60 ms", (10.0, 10.0), (20.0, 60.0), false, 90.0, 60.0),
        ("50 Mbit/s, 20 to 60 ms", (50.0, 50.0), (20.0, 60.0), false, 90.0, 60.0),
        ("1 s of outage", (10.0, 10.0), same, true, 98.0, 20.0),
    ] {
        let [draft, tuned] = VARIANTS.map(|(_, t)| after(&bbr(t), mbps, rtt, outage));
        println!("{what:16} {:5.1}% {:6.1} ms   {:5.1}% {:6.1} ms", draft.0, draft.1, tuned.0, tuned.1);
        assert!(tuned.0 >= least && tuned.1 <= p95, "{what}: {tuned:?}");
        assert!(draft.0 >= 50.0, "{what}: {draft:?}");
    }
}

/// The path alternates between two round trips. The result is the share of the link used, in per cent, in the
/// worst period with the longer round trip. The first second of a period does not count.
#[test]
fn a_round_trip_that_changes_every_five_seconds() {
    for (tuning, least) in [(Bbr1Tuning::TUNED, 75.0), (Bbr1Tuning::DRAFT, 0.0)] {
        let mut w = bulk(link(20.0, ms(20.0), 4.0), vec![(0.0, bbr(tuning)(3))]);
        let worst = (1..8).map(|i| {
            let from = f64::from(i) * 5.0;
            w.run(at(from));
            w.set_delay(0, ms(if i % 2 == 1 { 40.0 } else { 10.0 }));
            w.run(at(from + 5.0));
            100.0 * summary(&w.sessions[0].got, at(from + 1.0), at(from + 5.0)).mbps / full(20.0)
        });
        let worst = worst.step_by(2).fold(f64::INFINITY, f64::min);
        println!("20 to 80 ms: {worst:.0} %");
        assert!(worst >= least, "{worst}");
    }
}

/// The rate rises to twenty times its value. The result is the share of the new rate that is used from 1 s
/// after the rise on, in per cent. A probe detects the rise at once only if the two coincide, so the rate
/// rises at sixteen different times within two probing cycles.
#[test]
fn a_rate_that_comes_back() {
    let found = |tuning| {
        let shares = (0..16).map(|n| {
            let mut w = bulk(link(5.0, ms(40.0), 4.0), vec![(0.0, bbr(tuning)(3))]);
            let back = 5.0 + 0.04 * f64::from(n);
            w.run(at(back));
            w.set_rate(0, 100.0);
            w.run(at(back + 1.5));
            100.0 * summary(&w.sessions[0].got, at(back + 1.0), at(back + 1.5)).mbps / full(100.0)
        });
        shares.sum::<f64>() / 16.0
    };
    let tuned = found(Bbr1Tuning::TUNED);
    let without = found(Bbr1Tuning { probe_on: false, ..Bbr1Tuning::TUNED });
    println!("5 to 100 Mbit/s: {tuned:.0} %, without probe_on {without:.0} %");
    assert!(tuned >= 75.0 && without < tuned - 15.0, "{tuned} {without}");
    page::check("ccid5.md", "probe_on, on", &format!("{tuned:.0}"));
    page::check("ccid5.md", "probe_on, off", &format!("{without:.0}"));
}

/// Runs a bulk flow over a path whose delay changes randomly every `step` ms.
fn wandering(make: crate::model::scenario::Make, step: f64, low: f64, high: f64) -> World {
    let mut w = bulk(link(20.0, ms(20.0), 4.0), vec![(0.0, make(3))]);
    let mut x = 9u64;
    while w.now < at(30.0) {
        w.run(w.now + ms(step));
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        w.set_delay(0, ms(low + (high - low) * (x >> 40) as f64 / (1u64 << 24) as f64));
    }
    w
}

#[test]
fn delay_that_varies() {
    println!("share of the link, p50: draft, tuned");
    let row = |what: String, least: f64, run: &dyn Fn(Bbr1Tuning) -> World, mbps: f64| {
        let [draft, tuned] = VARIANTS.map(|(_, t)| {
            let w = run(t);
            let s = summary(&w.sessions[0].got, at(2.0), w.now);
            (100.0 * s.mbps / full(mbps), s.latency[0])
        });
        println!("{what:32} {:5.1}% {:5.1} ms   {:5.1}% {:5.1} ms", draft.0, draft.1, tuned.0, tuned.1);
        assert!(tuned.0 >= least.min(0.85 * draft.0), "{what}: tuned {tuned:?}, draft {draft:?}");
    };
    for (step, low, high) in [
        (20.0, 10.0, 20.0),
        (50.0, 10.0, 30.0),
        (200.0, 10.0, 30.0),
        (500.0, 10.0, 30.0),
        (1000.0, 10.0, 50.0),
    ] {
        row(format!("every {step} ms {low}-{high} ms"), 90.0, &|t| wandering(&bbr(t), step, low, high), 20.0);
    }
    for (mbps, delay, spread, reorder) in [
        (20.0, 12.0, Spread::Uniform(ms(12.0)), false),
        (50.0, 20.0, Spread::Normal(ms(20.0)), true),
        (20.0, 3.0, Spread::Normal(ms(3.0)), false),
    ] {
        let order = if reorder { "reordering" } else { "in order" };
        row(
            format!("{mbps} Mbit/s, {delay} +-{delay} ms, {order}"),
            90.0,
            &|t| {
                let mut w =
                    jittery(mbps, delay, Jitter { spread, reorder, ..Jitter::default() }, 1.0, bbr(t)(7));
                w.run(at(20.0));
                w
            },
            mbps,
        );
    }
}

#[test]
fn a_host_that_sleeps() {
    println!("experiment A, host with pauses: before the drop Mbit/s, p95; after the drop Mbit/s, p50, p95");
    for (name, tuning) in VARIANTS {
        for owd in [0.0, 10.0] {
            for (length, every) in [(1.0, 10.0), (3.0, 50.0), (8.0, 200.0), (20.0, 1000.0)] {
                let mut w = one_path_drops(&bbr(tuning), owd, 125_000);
                w.stall = Some((ms(length), ms(every + 0.37)));
                w.run(at(10.0));
                let got = &w.sessions[0].got;
                let (a, b) = (summary(got, at(1.0), at(5.0)), summary(got, at(5.0), at(10.0)));
                println!(
                    "{name} {owd:2} ms, {length:2} ms every {every:4} ms: {:5.2} {:4.1}   {:5.2} {:5.1} {:5.1}",
                    a.mbps, a.latency[1], b.mbps, b.latency[0], b.latency[1]
                );
                if name == "tuned" {
                    // While the link has the full rate, the flow uses it, and the queue stays short.
                    assert!(a.mbps >= 14.5 && b.mbps >= 9.0, "{owd} {length}: {} {}", a.mbps, b.mbps);
                    assert!(b.latency[0] <= 25.0 && b.latency[1] <= 30.0, "{owd} {length}: {:?}", b.latency);
                }
            }
        }
    }
}
