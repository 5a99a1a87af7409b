//! A table, for HTML and for Markdown.

use crate::comparison::{Comparison, Row, number};
use crate::report::escape;

/// Rows of text under a head.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// Metrics shown of contenders of which nobody has a figure.
const ALWAYS: &[&str] = &["rx_mbps", "app_p50_ms", "app_p95_ms"];
/// Metrics shown where nobody has a figure of any contender.
const WIDE: &[&str] = &["rx_mbps", "app_p50_ms", "app_p95_ms", "lost_pct", "reordered_pct", "retransmits"];

impl Table {
    /// What is compared with a reference or an aim, and the main metrics, one a line; without any to compare with, one contender a line.
    pub(super) fn of_comparisons(all: &[Comparison], wanted: &[String]) -> Table {
        if !wanted.is_empty() {
            return Table::wide(all, &wanted.iter().map(String::as_str).collect::<Vec<_>>());
        }
        if !all.iter().flat_map(|c| &c.rows).any(compared) {
            return Table::wide(all, WIDE);
        }
        let mut sources: Vec<&String> = Vec::new();
        for source in all.iter().flat_map(|c| &c.sources) {
            if !sources.contains(&source) {
                sources.push(source);
            }
        }
        let mut head: Vec<String> = ["cell", "contender", "metric"].map(str::to_owned).into();
        head.extend(sources.iter().map(|s| (*s).clone()));
        head.extend(["ours", "aim", ""].map(str::to_owned));
        let mut rows = Vec::new();
        for c in all {
            for row in &c.rows {
                if !compared(row) && !ALWAYS.contains(&row.metric) {
                    continue;
                }
                let reference = |source: &&String| {
                    let at = c.sources.iter().position(|s| s == *source);
                    number(at.and_then(|i| row.references.get(i).copied().flatten()))
                };
                let (aim, met) = row.aim.clone().unwrap_or_default();
                let mut cells = vec![c.cell.clone(), c.shown(), row.words.to_owned()];
                cells.extend(sources.iter().map(reference));
                cells.extend([number(row.ours), aim, verdict(met).to_owned()]);
                rows.push(cells);
            }
        }
        Table { head, rows }
    }

    fn wide(all: &[Comparison], wanted: &[&str]) -> Table {
        let told = |metric: &&&str| all.iter().flat_map(|c| &c.rows).any(|r| r.metric == **metric);
        let metrics: Vec<&&str> = wanted.iter().filter(told).collect();
        let words = |metric: &&&str| {
            let row = all.iter().flat_map(|c| &c.rows).find(|r| r.metric == **metric);
            row.map_or(String::new(), |r| r.words.to_owned())
        };
        let mut head: Vec<String> = ["cell", "contender"].map(str::to_owned).into();
        head.extend(metrics.iter().map(words));
        let row = |c: &Comparison| {
            let ours =
                |metric: &&&str| number(c.rows.iter().find(|r| r.metric == **metric).and_then(|r| r.ours));
            let mut cells = vec![c.cell.clone(), c.shown()];
            cells.extend(metrics.iter().map(ours));
            cells
        };
        Table { head, rows: all.iter().map(row).collect() }
    }

    pub(super) fn html(&self) -> String {
        let row = |tag: &str, cells: &[String]| {
            let cells: String =
                cells.iter().map(|c| format!("<{tag}{}>{}</{tag}>", class(c), escape(c))).collect();
            format!("<tr>{cells}</tr>\n")
        };
        let rows: String = self.rows.iter().map(|cells| row("td", cells)).collect();
        format!("<div class=\"wide\"><table>{}{rows}</table></div>\n", row("th", &self.head))
    }

    pub(super) fn markdown(&self) -> String {
        let row = |cells: &[String]| format!("| {} |\n", cells.join(" | ").replace('\n', " "));
        let rule = format!("|{}\n", "---|".repeat(self.head.len()));
        self.rows.iter().fold(row(&self.head) + &rule, |out, cells| out + &row(cells))
    }
}

fn compared(row: &Row) -> bool {
    row.aim.is_some() || row.references.iter().any(Option::is_some)
}

/// Colours verdicts.
fn class(cell: &str) -> &'static str {
    match cell {
        "met" => " class=\"met\"",
        "missed" => " class=\"missed\"",
        _ => "",
    }
}

/// In a word.
pub(super) fn verdict(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "",
    }
}
