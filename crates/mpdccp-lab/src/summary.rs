//! Writes `summary.json`, the machine-readable result, in a stable format documented in `docs/summary.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::estimate::{Estimate, Interval, middle, percentile, sorted};

/// Version of the format. Readers should ignore unknown keys.
pub const SCHEMA: u32 = 2;

/// The whole file.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)] // the names are the contract, explained in docs/summary.md
pub struct Summary {
    pub schema: u32,
    pub version: &'static str,
    pub commit: Option<&'static str>,
    /// Whether the sources differed from the commit.
    pub dirty: Option<bool>,
    pub seed: u64,
    pub scenario: String,
    /// The scenario as run, including any replaced values.
    pub scenario_text: String,
    pub scenario_hash: String,
    pub backend: &'static str,
    pub environment: Environment,
    pub runs: Vec<Run>,
    /// For each variant and cell, an entry like that of a run, in which each number is the median over the
    /// runs.
    pub medians: Vec<Value>,
}

impl Summary {
    /// Returns a CSV table with one row for each flow of each run, and the columns of Pantheon's reports:
    /// rate, 95th percentile of delay, loss.
    pub(crate) fn csv(&self) -> String {
        let mut out = "scheme,cell,run,seed,flow,throughput_mbps,delay_p95_ms,loss_pct\n".to_owned();
        let known = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.3}"));
        for run in &self.runs {
            for flow in &run.flows {
                let last = flow.phases.last();
                let delay =
                    last.and_then(|phase| phase.app_latency_ms.or(phase.wire_latency_ms)).map(|l| l.p95);
                let figures = [last.map(|phase| phase.rx_mbps), delay, flow.lost_pct].map(known).join(",");
                let Run { label, cell, repeat, seed, .. } = run;
                out += &format!("{label},{cell},{repeat},{seed},{},{figures}\n", flow.name);
            }
        }
        out
    }
}

/// Environment of the measurement.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Environment {
    /// Properties of the machine that influence results, such as its kernel and external programs. Empty in
    /// virtual time.
    pub made_by: BTreeMap<String, String>,
    pub cpus: Option<usize>,
    pub link_lateness_us_p99: Option<f64>,
}

impl Environment {
    /// Returns text for a report's head.
    pub(crate) fn words(&self) -> String {
        let made_by: String = self.made_by.iter().map(|(what, which)| format!(", {what} {which}")).collect();
        made_by + &self.cpus.map_or(String::new(), |cpus| format!(", {cpus} CPUs"))
    }
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Run {
    pub label: String,
    pub cell: String,
    pub repeat: u32,
    pub seed: u64,
    /// Hash of the run's inputs; see [`crate::Scenario::resolved`].
    pub resolved_hash: String,
    pub params: BTreeMap<String, Value>,
    pub flows: Vec<Flow>,
    pub paths: Vec<PathStats>,
    /// The metrics for aims and references, by the names in [`crate::metrics::NAMES`]. Metrics that do not
    /// apply are absent.
    pub metrics: BTreeMap<String, f64>,
    pub link_lateness_us_p99: Option<f64>,
    /// 99th percentiles of how late the links read packets from their devices, and of how late packets were
    /// sent. Both are null in virtual time.
    pub link_read_lateness_us_p99: Option<f64>,
    pub send_lateness_us_p99: Option<f64>,
    /// Packets dropped by the devices at the ends of the links, and not by the links themselves.
    pub device_drops: u64,
}

/// Returns the items without repetitions, in order of first appearance.
pub(crate) fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for item in items {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    all
}

/// Returns the seed and value of each run that has this metric.
pub(crate) fn values<'a>(runs: impl Iterator<Item = &'a Run>, metric: &str) -> Vec<(u64, f64)> {
    runs.filter_map(|run| Some((run.seed, *run.metrics.get(metric)?))).collect()
}

/// One flow of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Flow {
    pub name: String,
    pub kind: String,
    /// Whether this is a measured flow, which the run's metrics describe.
    #[serde(default)]
    pub measured: bool,
    /// The simulator's model that replaces the kernel's TCP, if any.
    pub model: Option<String>,
    pub offered_mbps: Option<f64>,
    pub sent: Option<u64>,
    pub dropped_at_sender: Option<u64>,
    pub received: u64,
    pub lost: Option<u64>,
    pub lost_pct: Option<f64>,
    pub reordered: Option<u64>,
    pub duplicates: Option<u64>,
    pub tcp: Option<Tcp>,
    pub streams: Option<u64>,
    pub phases: Vec<FlowPhase>,
}

