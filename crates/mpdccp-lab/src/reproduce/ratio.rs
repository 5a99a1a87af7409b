//! Compares the goodput over several paths with the goodput over each path alone.

use crate::bounds::Bounds;
use crate::comparison::{Comparison, number};
use crate::document::Table;
use crate::estimate::{Estimate, Verdict};
use crate::summary::distinct;

/// The metric that is compared.
const METRIC: &str = "goodput_mbps";
/// Result of one variant in one cell.
struct Ratio<'a> {
    label: &'a str,
    cell: &'a str,
    mbps: f64,
    /// Ratios to the best and to the sum of the results over each path alone. `None` if one of these results
    /// is missing.
    parts: Option<(f64, f64)>,
}

/// Returns a table with one row per cell, and sentences about the table. A row starts with the results of the
/// variants `alone`, which use one path each. For each other variant, it shows the result, and the ratios of
/// this result to the best and to the sum of the results of `alone`. The sentences say in how many cells a
/// variant reaches the required ratios, and compare it with the `baselines`.
pub(super) fn beside_alone(
    all: &[Comparison],
    (alone, of_best, of_sum): (&[String], Bounds, Bounds),
    baselines: &[&str],
) -> (Table, Vec<String>) {
    let mut cells: Vec<&str> = all.iter().map(|c| c.cell.as_str()).collect();
    cells.dedup();
    let others = distinct(all.iter().filter(|c| !alone.contains(&c.label)).map(|c| c.label.as_str()));
    let value = |cell: &str, label: &str| {
        let at = all.iter().find(|c| c.cell == cell && c.label == label)?;
        at.estimate(METRIC).map(|e| e.median)
    };
    let mut head = vec!["goodput, Mbit/s".to_owned()];
    head.extend(alone.iter().cloned());
    for label in &others {
        head.extend([(*label).to_owned(), "× best".to_owned(), "× sum".to_owned()]);
    }
    let (mut rows, mut ratios) = (Vec::new(), Vec::new());
    for &cell in &cells {
        let singles: Vec<Option<f64>> = alone.iter().map(|label| value(cell, label)).collect();
        let known: Option<Vec<f64>> = singles.iter().copied().collect();
        let known = known.map(|all| (all.iter().copied().fold(0.0, f64::max), all.iter().sum::<f64>()));
        let mut row = vec![cell.to_owned()];
        row.extend(singles.iter().map(|v| number(*v)));
        for &label in &others {
            let both = value(cell, label);
            let parts = both.zip(known.filter(|(best, _)| *best > 0.0));
            let parts = parts.map(|(both, (best, sum))| (both / best, both / sum));
            let text = |part: Option<f64>| part.map_or("–".to_owned(), |part| format!("{part:.2}"));
            row.extend([number(both), text(parts.map(|p| p.0)), text(parts.map(|p| p.1))]);
            ratios.extend(both.map(|mbps| Ratio { label, cell, mbps, parts }));
        }
        rows.push(row);
    }
    let (theirs, ours): (Vec<&str>, Vec<&str>) = others.iter().partition(|label| baselines.contains(label));
    let mut sentences: Vec<String> =
        others.iter().filter_map(|label| sentence(label, (of_best, of_sum), &ratios)).collect();
    let pairs = theirs.iter().flat_map(|baseline| ours.iter().map(move |label| (label, baseline)));
    sentences.extend(pairs.map(|(label, baseline)| beside_baseline(label, baseline, &ratios)));
    (Table { head, rows, ..Table::default() }, sentences)
}

