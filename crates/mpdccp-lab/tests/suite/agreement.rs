//! Summaries of two backends side by side.

use std::fs;
use std::path::Path;

use mpdccp_lab::agreement::{Agreement, Pair, as_text, pairs};
use mpdccp_lab::estimate::Estimate;
use serde_json::json;

fn summary(dir: &Path, scenario: &str, variants: &[(&str, f64, f64)]) {
    fs::create_dir_all(dir).unwrap();
    let median = |(label, rx, p50): &(&str, f64, f64)| {
        json!({"label": label, "cell": "base", "flows": [{"kind": "udp"}],
               "metrics": {"rx_mbps": rx, "app_p50_ms": p50}})
    };
    let medians: Vec<_> = variants.iter().map(median).collect();
    let text = json!({"scenario": scenario, "medians": medians}).to_string();
    fs::write(dir.join("summary.json"), text).unwrap();
}

#[test]
fn what_both_have_is_judged_by_rate_and_latency() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    summary(&a.join("one"), "s", &[("ccid2", 9.8, 85.0), ("ccid5", 9.8, 14.0), ("tcp-cubic", 5.0, 1.0)]);
    summary(&b.join("one"), "s", &[("ccid2", 10.0, 90.0), ("ccid5", 10.0, 17.1), ("tcp-cubic", 9.0, 1.0)]);
    // Only one of them has these.
    summary(&a.join("two"), "t", &[("ccid2", 1.0, 1.0)]);
    let pairs = pairs(&a, &b).unwrap();
    let verdicts: Vec<_> = pairs.iter().map(|p| (p.label.as_str(), p.agreement().word())).collect();
    assert_eq!(verdicts, [("ccid2", "within"), ("ccid5", "apart"), ("tcp-cubic", "apart")]);
    assert!((pairs[0].rate_pct() + 2.0).abs() < 1e-9);
    let text = as_text(&pairs);
    assert!(
        text.contains("| s | base | ccid5 | 9.80 | 10.0 | -2.0 | 14.0 | 17.1 | -18.1 | – | – | – | apart |"),
        "{text}"
    );
    assert!(text.contains("1 of 3 are within"), "{text}");
}

#[test]
fn tcp_may_differ_by_a_tenth_in_rate_and_both_latencies() {
    let pair = |rx: f64, p50: f64, p95: f64| Pair {
        scenario: "s".to_owned(),
        cell: "c".to_owned(),
        label: "tcp-reno".to_owned(),
        rx_mbps: (Estimate::single(rx), Estimate::single(10.0)),
        p50_ms: Some((Estimate::single(p50), Estimate::single(20.0))),
        p95_ms: Some((Estimate::single(p95), Estimate::single(50.0))),
        tcp: true,
    };
    assert_eq!(pair(10.9, 18.1, 54.0).agreement(), Agreement::Within);
    for apart in [pair(11.1, 20.0, 50.0), pair(10.0, 22.1, 50.0), pair(10.0, 20.0, 44.0)] {
        assert_eq!(apart.agreement(), Agreement::Apart, "{apart:?}");
    }
    // Runs that spread as far as the two differ tell nothing.
    let mut spread = pair(13.0, 20.0, 50.0);
    spread.rx_mbps.0.interval = Some((9.5, 15.0));
    assert_eq!(spread.agreement(), Agreement::Open);
    spread.rx_mbps.0.interval = Some((11.5, 15.0));
    assert_eq!(spread.agreement(), Agreement::Apart);
}

#[test]
fn a_rate_that_differs_by_more_than_three_per_cent_is_apart() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    summary(&a, "s", &[("ccid2", 10.4, 5.0)]);
    summary(&b, "s", &[("ccid2", 10.0, 5.0)]);
    assert_eq!(pairs(&a, &b).unwrap()[0].agreement(), Agreement::Apart);
    summary(&b, "another", &[("ccid2", 10.0, 5.0)]);
    let error = pairs(&a, &b).unwrap_err().to_string();
    assert!(error.contains("in common"), "{error}");
}
