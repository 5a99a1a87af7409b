//! Computes metrics of applications.

use crate::Plan;
use crate::record::{FlowRecord, RunRecord};
use crate::scenario::FlowSpec;

use super::arrivals::arrivals;
use super::convergence::convergence_s;
use super::energy::cpu_s_per_gb;
use super::gap::longest_gap_ms;
use super::goodput::goodput_mbps;
use super::on_time::{DEADLINE, on_time_pct};
use super::reordering::reordering;
use super::video::viewing;
use super::voip::voip_mos;

/// Returns the application metrics of `flow`, from its start to its end.
pub(super) fn metrics(
    plan: &Plan<'_>,
    run: &RunRecord,
    spec: &FlowSpec,
    flow: &FlowRecord,
) -> Vec<(&'static str, f64)> {
    let first = arrivals(run, flow);
    let end = spec.stop_s.as_ref().map_or(*plan.scenario.duration_s.as_ref(), |stop| *stop.as_ref());
    let span = (spec.start_s, end);
    let event = plan.scenario.events_s().last().copied().filter(|t| span.0 < *t && *t < span.1);
    if flow.kind == "short" {
        // The entries of a short flow are connections instead of packets, so only these two metrics are
        // meaningful.
        let all = [("goodput_mbps", goodput_mbps(flow, &first, span)), ("cpu_s_per_gb", cpu_s_per_gb(run))];
        return all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    }
    let mut all = vec![
        ("goodput_mbps", goodput_mbps(flow, &first, span)),
        ("on_time_pct", on_time_pct(&first, flow.sent.len(), spec.deadline.unwrap_or(DEADLINE))),
        ("longest_gap_ms", longest_gap_ms(&first, end)),
        ("cpu_s_per_gb", cpu_s_per_gb(run)),
    ];
    if !flow.sent.is_empty()
        && let Some(r) = reordering(&first)
    {
        all.extend([
            ("reorder_extent_p95", Some(r.extent_p95)),
            ("reorder_extent_max", Some(r.extent_max)),
            ("displaced_pct", Some(r.displaced_pct)),
            ("displacement", Some(r.displacement)),
        ]);
    }
    if flow.offered.is_some() {
        all.push(("voip_mos", voip_mos(&first, flow.sent.len())));
    } else {
        all.push(("convergence_s", convergence_s(&first, (event.unwrap_or(span.0), end))));
        if let Some(v) = viewing(&first, span) {
            all.extend([
                ("video_startup_s", Some(v.startup_s)),
                ("video_stalls", Some(f64::from(v.stalls))),
                ("video_stalled_s", Some(v.stalled_s)),
                ("video_mbps", Some(v.mbps)),
            ]);
        }
    }
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}
