//! A figure as data, before rendering.

use super::range::Range;

/// A grid of panels.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// Rows of panels, top to bottom. All panels of a row have the same vertical range.
    pub rows: Vec<Vec<Panel>>,
    /// Horizontal range.
    pub span: (f64, f64),
    /// Times marked in every panel.
    pub marks: Vec<Mark>,
    /// Quantity and unit of the horizontal axis. If absent, the axis shows time in seconds.
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
    /// Upper limit of the vertical range. Points above it are drawn at the upper edge.
    pub y_cap: Option<f64>,
    /// Upper end of the vertical range. If absent, it is a round number above all points.
    pub y_top: Option<f64>,
    /// Whether the vertical axis is logarithmic. Zero and negative values are drawn at its lower end.
    pub y_log: bool,
}

/// Points of one colour.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Name in the legend. A series with an empty name is left out of the legend.
    pub name: String,
    /// The variant, if a panel shows more than one.
    pub variant: Option<String>,
    /// Index into the palette.
    pub color: usize,
    /// Index of the line style. Style 0 is a solid line.
    pub dash: usize,
    /// Whether the series is drawn behind the others in a paler tone.
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
    /// A line through the points, with a marker for each point and an error bar for its interval.
    Marked,
    /// A ring, larger than a dot, at each point.
    Rings,
}

/// Palette index of grey, the colour of sums and limits.
pub(crate) const GREY: usize = 4;
/// Palette index of the text's colour.
const INK: usize = 8;
/// Number of colours in `figure.css`: a grey, a brown, the text colour, and the Okabe-Ito palette, which
/// colour-blind people can distinguish.
pub(super) const COLORS: usize = 9;
/// Number of line styles in `figure.css`.
pub(super) const DASHES: usize = 5;

/// Palette indices and line styles of the variants that have a fixed look in all reports. Two variants with
/// similar congestion control, such as CCID 250 and TCP BBR, share a colour.
const FAMILIES: [(&str, Look); 7] = [
    ("ccid2", (0, 0)),
    ("ccid5", (1, 0)),
    ("ccid5-draft", (1, 1)),
    ("ccid7", (2, 0)),
    ("tcp-cubic", (2, 1)),
    ("ccid250", (3, 0)),
    ("tcp-bbr", (3, 1)),
];
/// Palette indices for the variants without a fixed look, in the order of use. After the last index, the list
/// repeats with the next line style.
const OTHERS: [usize; 7] = [5, 6, 7, 0, 1, 2, 3];

/// A palette index and a line style.
pub(super) type Look = (usize, usize);

/// Returns the look of a variant in all figures of a scenario with the variants `labels`.
pub(super) fn look(label: &str, labels: &[&str]) -> Look {
    let known = |label: &str| FAMILIES.iter().find(|(known, _)| *known == label).map(|(_, look)| *look);
    let taken: Vec<Look> = labels.iter().filter_map(|label| known(label)).collect();
    let all = (0..DASHES).flat_map(|dash| OTHERS.map(|color| (color, dash)));
    let free: Vec<Look> = all.filter(|look| !taken.contains(look)).collect();
    let nth = labels.iter().filter(|label| known(label).is_none()).position(|other| *other == label);
    known(label).unwrap_or_else(|| free[nth.unwrap_or(0) % free.len()])
}

/// Returns the look of a variant's `nth` path or flow. The first has the variant's colour, and the second the
/// text colour. Further paths or flows repeat these two colours with other line styles. Panels of dots draw a
/// paler tone instead of another line style.
pub(super) fn part(variant: Look, nth: usize) -> Series {
    let (color, dash) = (if nth.is_multiple_of(2) { variant.0 } else { INK }, nth / 2 % DASHES);
    Series { color, dash, ..Series::default() }
}

/// Returns a series drawn as a line.
pub(super) fn line(name: &str, color: usize, points: Vec<(f64, f64)>) -> Series {
    Series { name: name.to_owned(), color, points, ..Series::default() }
}

impl Figure {
    /// Returns the label of the horizontal axis.
    pub(super) fn x_label(&self) -> &str {
        self.x_label.as_deref().unwrap_or("time, s")
    }

    pub(super) fn x_range(&self) -> Range {
        Range { from: self.span.0, to: self.span.1, log: self.x_log }
    }

    /// Returns the vertical range of a row of panels.
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

    /// Returns the upper end of the vertical range: `y_top` or, if absent, a round number above the highest
    /// point or the cap, whichever is lower.
    pub(super) fn top(&self) -> f64 {
        if let Some(top) = self.y_top {
            return top;
        }
        let highest = self.values().fold(0.0, f64::max);
        let wanted = self.y_cap.map_or(highest, |cap| highest.min(cap)) * 1.05;
        super::range::round_up(wanted)
    }

    /// Returns whether the panel has no points.
    pub(super) fn is_empty(&self) -> bool {
        self.series.iter().all(|s| s.points.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scenario;

    #[test]
    fn every_variant_of_every_scenario_has_its_own_look() {
        for named in crate::scenario::LIBRARY {
            let scenario = Scenario::find(named.name).unwrap();
            let labels = scenario.labels();
            let mut looks: Vec<Look> = labels.iter().map(|label| look(label, &labels)).collect();
            looks.sort_unstable();
            looks.dedup();
            assert_eq!(looks.len(), labels.len(), "{}", named.name);
        }
    }

    #[test]
    fn paths_are_told_apart_and_use_no_other_variants_colour() {
        let parts: Vec<_> = (0..4).map(|nth| part((5, 1), nth)).map(|s| (s.color, s.dash)).collect();
        assert_eq!(parts, [(5, 0), (INK, 0), (5, 1), (INK, 1)]);
    }

    #[test]
    fn the_notebook_uses_the_same_palette() {
        let notebook: serde_json::Value =
            serde_json::from_str(include_str!("../../../../notebooks/headline.ipynb")).unwrap();
        let lines: Vec<&str> = notebook["cells"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|cell| cell["source"].as_array().unwrap())
            .filter_map(|line| line.as_str())
            .collect();
        let light = super::super::STYLE.split("@media").next().unwrap();
        let color = |i: usize| light.split(&format!(".c{i} {{ color: ")).nth(1).unwrap()[..7].to_owned();
        let looks: Vec<String> =
            FAMILIES.iter().map(|(label, (color, dash))| format!("\"{label}\": ({color}, {dash})")).collect();
        for line in [
            format!("PALETTE = {:?}\n", (0..COLORS).map(color).collect::<Vec<_>>()),
            format!("KNOWN = {{{}}}\n", looks.join(", ")),
            format!("OTHERS = {OTHERS:?}\n"),
        ] {
            assert!(lines.contains(&line.as_str()), "the notebook lacks {line}");
        }
    }
}
