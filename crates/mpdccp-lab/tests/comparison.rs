//! References, aims, sentences and the report, from medians made by hand.

mod common;

use mpdccp_lab::Scenario;
use mpdccp_lab::comparison::{Comparison, as_text, compare, sentences};
use serde_json::json;

fn comparisons(scenario: &str) -> (Scenario, Vec<Comparison>) {
    let scenario = Scenario::parse("made-up", scenario).unwrap();
    let median = |label, p95: f64| json!({"label": label, "cell": "a", "n": 3, "metrics": {"rx_mbps": 9.9, "app_p50_ms": 12.0, "app_p95_ms": p95, "second_path_ms": 40.0}});
    let all = compare(&scenario, &[median("ccid2", 80.0), median("ccid5", 20.0)]);
    (scenario, all)
}

#[test]
fn aims_are_judged_and_references_stand_beside() {
    let (scenario, all) = comparisons(common::SCENARIO);
    assert!(all[0].rows.iter().all(|row| row.aim.is_none()), "nobody set aims for ccid2");
    let row = |metric| all[1].rows.iter().find(|row| row.metric == metric).unwrap();
    assert_eq!(
        (all[1].sources.len(), row("rx_mbps").references[0], row("app_p95_ms").references[0]),
        (1, Some(9.0), None)
    );
    assert_eq!(row("app_p95_ms").aim, Some(("≤ 25".to_owned(), Some(true))));
    assert_eq!(row("rx_mbps").aim, Some(("≥ 11".to_owned(), Some(false))));
    let said = sentences(&scenario, &all, "a").join("\n");
    assert!(said.contains("75 % lower with ccid5"), "{said}");
    assert!(said.contains("ccid5 reaches 1 of its 2 aims; it misses rx_mbps (9.90, aim ≥ 11)."), "{said}");
    let text = as_text(&all);
    assert!(text.contains("missed") && text.contains("somebody"), "{text}");
}

#[test]
fn an_aim_can_be_another_contender() {
    let with = |label: &str| {
        common::SCENARIO.replace("max = 25", &format!("cell = \"all\"\nnot_above = \"{label}\""))
    };
    let judged = |label: &str| {
        let (_, all) = comparisons(&with(label));
        all[1].rows.iter().find(|row| row.metric == "app_p95_ms").unwrap().aim.clone().unwrap()
    };
    assert_eq!(judged("ccid2"), ("≤ ccid2".to_owned(), Some(true)));
    assert_eq!(judged("ccid5").1, Some(true));
}
