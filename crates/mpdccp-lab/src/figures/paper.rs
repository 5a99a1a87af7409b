//! What the CCID5 paper's figures 5 to 7 show, contenders side by side.

use super::draw::GREY;
use super::{Figure, Panel, Series, Shape};
use crate::metrics::seconds;
use crate::record::{RunRecord, TraceRow};
use crate::scenario::Scenario;
use crate::series;

/// A contender's run as a column of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// Above it.
    pub label: &'a str,
    /// The run.
    pub run: &'a RunRecord,
}

fn line(name: &str, color: usize, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), color, shape: Shape::Line, points }
}

fn figure(
    scenario: &Scenario,
    columns: &[Column<'_>],
    rows: &[fn(&Scenario, Column<'_>) -> Panel],
) -> Figure {
    let row = |panel: &fn(&Scenario, Column<'_>) -> Panel| -> Vec<Panel> {
        columns.iter().map(|column| panel(scenario, *column)).collect()
    };
    let rows =
        rows.iter().map(row).filter(|row| row.iter().any(|p| p.series.iter().any(|s| !s.points.is_empty())));
    Figure {
        rows: rows.collect(),
        span_s: (0.0, *scenario.duration_s.as_ref()),
        marks_s: scenario.events_s(),
    }
}

/// Latency of each packet by path, throughput received, throughput of each path.
pub fn delivery(scenario: &Scenario, columns: &[Column<'_>]) -> Figure {
    figure(scenario, columns, &[latency, received, paths])
}

/// Windows, rates, queues and round-trip times behind it.
pub fn inner_workings(scenario: &Scenario, columns: &[Column<'_>]) -> Figure {
    figure(scenario, columns, &[window, pacing, queue, rtt])
}

fn latency(_: &Scenario, column: Column<'_>) -> Panel {
    let journeys = series::journeys(column.run, 0);
    let of_path = |(i, path): (usize, &crate::PathRecord)| Series {
        name: path.name.clone(),
        color: i,
        shape: Shape::Dots,
        points: journeys
            .iter()
            .filter(|j| j.path == Some(i))
            .filter_map(|j| Some((j.sent, j.app_ms()?)))
            .collect(),
    };
    Panel {
        title: format!("{}: latency of each packet", column.label),
        y_label: "latency, ms".to_owned(),
        series: column.run.paths.iter().enumerate().map(of_path).collect(),
        y_cap: None,
    }
}

fn received(scenario: &Scenario, column: Column<'_>) -> Panel {
    let end = *scenario.duration_s.as_ref();
    let of_flow = |(i, flow): (usize, &crate::FlowRecord)| {
        line(&flow.name, i + 2, series::received(column.run, flow, end))
    };
    Panel {
        title: format!("{}: received by the application", column.label),
        y_label: "Mbit/s".to_owned(),
        series: column.run.flows.iter().enumerate().map(of_flow).collect(),
        y_cap: None,
    }
}

fn paths(scenario: &Scenario, column: Column<'_>) -> Panel {
    let end = *scenario.duration_s.as_ref();
    let each: Vec<_> = column.run.paths.iter().map(|path| series::offered(column.run, path, end)).collect();
    let mut lines: Vec<Series> = column
        .run
        .paths
        .iter()
        .zip(&each)
        .enumerate()
        .map(|(i, (p, points))| line(&p.name, i, points.clone()))
        .collect();
    if each.len() > 1 {
        let sum = |bin: usize| (each[0][bin].0, each.iter().map(|path| path[bin].1).sum());
        lines.insert(0, line("total", GREY, (0..each[0].len()).map(sum).collect()));
    }
    Panel {
        title: format!("{}: sent on each path", column.label),
        y_label: "Mbit/s".to_owned(),
        series: lines,
        y_cap: None,
    }
}

/// One line a path of a value of the trace.
fn traced(
    column: Column<'_>,
    name: &str,
    color: usize,
    value: impl Fn(&TraceRow) -> Option<f64>,
) -> Vec<Series> {
    let of_path = |(i, path): (usize, &crate::PathRecord)| {
        let rows = column.run.trace.iter().filter(|row| row.path == i);
        let points = rows.filter_map(|row| Some((seconds(column.run, row.at), value(row)?)));
        line(&format!("{}{name}", path.name), i + color, points.filter(|(t, _)| *t >= 0.0).collect())
    };
    column.run.paths.iter().enumerate().map(of_path).filter(|s| !s.points.is_empty()).collect()
}

/// A cap from the values after the last event: before it a link may be a hundred times faster.
fn cap(scenario: &Scenario, series: &[Series]) -> Option<f64> {
    let event = scenario.events_s().last().copied()? + 1.0;
    let after = series.iter().flat_map(|s| &s.points).filter(|(t, _)| *t >= event).map(|(_, y)| *y);
    after.max_by(f64::total_cmp).map(|highest| highest * 1.6)
}

fn window(scenario: &Scenario, column: Column<'_>) -> Panel {
    let mut series = traced(column, " cwnd", 0, |row| Some(row.cwnd_bytes as f64 / 1e3));
    series.extend(traced(column, " in flight", 2, |row| Some(row.inflight_bytes as f64 / 1e3)));
    let y_cap = cap(scenario, &series);
    Panel { title: format!("{}: window", column.label), y_label: "kB".to_owned(), series, y_cap }
}

fn pacing(scenario: &Scenario, column: Column<'_>) -> Panel {
    let mut series = traced(column, " pacing", 0, |row| row.pacing_mbps);
    series.extend(traced(column, " bandwidth estimate", 2, |row| row.btlbw_mbps));
    let y_cap = cap(scenario, &series);
    Panel { title: format!("{}: rate", column.label), y_label: "Mbit/s".to_owned(), series, y_cap }
}

fn queue(scenario: &Scenario, column: Column<'_>) -> Panel {
    let end = *scenario.duration_s.as_ref();
    let of_path =
        |(i, path): (usize, &crate::PathRecord)| line(&path.name, i, series::queue_kb(column.run, path, end));
    Panel {
        title: format!("{}: bottleneck queue", column.label),
        y_label: "kB".to_owned(),
        series: column.run.paths.iter().enumerate().map(of_path).collect(),
        y_cap: None,
    }
}

fn rtt(scenario: &Scenario, column: Column<'_>) -> Panel {
    let mut series = traced(column, " srtt", 0, |row| row.srtt_ms);
    series.extend(traced(column, " min RTT", 2, |row| row.min_rtt_ms));
    let y_cap = cap(scenario, &series);
    Panel { title: format!("{}: round-trip time", column.label), y_label: "ms".to_owned(), series, y_cap }
}
