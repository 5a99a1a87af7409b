//! Tests of references, aims, sentences and reports, using runs with made-up results.

use mpdccp_lab::Scenario;
use mpdccp_lab::comparison::{Comparison, as_text, compare};
use mpdccp_lab::estimate::Verdict;
use mpdccp_lab::sentences::sentences;
use mpdccp_lab::summary::Run;
use serde_json::json;

/// Returns three runs each of two variants. The second variant has the given values as its 95th percentiles.
fn runs(p95: [f64; 3], second: serde_json::Value) -> Vec<Run> {
    let run = |label: &str, seed: u64, p95: f64| {
        let mut metrics = json!({"rx_mbps": 9.9, "app_p50_ms": 12.0, "app_p95_ms": p95, "lost_pct": 0.5});
        metrics.as_object_mut().unwrap().extend(second.as_object().unwrap().clone());
        let run = json!({"label": label, "cell": "a", "repeat": seed, "seed": seed, "resolved_hash": "", "params": {},
                         "flows": [], "paths": [], "metrics": metrics, "link_lateness_us_p99": null, "device_drops": 0});
        serde_json::from_value(run).unwrap()
    };
    let two = (0..3).map(|i| run("ccid2", i, 80.0 + i as f64));
    two.chain((0..3).map(|i| run("ccid5", i, p95[i as usize]))).collect()
}

fn comparisons(text: &str, p95: [f64; 3]) -> (Scenario, Vec<Comparison>) {
    let scenario = Scenario::parse("made-up", text).unwrap();
    let all = compare(&scenario, &runs(p95, json!({"second_path_ms": 40.0, "second_path_first_ms": 12.3})));
    (scenario, all)
}

#[test]
fn aims_are_judged_and_references_stand_beside() {
    let named = crate::common::SCENARIO
        .replace("source = \"somebody\"", "source = \"somebody\"\nconditions = \"payload, 15 ms timer\"");
    let (scenario, all) = comparisons(&named, [20.0, 20.1, 20.2]);
    assert!(all[0].rows.iter().all(|row| row.aim.is_none()), "ccid2 has no aims");
    let row = |metric| all[1].rows.iter().find(|row| row.metric == metric).unwrap();
    assert_eq!(
        (all[1].sources.as_slice(), row("rx_mbps").references[0], row("app_p95_ms").references[0]),
        (&["somebody (payload, 15 ms timer)".to_owned()][..], Some(9.0), None)
    );
    assert_eq!(row("app_p95_ms").aim, Some(("≤ 25".to_owned(), Some(Verdict::Met))));
    assert_eq!(row("rx_mbps").aim, Some(("≥ 11".to_owned(), Some(Verdict::Missed))));
    let said = sentences(&scenario, &all, "a").join("\n");
    assert!(said.contains("75 % lower with ccid5"), "{said}");
    assert!(
        said.contains(
            "ccid5 reaches 1 of its 2 aims; it misses rx_mbps (9.90 (9.90 to 9.90, 75 %), aim ≥ 11)."
        ),
        "{said}"
    );
    let text = as_text(&all);
    // Each variant with aims has one line.
    assert!(text.lines().filter(|l| l.starts_with("  ccid2")).count() == 1, "{text}");
    assert!(text.contains("missed") && text.contains("· somebody (payload, 15 ms timer)"), "{text}");
    assert!(!as_text(&all[..1]).contains("aim"), "{text}");
}

#[test]
fn runs_that_scatter_leave_an_aim_open_and_variants_alike() {
    let (scenario, all) = comparisons(crate::common::SCENARIO, [20.0, 22.0, 120.0]);
    let row = all[1].rows.iter().find(|row| row.metric == "app_p95_ms").unwrap();
    assert_eq!(row.aim.as_ref().unwrap().1, Some(Verdict::Open));
    let said = sentences(&scenario, &all, "a").join("\n");
    assert!(
        said.contains("show no difference between the 95th percentiles of latency of ccid5 and ccid2"),
        "{said}"
    );
    assert!(said.contains("the runs are inconclusive for app_p95_ms"), "{said}");
}

/// For example, a flow that never converges has no time until it converges.
#[test]
fn runs_without_the_metric_leave_an_aim_open() {
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    let mut runs = runs([20.0, 20.1, 20.2], json!({}));
    let verdict = |runs: &[Run]| {
        let all = compare(&scenario, runs);
        all[1].rows.iter().find(|row| row.metric == "app_p95_ms").unwrap().aim.clone().unwrap().1
    };
    assert_eq!(verdict(&runs), Some(Verdict::Met));
    runs[5].metrics.remove("app_p95_ms");
    let text = as_text(&compare(&scenario, &runs));
    assert!(text.contains("(2 of 3 runs)") && text.contains("(9.90 to 9.90, 75 %)"), "{text}");
    assert_eq!(verdict(&runs), Some(Verdict::Open));
    runs[4].metrics.insert("app_p95_ms".to_owned(), 30.0);
    runs[3].metrics.insert("app_p95_ms".to_owned(), 30.0);
    assert_eq!(verdict(&runs), Some(Verdict::Missed));
    for run in &mut runs {
        run.metrics.remove("app_p95_ms");
    }
    assert_eq!(verdict(&runs), None);
    let said = sentences(&scenario, &compare(&scenario, &runs), "a").join("\n");
    assert!(said.contains("not judged, because the metric has no value or"), "{said}");
}

