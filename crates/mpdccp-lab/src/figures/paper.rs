//! Figures 5 to 7 of the CCID5 paper, with the variants side by side.

use super::events::marks;
use super::figure::{GREY, Look, line, look, part};
use super::{Figure, Panel, Series, Shape};
use crate::estimate::{percentile, sorted};
use crate::record::seconds;
use crate::record::{RunRecord, TraceRow};
use crate::scenario::Scenario;
use crate::series;

/// A variant's run as a column of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// Title of the column.
    pub label: &'a str,
    /// The run.
    pub run: &'a RunRecord,
}

/// Maximum number of columns per row; more would make each too narrow.
const ABREAST: usize = 3;
/// If the 95th percentiles of the panels with a common vertical range differ by more than this factor, their
/// vertical axis is logarithmic. A linear axis would show the lowest panel as a flat line.
const FLATTENED: f64 = 4.0;

/// Draws one panel of a column.
type Draw = fn(&Scenario, Column<'_>) -> Panel;

/// Panels with a common vertical range, and whether this range may be logarithmic.
type Group<'a> = (&'a [Draw], bool);

fn figure(scenario: &Scenario, columns: &[Column<'_>], groups: &[Group<'_>]) -> Figure {
    let kinds: Vec<Vec<Panel>> = groups.iter().flat_map(|group| rows(scenario, columns, *group)).collect();
    let blocks = columns.len().div_ceil(ABREAST).max(1);
    let width = columns.len().div_ceil(blocks).max(1);
    let block =
        |i: usize| kinds.iter().map(move |panels| panels.chunks(width).nth(i).unwrap_or_default().to_vec());
    let cell = columns.first().and_then(|column| scenario.cell(&column.run.cell));
    Figure {
        rows: (0..blocks).flat_map(block).collect(),
        span: (0.0, *scenario.duration_s.as_ref()),
        marks: marks(scenario, cell.unwrap_or(scenario.headline())),
        ..Figure::default()
    }
}

/// Returns one row for each kind of panel, with one panel per column. All panels of these kinds have the same
/// vertical range, so that they can be compared. Kinds without data are left out.
fn rows(scenario: &Scenario, columns: &[Column<'_>], (kinds, may_log): Group<'_>) -> Vec<Vec<Panel>> {
    let row = |draw: &Draw| -> Vec<Panel> { columns.iter().map(|column| draw(scenario, *column)).collect() };
    let mut rows: Vec<Vec<Panel>> = kinds.iter().map(row).collect();
    rows.retain(|row| !row.iter().all(Panel::is_empty));
    let mut all: Vec<&mut Panel> = rows.iter_mut().flatten().collect();
    let top = all.iter().map(|panel| panel.top()).fold(0.0, f64::max);
    let levels: Vec<f64> = all.iter().filter_map(|panel| level(panel)).collect();
    let (low, high) =
        levels.iter().fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), v| (l.min(*v), h.max(*v)));
    for panel in &mut all {
        panel.y_top = Some(top);
        panel.y_log = may_log && high > FLATTENED * low;
    }
    rows
}

/// Returns the 95th percentile of a panel's values.
fn level(panel: &Panel) -> Option<f64> {
    let series = panel.series.iter().filter(|s| s.color != GREY && (!s.pale || s.shape == Shape::Dots));
    let values = sorted(series.flat_map(|s| &s.points).map(|(_, y)| *y));
    percentile(&values, 95.0).filter(|level| *level > 0.0)
}

