//! Makes tables of comparisons.

use crate::comparison::{self, Comparison, Row};
use crate::document::Table;

/// Metrics that are always shown, even without references.
const ALWAYS: &[&str] =
    &["rx_mbps", "goodput_mbps", "app_p50_ms", "app_p95_ms", "lost_pct", "reordered_pct", "retransmits"];

/// Returns a table of variants by metrics for each cell and, if there are aims, a table of aims. The metrics
/// are those in `wanted`. If `wanted` is empty, they are the main metrics and those with a reference or an
/// aim.
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
        tables.extend(Table::of(cell, comparison::upright(comparison::variants(&here, &metrics))));
        tables.extend(Table::of(format!("{cell}, aims"), comparison::aims(&here)));
    }
    tables
}
