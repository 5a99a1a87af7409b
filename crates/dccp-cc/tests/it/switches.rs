//! Effect of each deviation of the tuned variant. The variants have all deviations, all but one, or none.
//!
//! `cargo test -p dccp-cc --test it switches -- --nocapture` prints the whole table. `docs/ccid5.md` has a
//! part of it, which `UPDATE_DOCS=1` updates.

use crate::model::scenario::{Make, at, bbr, bulk, jittery, link, ms, one_path_drops, two_paths_drop};
use crate::model::{bins, full, page, summary};
use dccp_cc::Bbr1Tuning;
use mpdccp_linkem::{Jitter, Spread};

/// Results of one variant. Latencies are in ms, and shares are in per cent of the link.
struct Figures {
    /// Experiment A, queue of 125,000 B, delay of 10 ms: latency p95 in the second after the drop.
    drop: f64,
    /// Like `drop`, but the host sleeps for 20 ms as the rate drops.
    asleep: f64,
    /// Like `drop`, but with a delay of 0 ms, and measured in the 5 s after the drop.
    drop_0ms: f64,
    /// Latency p50 in the same experiment, from 1 s to 25 s after the drop.
    steady: f64,
    /// Rate in the same period, Mbit/s.
    mbps: f64,
    /// Rate in the worst 200 ms of the same period, Mbit/s.
    worst: f64,
    /// Experiment B, queue of 125,000 B, delay of 10 ms, in the 15 s after the drop: latency p95.
    two: f64,
    /// Bulk flow, 10 Mbit/s, 40 ms: p50 of the queueing delay.
    queue: f64,
    /// In the same run: share of the link.
    bulk: f64,
    /// Bulk flow, 50 Mbit/s, forward delay of 20 ms with 20 ms of jitter, reverse delay of 1 ms: share of
    /// the link.
    jitter: f64,
}

fn measure(make: Make) -> Figures {
    let mut a = one_path_drops(make, 10.0, 125_000);
    a.run(at(30.0));
    let got = &a.sessions[0].got;
    let steady = summary(got, at(6.0), at(30.0));
    let mut asleep = one_path_drops(make, 10.0, 125_000);
    asleep.stall = Some((ms(20.0), ms(1000.37)));
    asleep.run(at(6.0));
    let mut near = one_path_drops(make, 0.0, 125_000);
    near.run(at(10.0));
    let mut two = two_paths_drop(make, 10.0, 125_000);
    two.run(at(20.0));
    let mut plain = bulk(link(10.0, ms(40.0), 2.0), vec![(0.0, make(3))]);
    plain.run(at(30.0));
    let plain = summary(&plain.sessions[0].got, at(2.0), at(30.0));
    let jitter = Jitter { spread: Spread::Normal(ms(20.0)), reorder: true, ..Jitter::default() };
    let mut varying = jittery(50.0, 20.0, jitter, 1.0, make(7));
    varying.run(at(20.0));
    Figures {
        drop: summary(got, at(5.0), at(6.0)).latency[1],
        asleep: summary(&asleep.sessions[0].got, at(5.0), at(6.0)).latency[1],
        drop_0ms: summary(&near.sessions[0].got, at(5.0), at(10.0)).latency[1],
        steady: steady.latency[0],
        mbps: steady.mbps,
        worst: bins(got, None, at(6.0), at(30.0), ms(200.0)).into_iter().fold(f64::MAX, f64::min),
        two: summary(&two.sessions[0].got, at(5.0), at(20.0)).latency[1],
        queue: plain.latency[0] - 20.0 - 1.1,
        bulk: 100.0 * plain.mbps / full(10.0),
        jitter: 100.0 * summary(&varying.sessions[0].got, at(2.0), at(20.0)).mbps / full(50.0),
    }
}

#[test]
fn each_switch_earns_its_place() {
    let all = Bbr1Tuning::TUNED;
    let without_confirm = Bbr1Tuning { confirm_rtprop: false, ..all };
    let variants = [
        ("tuned", all),
        ("without `expire_bandwidth`", Bbr1Tuning { expire_bandwidth: false, ..all }),
        ("without `confirm_rtprop`", without_confirm),
        ("without `gentle_probe_rtt`", Bbr1Tuning { gentle_probe_rtt: false, ..all }),
        (
            "without `confirm_rtprop` and `gentle_probe_rtt`",
            Bbr1Tuning { gentle_probe_rtt: false, ..without_confirm },
        ),
        ("without `small_quantum`", Bbr1Tuning { small_quantum: false, ..all }),
        ("without `allow_for_jitter`", Bbr1Tuning { allow_for_jitter: false, ..all }),
        ("without `full_drain`", Bbr1Tuning { full_drain: false, ..all }),
        ("without `open_startup`", Bbr1Tuning { open_startup: false, ..all }),
        ("without `heed_competitors`", Bbr1Tuning { heed_competitors: false, ..all }),
        ("draft", Bbr1Tuning::DRAFT),
    ];
    println!(
        "| | drop p95 | asleep p95 | 0 ms p95 | then p50 | Mbit/s | worst | B p95 | bulk queue | share | jitter |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    let mut table = "| variant | latency, ms | lowest rate, Mbit/s | latency, two paths, ms | jitter, % |\n\
                     |---|--:|--:|--:|--:|\n"
        .to_owned();
    let f = variants.map(|(name, tuning)| {
        let f = measure(&bbr(tuning));
        table += &format!("| {name} | {:.1} | {:.2} | {:.1} | {:.1} |\n", f.drop, f.worst, f.two, f.jitter);
        println!(
            "| {name} | {:.1} | {:.1} | {:.1} | {:.1} | {:.2} | {:.2} | {:.1} | {:.1} | {:.1} % | {:.1} % |",
            f.drop,
            f.asleep,
            f.drop_0ms,
            f.steady,
            f.mbps,
            f.worst,
            f.two,
            f.queue.max(0.0),
            f.bulk,
            f.jitter
        );
        f
    });
    page::check("ccid5.md", "switches", &table);
    let [tuned, expire, confirm, _gentle, neither, quantum, jitter, drain, _startup, _competitors, draft] =
        &f;
    assert!(expire.drop > tuned.drop + 10.0 && expire.asleep > tuned.asleep + 10.0, "expire_bandwidth");
    assert!(confirm.worst < tuned.worst - 0.2 && neither.worst < confirm.worst - 2.0, "confirm_, gentle_");
    assert!(quantum.queue > tuned.queue + 1.0, "small_quantum");
    assert!(jitter.jitter < tuned.jitter - 20.0, "allow_for_jitter");
    assert!(drain.steady > tuned.steady + 1.0, "full_drain");
    assert!(draft.drop > 2.0 * tuned.drop && draft.two > 2.0 * tuned.two, "draft");
}
