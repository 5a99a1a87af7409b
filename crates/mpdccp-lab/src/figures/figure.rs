//! A figure as data, before rendering.

use super::range::Range;

/// A grid of panels.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// Rows of panels from top to bottom. The panels of a row share their vertical range.
    pub rows: Vec<Vec<Panel>>,
    /// Horizontal range.
    pub span: (f64, f64),
    /// Times marked in every panel.
    pub marks: Vec<Mark>,
    /// Quantity and unit of the horizontal axis; time in seconds if absent.
    pub x_label: Option<String>,
    /// Whether the horizontal axis is logarithmic.
    pub x_log: bool,
}

/// A marked event.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Position on the horizontal axis.
    pub at: f64,
    /// Short label.
    pub label: String,
}

/// A coordinate system.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Title above the panel.
    pub title: String,
    /// The variant shown, if there is only one.
    pub variant: Option<String>,
    /// Quantity and unit of the vertical axis.
    pub y_label: String,
    /// The series drawn in the panel.
    pub series: Vec<Series>,
    /// Upper limit of the vertical range; points above the limit are drawn at the edge.
    pub y_cap: Option<f64>,
    /// End of the vertical range; if absent, a round number above all points.
    pub y_top: Option<f64>,
    /// Whether the vertical axis is logarithmic. Zero and negative values are drawn at its lower end.
    pub y_log: bool,
}

/// Points of one colour.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Name in the legend; empty for no entry.
    pub name: String,
    /// The variant, if a panel shows several.
    pub variant: Option<String>,
    /// Index into the palette.
    pub color: usize,
    /// Whether the series is drawn in a paler tone, behind the other series.
    pub pale: bool,
    /// How the points are drawn.
    pub shape: Shape,
    /// Each point's horizontal position and value.
    pub points: Vec<(f64, f64)>,
    /// For [`Shape::Marked`]: each point's interval.
    pub intervals: Vec<Option<(f64, f64)>>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// A dot at each point.
    Dots,
    /// A line through the points.
    #[default]
    Line,
    /// A dashed line through the points.
    Dashed,
    /// A line through the points, with a marker at each point and its interval as an error bar.
    Marked,
    /// A ring, larger than a dot, at each point.
    Rings,
}

/// Palette index of grey, the colour of sums and limits.
pub(crate) const GREY: usize = 4;
/// Number of colours in `figure.css`: a grey, a brown, and the palette of Okabe and Ito, which colour-blind
/// people can distinguish.
pub(super) const COLORS: usize = 8;

/// Palette index of a variant, and whether its lines are pale. The two variants of a family share a colour.
const FAMILIES: &[(&str, usize, bool)] = &[
    ("ccid2", 0, false),
    ("ccid5", 1, false),
    ("ccid5-draft", 1, true),
    ("ccid7", 2, false),
    ("tcp-cubic", 2, true),
    ("ccid250", 3, false),
    ("tcp-bbr", 3, true),
];

/// Palette index and paleness of the `nth` variant of its scenario, which are the same in all figures.
pub(super) fn look(label: &str, nth: usize) -> (usize, bool) {
    const FREE: [usize; 3] = [5, 6, 7];
    let known = FAMILIES.iter().find(|(known, ..)| *known == label);
    known.map_or((FREE[nth % FREE.len()], nth >= FREE.len()), |(_, color, pale)| (*color, *pale))
}

/// A series drawn as a line.
pub(super) fn line(name: &str, color: usize, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), color, points, ..Series::default() }
}

impl Figure {
    /// Label of the horizontal axis.
    pub(super) fn x_label(&self) -> &str {
        self.x_label.as_deref().unwrap_or("time, s")
    }

    pub(super) fn x_range(&self) -> Range {
        Range { from: self.span.0, to: self.span.1, log: self.x_log }
    }

    /// Vertical range of a row of panels.
    pub(super) fn y_range(row: &[Panel]) -> Range {
        let to = row.iter().map(Panel::top).fold(0.0, f64::max);
        if !row.iter().any(|panel| panel.y_log) {
            return Range { from: 0.0, to, log: false };
        }
        let values = row.iter().flat_map(Panel::values);
        Range::logarithmic(values.filter(|y| *y > 0.0).fold(to, f64::min), to)
    }
}

impl Panel {
    fn values(&self) -> impl Iterator<Item = f64> {
        let intervals = self.series.iter().flat_map(|s| s.intervals.iter().flatten());
        let points = self.series.iter().flat_map(|s| &s.points);
        points.map(|(_, y)| *y).chain(intervals.flat_map(|(low, high)| [*low, *high]))
    }

    /// End of the vertical range: `y_top`, or a round number above all points or the cap.
    pub(super) fn top(&self) -> f64 {
        if let Some(top) = self.y_top {
            return top;
        }
        let highest = self.values().fold(0.0, f64::max);
        let wanted = self.y_cap.map_or(highest, |cap| highest.min(cap)) * 1.05;
        super::range::round_up(wanted)
    }

    /// Whether the panel has no points.
    pub(super) fn is_empty(&self) -> bool {
        self.series.iter().all(|s| s.points.is_empty())
    }
}