/// A TCP sender's counters.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Tcp {
    pub retransmits: u64,
    pub dsack: u64,
}

/// A flow in one phase, between two events.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct FlowPhase {
    pub from_s: f64,
    pub to_s: f64,
    pub rx_mbps: f64,
    pub app_latency_ms: Option<Latency>,
    pub wire_latency_ms: Option<Latency>,
}

/// One path of a run, from client to server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PathStats {
    pub name: String,
    pub phases: Vec<PathPhase>,
}

/// A path in one phase, between two events.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct PathPhase {
    pub from_s: f64,
    pub to_s: f64,
    pub tx_mbps: f64,
    pub rx_mbps: f64,
    pub latency_ms: Option<Latency>,
    pub lost: u64,
    pub queue_drops: u64,
    pub ce: u64,
    /// Rate in the reverse direction, which carries the acknowledgements.
    pub reverse_mbps: f64,
}

/// A distribution of latencies, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Latency {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl Latency {
    /// Returns the distribution of `ms`, with nearest-rank percentiles, or `None` if there are no values.
    pub(crate) fn of(ms: impl Iterator<Item = f64>) -> Option<Latency> {
        let ms = sorted(ms);
        let of = |percent| percentile(&ms, percent);
        Some(Latency { p50: of(50.0)?, p95: of(95.0)?, p99: of(99.0)?, max: of(100.0)? })
    }
}

/// Returns the medians of `runs` for each variant in each cell, in order of first appearance.
pub fn medians(runs: &[Run]) -> Vec<Value> {
    let mut groups: Vec<((&str, &str), Vec<Value>)> = Vec::new();
    for run in runs {
        let key = (run.label.as_str(), run.cell.as_str());
        let value = serde_json::json!({"flows": run.flows, "paths": run.paths, "metrics": run.metrics});
        match groups.iter_mut().find(|(k, _)| *k == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    let summarise = |((label, cell), values): ((&str, &str), Vec<Value>)| {
        let mut out = serde_json::json!({"label": label, "cell": cell, "n": values.len()});
        out["intervals"] = intervals(&values);
        if let (Value::Object(out), Value::Object(medians)) =
            (&mut out, median(&values.iter().collect::<Vec<_>>()))
        {
            out.extend(medians);
        }
        out
    };
    groups.into_iter().map(summarise).collect()
}

/// Returns, for each metric, the confidence interval of the median and the interval's coverage, if there are
/// enough runs.
fn intervals(values: &[Value]) -> Value {
    let mut of: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for (metric, value) in values.iter().filter_map(|v| v["metrics"].as_object()).flatten() {
        of.entry(metric).or_default().extend(value.as_f64());
    }
    let interval = |(metric, values): (&String, Vec<f64>)| {
        let Interval { low, high, coverage } = Estimate::of(&values)?.interval?;
        Some((metric.clone(), serde_json::json!([low, high, coverage])))
    };
    of.into_iter().filter_map(interval).collect::<serde_json::Map<_, _>>().into()
}

/// Returns the median of values that have the same structure. Each number becomes the median of the numbers
/// at its place, ignoring nulls. Values of other types are those of the first value.
fn median(values: &[&Value]) -> Value {
    let Some(first) = values.iter().find(|v| !v.is_null()) else { return Value::Null };
    match first {
        Value::Number(_) => {
            serde_json::json!(middle(&sorted(values.iter().filter_map(|v| v.as_f64()))))
        }
        Value::Array(items) => (0..items.len())
            .map(|i| median(&values.iter().filter_map(|v| v.get(i)).collect::<Vec<_>>()))
            .collect(),
        Value::Object(_) => {
            // Some runs may lack a key, for example a metric that does not apply to them.
            let keys = distinct(values.iter().filter_map(|v| v.as_object()).flat_map(|o| o.keys()));
            let of = |key: &String| median(&values.iter().filter_map(|v| v.get(key)).collect::<Vec<_>>());
            keys.into_iter().map(|key| (key.clone(), of(key))).collect::<serde_json::Map<_, _>>().into()
        }
        other => (*other).clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn medians_go_number_by_number_and_ignore_absent_ones() {
        let values = [
            json!({"name": "a", "phases": [{"x": 1.0, "y": null}]}),
            json!({"name": "a", "phases": [{"x": 9.0, "y": 4.0}]}),
            json!({"name": "a", "phases": [{"x": 2.0, "y": 8.0}], "z": 7}),
        ];
        let m = median(&values.iter().collect::<Vec<_>>());
        assert_eq!(m, json!({"name": "a", "phases": [{"x": 2.0, "y": 6.0}], "z": 7.0}));
    }
}
