//! Figures as grids of panels, and the one place that knows the plotting crate.

use core::fmt::Display;
use core::ops::Range;
use std::collections::HashSet;
use std::path::Path;
use std::sync::OnceLock;

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::series::LineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontDesc, FontFamily, FontStyle, RGBAColor, RGBColor, ShapeStyle, TextStyle, WHITE, register_font,
};

use crate::LabError;

/// A grid of panels.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// From top to bottom; the panels of a row share their vertical range.
    pub rows: Vec<Vec<Panel>>,
    /// Horizontal range, seconds.
    pub span_s: (f64, f64),
    /// Moments marked in every panel.
    pub marks_s: Vec<f64>,
    /// What the horizontal axis is, if not time in seconds.
    pub x_label: Option<&'static str>,
}

/// One coordinate system.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Above the panel.
    pub title: String,
    /// Quantity and unit of the vertical axis.
    pub y_label: String,
    /// What it shows.
    pub series: Vec<Series>,
    /// The vertical range ends no higher than this; points above are drawn at the edge.
    pub y_cap: Option<f64>,
    /// The vertical range ends here; at a round number above all points if absent.
    pub y_top: Option<f64>,
}

/// Points of one colour.
#[derive(Clone, Debug)]
pub struct Series {
    /// For the legend; empty leaves it out of the legend.
    pub name: String,
    /// Index into the palette.
    pub color: usize,
    /// Drawn in a paler tone, behind the others.
    pub pale: bool,
    /// How they are drawn.
    pub shape: Shape,
    /// (seconds, value).
    pub points: Vec<(f64, f64)>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One dot each.
    Dots,
    /// Joined.
    Line,
}

/// Colours that colour-blind people tell apart; the last is for sums and limits.
const PALETTE: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(90, 90, 90),
];
/// Index of the grey.
pub(crate) const GREY: usize = 4;
const INK: RGBColor = RGBColor(30, 30, 30);
const GRID: RGBColor = RGBColor(228, 228, 228);
const FONT: &str = "DejaVu Sans";

/// Panel size in pixels at scale 1.
const PANEL: (u32, u32) = (520, 220);
/// Room below the last row for the axis title.
const FOOT: u32 = 22;

/// Registers the bundled font once, so that nothing depends on fonts of the machine.
fn font() -> Result<(), LabError> {
    static DONE: OnceLock<bool> = OnceLock::new();
    let done = DONE.get_or_init(|| register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok());
    if *done { Ok(()) } else { Err(LabError::Failed("the bundled font does not load".to_owned())) }
}

fn failed(e: impl Display) -> LabError {
    LabError::failed("drawing a figure", e)
}

impl Figure {
    fn size(&self) -> (u32, u32) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(1) as u32;
        (PANEL.0 * columns, PANEL.1 * self.rows.len() as u32 + FOOT)
    }

    /// As SVG.
    ///
    /// # Errors
    /// Whatever the plotting crate says.
    pub fn svg(&self) -> Result<String, LabError> {
        font()?;
        let mut out = String::new();
        draw(self, &SVGBackend::with_string(&mut out, self.size()).into_drawing_area(), 1)?;
        // A viewer without the font takes one that is about as wide.
        Ok(out.replace(
            &format!("font-family=\"{FONT}\""),
            &format!("font-family=\"{FONT}, Verdana, sans-serif\""),
        ))
    }

    /// Writes `stem`.svg and `stem`.png (twice the size) and returns the SVG.
    ///
    /// # Errors
    /// Whatever the plotting crate or the file system says.
    pub fn save(&self, stem: &Path) -> Result<String, LabError> {
        let svg = self.svg()?;
        std::fs::write(stem.with_extension("svg"), &svg).map_err(failed)?;
        let (w, h) = self.size();
        let png = stem.with_extension("png");
        draw(self, &BitMapBackend::new(&png, (2 * w, 2 * h)).into_drawing_area(), 2)?;
        Ok(svg)
    }
}

fn draw<B: DrawingBackend>(
    figure: &Figure,
    root: &DrawingArea<B, Shift>,
    scale: u32,
) -> Result<(), LabError> {
    root.fill(&WHITE).map_err(failed)?;
    let (width, height) = root.dim_in_pixel();
    let (top, foot) = root.split_vertically(height - FOOT * scale);
    let columns = figure.rows.iter().map(Vec::len).max().unwrap_or(1);
    for column in 0..columns {
        let style = text(13, scale, INK).pos(Pos::new(HPos::Center, VPos::Top));
        let middle = (width as usize * (2 * column + 1) / (2 * columns)) as i32 + (14 * scale) as i32;
        foot.draw(&Text::new(figure.x_label.unwrap_or("time, s"), (middle, 0), style)).map_err(failed)?;
    }
    for (row, area) in figure.rows.iter().zip(top.split_evenly((figure.rows.len(), 1))) {
        let y = 0.0..row.iter().map(Panel::top).fold(0.0, f64::max);
        for (panel, area) in row.iter().zip(area.split_evenly((1, columns))) {
            draw_panel(figure, panel, &area, y.clone(), scale)?;
        }
    }
    root.present().map_err(failed)
}

