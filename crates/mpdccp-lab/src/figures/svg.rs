//! Draws figures as SVG. SVG files and reports contain the same panels; in a report, a script lets the user
//! zoom and shows the values under the pointer.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::range::{Range, label};
use super::thin::thin;
use super::{Figure, Panel, Series, Shape};
use crate::{LabError, files};

/// Style sheet for the head of a report, and for each SVG file.
pub(crate) const STYLE: &str = include_str!("../../assets/figure.css");
/// Script placed at the end of a report.
pub(crate) const SCRIPT: &str = include_str!("../../assets/figure.js");

/// Size of a panel's plot in pixels, and the space to its left, to its right and below it.
const PLOT: (f64, f64) = (392.0, 160.0);
const LEFT: f64 = 56.0;
const RIGHT: f64 = 14.0;
const FOOT: f64 = 40.0;
/// A panel's width.
const WIDTH: f64 = LEFT + PLOT.0 + RIGHT;
/// Height of a header line.
const LINE: f64 = 17.0;
/// Space for the line sample of a series in the legend.
const SAMPLE: f64 = 22.0;
/// Assumed mean character width relative to the character height. The actual width is unknown here, because
/// the viewer chooses the font.
const CHARACTER: f64 = 0.56;
/// Number of parts of the horizontal axis. Each part gets the dots of all series before the next part is
/// drawn, so that no series hides another.
const TURNS: usize = 40;

impl Figure {
    fn columns(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or(1)
    }

