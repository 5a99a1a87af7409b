//! Writes sentences and a table for a sweep.

use crate::aims::applies;
use crate::document::Table;
use crate::estimate::{Estimate, Verdict, over_all, word, worst};
use crate::metrics::NAMES;
use crate::scenario::{Aim, Scenario};
use crate::summary::distinct;
use crate::sweep::{Median, Outcome};

fn parameters(scenario: &Scenario) -> Vec<String> {
    scenario.sweep.as_ref().map_or(Vec::new(), |s| s.parameters.keys().cloned().collect())
}

fn shown(scenario: &Scenario) -> &[String] {
    scenario.sweep.as_ref().map_or(&[], |s| &s.show)
}

fn words(metric: &str) -> &str {
    NAMES.iter().find(|(name, _)| *name == metric).map_or(metric, |(_, words)| words)
}

/// Returns the verdict on an aim for the metric at index `at`, or `None` if the aim has `not_above`: it
/// refers to the value of another variant, which the median does not contain.
fn reaches(aim: &Aim, median: &Median, at: usize) -> Option<Option<Verdict>> {
    let value = median.shown.get(at).copied().flatten();
    let verdict = value.and_then(|v| over_all(Some(aim.bounds().judge(v)), v.n, median.runs));
    aim.not_above.is_none().then_some(verdict)
}

/// Returns the verdicts on the aims for the median's variant and cell.
fn judged(scenario: &Scenario, median: &Median) -> Vec<Option<Verdict>> {
    let aims = scenario.aims.iter().filter(|a| applies(a, scenario, &median.label, &median.cell));
    let verdict = |aim: &Aim| {
        let at = shown(scenario).iter().position(|metric| metric == aim.metric.as_ref())?;
        reaches(aim, median, at)
    };
    aims.filter_map(verdict).collect()
}

/// Returns a table of metrics whose columns are the points of the sweep, or the cells if the sweep has
/// several cells and several parameters.
pub(super) fn table(scenario: &Scenario, outcome: &Outcome) -> Table {
    let cells = outcome.medians.iter().any(|m| m.cell != outcome.medians[0].cell);
    if cells && parameters(scenario).len() > 1 {
        by_cell(scenario, outcome)
    } else {
        by_point(scenario, outcome)
    }
}

/// Returns a table with one row per variant, point and metric, and one column per cell.
fn by_cell(scenario: &Scenario, outcome: &Outcome) -> Table {
    let cells = distinct(outcome.medians.iter().map(|m| m.cell.as_str()));
    let points = distinct(outcome.medians.iter().map(|m| (m.label.as_str(), &m.values)));
    let mut head = vec!["variant".to_owned()];
    head.extend(parameters(scenario));
    head.push(String::new());
    head.extend(cells.iter().map(|cell| (*cell).to_owned()));
    let mut rows = Vec::new();
    for (label, values) in points {
        let at = |cell: &str| {
            outcome.medians.iter().find(|m| m.label == label && m.values == *values && m.cell == cell)
        };
        for (i, metric) in shown(scenario).iter().enumerate() {
            let value = |cell: &&str| at(cell).map_or("–".to_owned(), |m| m.text(i));
            let first = [&[label.to_owned()], &values[..], &[words(metric).to_owned()]].concat();
            rows.push(first.into_iter().chain(cells.iter().map(value)).collect());
        }
    }
    Table { head, rows, ..Table::default() }
}