/// Returns a sentence that compares a variant with the baseline: the number of cells in which the variant is
/// at least as fast, and the fraction of the baseline's rate in each other cell.
fn beside_baseline(label: &str, baseline: &str, ratios: &[Ratio<'_>]) -> String {
    let theirs = |cell: &str| ratios.iter().find(|r| r.label == baseline && r.cell == cell).map(|r| r.mbps);
    let ours = ratios.iter().filter(|r| r.label == label);
    let parts: Vec<(&str, f64)> = ours.filter_map(|r| Some((r.cell, r.mbps / theirs(r.cell)?))).collect();
    let no_less = parts.iter().filter(|(_, part)| *part >= 1.0).count();
    format!(
        "{label}: at least as fast as {baseline} in {no_less} of {} cells{}.",
        parts.len(),
        listed(&parts, 1.0)
    )
}

/// Returns text that lists the cells whose value is below `enough`, with their values.
fn listed(cells: &[(&str, f64)], enough: f64) -> String {
    let below = cells.iter().filter(|(_, part)| *part < enough);
    let below: Vec<String> = below.map(|(cell, part)| format!("{cell} {part:.2}")).collect();
    if below.is_empty() { String::new() } else { format!(" (lower in {})", below.join(", ")) }
}

/// Returns a sentence that says in how many cells a variant reaches the required ratios. Returns `None` if no
/// ratio is required.
fn sentence(label: &str, (of_best, of_sum): (Bounds, Bounds), ratios: &[Ratio<'_>]) -> Option<String> {
    let mine = ratios.iter().filter(|r| r.label == label);
    let (best, sum): (Vec<(&str, f64)>, Vec<f64>) =
        mine.filter_map(|r| r.parts.map(|(of_best, of_sum)| ((r.cell, of_best), of_sum))).unzip();
    let met = |aim: Bounds, part: f64| aim.judge(Estimate::single(part)) == Verdict::Met;
    let not = listed(&best, of_best.min.unwrap_or(0.0));
    let best = of_best.any().then(|| {
        let met = best.iter().filter(|(_, part)| met(of_best, *part)).count();
        format!("{} × the best single path in {met} of {} cells{not}", of_best.text(), best.len())
    });
    let sum = of_sum.any().then(|| {
        let met = sum.iter().filter(|part| met(of_sum, **part)).count();
        format!("{} × the sum of all single paths in {met} of {} cells", of_sum.text(), sum.len())
    });
    let both: Vec<String> = best.into_iter().chain(sum).collect();
    (!both.is_empty()).then(|| format!("{label}: reaches {}.", both.join(", and ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::Row;

    const OF_BEST: Bounds = Bounds { min: Some(0.95), max: None };
    const OF_SUM: Bounds = Bounds { min: Some(0.85), max: None };

    fn comparison(label: &str, cell: &str, mbps: f64) -> Comparison {
        let row = Row {
            metric: METRIC,
            words: "",
            references: Vec::new(),
            runs: vec![(1, mbps)],
            ours: Estimate::of(&[mbps]),
            aim: None,
        };
        let (label, cell) = (label.to_owned(), cell.to_owned());
        Comparison {
            label,
            model: None,
            cell,
            n: 1,
            sources: Vec::new(),
            measured: String::new(),
            rows: vec![row],
            flows: Vec::new(),
        }
    }

    #[test]
    fn compares_with_the_best_and_with_the_sum() {
        let all = [
            comparison("both", "near", 38.0),
            comparison("a", "near", 40.0),
            comparison("b", "near", 10.0),
            comparison("both", "far", 18.0),
            comparison("a", "far", 20.0),
            comparison("b", "far", 5.0),
            // The run over path b failed.
            comparison("both", "half", 18.0),
            comparison("a", "half", 20.0),
        ];
        let (table, sentences) =
            beside_alone(&all, (&["a".to_owned(), "b".to_owned()], OF_BEST, OF_SUM), &[]);
        assert_eq!(table.head, ["goodput, Mbit/s", "a", "b", "both", "× best", "× sum"]);
        assert_eq!(table.rows[0], ["near", "40.0", "10.0", "38.0", "0.95", "0.76"]);
        assert_eq!(table.rows[1], ["far", "20.0", "5.00", "18.0", "0.90", "0.72"]);
        assert_eq!(table.rows[2], ["half", "20.0", "–", "18.0", "–", "–"]);
        let want = "both: reaches ≥ 0.95 × the best single path in 1 of 2 cells (lower in far 0.90), and ≥ 0.85 × the sum of all single paths in 0 of 2 cells.";
        assert_eq!(sentences, [want]);
        let without = |of_sum| {
            beside_alone(&all, (&["a".to_owned(), "b".to_owned()], Bounds::default(), of_sum), &[]).1
        };
        assert_eq!(without(Bounds::default()), [""; 0]);
        assert_eq!(without(OF_SUM), ["both: reaches ≥ 0.85 × the sum of all single paths in 0 of 2 cells."]);
        let mut all = Vec::from(all);
        all.insert(6, comparison("theirs", "far", 20.0));
        all.insert(3, comparison("theirs", "near", 37.0));
        let (_, sentences) =
            beside_alone(&all, (&["a".to_owned(), "b".to_owned()], OF_BEST, OF_SUM), &["theirs"]);
        assert_eq!(sentences[2], "both: at least as fast as theirs in 1 of 2 cells (lower in far 0.90).");
    }
}
