//! The same figures for a browser that runs scripts: a figure's data beside its SVG, and once per page the script that draws it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::figure::PALETTE;
use super::thin::thin;
use super::{Figure, Panel, Series, Shape};

/// For the page's head: the plotting library's style, then ours.
pub(crate) const STYLE: &str =
    concat!(include_str!("../../assets/uPlot/uPlot.min.css"), include_str!("../../assets/report.css"));

/// For the end of the page: the plotting library with its licence, then what makes figures of the data.
pub(crate) const SCRIPT: &str = concat!(
    "<script>/*! uPlot\n",
    include_str!("../../assets/uPlot/LICENSE"),
    "*/\n",
    include_str!("../../assets/uPlot/uPlot.iife.min.js"),
    "</script>\n<script>\n",
    include_str!("../../assets/report.js"),
    "</script>\n"
);

impl Figure {
    /// The static figure and the data by which the page's script replaces it.
    pub(super) fn embed(&self, svg: &str) -> String {
        // Nothing in the data may look like the end of the element.
        let data = self.data().to_string().replace('<', "\\u003c");
        let mut out = format!("<div class=\"static\">{svg}</div>");
        let _ = write!(out, "<script type=\"application/json\">{data}</script>");
        out
    }

    fn data(&self) -> Value {
        let row = |row: &Vec<Panel>| -> Value {
            let range = Self::y_range(row);
            let panel = |panel: &Panel| {
                json!({
                    "title": panel.title,
                    "variant": panel.variant,
                    "y": panel.y_label,
                    "range": [range.from, range.to],
                    "log": range.log,
                    "series": panel.series.iter().map(|s| s.data(self.span)).collect::<Vec<_>>(),
                })
            };
            row.iter().filter(|p| !p.y_label.is_empty()).map(panel).collect()
        };
        json!({
            "x": self.x_label(),
            "log": self.x_log,
            "span": [self.span.0, self.span.1],
            "marks": self.marks.iter().map(|m| json!([m.at, m.label])).collect::<Vec<_>>(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

impl Series {
    fn data(&self, span: (f64, f64)) -> Value {
        let shape = match self.shape {
            Shape::Dots => "dots",
            Shape::Line => "line",
            Shape::Dashed => "dashed",
            Shape::Marked => "marked",
            Shape::Rings => "rings",
        };
        let (r, g, b) = PALETTE[self.color % PALETTE.len()];
        let alpha = if self.pale { "80" } else { "" };
        // Those with intervals are few.
        let points =
            if self.intervals.is_empty() { thin(self.points.clone(), span) } else { self.points.clone() };
        let interval = |i: &Option<(f64, f64)>| i.map(|(low, high)| [short(low), short(high)]);
        json!({
            "name": self.name,
            "variant": self.variant,
            "color": format!("#{r:02x}{g:02x}{b:02x}{alpha}"),
            "shape": shape,
            "x": points.iter().map(|p| short(p.0)).collect::<Vec<_>>(),
            "y": points.iter().map(|p| short(p.1)).collect::<Vec<_>>(),
            "intervals": self.intervals.iter().map(interval).collect::<Vec<_>>(),
        })
    }
}

/// With five significant digits: more than a screen shows.
fn short(value: f64) -> Value {
    let rounded: f64 = format!("{value:.4e}").parse().unwrap_or(value);
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 { json!(rounded as i64) } else { json!(rounded) }
}

#[cfg(test)]
mod tests {
    use super::super::figure::line;
    use super::*;

    #[test]
    fn the_data_is_bounded_and_cannot_end_its_element() {
        let points = (0..500_000).map(|i| (f64::from(i) / 1e5, f64::from(i % 997) / 3.0)).collect();
        let panel = Panel {
            title: "</script><b>".to_owned(),
            y_label: "x, ms".to_owned(),
            series: vec![line("a", 0, points)],
            ..Panel::default()
        };
        let figure = Figure { rows: vec![vec![panel]], span: (0.0, 5.0), ..Figure::default() };
        let html = figure.embed("<svg></svg>");
        assert_eq!(html.matches("</script>").count(), 1);
        assert!(html.len() < 40_000, "{}", html.len());
        assert!(
            !SCRIPT["<script>".len()..].contains("<script>/*!")
                && SCRIPT.contains("Permission is hereby granted")
        );
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(short(12.345_678).to_string(), "12.346");
        assert_eq!(short(20.0).to_string(), "20");
        assert_eq!(short(0.000_012_345_67).as_f64(), Some(1.2346e-5));
    }
}
