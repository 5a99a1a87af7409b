//! Our figures beside those of others and the aims.

use serde_json::Value;

use crate::Scenario;
use crate::metrics::NAMES;
use crate::record::with_model;
use crate::scenario::Aim;

/// Metrics that say little unless somebody aims at them.
const IF_AIMED: &[&str] = &[
    "path_imbalance_pct",
    "min_1s_mbps",
    "utilisation_pct",
    "friendliness",
    "loss_event_pct",
    "steady_pct",
    "packet_share",
    "back_pct",
    "back_packets_pct",
];

/// One line of a comparison: one metric of one contender in one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Metric, as in [`NAMES`].
    pub metric: &'static str,
    /// In words.
    pub words: &'static str,
    /// One value for each of [`Comparison::sources`].
    pub references: Vec<Option<f64>>,
    /// Ours, the median.
    pub ours: Option<f64>,
    /// The aim in words, and whether it is met.
    pub aim: Option<(String, Option<bool>)>,
}

/// Everything to compare about one contender in one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Contender.
    pub label: String,
    /// What in it is a model.
    pub model: Option<String>,
    /// Cell.
    pub cell: String,
    /// Runs.
    pub n: u64,
    /// Whose figures stand beside ours.
    pub sources: Vec<String>,
    /// Metrics of which somebody has a figure.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// The contender's label, with what of it is a model.
    pub fn shown(&self) -> String {
        with_model(&self.label, self.model.as_deref())
    }
}

/// One comparison for each of `medians`, as [`crate::summary::medians`] gives them.
pub fn compare(scenario: &Scenario, medians: &[Value]) -> Vec<Comparison> {
    medians.iter().map(|median| one(scenario, median, medians)).collect()
}

fn one(scenario: &Scenario, median: &Value, all: &[Value]) -> Comparison {
    let text = |key: &str| median[key].as_str().unwrap_or_default().to_owned();
    let (label, cell) = (text("label"), text("cell"));
    let references: Vec<_> = scenario.references_of(&label, &cell).collect();
    let aim_cell = |aim: &Aim| match &aim.cell {
        Some(named) => *named.as_ref() == cell || named.as_ref() == "all",
        None => scenario.headline().name == cell,
    };
    let aims: Vec<_> = scenario.aims.iter().filter(|a| *a.label.as_ref() == label && aim_cell(a)).collect();
    let row = |(metric, words): &(&'static str, &'static str)| {
        let ours = median["metrics"][*metric].as_f64();
        let of = |r: &&crate::scenario::Reference| {
            r.values.iter().find(|(k, _)| k.as_ref() == metric).map(|(_, v)| *v)
        };
        let aim = aims.iter().find(|a| a.metric.as_ref() == metric);
        Row {
            metric,
            words,
            references: references.iter().map(of).collect(),
            ours,
            aim: aim.map(|a| (a.text(), ours.and_then(|v| met(a, v, &cell, all)))),
        }
    };
    let compared = |r: &Row| r.aim.is_some() || r.references.iter().any(Option::is_some);
    let aimed = |r: &Row| scenario.aims.iter().any(|a| a.metric.as_ref() == r.metric);
    let told = |r: &Row| r.ours.is_some() && (aimed(r) || !IF_AIMED.contains(&r.metric));
    let rows = NAMES.iter().map(row).filter(|r| compared(r) || told(r)).collect();
    let n = median["n"].as_u64().unwrap_or(0);
    let model = median["flows"].as_array().into_iter().flatten().find_map(|f| f["model"].as_str());
    let model = model.map(str::to_owned);
    let sources = references.iter().map(|r| r.source.clone()).collect();
    Comparison { label: label.clone(), model, cell: cell.clone(), n, sources, rows }
}

/// Whether `value` reaches `aim`; none if the contender to compare with has not run.
fn met(aim: &Aim, value: f64, cell: &str, all: &[Value]) -> Option<bool> {
    let limit = match &aim.not_above {
        Some(label) => {
            let other = all.iter().find(|m| m["label"] == label.as_ref().as_str() && m["cell"] == cell)?;
            Some(other["metrics"][aim.metric.as_ref()].as_f64()?)
        }
        None => None,
    };
    let below = |limit: Option<f64>| limit.is_none_or(|limit| value <= limit);
    Some(aim.min.is_none_or(|min| value >= min) && below(aim.max) && below(limit))
}

/// A value as tables show it.
pub fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(v) if v == 0.0 || v.abs() >= 99.95 => format!("{v:.0}"),
        Some(v) if v.abs() >= 9.995 => format!("{v:.1}"),
        Some(v) if v.abs() >= 0.1 => format!("{v:.2}"),
        Some(v) => format!("{v:.3}"),
    }
}