fn by_point(scenario: &Scenario, outcome: &Outcome) -> Table {
    let points = distinct(outcome.medians.iter().map(|m| (m.cell.as_str(), &m.values)));
    let cells = outcome.medians.iter().any(|m| m.cell != outcome.medians[0].cell);
    let mut head = vec!["variant".to_owned(), format!("over {}", parameters(scenario).join(", "))];
    head.extend(points.iter().map(|(cell, values)| {
        let values = values.join(", ");
        if cells { format!("{cell}: {values}") } else { values }
    }));
    head.extend(["aim".to_owned(), String::new()]);
    let mut rows = Vec::new();
    for label in labels(outcome) {
        let at = |(cell, values): &(&str, &Vec<String>)| {
            outcome.medians.iter().find(|m| m.label == label && m.cell == *cell && m.values == **values)
        };
        for (i, metric) in shown(scenario).iter().enumerate() {
            let value = |point| at(point).map_or("–".to_owned(), |m| m.text(i));
            let mut cells = vec![label.to_owned(), words(metric).to_owned()];
            cells.extend(points.iter().map(value));
            let (mut texts, mut verdicts) = (Vec::new(), Vec::new());
            for aim in scenario.aims.iter().filter(|aim| aim.metric.as_ref() == metric) {
                let mut here =
                    points.iter().filter(|(cell, _)| applies(aim, scenario, label, cell)).peekable();
                texts.extend(here.peek().map(|_| aim.text()));
                verdicts.extend(here.filter_map(|point| Some(reaches(aim, at(point)?, i).flatten())));
            }
            cells.push(texts.join("; "));
            let verdict = if texts.is_empty() { "" } else { word(worst(&verdicts)) };
            cells.push(verdict.to_owned());
            rows.push(cells);
        }
    }
    Table { head, rows, ..Table::default() }
}

fn labels(outcome: &Outcome) -> Vec<&str> {
    distinct(outcome.medians.iter().map(|m| m.label.as_str()))
}