    /// Returns the content of an SVG file: all panels in their rows.
    pub fn svg(&self) -> String {
        let (mut panels, mut down) = (String::new(), 4.0);
        for row in &self.rows {
            let head = head(row);
            for (column, panel) in row.iter().enumerate().filter(|(_, panel)| !panel.is_empty()) {
                self.panel(&mut panels, panel, (column as f64 * WIDTH, down), head, Self::y_range(row));
            }
            down += head + PLOT.1 + FOOT;
        }
        let width = self.columns() as f64 * WIDTH;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{down}\" viewBox=\"0 0 {width} {down}\">\
             <style>{STYLE}</style><rect class=\"page\" width=\"100%\" height=\"100%\"/>\n{panels}</svg>\n"
        )
    }

    /// Returns HTML for a report, with each panel in a cell of a grid.
    pub fn html(&self) -> String {
        let Range { from, to, log } = self.x_range();
        let x = escape(self.x_label());
        let mut out = format!("<div class=\"rows\" data-x=\"{x}\" data-span=\"{from} {to} {log}\">");
        for row in self.rows.iter().filter(|row| !row.iter().all(Panel::is_empty)) {
            let _ = write!(out, "<div class=\"row\" style=\"--columns:{}\">", self.columns());
            let head = head(row);
            for panel in row {
                // An empty cell keeps the following panels in their columns.
                out += "<div>";
                if !panel.is_empty() {
                    self.panel(&mut out, panel, (0.0, 0.0), head, Self::y_range(row));
                }
                out += "</div>";
            }
            out += "</div>\n";
        }
        out + "</div>"
    }

    /// Writes `stem`.svg and returns the HTML for a report.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn save(&self, stem: &Path) -> Result<String, LabError> {
        // A dot in the name of a cell does not begin an extension.
        let mut path = stem.as_os_str().to_owned();
        path.push(".svg");
        let path = PathBuf::from(path);
        files::write(&path, self.svg())?;
        Ok(self.html())
    }

    fn panel(&self, out: &mut String, panel: &Panel, (left, top): (f64, f64), head: f64, y: Range) {
        let (x, (w, h)) = (self.x_range(), PLOT);
        let height = head + h + FOOT;
        let variant = panel.variant.as_deref().map_or(String::new(), of_variant);
        let _ = write!(
            out,
            "<svg class=\"panel\" x=\"{left}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
             data-y=\"{} {} {}\"{variant}><text class=\"title\" x=\"{LEFT}\" y=\"15\">{}</text>",
            y.from,
            y.to,
            y.log,
            escape(&panel.title)
        );
        for (line, row) in legend(panel).into_iter().enumerate() {
            let mut at = WIDTH - RIGHT - row.iter().map(|(.., width)| width).sum::<f64>();
            for (nth, series, width) in row {
                key(out, (nth, series), at, 11.0 + line as f64 * LINE);
                at += width;
            }
        }
        for tick in y.ticks(5) {
            let down = head + h * (1.0 - y.place(tick));
            let _ = write!(
                out,
                "<path class=\"grid\" d=\"M{LEFT} {}h{w}\"/><text class=\"y\" x=\"{}\" y=\"{}\">{}</text>",
                px(down),
                LEFT - 6.0,
                px(down + 4.0),
                label(tick)
            );
        }
        out.push_str("<g class=\"ticks\">");
        for tick in x.ticks(8) {
            let (at, down) = (px(LEFT + w * x.place(tick)), head + h + 14.0);
            let _ = write!(out, "<text class=\"x\" x=\"{at}\" y=\"{down}\">{}</text>", label(tick));
        }
        let (middle, bottom, across) = (LEFT + w / 2.0, height - 8.0, head + h / 2.0);
        let _ = write!(
            out,
            "</g><text class=\"x\" x=\"{middle}\" y=\"{bottom}\">{}</text>\
             <text class=\"x\" transform=\"translate(13 {across}) rotate(-90)\">{}</text>\
             <svg class=\"plot\" x=\"{LEFT}\" y=\"{head}\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" preserveAspectRatio=\"none\">\
             <rect class=\"page\" width=\"{w}\" height=\"{h}\" fill-opacity=\"0\"/>",
            escape(self.x_label()),
            escape(&panel.y_label)
        );
        for mark in &self.marks {
            let _ = write!(out, "<path class=\"mark\" d=\"M{} 0v{h}\"/>", px(w * x.place(mark.at)));
        }
        self.series(out, panel, y);
        let _ = write!(out, "</svg><path class=\"axis\" d=\"M{LEFT} {head}v{h}h{w}\"/>");
        for (i, mark) in self.marks.iter().enumerate() {
            let next = self.marks.get(i + 1).map_or(1.0, |next| x.place(next.at));
            if wide(&mark.label, 10.0) + 6.0 <= (next - x.place(mark.at)) * w {
                let at = px(LEFT + w * x.place(mark.at) + 4.0);
                let _ = write!(
                    out,
                    "<text class=\"words\" x=\"{at}\" y=\"{}\">{}</text>",
                    head + 10.0,
                    escape(&mark.label)
                );
            }
        }
        out.push_str("</svg>\n");
    }

    /// Draws the pale lines first, then the other lines, then the dots. The series take turns in drawing
    /// dots.
    fn series(&self, out: &mut String, panel: &Panel, y: Range) {
        let x = self.x_range();
        let place = |(at, value): (f64, f64)| (PLOT.0 * x.place(at), PLOT.1 * (1.0 - y.place(value)));
        let all = || panel.series.iter().enumerate();
        let drawn = |series: &Series| -> Vec<(f64, f64)> {
            // Keep all points of a series that has intervals: the series is short, and each interval belongs
            // to the point with the same index.
            let points = if series.intervals.is_empty() {
                thin(series.points.clone(), self.span)
            } else {
                series.points.clone()
            };
            points.into_iter().map(place).collect()
        };
        let lines = |pale| all().filter(move |(_, s)| !s.shape.is_dots() && s.pale == pale);
        for (nth, series) in lines(true).chain(lines(false)) {
            let points = drawn(series);
            path(out, (nth, series), "line", &joined(&points));
            if series.shape == Shape::Marked {
                path(out, (nth, series), "marker", &dots(&points));
            }
            let bars = series.points.iter().zip(&series.intervals).filter_map(|((at, _), i)| {
                let (low, high) = (*i)?;
                let ((x, low), (_, high)) = (place((*at, low)), place((*at, high)));
                let [left, x, right, low, high] = [x - 3.0, x, x + 3.0, low, high].map(px);
                Some(format!("M{left} {low}H{right}M{x} {low}V{high}M{left} {high}H{right}"))
            });
            path(out, (nth, series), "error", &bars.collect::<String>());
        }
        // If a series has several dots at the same position, draw only the first.
        let mut seen = HashSet::new();
        let mut clouds = Vec::new();
        for (nth, series) in all().filter(|(_, s)| s.shape.is_dots()) {
            let mut points = drawn(series);
            points.retain(|(x, y)| seen.insert((nth, (x * 2.0) as i64, (y * 2.0) as i64)));
            clouds.push((nth, series, points));
        }
        for turn in 0..TURNS {
            let here = |(x, _): &&(f64, f64)| ((x / PLOT.0 * TURNS as f64) as usize).min(TURNS - 1) == turn;
            for (nth, series, points) in &clouds {
                let points: Vec<(f64, f64)> = points.iter().filter(here).copied().collect();
                let class = if series.shape == Shape::Rings { "ring" } else { "dot" };
                path(out, (*nth, series), class, &dots(&points));
                if series.shape == Shape::Rings {
                    path(out, (*nth, series), "hole", &dots(&points));
                }
            }
        }
    }
}

impl Shape {
    fn is_dots(self) -> bool {
        matches!(self, Shape::Dots | Shape::Rings)
    }
}

/// Draws an SVG path for the `nth` series of a panel.
fn path(out: &mut String, (nth, series): (usize, &Series), class: &str, d: &str) {
    if d.is_empty() {
        return;
    }
    let variant = series.variant.as_deref().map_or(String::new(), of_variant);
    let _ = write!(out, "<path class=\"{class}{}\" data-s=\"{nth}\"{variant} d=\"{d}\"/>", look(series));
}

/// Returns the CSS classes of a series' colour and line style.
fn look(series: &Series) -> String {
    let dash = if series.dash > 0 { format!(" d{}", series.dash) } else { String::new() };
    let pale = if series.pale { " pale" } else { "" };
    format!(" c{}{pale}{dash}", series.color % super::figure::COLORS)
}

