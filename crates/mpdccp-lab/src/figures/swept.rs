//! Figures that plot metrics against a sweep's parameter.

use std::collections::HashSet;

use super::figure::{line, look};
use super::{Figure, Panel, Series, Shape};
use crate::estimate::{middle, sorted};
use crate::metrics;
use crate::sweep::Median;

/// A horizontal axis is logarithmic if the ratio between its ends is larger than this.
const WIDE: f64 = 40.0;
/// If the latencies of two variants differ by more than this factor, the vertical axis is logarithmic,
/// because a linear axis would show the lower latency as a flat line.
const FLATTENED: f64 = 8.0;

/// For each metric of `show`, draws a row with one panel per cell and one line per variant. Returns `None` if
/// the values of `parameter`, the sweep's only parameter, are not numbers with a common unit, or are all
/// equal. `labels` names all variants of the scenario.
pub fn over_parameter(
    parameter: &str,
    show: &[String],
    labels: &[&str],
    medians: &[Median],
) -> Option<Figure> {
    let read: Vec<(f64, &str)> =
        medians.iter().map(|m| quantity(m.values.first()?)).collect::<Option<_>>()?;
    let unit = read.first()?.1;
    if read.iter().any(|(_, other)| *other != unit) {
        return None;
    }
    let xs: Vec<f64> = read.iter().map(|(x, _)| *x).collect();
    let span = xs.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x)));
    let mut order: Vec<(&Median, f64)> = medians.iter().zip(xs).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut seen = HashSet::new();
    let cells: Vec<&str> =
        medians.iter().map(|m| m.cell.as_str()).filter(|cell| seen.insert(*cell)).collect();
    let panel = |(i, metric): (usize, &String), cell: &str| {
        let mut series: Vec<Series> = Vec::new();
        for (m, x) in order.iter().filter(|(m, _)| m.cell == cell) {
            let Some(estimate) = m.shown.get(i).copied().flatten() else { continue };
            let at = series.iter().position(|s| s.name == m.label).unwrap_or_else(|| {
                let (color, dash) = look(&m.label, labels);
                let variant = Some(m.label.clone());
                series.push(Series {
                    variant,
                    dash,
                    shape: Shape::Marked,
                    ..line(&m.label, color, Vec::new())
                });
                series.len() - 1
            });
            series[at].points.push((*x, estimate.median));
            series[at].intervals.push(estimate.interval.map(|i| (i.low, i.high)));
        }
        let words = metrics::NAMES.iter().find(|(name, _)| name == metric).map_or(metric.as_str(), |n| n.1);
        let y_log = words.ends_with(", ms") && flattened(&series);
        // A single cell needs no title, and leaves its space to the legend.
        let title = if cells.len() > 1 { cell.to_owned() } else { String::new() };
        Panel { title, y_label: words.to_owned(), series, y_log, ..Panel::default() }
    };
    let row = |metric: (usize, &String)| cells.iter().map(|cell| panel(metric, cell)).collect();
    (span.0 < span.1).then(|| Figure {
        rows: show.iter().enumerate().map(row).collect(),
        span,
        x_log: span.0 > 0.0 && span.1 > WIDE * span.0,
        x_label: Some(axis(parameter, unit)),
        ..Figure::default()
    })
}

/// Returns whether the lines' medians are so far apart that only the highest line would be visible on a
/// linear axis.
fn flattened(series: &[Series]) -> bool {
    let level = |s: &Series| middle(&sorted(s.points.iter().map(|(_, y)| *y)));
    let levels: Vec<f64> = series.iter().filter_map(level).collect();
    let low = levels.iter().copied().fold(f64::INFINITY, f64::min);
    low > 0.0 && levels.iter().any(|level| *level > FLATTENED * low)
}

/// Returns a parameter and its unit, for the axis label.
fn axis(parameter: &str, unit: &str) -> String {
    let words = match parameter.rsplit('.').next() {
        Some("owd") => "one-way delay",
        Some("loss") => "loss",
        Some("queue") => "queue",
        Some("rate") => "rate",
        Some("count") => "number of flows",
        _ => parameter,
    };
    if unit.is_empty() { words.to_owned() } else { format!("{words}, {unit}") }
}

