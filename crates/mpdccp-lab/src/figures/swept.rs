//! Metrics over the values of a sweep's parameter.

use super::{Figure, Panel, Series, Shape};
use crate::metrics;
use crate::sweep::Median;

/// Colour of a contender, and whether it is drawn pale: two of a family share a colour.
const FAMILIES: &[(&str, usize, bool)] = &[
    ("ccid2", 0, false),
    ("ccid5", 1, false),
    ("ccid5-draft", 1, true),
    ("ccid7", 2, false),
    ("tcp-cubic", 2, true),
    ("ccid250", 3, false),
    ("tcp-bbr", 3, true),
];

/// One panel a metric of `show`, one line a contender; none if the values of the only `parameter` are no numbers.
pub fn over_parameter(parameter: &str, show: &[String], medians: &[Median]) -> Option<Figure> {
    let x = |m: &Median| number(m.values.first()?);
    let xs: Vec<f64> = medians.iter().map(x).collect::<Option<_>>()?;
    let panel = |(i, metric): (usize, &String)| {
        let words = metrics::NAMES.iter().find(|(name, _)| name == metric).map_or("", |(_, words)| *words);
        let mut series: Vec<Series> = Vec::new();
        for (m, x) in medians.iter().zip(&xs) {
            let Some(y) = m.shown.get(i).copied().flatten().map(|e| e.median) else { continue };
            match series.iter_mut().find(|s| s.name == m.label) {
                Some(line) => line.points.push((*x, y)),
                None => {
                    let known = FAMILIES.iter().find(|(label, ..)| *label == m.label);
                    let (color, pale) =
                        known.map_or((series.len(), false), |(_, color, pale)| (*color, *pale));
                    let points = vec![(*x, y)];
                    series.push(Series { name: m.label.clone(), color, pale, shape: Shape::Line, points });
                }
            }
        }
        let unit = words.rsplit_once(", ").map_or("", |(_, unit)| unit);
        // The legend takes the line of the title.
        let (title, y_label) =
            (String::new(), if unit.is_empty() { metric.clone() } else { words.to_owned() });
        vec![Panel { title, y_label, series, ..Panel::default() }]
    };
    let span = xs.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(*x), b.max(*x)));
    (span.0 < span.1).then(|| Figure {
        rows: show.iter().enumerate().map(panel).collect(),
        span_s: span,
        marks_s: Vec::new(),
        x_label: Some(axis(parameter)),
    })
}

/// What a parameter is, for the axis below.
fn axis(parameter: &str) -> &'static str {
    match parameter.rsplit('.').next() {
        Some("owd") => "one-way delay, ms",
        Some("loss") => "loss, %",
        Some("queue") => "queue, bytes",
        Some("count") => "flows",
        _ => "value",
    }
}

/// The number at the beginning of a value with a unit.
fn number(value: &str) -> Option<f64> {
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Estimate;

    #[test]
    fn contenders_become_lines_over_the_parameters_values() {
        let median = |label: &str, value: &str, y| Median {
            label: label.to_owned(),
            cell: "base".to_owned(),
            values: vec![value.to_owned()],
            shown: vec![Some(Estimate::single(y)), None],
        };
        let medians =
            [median("ccid2", "0 ms", 9.0), median("ccid5", "0 ms", 9.5), median("ccid2", "300 ms", 4.0)];
        let show = ["rx_mbps".to_owned(), "jain".to_owned()];
        let figure = over_parameter("path.*.owd", &show, &medians).unwrap();
        assert_eq!((figure.span_s, figure.x_label), ((0.0, 300.0), Some("one-way delay, ms")));
        assert_eq!(figure.rows[0][0].series[0].points, [(0.0, 9.0), (300.0, 4.0)]);
        assert!(figure.rows[1][0].series.is_empty());
        assert!(over_parameter("flow.f.cc", &show, &[median("ccid2", "reno", 1.0)]).is_none());
    }
}
