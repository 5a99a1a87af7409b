//! Figures 2 to 5 of the DCP paper.

use super::figure::{GREY, line};
use super::{Figure, Panel, Series, Shape};
use crate::bounds::Bounds;

/// The points of a line.
pub(crate) type Points = Vec<(f64, f64)>;

/// A panel: its title, and its named lines.
pub(crate) type Lines = (String, Vec<(&'static str, Points)>);

/// One line of figure 5.
pub(crate) struct Curve {
    /// Name in the legend.
    pub(crate) name: &'static str,
    /// Medians, joined by a line.
    pub(crate) medians: Points,
    /// Single runs, drawn as dots.
    pub(crate) runs: Points,
}

/// Draws lines over time: one panel for each of `panels`, and `abreast` panels per row.
pub(crate) fn over_time(
    panels: Vec<Lines>,
    y_label: &str,
    level: Option<f64>,
    end: f64,
    abreast: usize,
) -> Figure {
    let panel = |(title, lines): Lines| {
        let level = level.map(|y| Series { pale: true, ..line("", GREY, vec![(0.0, y), (end, y)]) });
        let one = |(i, (name, points)): (usize, (&str, Points))| Series {
            variant: Some(name.to_owned()).filter(|n| !n.is_empty()),
            ..line(name, i, points)
        };
        Panel {
            title,
            y_label: y_label.to_owned(),
            series: level.into_iter().chain(lines.into_iter().enumerate().map(one)).collect(),
            ..Panel::default()
        }
    };
    let panels: Vec<Panel> = panels.into_iter().map(panel).collect();
    // Pad the last row with empty panels.
    let rows = panels.chunks(abreast).map(|row| {
        let mut row = row.to_vec();
        row.resize(abreast.min(panels.len()), Panel::default());
        row
    });
    Figure { rows: rows.collect(), span: (0.0, end), ..Figure::default() }
}

/// Draws friendliness against the number of TCP flows: a line through the medians, a dot for each run, and
/// the aim.
pub(crate) fn against_flows(lines: Vec<Curve>, aim: Option<Bounds>) -> Figure {
    let most = lines.iter().flat_map(|line| &line.medians).map(|(n, _)| *n).fold(1.0, f64::max) + 1.0;
    let level = |y: f64| Series { pale: true, ..line("", GREY, vec![(0.0, y), (most, y)]) };
    let aim = aim.unwrap_or_default();
    let mut series: Vec<Series> = [aim.min, Some(1.0), aim.max].into_iter().flatten().map(level).collect();
    for (i, curve) in lines.into_iter().enumerate() {
        let variant = Some(curve.name.to_owned());
        series.push(Series { variant: variant.clone(), ..line(curve.name, i, curve.medians) });
        series.push(Series { variant, shape: Shape::Dots, ..line("", i, curve.runs) });
    }
    let panel = Panel {
        title: "one DCCP flow among TCP flows".to_owned(),
        y_label: "friendliness".to_owned(),
        series,
        ..Panel::default()
    };
    Figure {
        rows: vec![vec![panel]],
        span: (0.0, most),
        x_label: Some("number of TCP flows".to_owned()),
        ..Figure::default()
    }
}
