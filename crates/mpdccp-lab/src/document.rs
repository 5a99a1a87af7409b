//! A report as data: sections with figures, tables and sentences. The templates in `templates/` render it as
//! HTML and Markdown.

use std::path::Path;

use minijinja::{Environment, Value, context};
use serde::Serialize;

use crate::figures::{SCRIPT, STYLE, escape};
use crate::{LabError, code, files};

/// Style sheet of a page, without its figures.
const PAGE: &str = include_str!("../assets/report.css");

/// A report.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Document {
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) sections: Vec<Section>,
    /// The command and the build that produced the report.
    pub(crate) made_by: String,
}

/// A section of a report. The first figure and the first table precede the sentences; further figures and
/// tables follow the sentences.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) figures: Vec<Shown>,
    pub(crate) tables: Vec<Table>,
    pub(crate) sentences: Vec<String>,
}

/// A rendered figure, see [`crate::figures::Figure::save`].
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Shown {
    pub(crate) caption: String,
    pub(crate) html: String,
}

/// A table of text with a head.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table whose head is the first of `lines`, or `None` if there is no second line.
    pub(crate) fn of(caption: impl Into<String>, mut lines: Vec<Vec<String>>) -> Option<Table> {
        (lines.len() > 1).then(|| {
            let head = lines.remove(0);
            Table { caption: caption.into(), head, rows: lines }
        })
    }
}

impl Document {
    /// Returns an empty report of a command.
    pub(crate) fn new(title: &str, command: &str) -> Document {
        let made_by = format!("{command}, version {}, {}.", env!("CARGO_PKG_VERSION"), code::words());
        Document { title: title.to_owned(), made_by, ..Document::default() }
    }

    pub(crate) fn html(&self) -> Result<String, LabError> {
        let style = format!("{STYLE}{PAGE}");
        render("report.html", context! { style, script => SCRIPT, ..Value::from_serialize(self) })
    }

    pub(crate) fn markdown(&self) -> Result<String, LabError> {
        render("report.md", Value::from_serialize(self))
    }

    /// Writes the HTML to `path`, and the Markdown next to it.
    pub(crate) fn write(&self, path: &Path) -> Result<(), LabError> {
        let (html, markdown) = (self.html()?, self.markdown()?);
        files::write(path, html)?;
        files::write(&path.with_extension("md"), markdown)
    }
}

/// Renders a template.
pub(crate) fn render(name: &str, with: Value) -> Result<String, LabError> {
    let mut environment = Environment::new();
    environment.set_keep_trailing_newline(true);
    environment.add_filter("verdict", verdict);
    environment.add_filter("median", median);
    let templates = [
        ("report.html", include_str!("../templates/report.html")),
        ("report.md", include_str!("../templates/report.md")),
        ("sentences.txt", include_str!("../templates/sentences.txt")),
    ];
    for (name, text) in templates {
        environment
            .add_template(name, text)
            .map_err(|e| LabError::failed(format!("cannot read {name}"), e))?;
    }
    let filled = environment.get_template(name).and_then(|template| template.render(with));
    filled.map_err(|e| LabError::failed(format!("cannot fill {name}"), format!("{e:#}")))
}

/// Returns the `class` attribute for a table cell, if the cell contains a verdict or a value that misses its
/// aim.
fn verdict(cell: &str) -> Value {
    let class = match cell {
        "met" | "missed" | "open" => cell,
        _ if cell.contains('✗') => "missed",
        _ => return Value::from(""),
    };
    Value::from_safe_string(format!(" class=\"{class}\""))
}

/// Puts a median's interval on a line of its own, to keep columns narrow.
fn median(cell: &str) -> Value {
    let parts = cell.strip_suffix(')').and_then(|text| text.split_once(" ("));
    match parts.filter(|(_, rest)| rest.contains(" to ")) {
        Some((median, interval)) => {
            Value::from_safe_string(format!("{}<small>{}</small>", escape(median), escape(interval)))
        }
        None => Value::from(cell),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let cells = |cells: &[&str]| cells.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>();
        let lines = vec![cells(&["", "a<b"]), cells(&["x", "1.0 (0.9 to 1.1)"]), cells(&["y", "met"])];
        let shown = |caption: &str| Shown { caption: caption.to_owned(), html: "<svg>".to_owned() };
        let section = Section {
            title: "S".to_owned(),
            about: "It is.".to_owned(),
            figures: vec![shown("Figure one"), shown("Figure two")],
            tables: Table::of("T", lines).into_iter().collect(),
            sentences: vec!["One & one.".to_owned()],
        };
        Document { sections: vec![section], ..Document::new("A title", "mpdccp lab") }
    }

    #[test]
    fn the_first_figure_comes_first_then_the_table_then_sentences() {
        let html = document().html().unwrap();
        let at = |part: &str| html.find(part).unwrap_or_else(|| panic!("{part} in {html}"));
        let order = [
            "<h2>S</h2>",
            "<svg>",
            "Figure one",
            "<caption>T",
            "a&lt;b",
            "<small>0.9 to 1.1",
            "One &amp; one.",
            "Figure two",
        ];
        assert!(order.iter().map(|part| at(part)).is_sorted(), "{html}");
        assert!(html.contains("<td class=\"met\">met</td>"), "{html}");
    }

    #[test]
    fn markdown_has_the_same_without_figures() {
        let text = document().markdown().unwrap();
        let expected = "\n## S\n\nIt is.\n\n- One & one.\n\nT:\n\n|  | a<b |\n|---|---|\n| x | 1.0 (0.9 to 1.1) |\n| y | met |\n";
        assert!(text.starts_with("# A title\n\nmpdccp lab, version") && text.ends_with(expected), "{text}");
    }
}