/// What the numbers say, in sentences.
pub fn sentences(scenario: &Scenario, all: &[Comparison], cell: &str) -> Vec<String> {
    let here: Vec<&Comparison> = all.iter().filter(|c| c.cell == cell).collect();
    let value =
        |c: &Comparison, metric: &str| c.rows.iter().find(|r| r.metric == metric).and_then(|r| r.ours);
    let mut out = Vec::new();
    let since = scenario.events_s().last().map_or(String::new(), |t| format!("From t = {t} s on, "));
    for c in &here {
        let mut text = format!("{since}{} received {} Mbit/s", c.shown(), number(value(c, "rx_mbps")));
        if let (Some(p50), Some(p95)) = (value(c, "app_p50_ms"), value(c, "app_p95_ms")) {
            text += &format!(
                " at a latency of {} ms in the median and {} ms at the 95th percentile",
                number(Some(p50)),
                number(Some(p95))
            );
        }
        if let Some(lost) = value(c, "lost_pct") {
            text += &format!("; {} % of all packets were lost", number(Some(lost)));
        }
        if let Some(rise) = value(c, "second_path_ms") {
            text += &format!(
                "; the second path carried more than 3 Mbit/s {} ms after the drop",
                number(Some(rise))
            );
        } else if scenario.paths.iter().filter(|p| !p.beside).count() > 1 && !scenario.events_s().is_empty() {
            text += "; the second path never carried more than 3 Mbit/s";
        }
        out.push(text + ".");
        if let (Some(p50), Some(apart)) = (value(c, "mirror_p50_ms"), value(c, "mirror_offset_ms")) {
            out.push(format!(
                "Mirrored back to the client, the same packets of {} show {} ms in the median; p50, p95 and p99 of both ways to measure lie within {} ms.",
                c.shown(),
                number(Some(p50)),
                number(Some(apart))
            ));
        }
    }
    let p95 = |label: &str| here.iter().find(|c| c.label == label).and_then(|c| value(c, "app_p95_ms"));
    if let (Some(two), Some(five)) = (p95("ccid2"), p95("ccid5"))
        && two > 0.0
    {
        let change = (1.0 - five / two) * 100.0;
        let words = if change >= 0.0 { "lower" } else { "higher" };
        out.push(format!(
            "The 95th percentile of latency is {:.0} % {words} with ccid5 than with ccid2.",
            change.abs()
        ));
    }
    for c in &here {
        let judged: Vec<&Row> = c.rows.iter().filter(|r| matches!(r.aim, Some((_, Some(_))))).collect();
        let missed: Vec<String> = judged
            .iter()
            .filter(|r| !matches!(r.aim, Some((_, Some(true)))))
            .map(|r| {
                format!(
                    "{} ({}, aim {})",
                    r.metric,
                    number(r.ours),
                    r.aim.as_ref().map_or("", |a| a.0.as_str())
                )
            })
            .collect();
        match (judged.len(), missed.len()) {
            (0, _) => {}
            (1, 0) => out.push(format!("{} reaches its aim.", c.shown())),
            (n, 0) => out.push(format!("{} reaches all of its {n} aims.", c.shown())),
            (n, m) => out.push(format!(
                "{} reaches {} of its {n} aims; it misses {}.",
                c.shown(),
                n - m,
                missed.join(", ")
            )),
        }
    }
    out
}

/// The comparisons as a table for a terminal.
pub fn as_text(all: &[Comparison]) -> String {
    let mut out = String::new();
    for c in all {
        out += &format!(
            "\n{} · {} · median of {} run{}\n",
            c.shown(),
            c.cell,
            c.n,
            if c.n == 1 { "" } else { "s" }
        );
        let mut lines = vec![{
            let mut head = vec![String::new(), "ours".to_owned()];
            head.extend(c.sources.iter().cloned());
            head.extend(["aim".to_owned(), String::new()]);
            head
        }];
        lines.extend(c.rows.iter().map(|row| {
            let mut cells = vec![row.words.to_owned(), number(row.ours)];
            cells.extend(row.references.iter().map(|v| number(*v)));
            let (aim, met) = row.aim.clone().unwrap_or_default();
            let verdict = match met {
                Some(true) => "met",
                Some(false) => "missed",
                None => "",
            };
            cells.extend([aim, verdict.to_owned()]);
            cells
        }));
        let widths: Vec<usize> = (0..lines[0].len())
            .map(|i| lines.iter().map(|l| l[i].chars().count()).max().unwrap_or(0))
            .collect();
        for line in lines {
            let pad = |(i, text): (usize, &String)| {
                let gap = " ".repeat(widths[i] - text.chars().count());
                if i == 0 { format!("{text}{gap}") } else { format!("{gap}{text}") }
            };
            let cells: Vec<String> = line.iter().enumerate().map(pad).collect();
            out += &format!("  {}\n", cells.join("  ").trim_end());
        }
    }
    out
}