/// Parses a value in the notation of scenarios, and converts it to the axis unit.
fn quantity(value: &str) -> Option<(f64, &'static str)> {
    let value = value.trim();
    let end = value.find(|c: char| !(c.is_ascii_digit() || ".+-".contains(c))).unwrap_or(value.len());
    let number: f64 = value[..end].parse().ok()?;
    let (factor, unit) = match value[end..].trim() {
        "" => (1.0, ""),
        "%" => (1.0, "%"),
        "us" | "µs" => (1e-3, "ms"),
        "ms" => (1.0, "ms"),
        "s" => (1e3, "ms"),
        "bit/s" => (1e-6, "Mbit/s"),
        "kbit/s" | "k" => (1e-3, "Mbit/s"),
        "Mbit/s" | "M" => (1.0, "Mbit/s"),
        "Gbit/s" | "G" => (1e3, "Mbit/s"),
        "B" => (1e-3, "kB"),
        "kB" => (1.0, "kB"),
        "MB" => (1e3, "kB"),
        "packets" => (1.0, "packets"),
        "BDP" => (1.0, "BDP"),
        _ => return None,
    };
    Some((number * factor, unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{Estimate, Interval};

    fn median(label: &str, value: &str, y: f64) -> Median {
        Median {
            label: label.to_owned(),
            cell: "base".to_owned(),
            values: vec![value.to_owned()],
            runs: 5,
            shown: vec![
                Some(Estimate {
                    n: 5,
                    median: y,
                    interval: Some(Interval { low: y - 1.0, high: y + 1.0, coverage: 0.95 }),
                }),
                None,
            ],
        }
    }

    #[test]
    fn variants_become_lines_over_the_parameters_values() {
        let medians =
            [median("ccid2", "0 ms", 9.0), median("ccid5", "0 ms", 9.5), median("ccid2", "0.3 s", 4.0)];
        let show = ["rx_mbps".to_owned(), "jain".to_owned()];
        let figure = over_parameter("path.*.owd", &show, &["ccid2", "ccid5"], &medians).unwrap();
        assert_eq!((figure.span, figure.x_label()), ((0.0, 300.0), "one-way delay, ms"));
        let line = &figure.rows[0][0].series[0];
        assert_eq!(line.points, [(0.0, 9.0), (300.0, 4.0)]);
        assert_eq!(line.intervals, [Some((8.0, 10.0)), Some((3.0, 5.0))]);
        assert_eq!(figure.rows[0][0].y_label, "received, Mbit/s");
        assert_eq!(figure.rows[1][0].y_label, "Jain's fairness index of the flows' rates");
        assert!(figure.rows[1][0].series.is_empty());
    }

    #[test]
    fn all_units_of_scenarios_make_an_axis() {
        let show = ["rx_mbps".to_owned()];
        let figure = |parameter, values: [&str; 2]| {
            over_parameter(parameter, &show, &[], &values.map(|value| median("ccid2", value, 1.0))).unwrap()
        };
        let queue = figure("path.*.queue", ["0.5 BDP", "2 BDP"]);
        assert_eq!((queue.span, queue.x_label()), ((0.5, 2.0), "queue, BDP"));
        let rate = figure("path.*.rate", ["500k", "20 Mbit/s"]);
        assert_eq!((rate.span, rate.x_label()), ((0.5, 20.0), "rate, Mbit/s"));
    }

    #[test]
    fn values_without_a_common_unit_make_no_axis() {
        let show = ["rx_mbps".to_owned()];
        assert!(over_parameter("flow.f.cc", &show, &[], &[median("ccid2", "reno", 1.0)]).is_none());
        let mixed = [median("ccid2", "10 packets", 1.0), median("ccid2", "100 kB", 1.0)];
        assert!(over_parameter("path.*.queue", &show, &[], &mixed).is_none());
    }

    #[test]
    fn a_variant_that_would_be_flattened_gets_a_logarithmic_range() {
        let show = ["app_p50_ms".to_owned()];
        let of = |high| [("a", 5.0), ("b", high)].map(|(label, y)| median(label, "1 %", y)).to_vec();
        let with = |high| [of(high), vec![median("a", "2 %", 5.0)]].concat();
        let log =
            |high| over_parameter("path.*.loss", &show, &["a", "b"], &with(high)).unwrap().rows[0][0].y_log;
        assert!(log(300.0) && !log(20.0));
    }

    #[test]
    fn a_variant_keeps_its_colour_where_another_has_no_value() {
        let show = ["app_p50_ms".to_owned(), "jain".to_owned()];
        let both = |label, value, first: Option<f64>| {
            let m = median(label, value, 1.0);
            Median { shown: vec![first.map(Estimate::single), m.shown[0]], ..m }
        };
        let of = |value| [both("mine", value, None), both("theirs", value, Some(2.0))];
        let figure =
            over_parameter("path.*.loss", &show, &["mine", "theirs"], &[of("1 %"), of("2 %")].concat())
                .unwrap();
        let color = |row: usize| {
            let series = &figure.rows[row][0].series;
            series.iter().find(|s| s.name == "theirs").map(|s| (s.color, s.dash))
        };
        assert!(color(0).is_some() && color(0) == color(1), "{:?} {:?}", color(0), color(1));
        assert_ne!(color(1), figure.rows[1][0].series.first().map(|s| (s.color, s.dash)));
    }
}