impl Panel {
    /// Where the vertical range ends: a round number not below any point or the cap, if nobody has set it.
    pub(super) fn top(&self) -> f64 {
        if let Some(top) = self.y_top {
            return top;
        }
        let highest = self.series.iter().flat_map(|s| &s.points).map(|(_, y)| *y).fold(0.0, f64::max);
        let wanted = self.y_cap.map_or(highest, |cap| highest.min(cap)) * 1.05;
        let magnitude = 10f64.powf(wanted.max(1e-9).log10().floor());
        let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
        steps.iter().map(|s| s * magnitude).find(|top| *top >= wanted).unwrap_or(wanted)
    }
}

fn text(size: u32, scale: u32, color: RGBColor) -> TextStyle<'static> {
    let mut style =
        TextStyle::from(FontDesc::new(FontFamily::Name(FONT), f64::from(size * scale), FontStyle::Normal));
    style.color = color.to_backend_color();
    style
}

fn draw_panel<B: DrawingBackend>(
    figure: &Figure,
    panel: &Panel,
    area: &DrawingArea<B, Shift>,
    y: Range<f64>,
    scale: u32,
) -> Result<(), LabError> {
    let (head, body) = area.split_vertically(30 * scale);
    draw_head(panel, &head, scale)?;
    let mut chart = ChartBuilder::on(&body)
        .margin_left(8 * scale)
        .margin_right(14 * scale)
        .margin_bottom(2 * scale)
        .x_label_area_size(22 * scale)
        .y_label_area_size(54 * scale)
        .build_cartesian_2d(figure.span_s.0..figure.span_s.1, y.clone())
        .map_err(failed)?;
    let decimals = usize::from(y.end < 5.0);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID.stroke_width(scale))
        .axis_style(INK.stroke_width(scale))
        .set_all_tick_mark_size(3 * scale)
        .x_labels(11)
        .y_labels(5)
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&move |y| format!("{y:.decimals$}"))
        .label_style(text(12, scale, INK))
        .axis_desc_style(text(12, scale, INK))
        .y_desc(panel.y_label.as_str())
        .draw()
        .map_err(failed)?;
    for at in &figure.marks_s {
        let line =
            PathElement::new(vec![(*at, y.start), (*at, y.end)], PALETTE[GREY].mix(0.7).stroke_width(scale));
        chart.draw_series([line]).map_err(failed)?;
    }
    let visible = |(x, v): &(f64, f64)| (*x, v.min(y.end));
    let (lines, dots): (Vec<&Series>, Vec<&Series>) =
        panel.series.iter().partition(|s| s.shape == Shape::Line);
    for series in lines.iter().filter(|s| s.pale).chain(lines.iter().filter(|s| !s.pale)) {
        let style = series.color().stroke_width(scale + scale / 2);
        let points: Vec<(f64, f64)> = series.points.iter().map(visible).collect();
        if scale == 1 {
            chart.draw_series(LineSeries::new(points, style)).map_err(failed)?;
        } else {
            // The bitmap backend draws spikes where a wide line turns sharply; single strokes have no such corners.
            let strokes = points.windows(2).map(|pair| PathElement::new(pair.to_vec(), style));
            chart.draw_series(strokes).map_err(failed)?;
        }
    }
    // Dots of all series in order of time, so that none hides another. Of dots that fall on the same spot one is enough; that keeps
    // the SVG small.
    let mut all: Vec<(f64, f64, RGBAColor)> =
        dots.iter().flat_map(|s| s.points.iter().map(visible).map(|(x, v)| (x, v, s.color()))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (_, pixels) = chart.plotting_area().get_pixel_range();
    let spot_x = (figure.span_s.1 - figure.span_s.0) / f64::from(PANEL.0);
    let spot_y = y.end * f64::from(scale) / f64::from((pixels.end - pixels.start).max(1));
    let mut seen = HashSet::new();
    all.retain(|(x, v, _)| seen.insert(((x / spot_x) as i64, (v / spot_y) as i64)));
    let circle = |(x, v, color): (f64, f64, RGBAColor)| Circle::new((x, v), scale, color.filled());
    chart.draw_series(all.into_iter().map(circle)).map_err(failed)?;
    Ok(())
}

impl Series {
    fn color(&self) -> RGBAColor {
        PALETTE[self.color % PALETTE.len()].mix(if self.pale { 0.4 } else { 1.0 })
    }
}

/// Title on the left, legend on the right.
fn draw_head<B: DrawingBackend>(
    panel: &Panel,
    head: &DrawingArea<B, Shift>,
    scale: u32,
) -> Result<(), LabError> {
    let s = scale as i32;
    head.draw(&Text::new(panel.title.clone(), (62 * s, 11 * s), text(13, scale, INK))).map_err(failed)?;
    let mut right = head.dim_in_pixel().0 as i32 - 14 * s;
    for series in panel.series.iter().rev().filter(|series| !series.name.is_empty()) {
        let style = text(12, scale, INK);
        let (width, _) = head.estimate_text_size(&series.name, &style).map_err(failed)?;
        right -= width as i32;
        head.draw(&Text::new(series.name.clone(), (right, 12 * s), style)).map_err(failed)?;
        let color: ShapeStyle = series.color().filled();
        let (left, middle) = (right - 18 * s, 16 * s);
        match series.shape {
            Shape::Line => {
                let bar = [(left, middle - s), (left + 13 * s, middle + s)];
                head.draw(&Rectangle::new(bar, color)).map_err(failed)?;
            }
            Shape::Dots => head.draw(&Circle::new((left + 8 * s, middle), 3 * s, color)).map_err(failed)?,
        }
        right = left - 10 * s;
    }
    Ok(())
}