/// Draws the latency of each packet by path, the throughput received, and the throughput of each path.
pub fn delivery(scenario: &Scenario, columns: &[Column<'_>]) -> Figure {
    figure(scenario, columns, &[(&[latency, wire], true), (&[received], false), (&[paths], false)])
}

/// Draws windows, rates, queues and round-trip times.
pub fn inner_workings(scenario: &Scenario, columns: &[Column<'_>]) -> Figure {
    let groups: [Group<'_>; 4] = [(&[window], false), (&[pacing], false), (&[queue], false), (&[rtt], true)];
    figure(scenario, columns, &groups)
}

fn latency(scenario: &Scenario, column: Column<'_>) -> Panel {
    let metrics = [("app_p50_ms", "p50"), ("app_p95_ms", "p95")];
    let points = measured(scenario, column.run).flat_map(|i| series::journeys(column.run, i));
    let points = points.filter_map(|j| Some((j.sent, j.app_ms()?, j.path))).collect();
    of_packets(scenario, column, "app", points, &metrics)
}

fn wire(scenario: &Scenario, column: Column<'_>) -> Panel {
    let metrics = [("wire_p50_ms", "p50"), ("wire_p95_ms", "p95")];
    let points = measured(scenario, column.run).flat_map(|i| series::on_wire(column.run, i));
    let points = points.map(|(at, ms, path)| (at, ms, Some(path))).collect();
    of_packets(scenario, column, "wire", points, &metrics)
}

/// Returns the indices of the measured flows.
pub(super) fn measured(scenario: &Scenario, run: &RunRecord) -> impl Iterator<Item = usize> {
    (0..run.flows.len()).filter(move |i| scenario.is_measured(&run.label, &run.flows[*i].name))
}

/// Draws a panel with each packet's latency, in one tone per path. Each entry of `all` is a packet's time in
/// seconds, its latency in ms, and its path.
fn of_packets(
    scenario: &Scenario,
    column: Column<'_>,
    which: &str,
    all: Vec<(f64, f64, Option<usize>)>,
    metrics: &[(&str, &str)],
) -> Panel {
    let points = |path: Option<usize>| -> Vec<(f64, f64)> {
        all.iter().filter(|(.., on)| *on == path).map(|(at, ms, _)| (*at, *ms)).collect()
    };
    let own = own(scenario, column);
    let dots = |name: &str, nth, points| {
        let part = part(own, nth);
        Series { name: name.to_owned(), shape: Shape::Dots, pale: part.dash > 0, points, ..part }
    };
    // TCP segments inside the tunnel cannot be identified on a link, so their path is unknown.
    let elsewhere = points(None);
    let mut series: Vec<Series> = if elsewhere.is_empty() {
        let paths = column.run.paths.iter().enumerate();
        paths.map(|(i, path)| dots(&path.name, i, points(Some(i)))).collect()
    } else {
        vec![dots("any path", 0, elsewhere)]
    };
    let title = format!("{}: {which} latency of each packet", column.label);
    if series.iter().any(|s| !s.points.is_empty()) {
        series.extend(references(scenario, column, metrics));
    }
    Panel { title, series, ..panel(column, "latency, ms") }
}

/// Returns the look of the column's variant.
fn own(scenario: &Scenario, column: Column<'_>) -> Look {
    look(&column.run.label, &scenario.labels())
}

/// Returns the series of a path or flow.
fn named(name: &str, part: Series, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), points, ..part }
}

fn panel(column: Column<'_>, y_label: &str) -> Panel {
    let variant = Some(column.label.to_owned());
    Panel { variant, y_label: y_label.to_owned(), ..Panel::default() }
}

/// Returns the reference figures for a variant, each as a line from the last event to the end, the period for
/// which the figure holds.
fn references(scenario: &Scenario, column: Column<'_>, metrics: &[(&str, &str)]) -> Vec<Series> {
    let (from, to) = (scenario.measured_from_s(), *scenario.duration_s.as_ref());
    let mut out = Vec::new();
    for reference in scenario.references_of(&column.run.label, &column.run.cell) {
        let known = |(metric, words): &(&str, &str)| {
            let value = reference.values.iter().find(|(name, _)| name.as_ref() == metric)?.1;
            Some((*value, (*words).to_owned()))
        };
        for (value, words) in metrics.iter().filter_map(known) {
            let name = format!("{} {words}", reference.source).trim_end().to_owned();
            out.push(Series { dash: 1, ..line(&name, GREY, vec![(from, value), (to, value)]) });
        }
    }
    out
}

fn received(scenario: &Scenario, column: Column<'_>) -> Panel {
    let end = *scenario.duration_s.as_ref();
    let own = own(scenario, column);
    let of_flow = |(i, flow): (usize, &crate::FlowRecord)| {
        named(&flow.name, part(own, i), series::received(column.run, flow, end))
    };
    let mut series: Vec<Series> = column.run.flows.iter().enumerate().map(of_flow).collect();
    series.extend(references(scenario, column, &[("rx_mbps", "")]));
    let title = format!("{}: received by the application", column.label);
    Panel { title, series, ..panel(column, "rate, Mbit/s") }
}

fn paths(scenario: &Scenario, column: Column<'_>) -> Panel {
    let end = *scenario.duration_s.as_ref();
    let each: Vec<_> = column.run.paths.iter().map(|path| series::offered(column.run, path, end)).collect();
    let own = own(scenario, column);
    let all = column.run.paths.iter().zip(&each).enumerate();
    let mut series: Vec<Series> =
        all.map(|(i, (path, points))| named(&path.name, part(own, i), points.clone())).collect();
    if each.len() > 1 {
        let sum = |bin: usize| (each[0][bin].0, each.iter().map(|path| path[bin].1).sum());
        series.insert(0, line("total", GREY, (0..each[0].len()).map(sum).collect()));
    }
    let title = format!("{}: sent on each path", column.label);
    Panel { title, series, ..panel(column, "rate, Mbit/s") }
}

/// For each path, draws one value of the trace as a line, and a second value as a pale line.
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
    let own = own(scenario, column);
    let of_path = |(i, path): (usize, &crate::PathRecord)| {
        let behind = Series { pale: true, ..named("", part(own, i), highest_of_bins(points(i, &pale))) };
        [behind, named(&path.name, part(own, i), points(i, &value))]
    };
    let mut series: Vec<Series> = column.run.paths.iter().enumerate().flat_map(of_path).collect();
    series.retain(|s| !s.points.is_empty());
    let y_cap = cap(scenario, &series);
    Panel { title: format!("{}: {title}", column.label), series, y_cap, ..panel(column, y_label) }
}

