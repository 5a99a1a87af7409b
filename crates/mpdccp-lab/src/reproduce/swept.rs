//! What a sweep shows, in sentences and a table.

use super::table::{Table, verdict};
use crate::comparison::number;
use crate::metrics::NAMES;
use crate::scenario::{Aim, Scenario};
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

fn reaches(aim: &Aim, value: f64) -> Option<bool> {
    // A sweep has no cells in which to look for another contender's value.
    aim.not_above
        .is_none()
        .then(|| aim.min.is_none_or(|min| value >= min) && aim.max.is_none_or(|max| value <= max))
}

/// Whether the median reaches the aim for its contender, if there is one.
fn judged(scenario: &Scenario, median: &Median) -> Option<bool> {
    let aim = scenario.aims.iter().find(|a| *a.label.as_ref() == median.label)?;
    let at = shown(scenario).iter().position(|metric| metric == aim.metric.as_ref())?;
    reaches(aim, median.shown.get(at).copied().flatten()?)
}

/// A contender's metrics over the values of the parameters, which are the columns.
pub(super) fn table(scenario: &Scenario, outcome: &Outcome) -> Table {
    let mut points: Vec<&Vec<String>> = Vec::new();
    for m in &outcome.medians {
        if !points.contains(&&m.values) {
            points.push(&m.values);
        }
    }
    let mut head = vec!["contender".to_owned(), format!("over {}", parameters(scenario).join(", "))];
    head.extend(points.iter().map(|values| values.join(", ")));
    head.extend(["aim".to_owned(), String::new()]);
    let mut rows = Vec::new();
    for label in labels(outcome) {
        let at = |values: &&&Vec<String>| {
            outcome.medians.iter().find(|m| m.label == label && m.values == ***values)
        };
        for (i, metric) in shown(scenario).iter().enumerate() {
            let value = |values| number(at(&values).and_then(|m| m.shown.get(i).copied().flatten()));
            let mut cells = vec![label.to_owned(), words(metric).to_owned()];
            cells.extend(points.iter().map(value));
            let aim =
                scenario.aims.iter().find(|a| *a.label.as_ref() == label && a.metric.as_ref() == metric);
            let met = aim
                .map(|a| points.iter().filter_map(|v| reaches(a, at(&v)?.shown.get(i).copied().flatten()?)));
            cells.push(aim.map_or(String::new(), Aim::text));
            cells.push(verdict(met.map(|mut met| met.all(|met| met))).to_owned());
            rows.push(cells);
        }
    }
    Table { head, rows }
}

fn labels(outcome: &Outcome) -> Vec<&str> {
    let mut labels: Vec<&str> = Vec::new();
    for m in &outcome.medians {
        if !labels.contains(&m.label.as_str()) {
            labels.push(&m.label);
        }
    }
    labels
}

/// From which value to which the first metric goes for each contender, and what becomes of the aims.
pub(super) fn sentences(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut out = Vec::new();
    for label in labels(outcome) {
        let points: Vec<&Median> = outcome.medians.iter().filter(|m| m.label == label).collect();
        let of = |(i, metric): (usize, &String)| {
            let value = |m: &&&Median| m.shown.get(i).copied().flatten();
            let low = points.iter().filter(|m| value(m).is_some()).min_by(|a, b| by(value(a), value(b)))?;
            let high = points.iter().filter(|m| value(m).is_some()).max_by(|a, b| by(value(a), value(b)))?;
            let at = |m: &Median| m.values.join(", ");
            Some(format!(
                "{} from {} ({}) to {} ({})",
                words(metric),
                number(value(&low)),
                at(low),
                number(value(&high)),
                at(high)
            ))
        };
        let each: Vec<String> = shown(scenario).iter().enumerate().filter_map(of).collect();
        if !each.is_empty() {
            out.push(format!("{label}: {}.", each.join("; ")));
        }
        let aims: Vec<bool> = points.iter().filter_map(|m| judged(scenario, m)).collect();
        if !aims.is_empty() {
            let met = aims.iter().filter(|met| **met).count();
            out.push(format!("{label} reaches its aim at {met} of {} points.", aims.len()));
        }
    }
    out.extend(outcome.failed.iter().map(|(what, why)| format!("The run {what} failed: {why}.")));
    out
}

fn by(a: Option<f64>, b: Option<f64>) -> core::cmp::Ordering {
    a.unwrap_or(0.0).total_cmp(&b.unwrap_or(0.0))
}
