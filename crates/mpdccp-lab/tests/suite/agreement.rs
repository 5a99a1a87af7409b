//! Tests of the comparison of two backends' summaries.

use std::fs;
use std::path::Path;

use mpdccp_lab::LabError;
use mpdccp_lab::agreement::{Agreement, Both, Pair, as_text, pairs};
use serde_json::{Value, json};

/// Writes a summary with six runs of each variant. Each entry of `variants` has the label, the rate and the
/// median latency. Depending on the seed, a run's values differ from these by up to 1 %.
fn summary(dir: &Path, scenario: &str, variants: &[(&str, f64, f64)]) {
    fs::create_dir_all(dir).unwrap();
    let run = |label: &str, rx: f64, p50: f64, seed: u32| {
        let off = 1.0 + (f64::from(seed) - 2.5) / 250.0;
        json!({"label": label, "cell": "base", "seed": seed, "metrics": {"rx_mbps": rx * off, "app_p50_ms": p50 * off}})
    };
    let runs: Vec<Value> = variants
        .iter()
        .flat_map(|(label, rx, p50)| (0..6).map(move |seed| run(label, *rx, *p50, seed)))
        .collect();
    let median =
        |(label, ..): &(&str, f64, f64)| json!({"label": label, "cell": "base", "flows": [{"kind": "udp"}]});
    let medians: Vec<_> = variants.iter().map(median).collect();
    let text = json!({"scenario": scenario, "medians": medians, "runs": runs}).to_string();
    fs::write(dir.join("summary.json"), text).unwrap();
}

#[test]
fn common_variants_are_compared_by_rate_and_latency() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    summary(&a.join("one"), "s", &[("ccid2", 9.8, 85.0), ("ccid5", 9.8, 14.0), ("tcp-cubic", 5.0, 1.0)]);
    summary(&b.join("one"), "s", &[("ccid2", 10.0, 90.0), ("ccid5", 10.0, 17.5), ("tcp-cubic", 9.0, 1.0)]);
    // Only the first directory has this experiment.
    summary(&a.join("two"), "t", &[("ccid2", 1.0, 1.0)]);
    let pairs = pairs(&a, &b).unwrap();
    let verdicts: Vec<_> = pairs.iter().map(|p| (p.label.as_str(), p.agreement().name())).collect();
    assert_eq!(verdicts, [("ccid2", "within"), ("ccid5", "apart"), ("tcp-cubic", "apart")]);
    let text = as_text(&pairs);
    assert!(
        text.contains("| s | base | ccid5 | 9.80 (9.70 to 9.90) | 10.0 (9.90 to 10.1) | -2.0 | "),
        "{text}"
    );
    assert!(text.contains("in 1 of 3 rows. 0 rows are open"), "{text}");
}

#[test]
fn the_measured_flow_chooses_the_tolerance() {
    let dir = tempfile::tempdir().unwrap();
    let tcp = |measured: &str| {
        let flow = |kind: &str| json!({"kind": kind, "measured": kind == measured});
        let run = json!({"label": "a", "cell": "base", "seed": 1, "metrics": {"rx_mbps": 1.0}});
        let medians = json!([{"label": "a", "cell": "base", "flows": [flow("udp"), flow("tcp")]}]);
        let text = json!({"scenario": "s", "medians": medians, "runs": [run]}).to_string();
        fs::write(dir.path().join("summary.json"), text).unwrap();
        pairs(dir.path(), dir.path()).unwrap()[0].tcp
    };
    assert!(tcp("tcp") && !tcp("udp"));
}

fn pair(rx: &[f64], p50: &[f64], p95: &[f64]) -> Pair {
    let both = |values: &[f64], theirs: f64| Both(values.iter().map(|v| (*v, theirs)).collect());
    Pair {
        scenario: "s".to_owned(),
        cell: "c".to_owned(),
        label: "tcp-reno".to_owned(),
        same_inputs: true,
        rx_mbps: both(rx, 10.0),
        p50_ms: Some(both(p50, 20.0)),
        p95_ms: Some(both(p95, 50.0)),
        tcp: true,
    }
}

#[test]
fn tcp_may_differ_by_a_tenth_in_rate_and_both_latencies() {
    let same = |rx: f64, p50: f64, p95: f64| pair(&[rx; 6], &[p50; 6], &[p95; 6]);
    assert_eq!(same(10.9, 18.1, 54.0).agreement(), Agreement::Within);
    for apart in [same(11.1, 20.0, 50.0), same(10.0, 22.1, 50.0), same(10.0, 20.0, 44.0)] {
        assert_eq!(apart.agreement(), Agreement::Apart, "{apart:?}");
    }
    // The medians are close, but the runs vary by more than the tolerance.
    let spread = pair(&[9.5, 8.0, 10.0, 12.0, 10.5, 10.1], &[20.0; 6], &[50.0; 6]);
    assert_eq!(spread.agreement(), Agreement::Open);
}

#[test]
fn a_few_runs_show_no_agreement() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    summary(&a, "s", &[("ccid2", 10.4, 5.0)]);
    summary(&b, "s", &[("ccid2", 10.0, 5.0)]);
    assert_eq!(pairs(&a, &b).unwrap()[0].agreement(), Agreement::Apart);
    let differ = || as_text(&pairs(&a, &b).unwrap()).contains("Rows whose inputs differ: 1.");
    assert!(!differ());
    let changed = fs::read_to_string(b.join("summary.json")).unwrap();
    let changed = changed.replace("\"seed\":0", "\"resolved_hash\":\"of another rate\",\"seed\":0");
    fs::write(b.join("summary.json"), changed).unwrap();
    assert!(differ());
    summary(&b, "another", &[("ccid2", 10.0, 5.0)]);
    let error = pairs(&a, &b).unwrap_err();
    assert!(matches!(&error, LabError::Wrong(why) if why.contains("in common")), "{error}");
    for (a, b) in [(&a, &dir.path().join("none")), (&dir.path().join("none"), &b)] {
        let error = pairs(a, b).unwrap_err();
        assert!(matches!(&error, LabError::Wrong(why) if why.contains("cannot read")), "{error}");
    }
    let five = [10.0; 5];
    assert_eq!(pair(&five, &[20.0; 5], &[50.0; 5]).agreement(), Agreement::Open);
}

/// For example, all paths of a variant can be down in the last phase.
#[test]
fn a_rate_of_zero_has_no_percentage() {
    let none = |ours: f64| Pair { rx_mbps: Both(vec![(ours, 0.0); 6]), ..pair(&[], &[20.0; 6], &[50.0; 6]) };
    assert!(
        as_text(&[none(0.0)]).contains("| 0 (0 to 0) | 0 (0 to 0) | – | 20.0"),
        "{}",
        as_text(&[none(0.0)])
    );
    assert!(!as_text(&[none(1.0)]).contains("inf"));
    assert_eq!(none(0.0).agreement(), Agreement::Within);
}
