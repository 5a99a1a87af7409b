//! Compares results with reference figures and aims.

use crate::Scenario;
use crate::aims::{applies, judge};
pub use crate::estimate::number;
use crate::estimate::{Estimate, Verdict, over_all, word, worst};
use crate::metrics::NAMES;
use crate::record::with_model;
use crate::scenario::Reference;
use crate::summary::{Flow, Run, distinct, values};

/// Metrics that tables show only if the scenario has an aim for them.
const IF_AIMED: &[&str] = &[
    "path_imbalance_pct",
    "min_1s_mbps",
    "utilisation_pct",
    "friendliness",
    "friendliness_run",
    "loss_event_pct",
    "loss_events",
    "steady_pct",
    "packet_share",
    "reverse_pct",
    "reverse_packets_pct",
];

/// One line of a comparison: one metric of one variant in one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Metric, as in [`NAMES`].
    pub metric: &'static str,
    /// The metric's label in tables.
    pub words: &'static str,
    /// One value for each of [`Comparison::sources`].
    pub references: Vec<Option<f64>>,
    /// Seed and value of each run that has the metric.
    pub runs: Vec<(u64, f64)>,
    /// Estimate over these runs.
    pub ours: Option<Estimate>,
    /// The text of the aim and, if there is one, the verdict.
    pub aim: Option<(String, Option<Verdict>)>,
}

/// The comparison of one variant in one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Label of the variant.
    pub label: String,
    /// The simulator's model that replaces the kernel's TCP, if any.
    pub model: Option<String>,
    /// Name of the cell.
    pub cell: String,
    /// Number of runs.
    pub n: u64,
    /// Sources of the reference figures, with their conditions.
    pub sources: Vec<String>,
    /// Text that names the measured flow.
    pub measured: String,
    /// Metrics with at least one value, measured or from a reference.
    pub rows: Vec<Row>,
    /// All flows; empty if there is only one.
    pub flows: Vec<FlowRow>,
}

/// A flow's metrics, estimated over the runs. Rates and latencies cover the last phase, from the last event
/// to the end.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowRow {
    /// Name and kind of the flow.
    pub name: String,
    /// Values in the order of `OF_FLOWS`.
    pub figures: Vec<Option<Estimate>>,
}

/// A column's header and a flow's value in that column.
type OfFlow = (&'static str, fn(&Flow) -> Option<f64>);
const OF_FLOWS: [OfFlow; 5] = [
    ("received, Mbit/s", |flow| Some(flow.phases.last()?.rx_mbps)),
    ("app latency p50, ms", |flow| Some(flow.phases.last()?.app_latency_ms?.p50)),
    ("app latency p95, ms", |flow| Some(flow.phases.last()?.app_latency_ms?.p95)),
    ("wire latency p95, ms", |flow| Some(flow.phases.last()?.wire_latency_ms?.p95)),
    ("lost, %", |flow| flow.lost_pct),
];

/// Returns the flows of these runs, one row for each name, or no rows if there is only one flow.
fn flows(runs: &[&Run]) -> Vec<FlowRow> {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for flow in runs.iter().flat_map(|run| &run.flows) {
        if !names.iter().any(|(name, _)| *name == flow.name) {
            names.push((&flow.name, &flow.kind));
        }
    }
    names.truncate(if names.len() > 1 { usize::MAX } else { 0 });
    let row = |(name, kind): (&str, &str)| {
        let own: Vec<&Flow> =
            runs.iter().filter_map(|run| run.flows.iter().find(|f| f.name == name)).collect();
        let over =
            |(_, value): &OfFlow| Estimate::of(&own.iter().filter_map(|f| value(f)).collect::<Vec<_>>());
        FlowRow { name: format!("{name} ({kind})"), figures: OF_FLOWS.iter().map(over).collect() }
    };
    names.into_iter().map(row).collect()
}

impl Comparison {
    /// Returns the variant's label, followed by the name of the TCP model if the simulator used one.
    pub fn shown(&self) -> String {
        with_model(&self.label, self.model.as_deref())
    }

    /// Returns the estimate of a metric over the runs.
    pub fn estimate(&self, metric: &str) -> Option<Estimate> {
        self.row(metric)?.ours
    }

    /// Returns an estimate over the runs as text for a table.
    pub(crate) fn text(&self, value: Option<Estimate>) -> String {
        value.map_or("–".to_owned(), |value| value.text_of(self.n as usize))
    }

    fn row(&self, metric: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.metric == metric)
    }
}