#[test]
fn an_aim_can_be_another_variant() {
    let with = |label: &str| {
        crate::common::SCENARIO.replace("max = 25", &format!("cell = \"all\"\nnot_above = \"{label}\""))
    };
    let judged = |label: &str, p95| {
        let (_, all) = comparisons(&with(label), p95);
        all[1].rows.iter().find(|row| row.metric == "app_p95_ms").unwrap().aim.clone().unwrap()
    };
    assert_eq!(judged("ccid2", [20.0; 3]), ("≤ ccid2".to_owned(), Some(Verdict::Met)));
    assert_eq!(judged("ccid5", [20.0; 3]).1, Some(Verdict::Met));
    assert_eq!(judged("ccid2", [79.0, 80.0, 83.0]).1, Some(Verdict::Open));
    // In each pair of runs with the same seed, the second value is slightly higher. Values of different seeds
    // differ by more.
    assert_eq!(judged("ccid2", [80.1, 81.1, 82.1]).1, Some(Verdict::Missed));
}

#[test]
fn the_worst_of_several_aims_for_a_metric_counts() {
    let more = "[[aim]]\nlabel = \"ccid5\"\nmetric = \"app_p95_ms\"\nnot_above = \"ccid2\"\n";
    let text = crate::common::SCENARIO.replace("max = 25", "max = 100") + more;
    let judged = |p95| {
        let (_, all) = comparisons(&text, [p95; 3]);
        all[1].rows.iter().find(|row| row.metric == "app_p95_ms").unwrap().aim.clone().unwrap()
    };
    assert_eq!(judged(70.0), ("≤ 100, ≤ ccid2".to_owned(), Some(Verdict::Met)));
    assert_eq!(judged(90.0).1, Some(Verdict::Missed));
}

#[test]
fn sentences_name_the_event_and_the_time_of_each_figure() {
    let (scenario, all) = comparisons(crate::common::SCENARIO, [20.0; 3]);
    let said = sentences(&scenario, &all, "a").join("\n");
    assert!(said.contains("From the drop at t = 5 s on, ccid5 received 9.90 Mbit/s at"), "{said}");
    // The report must not present the loss over the whole run as the loss after the event.
    assert!(said.contains("Over the whole run, for ccid5: 0.50 % of all packets"), "{said}");
    assert!(said.contains("its first packet over path2 12.3 ms after the drop. The first 100 ms with more than 3 Mbit/s there ended 40.0 ms after the drop."), "{said}");
    let words = |event: &str| {
        let text = crate::common::SCENARIO.replace("{ at_s = 5, rate = \"10 Mbit/s\" }", event);
        let scenario = Scenario::parse("made-up", &text).unwrap();
        let all = compare(&scenario, &runs([20.0; 3], json!({})));
        sentences(&scenario, &all, "a").join("\n")
    };
    let rise = words("{ at_s = 4, rate = \"10 Mbit/s\" }, { at_s = 5, rate = \"100 Mbit/s\" }");
    assert!(rise.contains("From the rise at t = 5 s") && !rise.contains("drop"), "{rise}");
    assert!(rise.contains("After the rise, ccid5 sent at most 3 Mbit/s over path2 in any 100 ms."), "{rise}");
    let outage = words("{ at_s = 5, up = false }");
    assert!(outage.contains("From the outage at t = 5 s"), "{outage}");
    let back = words("{ at_s = 4, up = false }, { at_s = 5, up = true }");
    assert!(back.contains("From the return at t = 5 s") && !back.contains("drop"), "{back}");
}

#[test]
fn many_metrics_stand_below_each_other() {
    let metrics = mpdccp_lab::metrics::NAMES.iter().map(|(name, _)| ((*name).to_owned(), json!(1.5)));
    let all = json!(metrics.collect::<serde_json::Map<_, _>>());
    let scenario = Scenario::parse("made-up", crate::common::SCENARIO).unwrap();
    let text = as_text(&compare(&scenario, &runs([20.0; 3], all)));
    assert!(
        text.lines().any(|l| l.starts_with("  variant  ") && l.contains("ccid2") && l.contains("ccid5")),
        "{text}"
    );
    assert!(
        text.lines().any(|l| l.starts_with("  received, Mbit/s  ") && l.matches("1.50 (").count() == 2),
        "{text}"
    );
    assert!(text.lines().all(|l| l.chars().count() < 160), "{text}");
}
