//! SVG and PNG, and the one place that knows the plotting crate.

use core::fmt::Display;
use std::collections::HashSet;
use std::path::Path;
use std::sync::OnceLock;

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, EmptyElement, PathElement, Rectangle, Text};
use plotters::series::{DashedLineSeries, LineSeries};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontDesc, FontFamily, FontStyle, RGBAColor, RGBColor, ShapeStyle, TextStyle, WHITE, register_font,
};

use super::figure::{GREY, PALETTE};
use super::range::{Range, label};
use super::thin::thin;
use super::{Figure, Mark, Panel, Series, Shape};
use crate::LabError;

const INK: RGBColor = RGBColor(30, 30, 30);
const GRID: RGBColor = RGBColor(228, 228, 228);
const FONT: &str = "DejaVu Sans";

/// Panel size in pixels at scale 1.
const PANEL: (u32, u32) = (520, 220);
/// Room below the last row for the axis title.
const FOOT: u32 = 22;

type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<Range, Range>>;

impl Ranged for Range {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.place(*value) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.ticks(hint.max_num_points())
    }

    fn range(&self) -> core::ops::Range<f64> {
        self.from..self.to
    }
}

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
    fn columns(&self) -> usize {
        self.rows.iter().map(Vec::len).max().unwrap_or(1)
    }

    fn size(&self) -> (u32, u32) {
        // One panel alone gets more room.
        let wide = if self.columns() == 1 { 3 } else { 2 };
        (PANEL.0 * wide / 2 * self.columns() as u32, PANEL.1 * wide / 2 * self.rows.len() as u32 + FOOT)
    }

    /// As SVG.
    ///
    /// # Errors
    /// Whatever the plotting crate says.
    pub fn svg(&self) -> Result<String, LabError> {
        font()?;
        let mut out = String::new();
        draw(self, &SVGBackend::with_string(&mut out, self.size()).into_drawing_area(), 1)?;
        // A viewer without the font takes one that is about as wide. What SVG means by itself need not be said for each dot.
        Ok(out
            .replace(
                &format!("font-family=\"{FONT}\""),
                &format!("font-family=\"{FONT}, Verdana, sans-serif\""),
            )
            .replace(" opacity=\"1\"", "")
            .replace(" stroke=\"none\" stroke-width=\"1\"", ""))
    }

    /// Writes `stem`.svg and `stem`.png (twice the size) and returns what a report shows: the SVG, and its data for a browser that
    /// runs scripts.
    ///
    /// # Errors
    /// Whatever the plotting crate or the file system says.
    pub fn save(&self, stem: &Path) -> Result<String, LabError> {
        let svg = self.svg()?;
        std::fs::write(stem.with_extension("svg"), &svg).map_err(failed)?;
        let (w, h) = self.size();
        let png = stem.with_extension("png");
        draw(self, &BitMapBackend::new(&png, (2 * w, 2 * h)).into_drawing_area(), 2)?;
        Ok(self.embed(&svg))
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
    let columns = figure.columns();
    for column in 0..columns {
        let style = text(13, scale, INK).pos(Pos::new(HPos::Center, VPos::Top));
        let middle = (width as usize * (2 * column + 1) / (2 * columns)) as i32 + (14 * scale) as i32;
        foot.draw(&Text::new(figure.x_label().to_owned(), (middle, 0), style)).map_err(failed)?;
    }
    for (row, area) in figure.rows.iter().zip(top.split_evenly((figure.rows.len(), 1))) {
        let y = Figure::y_range(row);
        for (panel, area) in row.iter().zip(area.split_evenly((1, columns))) {
            draw_panel(figure, panel, &area, y, scale)?;
        }
    }
    root.present().map_err(failed)
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
    y: Range,
    scale: u32,
) -> Result<(), LabError> {
    let rows = legend(panel, area, scale)?;
    let (head, body) = area.split_vertically((30 + HEAD_ROW * (rows.len() as u32 - 1)) * scale);
    draw_head(panel, &head, &rows, scale)?;
    let x = figure.x_range();
    let mut chart = ChartBuilder::on(&body)
        .margin_left(8 * scale)
        .margin_right(14 * scale)
        .margin_bottom(2 * scale)
        .x_label_area_size(22 * scale)
        .y_label_area_size(54 * scale)
        .build_cartesian_2d(x, y)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .max_light_lines(0)
        .bold_line_style(GRID.stroke_width(scale))
        .axis_style(INK.stroke_width(scale))
        .set_all_tick_mark_size(3 * scale)
        .x_labels(11)
        .y_labels(5)
        .x_label_formatter(&|v| label(*v))
        .y_label_formatter(&|v| label(*v))
        .label_style(text(12, scale, INK))
        .axis_desc_style(text(12, scale, INK))
        .y_desc(panel.y_label.as_str())
        .draw()
        .map_err(failed)?;
    draw_marks(&mut chart, &figure.marks, x, y, scale)?;
    let visible = |points: &[(f64, f64)]| thin(points.to_vec(), figure.span);
    let (lines, dots): (Vec<&Series>, Vec<&Series>) =
        panel.series.iter().partition(|s| !matches!(s.shape, Shape::Dots | Shape::Rings));
    for series in lines.iter().filter(|s| s.pale).chain(lines.iter().filter(|s| !s.pale)) {
        draw_line(&mut chart, series, visible(&series.points), scale)?;
        draw_intervals(&mut chart, series, x, scale)?;
    }
    // Dots of all series in order of time, so that none hides another. Of dots that fall on the same spot one is enough.
    let mut all: Vec<(f64, f64, &Series)> = Vec::new();
    for series in dots {
        all.extend(visible(&series.points).into_iter().map(|(at, v)| (at, v, series)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut seen = HashSet::new();
    all.retain(|(at, v, _)| seen.insert(chart.backend_coord(&(*at, *v))));
    let circle = |(at, v, series): (f64, f64, &Series)| match series.shape {
        Shape::Rings => Circle::new((at, v), 4 * scale, series.color().stroke_width(2 * scale)),
        _ => Circle::new((at, v), scale, series.color().filled()),
    };
    chart.draw_series(all.into_iter().map(circle)).map_err(failed)?;
    Ok(())
}

fn draw_line<B: DrawingBackend>(
    chart: &mut Chart<'_, B>,
    series: &Series,
    points: Vec<(f64, f64)>,
    scale: u32,
) -> Result<(), LabError> {
    let style = series.color().stroke_width(scale + scale / 2);
    if series.shape == Shape::Marked {
        let marker = |at: &(f64, f64)| Circle::new(*at, 3 * scale, series.color().filled());
        chart.draw_series(points.iter().map(marker)).map_err(failed)?;
    }
    if series.shape == Shape::Dashed {
        chart.draw_series(DashedLineSeries::new(points, 5 * scale, 3 * scale, style)).map_err(failed)?;
    } else if scale == 1 {
        chart.draw_series(LineSeries::new(points, style)).map_err(failed)?;
    } else {
        // The bitmap backend draws spikes where a wide line turns sharply; single strokes have no such corners.
        let strokes = points.windows(2).map(|pair| PathElement::new(pair.to_vec(), style));
        chart.draw_series(strokes).map_err(failed)?;
    }
    Ok(())
}

/// Error bars with a short stroke at each end.
fn draw_intervals<B: DrawingBackend>(
    chart: &mut Chart<'_, B>,
    series: &Series,
    x: Range,
    scale: u32,
) -> Result<(), LabError> {
    let style = series.color().stroke_width(scale);
    let intervals = series.points.iter().zip(&series.intervals);
    let strokes = intervals.filter_map(|((at, _), interval)| Some((*at, (*interval)?)));
    let strokes = strokes.flat_map(|(at, (low, high))| {
        let across = |v| vec![(x.beside(at, -0.006), v), (x.beside(at, 0.006), v)];
        [vec![(at, low), (at, high)], across(low), across(high)].map(|path| PathElement::new(path, style))
    });
    chart.draw_series(strokes).map_err(failed)?;
    Ok(())
}

/// A line at each moment, and beside it what happens as far as there is room before the next.
fn draw_marks<B: DrawingBackend>(
    chart: &mut Chart<'_, B>,
    marks: &[Mark],
    x: Range,
    y: Range,
    scale: u32,
) -> Result<(), LabError> {
    let grey = rgb(GREY).mix(0.7).stroke_width(scale);
    for mark in marks {
        let line = PathElement::new(vec![(mark.at, y.from), (mark.at, y.to)], grey);
        chart.draw_series([line]).map_err(failed)?;
    }
    let style = text(10, scale, rgb(GREY));
    let pixels = chart.plotting_area().dim_in_pixel().0;
    for (i, mark) in marks.iter().enumerate() {
        let next = marks.get(i + 1).map_or(x.to, |next| next.at);
        let room = (x.place(next) - x.place(mark.at)) * f64::from(pixels);
        let (width, _) = chart.plotting_area().estimate_text_size(&mark.label, &style).map_err(failed)?;
        if f64::from(width + 6 * scale) <= room {
            let beside = Text::new(mark.label.clone(), (4 * scale as i32, scale as i32), style.clone());
            let place = EmptyElement::at((mark.at, y.to));
            chart.draw_series([place + beside]).map_err(failed)?;
        }
    }
    Ok(())
}

fn rgb(color: usize) -> RGBColor {
    let (r, g, b) = PALETTE[color % PALETTE.len()];
    RGBColor(r, g, b)
}

impl Series {
    fn color(&self) -> RGBAColor {
        rgb(self.color).mix(if self.pale { 0.5 } else { 1.0 })
    }
}

/// Height of one row of the head.
const HEAD_ROW: u32 = 17;

/// The series of a panel's legend in rows that fit beside the title, or below it.
fn legend<'a, B: DrawingBackend>(
    panel: &'a Panel,
    area: &DrawingArea<B, Shift>,
    scale: u32,
) -> Result<Vec<Vec<(&'a Series, i32)>>, LabError> {
    let s = scale as i32;
    let width = |words: &str, size| {
        let (width, _) = area.estimate_text_size(words, &text(size, scale, INK)).map_err(failed)?;
        Ok::<i32, LabError>(width as i32)
    };
    let whole = area.dim_in_pixel().0 as i32 - 76 * s;
    let mut rows: Vec<Vec<(&Series, i32)>> = vec![Vec::new()];
    let mut room = whole - width(&panel.title, 13)?;
    for series in panel.series.iter().filter(|series| !series.name.is_empty()) {
        let wanted = width(&series.name, 12)? + 28 * s;
        if wanted > room {
            rows.push(Vec::new());
            room = whole;
        }
        room -= wanted;
        if let Some(row) = rows.last_mut() {
            row.push((series, wanted));
        }
    }
    Ok(rows)
}

/// Title on the left, legend on the right.
fn draw_head<B: DrawingBackend>(
    panel: &Panel,
    head: &DrawingArea<B, Shift>,
    rows: &[Vec<(&Series, i32)>],
    scale: u32,
) -> Result<(), LabError> {
    let s = scale as i32;
    head.draw(&Text::new(panel.title.clone(), (62 * s, 11 * s), text(13, scale, INK))).map_err(failed)?;
    for (nth, row) in rows.iter().enumerate() {
        let mut left = head.dim_in_pixel().0 as i32 - 14 * s - row.iter().map(|(_, w)| w).sum::<i32>();
        let down = (nth as u32 * HEAD_ROW) as i32 * s;
        for (series, width) in row {
            draw_key(series, head, (left + 10 * s, 16 * s + down), s)?;
            let words = Text::new(series.name.clone(), (left + 28 * s, 12 * s + down), text(12, scale, INK));
            head.draw(&words).map_err(failed)?;
            left += width;
        }
    }
    Ok(())
}

/// What a series looks like, for the legend.
fn draw_key<B: DrawingBackend>(
    series: &Series,
    head: &DrawingArea<B, Shift>,
    (left, middle): (i32, i32),
    s: i32,
) -> Result<(), LabError> {
    let color: ShapeStyle = series.color().filled();
    let bar = |from: i32, to: i32| {
        let corners = [(left + from * s, middle - s), (left + to * s, middle + s)];
        head.draw(&Rectangle::new(corners, color)).map_err(failed)
    };
    let circle = |radius: i32, style: ShapeStyle| {
        head.draw(&Circle::new((left + 6 * s, middle), radius * s, style)).map_err(failed)
    };
    match series.shape {
        Shape::Line => bar(0, 13),
        Shape::Dashed => bar(0, 5).and_then(|()| bar(8, 13)),
        Shape::Marked => bar(0, 13).and_then(|()| circle(3, color)),
        Shape::Dots => circle(3, color),
        Shape::Rings => circle(4, series.color().stroke_width(2 * s as u32)),
    }
}