impl Reference {
    /// Returns the source, with the conditions of the measurement.
    pub fn name(&self) -> String {
        match &self.conditions {
            Some(conditions) => format!("{} ({conditions})", self.source),
            None => self.source.clone(),
        }
    }
}

/// Returns one comparison for each variant in each cell, in order of first appearance.
pub fn compare(scenario: &Scenario, runs: &[Run]) -> Vec<Comparison> {
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for run in runs {
        let same = |g: &&mut Vec<&Run>| g[0].label == run.label && g[0].cell == run.cell;
        match groups.iter_mut().find(same) {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    groups.iter().map(|group| one(scenario, group, runs)).collect()
}

fn one(scenario: &Scenario, runs: &[&Run], all: &[Run]) -> Comparison {
    let (label, cell) = (runs[0].label.clone(), runs[0].cell.clone());
    let references: Vec<_> = scenario.references_of(&label, &cell).collect();
    let aims: Vec<_> = scenario.aims.iter().filter(|aim| applies(aim, scenario, &label, &cell)).collect();
    let row = |(metric, words): &(&'static str, &'static str)| {
        let ours = values(runs.iter().copied(), metric);
        let estimate = Estimate::of(&ours.iter().map(|(_, v)| *v).collect::<Vec<_>>());
        let of = |r: &&Reference| r.values.iter().find(|(k, _)| k.as_ref() == metric).map(|(_, v)| *v);
        // A metric may have several aims, for example a limit and another variant. The worst verdict counts.
        let own = || aims.iter().filter(|a| a.metric.as_ref() == metric);
        let texts: Vec<String> = own().map(|a| a.text()).collect();
        let verdicts: Vec<_> = own().map(|a| judge(a, estimate?, &ours, &cell, all)).collect();
        let verdict = over_all(worst(&verdicts), ours.len(), runs.len());
        Row {
            metric,
            words,
            references: references.iter().map(of).collect(),
            aim: (!texts.is_empty()).then(|| (texts.join(", "), verdict)),
            runs: ours,
            ours: estimate,
        }
    };
    let compared = |r: &Row| r.aim.is_some() || r.references.iter().any(Option::is_some);
    let aimed = |r: &Row| scenario.aims.iter().any(|a| a.metric.as_ref() == r.metric);
    let told = |r: &Row| r.ours.is_some() && (aimed(r) || !IF_AIMED.contains(&r.metric));
    let rows = NAMES.iter().map(row).filter(|r| compared(r) || told(r)).collect();
    let sources = references.iter().map(|r| r.name()).collect();
    let model = runs[0].flows.iter().find_map(|flow| flow.model.clone());
    let n = runs.len() as u64;
    let measured = scenario.measured_words(&label);
    Comparison {
        label: label.clone(),
        model,
        cell: cell.clone(),
        n,
        sources,
        measured,
        rows,
        flows: flows(runs),
    }
}

/// Formats the comparisons as tables for a terminal. Each cell has two tables: one with a row per variant,
/// followed by the variant's reference figures, and one with the aims.
pub fn as_text(all: &[Comparison]) -> String {
    let mut out = String::new();
    for cell in distinct(all.iter().map(|c| c.cell.as_str())) {
        let here: Vec<&Comparison> = all.iter().filter(|c| c.cell == cell).collect();
        out += &format!("\n{cell}\n");
        out += &aligned("  ", &upright(variants(&here, &[])));
        let aims = aims(&here);
        for lines in [of_flows(&here), aims].iter().filter(|lines| lines.len() > 1) {
            out += "\n";
            out += &aligned("  ", lines);
        }
    }
    out
}

/// Returns the head and rows of a table with one row per variant, followed by the variant's reference
/// figures. The columns are `metrics`, or all metrics if `metrics` is empty.
pub(crate) fn variants(here: &[&Comparison], metrics: &[&str]) -> Vec<Vec<String>> {
    let told = |metric: &str| here.iter().any(|c| c.row(metric).is_some());
    let wanted = |metric: &str| metrics.is_empty() || metrics.contains(&metric);
    let columns: Vec<_> = NAMES.iter().filter(|(name, _)| wanted(name) && told(name)).collect();
    let mut head = vec!["variant".to_owned(), "runs".to_owned()];
    // If the rows show different flows, each row names its flow.
    let named = here.iter().any(|c| c.measured != here[0].measured);
    head.extend(named.then(|| "flow".to_owned()));
    head.extend(columns.iter().map(|(_, words)| (*words).to_owned()));
    let mut rows = vec![head];
    for c in here {
        let mut row = vec![c.shown(), c.n.to_string()];
        row.extend(named.then(|| c.measured.clone()));
        row.extend(columns.iter().map(|(name, _)| c.text(c.estimate(name))));
        rows.push(row);
        for (i, source) in c.sources.iter().enumerate() {
            let of = |name: &str| c.row(name).and_then(|row| row.references.get(i).copied().flatten());
            if columns.iter().all(|(name, _)| of(name).is_none()) {
                continue;
            }
            let mut row = vec![format!("· {source}"), String::new()];
            row.extend(named.then(String::new));
            row.extend(columns.iter().map(|(name, _)| number(of(name))));
            rows.push(row);
        }
    }
    rows
}

/// Returns the head and rows of a table of all flows of all variants. The table is empty if each variant has
/// only one flow.
pub(crate) fn of_flows(here: &[&Comparison]) -> Vec<Vec<String>> {
    let row = |c: &Comparison, f: &FlowRow| {
        [c.shown(), f.name.clone()].into_iter().chain(f.figures.iter().map(|e| c.text(*e))).collect()
    };
    let rows: Vec<Vec<String>> = here.iter().flat_map(|c| c.flows.iter().map(|f| row(c, f))).collect();
    let head =
        ["variant", "flow"].into_iter().chain(OF_FLOWS.iter().map(|(words, _)| *words)).map(str::to_owned);
    if rows.is_empty() { rows } else { [vec![head.collect()], rows].concat() }
}

/// Returns text that names the flow a table measures.
pub(crate) fn measured(here: &[&Comparison]) -> String {
    let first = here.first().map_or("", |c| c.measured.as_str());
    let same = here.iter().all(|c| c.measured == first);
    if same { format!("flow {first}") } else { "the flow named in each row".to_owned() }
}

/// Maximum number of columns that can be read side by side.
const COLUMNS: usize = 9;

/// If a table has too many columns, transposes it, so that metrics become rows and variants columns.
pub(crate) fn upright(lines: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let columns = lines.first().map_or(0, Vec::len);
    if columns <= COLUMNS || columns <= lines.len() {
        return lines;
    }
    (0..columns)
        .map(|i| lines.iter().map(|line| line.get(i).cloned().unwrap_or_default()).collect())
        .collect()
}

/// Returns the head and rows of a table of aims and their verdicts.
pub(crate) fn aims(here: &[&Comparison]) -> Vec<Vec<String>> {
    let mut rows = vec![["variant", "metric", "aim", "ours", ""].map(str::to_owned).to_vec()];
    for c in here {
        for row in &c.rows {
            let Some((aim, verdict)) = &row.aim else { continue };
            let (ours, verdict) = (c.text(row.ours), word(*verdict).to_owned());
            rows.push(vec![c.shown(), row.words.to_owned(), aim.clone(), ours, verdict]);
        }
    }
    rows
}

/// Formats a table with aligned columns. Each line begins with `indent`.
pub(crate) fn aligned(indent: &str, lines: &[Vec<String>]) -> String {
    let count = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |i: usize| lines.iter().filter_map(|l| l.get(i)).map(|f| f.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let line = |l: &Vec<String>| {
        let cells: Vec<String> =
            l.iter().zip(&widths).map(|(text, width)| format!("{text:<width$}")).collect();
        format!("{indent}{}\n", cells.join("  ").trim_end())
    };
    lines.iter().map(line).collect()
}
