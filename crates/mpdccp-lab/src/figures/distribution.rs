//! Distribution of latencies: all variants in one panel.

use super::figure::{line, look};
use super::paper::measured;
use super::{Column, Figure, Panel, Series, Shape};
use crate::RunRecord;
use crate::estimate::{percentile, sorted};
use crate::scenario::{Reference, Scenario};
use crate::series;

/// Returns the send time (s) and the latency (ms) of each packet of a flow.
type Latencies<'a> = &'a dyn Fn(&RunRecord, usize) -> Vec<(f64, f64)>;

/// Metrics whose published values are marked by rings, with their positions on the vertical axis.
type Percentiles<'a> = [(&'a str, f64); 3];

/// Draws cumulative distributions of the latency from application to application and of the latency on the
/// wire, for packets sent after the last event. A ring marks a published percentile. Returns `None` if no
/// packet has a latency.
pub fn distribution(scenario: &Scenario, columns: &[Column<'_>]) -> Option<Figure> {
    let app = panel(
        scenario,
        columns,
        "app latency",
        &|run, i| series::journeys(run, i).iter().filter_map(|j| Some((j.sent, j.app_ms()?))).collect(),
        &[("app_p50_ms", 50.0), ("app_p95_ms", 95.0), ("app_p99_ms", 99.0)],
    );
    let wire = panel(
        scenario,
        columns,
        "wire latency",
        &|run, i| series::on_wire(run, i).into_iter().map(|(at, ms, _)| (at, ms)).collect(),
        &[("wire_p50_ms", 50.0), ("wire_p95_ms", 95.0), ("wire_p99_ms", 99.0)],
    );
    let panels: Vec<Panel> = [app, wire].into_iter().filter(|panel| !panel.is_empty()).collect();
    let all = || panels.iter().flat_map(|p| &p.series).flat_map(|s| &s.points).map(|(x, _)| *x);
    let highest = all().fold(0.0, f64::max);
    let lowest = all().filter(|x| *x > 0.0).fold(highest, f64::min);
    let range = super::range::Range::logarithmic(lowest, super::range::round_up(highest));
    (highest > 0.0).then(|| Figure {
        rows: panels.into_iter().map(|panel| vec![panel]).collect(),
        span: (range.from, range.to),
        x_label: Some("latency, ms".to_owned()),
        x_log: true,
        ..Figure::default()
    })
}

fn panel(
    scenario: &Scenario,
    columns: &[Column<'_>],
    which: &str,
    latencies: Latencies<'_>,
    percentiles: &Percentiles<'_>,
) -> Panel {
    let from = scenario.measured_from_s();
    let mut series: Vec<Series> = Vec::new();
    for column in columns {
        let all = measured(scenario, column.run).flat_map(|i| latencies(column.run, i));
        let ms: Vec<f64> = all.filter(|(at, _)| *at >= from).map(|(_, ms)| ms).collect();
        if ms.is_empty() {
            continue;
        }
        let (color, dash) = look(&column.run.label, &scenario.labels());
        let variant = Some(column.label.to_owned());
        series.push(Series { variant: variant.clone(), dash, ..line(column.label, color, shares(ms)) });
        for reference in scenario.references_of(&column.run.label, &column.run.cell) {
            let points = published(reference, percentiles);
            if !points.is_empty() {
                let name = format!("{}, {}", column.label, reference.source);
                let shape = Shape::Rings;
                let variant = variant.clone();
                series.push(Series { variant, shape, ..line(&name, color, points) });
            }
        }
    }
    let since = if from > 0.0 { format!(" (sent from t = {from} s on)") } else { String::new() };
    Panel {
        title: format!("{which}{since}"),
        y_label: "packets, %".to_owned(),
        series,
        y_top: Some(100.0),
        ..Panel::default()
    }
}

fn published(reference: &Reference, percentiles: &Percentiles<'_>) -> Vec<(f64, f64)> {
    let known = |(metric, share): &(&str, f64)| {
        let (_, value) = reference.values.iter().find(|(name, _)| name.as_ref() == metric)?;
        Some((*value, *share))
    };
    percentiles.iter().filter_map(known).collect()
}

/// Returns the points of the distribution. Each has a latency, and the percentage of packets with at most
/// this latency. The latencies are nearest-rank percentiles in steps of half a per cent, and in finer steps
/// at the upper end.
fn shares(ms: Vec<f64>) -> Vec<(f64, f64)> {
    let ms = sorted(ms.into_iter());
    let steps = (1..=198).map(|i| f64::from(i) * 0.5).chain((91..=100).map(|i| 90.0 + f64::from(i) * 0.1));
    let at = |share: f64| Some((percentile(&ms, share)?, share));
    std::iter::once(0.0).chain(steps).filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentiles_by_nearest_rank() {
        let shares = shares((1..=1000).rev().map(f64::from).collect());
        let at = |share: f64| shares.iter().find(|(_, s)| (s - share).abs() < 1e-9).map(|(ms, _)| *ms);
        assert_eq!(
            (at(0.0), at(50.0), at(95.0), at(99.0)),
            (Some(1.0), Some(500.0), Some(950.0), Some(990.0))
        );
        assert_eq!((at(99.9), shares.last().copied()), (Some(999.0), Some((1000.0, 100.0))));
        assert!(shares.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1));
    }
}
