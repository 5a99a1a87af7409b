//! How long short flows take.

use std::collections::HashMap;

use crate::record::RunRecord;

/// Of the first flow of short ones: completion times at the median and the 95th percentile, and the share that did not complete.
pub(super) fn completion(run: &RunRecord) -> Vec<(&'static str, f64)> {
    let Some(flow) = run.flows.iter().find(|flow| flow.kind == "short") else { return Vec::new() };
    let complete: HashMap<u64, units::Time> =
        flow.received.iter().map(|whole| (whole.seq, whole.at)).collect();
    let times = (0u64..)
        .zip(&flow.sent)
        .filter_map(|(number, sent)| complete.get(&number).map(|at| at.since(sent.at).as_secs_f64() * 1e3));
    let mut metrics = Vec::new();
    if let Some(times) = super::latency(times.collect()) {
        metrics.extend([("fct_p50_ms", times.p50), ("fct_p95_ms", times.p95)]);
    }
    if !flow.sent.is_empty() {
        let missing = flow.sent.len() - complete.len().min(flow.sent.len());
        metrics.push(("fct_missing_pct", missing as f64 * 100.0 / flow.sent.len() as f64));
    }
    metrics
}
