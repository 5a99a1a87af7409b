//! Completion times of short flows.

use std::collections::HashMap;

use crate::record::RunRecord;
use crate::summary::Latency;

/// Returns the median and the 95th percentile of the completion times of all short connections in ms, and the
/// percentage of connections that did not complete.
pub(super) fn completion(run: &RunRecord) -> Vec<(&'static str, f64)> {
    let (mut times, mut begun) = (Vec::new(), 0);
    for flow in run.flows.iter().filter(|flow| flow.kind == "short") {
        let complete: HashMap<u64, mpdccp_units::Time> =
            flow.received.iter().map(|whole| (whole.seq, whole.at)).collect();
        begun += flow.sent.len();
        times.extend((0u64..).zip(&flow.sent).filter_map(|(number, sent)| {
            complete.get(&number).map(|at| at.since(sent.at).as_secs_f64() * 1e3)
        }));
    }
    let mut metrics = Vec::new();
    if begun > 0 {
        metrics.push(("fct_missing_pct", (begun - times.len()) as f64 * 100.0 / begun as f64));
    }
    if let Some(times) = Latency::of(times.into_iter()) {
        metrics.extend([("fct_p50_ms", times.p50), ("fct_p95_ms", times.p95)]);
    }
    metrics
}
