//! A table, for HTML and for Markdown.

use crate::comparison::{self, Comparison, Row};
use crate::report::{class, entry};

/// Rows of text under a head.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// Metrics shown beside those that somebody has a figure of.
const ALWAYS: &[&str] =
    &["rx_mbps", "goodput_mbps", "app_p50_ms", "app_p95_ms", "lost_pct", "reordered_pct", "retransmits"];

/// A table of variants by metrics for each cell, and one of aims if there are any; `wanted` metrics, or, if there are none, those with
/// a reference or an aim and the main ones.
pub(super) fn of_comparisons(all: &[Comparison], wanted: &[String]) -> Vec<Table> {
    let compared = |row: &&Row| row.aim.is_some() || row.references.iter().any(Option::is_some);
    let mut metrics: Vec<&str> = wanted.iter().map(String::as_str).collect();
    if metrics.is_empty() {
        metrics.extend(ALWAYS);
        metrics.extend(all.iter().flat_map(|c| &c.rows).filter(compared).map(|row| row.metric));
    }
    let mut cells: Vec<&str> = all.iter().map(|c| c.cell.as_str()).collect();
    cells.dedup();
    let mut tables = Vec::new();
    for cell in cells {
        let here: Vec<&Comparison> = all.iter().filter(|c| c.cell == cell).collect();
        let titled = |mut lines: Vec<Vec<String>>| {
            let mut head = lines.remove(0);
            head[0] = format!("{cell}: {}", head[0]);
            Table { head, rows: lines }
        };
        tables.push(titled(comparison::variants(&here, &metrics)));
        let aims = comparison::aims(&here);
        tables.extend((aims.len() > 1).then(|| titled(aims)));
    }
    tables
}

impl Table {
    pub(super) fn html(&self) -> String {
        let row = |tag: &str, cells: &[String]| {
            let cells: String =
                cells.iter().map(|c| format!("<{tag}{}>{}</{tag}>", class(c), entry(c))).collect();
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