fn joined(points: &[(f64, f64)]) -> String {
    let words: Vec<String> = points.iter().map(|(x, y)| format!("{} {}", px(*x), px(*y))).collect();
    if words.is_empty() { String::new() } else { format!("M{}", words.join(" ")) }
}

/// Returns dots as zero-length strokes, whose round ends stay round when the plot is stretched.
fn dots(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("M{} {}h0", px(*x), px(*y))).collect()
}

/// Returns the lines of the legend. The first line is beside the title if an entry fits there; the others are
/// below. Each entry has the series' index, the series and the width.
fn legend(panel: &Panel) -> Vec<Vec<(usize, &Series, f64)>> {
    let mut rows = vec![Vec::new()];
    let mut room = PLOT.0 - wide(&panel.title, 13.0);
    for (nth, series) in panel.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty()) {
        let wanted = wide(&series.name, 12.0) + SAMPLE + 8.0;
        if wanted > room {
            rows.push(Vec::new());
            room = PLOT.0;
        }
        room -= wanted;
        if let Some(row) = rows.last_mut() {
            row.push((nth, series, wanted));
        }
    }
    rows
}

/// Returns the space above the plots of a row, which is the same for all of them so that they align.
fn head(row: &[Panel]) -> f64 {
    10.0 + LINE * row.iter().map(|panel| legend(panel).len()).max().unwrap_or(1) as f64
}

/// Draws an entry of the legend.
fn key(out: &mut String, (nth, series): (usize, &Series), left: f64, middle: f64) {
    let _ = write!(out, "<g class=\"key\" data-s=\"{nth}\">");
    let center = [(left + 8.0, middle)];
    let stroke = [(left, middle), (left + 16.0, middle)];
    let mut sample = |class: &str, d: String| {
        let _ = write!(out, "<path class=\"{class}{}\" d=\"{d}\"/>", look(series));
    };
    match series.shape {
        Shape::Line => sample("line", joined(&stroke)),
        Shape::Marked => {
            sample("line", joined(&stroke));
            sample("marker", dots(&center));
        }
        Shape::Dots => sample("marker", dots(&center)),
        Shape::Rings => {
            sample("ring", dots(&center));
            sample("hole", dots(&center));
        }
    }
    let _ = write!(
        out,
        "<text x=\"{}\" y=\"{}\">{}</text></g>",
        px(left + SAMPLE),
        middle + 4.0,
        escape(&series.name)
    );
}

fn wide(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * CHARACTER
}

fn of_variant(label: &str) -> String {
    format!(" data-variant=\"{}\"", escape(label))
}

/// Rounds a coordinate to a tenth of a pixel, which is precise enough for any screen.
fn px(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Escapes text for HTML and its attributes.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::figure::line;
    use super::*;

    fn figure(series: Vec<Series>) -> Figure {
        let panel = Panel {
            title: "</svg><b>\"".to_owned(),
            y_label: "x, ms".to_owned(),
            series,
            ..Panel::default()
        };
        Figure { rows: vec![vec![Panel::default(), panel]], span: (0.0, 5.0), ..Figure::default() }
    }

    #[test]
    fn the_size_is_bounded_and_text_is_escaped() {
        let points = (0..500_000).map(|i| (f64::from(i) / 1e5, f64::from(i % 997) / 3.0)).collect();
        let figure = figure(vec![line("a", 0, points)]);
        for out in [figure.svg(), figure.html()] {
            assert!(out.contains("&lt;/svg&gt;&lt;b&gt;&quot;"));
            assert!(out.len() < 40_000, "{}", out.len());
        }
    }

    #[test]
    fn a_panel_without_points_is_left_out_and_keeps_its_column() {
        let html = figure(vec![line("a", 0, vec![(0.0, 1.0), (5.0, 2.0)])]).html();
        assert_eq!(
            (html.matches("<svg class=\"panel\"").count(), html.matches("<div></div>").count()),
            (1, 1)
        );
        assert!(figure(vec![line("a", 0, Vec::new())]).html().ends_with("\"></div>"));
    }

    #[test]
    fn each_figure_of_a_cell_with_a_dot_has_its_own_file() {
        let dir = tempfile::tempdir().unwrap();
        let figure = figure(vec![line("a", 0, vec![(0.0, 1.0), (5.0, 2.0)])]);
        for name in ["loss-0.1_delivery", "loss-0.1_workings"] {
            figure.save(&dir.path().join(name)).unwrap();
            assert!(dir.path().join(format!("{name}.svg")).is_file());
        }
    }

    #[test]
    fn points_lie_where_the_axes_say() {
        let dots = Series { shape: Shape::Dots, ..line("", 1, vec![(2.5, 100.0), (2.5, 100.0)]) };
        let svg = figure(vec![line("a", 0, vec![(0.0, 0.0), (5.0, 100.0)]), dots]).svg();
        // The range of the vertical axis ends at 120.
        assert!(svg.contains("d=\"M0 160 392 26.7\""), "{svg}");
        assert_eq!(svg.matches("M196 26.7h0").count(), 1);
    }
}