/// Returns sentences with the range of the first metric for each variant, and with the verdicts on aims.
pub(super) fn sentences(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut out = Vec::new();
    for label in labels(outcome) {
        let points: Vec<&Median> = outcome.medians.iter().filter(|m| m.label == label).collect();
        let of = |(i, metric): (usize, &String)| {
            let value = |m: &Median| m.shown.get(i).copied().flatten();
            let valued = || points.iter().filter_map(|m| Some((m, value(m)?)));
            let by = |a: &Estimate, b: &Estimate| a.median.total_cmp(&b.median);
            let (low, least) = valued().min_by(|a, b| by(&a.1, &b.1))?;
            let (high, most) = valued().max_by(|a, b| by(&a.1, &b.1))?;
            let at = |m: &Median| m.values.join(", ");
            let number = |e: Estimate| crate::comparison::number(Some(e.median));
            Some(format!(
                "{} from {} ({}) to {} ({})",
                words(metric),
                number(least),
                at(low),
                number(most),
                at(high)
            ))
        };
        let each: Vec<String> = shown(scenario).iter().enumerate().filter_map(of).collect();
        if !each.is_empty() {
            out.push(format!("{label}: {}.", each.join("; ")));
        }
        let aims = points.iter().map(|m| judged(scenario, m)).filter(|verdicts| !verdicts.is_empty());
        let aims: Vec<Option<Verdict>> = aims.map(|verdicts| worst(&verdicts)).collect();
        if !aims.is_empty() {
            let met = aims.iter().filter(|verdict| **verdict == Some(Verdict::Met)).count();
            let judged = scenario.aims.iter().filter(|a| *a.label.as_ref() == label && a.not_above.is_none());
            let what = if judged.count() > 1 { "all its aims" } else { "its aim" };
            out.push(format!("{label} reaches {what} at {met} of {} points.", aims.len()));
        }
    }
    out.extend(outcome.skipped.iter().map(|(label, why)| format!("{label} was skipped: {why}.")));
    out.extend(outcome.failed.iter().map(|(what, why)| format!("The run {what} failed: {why}.")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a scenario with two cells and one variant. `rest` adds its sweep and its aims.
    fn scenario(rest: &str) -> Scenario {
        let begin = r#"name = "t"
title = "t"
duration_s = 1
path = [{ name = "a", rate = "1 Mbit/s", queue = "9 packets" }]
cell = [{ name = "near" }, { name = "far", owd = "1 ms" }]
variant = [{ label = "both" }]
flow = [{ name = "f", kind = "udp", payload = 100, rate = "1 Mbit/s" }]
"#;
        Scenario::parse("t.toml", &format!("{begin}{rest}")).unwrap()
    }

    fn median(cell: &str, values: &[&str], shown: &[f64]) -> Median {
        Median {
            label: "both".to_owned(),
            cell: cell.to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            runs: 1,
            shown: shown.iter().map(|value| Estimate::of(&[*value])).collect(),
        }
    }

    #[test]
    fn cells_are_the_columns_where_there_are_several_and_several_parameters() {
        let scenario = scenario(
            r#"[sweep]
show = ["goodput_mbps"]
parameters = { "tunnel.scheduler" = ["rr"], "tunnel.reordering" = ["passive", "adaptive"] }
"#,
        );
        let medians = vec![
            median("near", &["passive", "rr"], &[10.0]),
            median("near", &["adaptive", "rr"], &[20.0]),
            median("far", &["adaptive", "rr"], &[30.0]),
        ];
        let table = table(&scenario, &Outcome { medians, ..Outcome::default() });
        assert_eq!(table.head[4..], ["near", "far"]);
        assert_eq!(table.rows[0][1..], ["passive", "rr", words("goodput_mbps"), "10.0", "–"]);
        assert_eq!(table.rows[1][4..], ["20.0", "30.0"]);
    }

    #[test]
    fn all_aims_of_a_variant_count_in_their_cells() {
        let scenario = scenario(
            r#"aim = [
    { label = "both", metric = "goodput_mbps", min = 5 },
    { label = "both", metric = "goodput_mbps", max = 15 },
    { label = "both", metric = "lost_pct", max = 1 },
]
[sweep]
show = ["goodput_mbps", "lost_pct"]
parameters = { "tunnel.scheduler" = ["rr", "auto"] }
"#,
        );
        let medians = vec![
            median("near", &["rr"], &[10.0, 0.5]),
            median("near", &["auto"], &[20.0, 0.5]),
            // These aims are for the headline cell, which is the first one.
            median("far", &["rr"], &[10.0, 50.0]),
        ];
        let outcome = Outcome { medians, ..Outcome::default() };
        let rows = table(&scenario, &outcome).rows;
        assert_eq!(rows[0][5..], ["≥ 5; ≤ 15", "missed"]);
        assert_eq!(rows[1][5..], ["≤ 1", "met"]);
        let sentences = sentences(&scenario, &outcome);
        assert_eq!(sentences[1], "both reaches all its aims at 1 of 2 points.");
    }

    #[test]
    fn an_aim_that_names_another_variant_is_not_judged() {
        let scenario = scenario(
            r#"aim = [
    { label = "both", metric = "goodput_mbps", min = 5 },
    { label = "both", metric = "goodput_mbps", not_above = "both" },
]
[sweep]
show = ["goodput_mbps", "lost_pct"]
parameters = { "tunnel.scheduler" = ["rr"] }
"#,
        );
        let of =
            |mbps| Outcome { medians: vec![median("near", &["rr"], &[mbps, 0.0])], ..Outcome::default() };
        let rows = |mbps| table(&scenario, &of(mbps)).rows;
        assert_eq!(rows(10.0)[0][3..], ["≥ 5; ≤ both", "not judged"]);
        assert_eq!((rows(1.0)[0][4].as_str(), rows(1.0)[1][4].as_str()), ("missed", ""));
        assert_eq!(sentences(&scenario, &of(10.0))[1], "both reaches its aim at 1 of 1 points.");
    }

    #[test]
    fn a_point_without_a_value_does_not_reach_an_aim() {
        let scenario = scenario(
            r#"aim = [{ label = "both", metric = "convergence_s", max = 5 }]
[sweep]
show = ["convergence_s"]
parameters = { "tunnel.scheduler" = ["rr", "auto"] }
"#,
        );
        let never = Median { shown: vec![None], ..median("near", &["auto"], &[]) };
        let outcome = Outcome { medians: vec![median("near", &["rr"], &[3.0]), never], ..Outcome::default() };
        assert_eq!(table(&scenario, &outcome).rows[0][2..], ["3.00", "–", "≤ 5", "not judged"]);
        assert_eq!(sentences(&scenario, &outcome)[1], "both reaches its aim at 1 of 2 points.");
        // At one point, one of two runs lacks the metric.
        let some = Median { runs: 2, ..median("near", &["auto"], &[3.0]) };
        let outcome = Outcome { medians: vec![median("near", &["rr"], &[3.0]), some], ..Outcome::default() };
        assert_eq!(table(&scenario, &outcome).rows[0][2..], ["3.00", "3.00 (1 of 2 runs)", "≤ 5", "open"]);
        assert_eq!(sentences(&scenario, &outcome)[1], "both reaches its aim at 1 of 2 points.");
    }
}