/// Returns the maximum of the points within each twentieth of a second.
fn highest_of_bins(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let bin = |t: f64| (t * 20.0) as i64;
    let same = points.chunk_by(|a, b| bin(a.0) == bin(b.0));
    same.filter_map(|chunk| chunk.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))).collect()
}

/// Returns the upper limit of the vertical axis. It depends only on values after the last event, because
/// links may be a hundred times faster before this event.
fn cap(scenario: &Scenario, series: &[Series]) -> Option<f64> {
    let event = scenario.events_s().last().copied()? + 1.0;
    let after = series.iter().flat_map(|s| &s.points).filter(|(t, _)| *t >= event).map(|(_, y)| *y);
    after.max_by(f64::total_cmp).map(|highest| highest * 1.6)
}

fn window(scenario: &Scenario, column: Column<'_>) -> Panel {
    let kb = |bytes: u64| Some(bytes as f64 / 1e3);
    let words = ("congestion window; pale: in flight", "window, kB");
    traced(scenario, column, words, |row| kb(row.cwnd_bytes), |row| kb(row.inflight_bytes))
}

fn pacing(scenario: &Scenario, column: Column<'_>) -> Panel {
    let words = ("pacing rate; pale: bandwidth estimate", "rate, Mbit/s");
    traced(scenario, column, words, |row| row.pacing_mbps, |row| row.btlbw_mbps)
}

fn queue(scenario: &Scenario, column: Column<'_>) -> Panel {
    let end = *scenario.duration_s.as_ref();
    let own = own(scenario, column);
    let of_path = |(i, path): (usize, &crate::PathRecord)| {
        named(&path.name, part(own, i), series::queue_kb(column.run, path, end))
    };
    let series = column.run.paths.iter().enumerate().map(of_path).collect();
    Panel { title: format!("{}: bottleneck queue", column.label), series, ..panel(column, "queue, kB") }
}

fn rtt(scenario: &Scenario, column: Column<'_>) -> Panel {
    let words = ("round-trip time; pale: its minimum", "RTT, ms");
    traced(scenario, column, words, |row| row.srtt_ms, |row| row.min_rtt_ms)
}
