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

pub(super) fn line(name: &str, color: usize, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), color, pale: false, shape: Shape::Line, points }
}

/// More columns would be too narrow to read; they go below.
const ABREAST: usize = 3;

/// Draws one panel of a column.
type Draw = fn(&Scenario, Column<'_>) -> Panel;

fn figure(scenario: &Scenario, columns: &[Column<'_>], kinds: &[Draw]) -> Figure {
    // For each kind a panel a column, all with the same range, so that they compare.
    let panels = |draw: &Draw| -> Vec<Panel> {
        let mut panels: Vec<Panel> = columns.iter().map(|column| draw(scenario, *column)).collect();
        let top = panels.iter().map(Panel::top).fold(0.0, f64::max);
        panels.iter_mut().for_each(|panel| panel.y_top = Some(top));
        panels
    };
    let shown = |panels: &Vec<Panel>| panels.iter().flat_map(|p| &p.series).any(|s| !s.points.is_empty());
    let kinds: Vec<Vec<Panel>> = kinds.iter().map(panels).filter(shown).collect();
    let blocks = columns.len().div_ceil(ABREAST).max(1);
    let width = columns.len().div_ceil(blocks).max(1);
    let block =
        |i: usize| kinds.iter().map(move |panels| panels.chunks(width).nth(i).unwrap_or_default().to_vec());
    Figure {
        rows: (0..blocks).flat_map(block).collect(),
        span_s: (0.0, *scenario.duration_s.as_ref()),
        marks_s: scenario.events_s(),
        x_label: None,
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
        pale: false,
        shape: Shape::Dots,
        points: journeys
            .iter()
            .filter(|j| j.path == Some(i))
            .filter_map(|j| Some((j.sent, j.app_ms()?)))
            .collect(),
    };
    let mut series: Vec<Series> = column.run.paths.iter().enumerate().map(of_path).collect();
    // Segments of a TCP inside the tunnel bear no numbers by which a link knows them.
    let elsewhere: Vec<(f64, f64)> =
        journeys.iter().filter(|j| j.path.is_none()).filter_map(|j| Some((j.sent, j.app_ms()?))).collect();
    if !elsewhere.is_empty() {
        series = vec![Series {
            name: "any path".to_owned(),
            color: 2,
            pale: false,
            shape: Shape::Dots,
            points: elsewhere,
        }];
    }
    Panel {
        title: format!("{}: latency of each packet", column.label),
        y_label: "latency, ms".to_owned(),
        series,
        ..Panel::default()
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
        ..Panel::default()
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
        ..Panel::default()
    }
}

/// One line a path of a value of the trace, and a pale one of a second value.
fn traced(
    scenario: &Scenario,
    column: Column<'_>,
    (title, y_label): (&str, &str),
    value: impl Fn(&TraceRow) -> Option<f64>,
    pale: impl Fn(&TraceRow) -> Option<f64>,
) -> Panel {
    let points = |path: usize, value: &dyn Fn(&TraceRow) -> Option<f64>| -> Vec<(f64, f64)> {
        let rows = column.run.trace.iter().filter(|row| row.path == path);
        let points = rows.filter_map(|row| Some((seconds(column.run, row.at), value(row)?)));
        points.filter(|(t, _)| *t >= 0.0).collect()
    };
    let of_path = |(i, path): (usize, &crate::PathRecord)| {
        let behind = Series { pale: true, ..line("", i, highest_of_bins(points(i, &pale))) };
        [behind, line(&path.name, i, points(i, &value))]
    };
    let mut series: Vec<Series> = column.run.paths.iter().enumerate().flat_map(of_path).collect();
    series.retain(|s| !s.points.is_empty());
    let none = if series.is_empty() { " (none)" } else { "" };
    let y_cap = cap(scenario, &series);
    Panel {
        title: format!("{}: {title}{none}", column.label),
        y_label: y_label.to_owned(),
        series,
        y_cap,
        y_top: None,
    }
}

/// The highest of the points in each twentieth of a second.
fn highest_of_bins(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let bin = |t: f64| (t * 20.0) as i64;
    let same = points.chunk_by(|a, b| bin(a.0) == bin(b.0));
    same.filter_map(|chunk| chunk.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))).collect()
}

/// A cap from the values after the last event: before it a link may be a hundred times faster.
fn cap(scenario: &Scenario, series: &[Series]) -> Option<f64> {
    let event = scenario.events_s().last().copied()? + 1.0;
    let after = series.iter().flat_map(|s| &s.points).filter(|(t, _)| *t >= event).map(|(_, y)| *y);
    after.max_by(f64::total_cmp).map(|highest| highest * 1.6)
}

fn window(scenario: &Scenario, column: Column<'_>) -> Panel {
    let kb = |bytes: u64| Some(bytes as f64 / 1e3);
    let words = ("congestion window; pale: in flight", "kB");
    traced(scenario, column, words, |row| kb(row.cwnd_bytes), |row| kb(row.inflight_bytes))
}

fn pacing(scenario: &Scenario, column: Column<'_>) -> Panel {
    let words = ("pacing rate; pale: bandwidth estimate", "Mbit/s");
    traced(scenario, column, words, |row| row.pacing_mbps, |row| row.btlbw_mbps)
}

fn queue(scenario: &Scenario, column: Column<'_>) -> Panel {
    let end = *scenario.duration_s.as_ref();
    let of_path =
        |(i, path): (usize, &crate::PathRecord)| line(&path.name, i, series::queue_kb(column.run, path, end));
    Panel {
        title: format!("{}: bottleneck queue", column.label),
        y_label: "kB".to_owned(),
        series: column.run.paths.iter().enumerate().map(of_path).collect(),
        ..Panel::default()
    }
}

fn rtt(scenario: &Scenario, column: Column<'_>) -> Panel {
    let words = ("round-trip time; pale: its minimum", "ms");
    traced(scenario, column, words, |row| row.srtt_ms, |row| row.min_rtt_ms)
}
