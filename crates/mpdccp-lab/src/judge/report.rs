//! Makes the judge's tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::figures::Figures;
use super::kernel::{Pair, VALUES};
use super::verdict::Verdict;
use crate::estimate::{middle, percentile, sorted};
use crate::{LabError, files};

/// Number of points that the report lists for each variant: those with the lowest ratios.
const WORST: usize = 10;
/// A 95 % interval reaches this many standard deviations to each side.
const Z: f64 = 1.96;

/// Result of one variant at one point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) index: u64,
    pub(super) class: String,
    pub(super) words: String,
    pub(super) label: String,
    pub(super) figures: Figures,
    pub(super) verdict: Verdict,
}

/// All results of a run of the judge, from which the tables are made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Judged {
    /// The command and the build that produced the results.
    pub(super) made_by: String,
    pub(super) seed: u64,
    /// The variants in table order.
    pub(super) variants: Vec<String>,
    pub(super) rows: Vec<Row>,
    /// The comparison with the kernel at the same points, if requested.
    #[serde(default)]
    pub(super) kernel: Vec<Pair>,
    /// The points that failed, with their errors.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) failed: BTreeMap<u64, String>,
}

/// Reads the output of another build.
pub(super) fn read(path: &Path) -> Result<Judged, LabError> {
    let file = if path.is_dir() { path.join("judge.json") } else { path.to_owned() };
    let wrong = |e: &dyn core::fmt::Display| {
        LabError::Wrong(format!(
            "cannot read {}: {e}; expected an output directory of `lab judge`",
            file.display()
        ))
    };
    let text = fs::read_to_string(&file).map_err(|e| wrong(&e))?;
    serde_json::from_str(&text).map_err(|e| wrong(&e))
}

/// Returns Wilson's 95 % interval of a proportion, in per cent.
fn wilson(met: usize, of: usize) -> (f64, f64) {
    let (n, p) = (of as f64, met as f64 / of.max(1) as f64);
    let middle = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    (100.0 * (middle - half).max(0.0), 100.0 * (middle + half).min(1.0))
}

fn by_class<'a>(rows: &'a [Row], label: &str) -> BTreeMap<&'a str, Vec<&'a Row>> {
    let mut classes: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.label == label) {
        classes.entry(&row.class).or_default().push(row);
    }
    classes
}

/// Writes `judge.json` and `judge.md`, and returns the text of the latter.
pub(super) fn write(out: &Path, judged: &Judged, before: Option<&Judged>) -> Result<String, LabError> {
    let text = text(judged, before.map(|before| &before.rows[..]));
    let json = serde_json::to_string(judged).map_err(|e| LabError::failed("cannot write JSON", e))?;
    files::write(&out.join("judge.json"), json)?;
    files::write(&out.join("judge.md"), &text)?;
    Ok(text)
}

/// Returns the text of `judge.md`. For each variant, it contains a table and the worst points.
fn text(judged: &Judged, before: Option<&[Row]>) -> String {
    let Judged { made_by, seed, variants, rows, kernel, failed } = judged;
    let met = |rows: &[&Row]| rows.iter().filter(|row| row.verdict.met).count();
    let tables: Vec<_> = variants.iter().map(|label| by_class(rows, label)).collect();
    let mut text = format!(
        "{made_by}\n\n| points met | {} |\n|---|{}\n",
        variants.join(" | "),
        "--:|".repeat(variants.len())
    );
    let mut classes: Vec<&str> = tables.iter().flat_map(BTreeMap::keys).copied().collect();
    classes.sort_unstable();
    classes.dedup();
    for class in classes {
        let cell = |table: &BTreeMap<&str, Vec<&Row>>| {
            table.get(class).map_or(String::new(), |rows| format!("{} of {}", met(rows), rows.len()))
        };
        let _ = writeln!(text, "| {class} | {} |", tables.iter().map(cell).collect::<Vec<_>>().join(" | "));
    }
    for (index, why) in failed {
        let _ = writeln!(text, "\nPoint {index} failed: {why}.");
    }
    for (label, table) in variants.iter().zip(&tables) {
        let all: Vec<&Row> = rows.iter().filter(|row| row.label == *label).collect();
        let _ = write!(
            text,
            "\n## {label}\n\n| class | met | 95 % interval | rate / required rate: median | 5th percentile | start-up: median |\n|---|--:|--:|--:|--:|--:|\n"
        );
        let mut line = |name: &str, rows: &[&Row]| {
            let (low, high) = wilson(met(rows), rows.len());
            let ratios = sorted(rows.iter().map(|row| row.verdict.ratio));
            let starts = sorted(rows.iter().map(|row| row.verdict.start));
            let known = |value: Option<f64>| value.unwrap_or(f64::NAN);
            let _ = writeln!(
                text,
                "| {name} | {} of {} | {low:.0} to {high:.0} % | {:.2} | {:.2} | {:.2} |",
                met(rows),
                rows.len(),
                known(middle(&ratios)),
                known(percentile(&ratios, 5.0)),
                known(middle(&starts)),
            );
        };
        for (class, rows) in table {
            line(class, rows);
        }
        line("all", &all);
        let mut missed: Vec<&&Row> = all.iter().filter(|row| !row.verdict.met).collect();
        missed.sort_by(|a, b| a.verdict.ratio.total_cmp(&b.verdict.ratio));
        for row in missed.iter().take(WORST) {
            let _ = writeln!(
                text,
                "\n- {}: {}. {}. `mpdccp lab judge --seed {seed} --point {} --only {label}`",
                row.class,
                row.words,
                row.verdict.why.join(", "),
                row.index
            );
        }
        if let Some(before) = before {
            text += &compared(before, &all, label);
        }
    }
    if !kernel.is_empty() {
        text += &with_kernel(kernel);
    }
    text
}

/// Returns a table with the results of both backends, in the form `simulator / kernel`.
fn with_kernel(pairs: &[Pair]) -> String {
    let agree = pairs.iter().filter(|pair| pair.kernel.is_some() && pair.differs.is_empty()).count();
    let ran = pairs.iter().filter(|pair| pair.kernel.is_some()).count();
    let mut text = format!(
        "\n## Simulator and kernel\n\n{agree} of {ran} rows agree. A class counts if at least half of its rows agree in each value.\n\n| rows that agree | {} | counts |\n|---|--:|--:|--:|---|\n",
        VALUES.join(" | ")
    );
    let mut classes: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
    for pair in pairs.iter().filter(|pair| pair.kernel.is_some()) {
        classes.entry(&pair.class).or_default().push(pair);
    }
    for (class, pairs) in classes {
        let of = pairs.len();
        let agree =
            VALUES.map(|value| pairs.iter().filter(|p| !p.differs.iter().any(|d| d == value)).count());
        let counts = if agree.iter().all(|n| 2 * n >= of) { "yes" } else { "no" };
        let cells = agree.map(|n| format!("{n} of {of}")).join(" | ");
        let _ = writeln!(text, "| {class} | {cells} | {counts} |");
    }
    let _ = write!(
        text,
        "\n| point | class | flow | rates, Mbit/s | p95, ms | lost, % | met | differs |\n|--:|---|---|--:|--:|--:|---|---|\n"
    );
    for pair in pairs {
        let Pair { index, class, label, sim, why, .. } = pair;
        let Some(kernel) = &pair.kernel else {
            let _ = writeln!(text, "| {index} | {class} | {label} | | | | | not run: {why} |");
            continue;
        };
        let rates =
            |f: &Figures| f.mbps.iter().map(|mbps| format!("{mbps:.2}")).collect::<Vec<_>>().join(" + ");
        let word = |met| if met { "yes" } else { "no" };
        let met = pair.met.map_or(String::new(), |(a, b)| format!("{} / {}", word(a), word(b)));
        let _ = writeln!(
            text,
            "| {index} | {class} | {label} | {} / {} | {:.1} / {:.1} | {:.1} / {:.1} | {met} | {} |",
            rates(sim),
            rates(kernel),
            sim.p95_ms,
            kernel.p95_ms,
            sim.lost * 100.0,
            kernel.lost * 100.0,
            pair.differs.join(", ")
        );
    }
    text
}

/// Returns text that lists the points that only this build meets, and the points that only the other build
/// meets.
fn compared(before: &[Row], now: &[&Row], label: &str) -> String {
    let then =
        |row: &&Row| before.iter().find(|b| b.label == label && b.index == row.index && b.words == row.words);
    let pairs: Vec<(&Row, &Row)> = now.iter().filter_map(|row| Some((then(row)?, *row))).collect();
    let changed = |from: bool, to: bool| -> String {
        let which = pairs.iter().filter(|(a, b)| a.verdict.met == from && b.verdict.met == to);
        let points: Vec<String> = which.map(|(_, b)| b.index.to_string()).collect();
        if points.is_empty() { "none".to_owned() } else { format!("{} ({})", points.len(), points.join(" ")) }
    };
    format!(
        "\nBoth builds ran {} points. Met only by this build: {}. Met only by the other build: {}.\n",
        pairs.len(),
        changed(false, true),
        changed(true, false)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(index: u64, met: bool) -> Row {
        Row {
            index,
            class: String::new(),
            words: String::new(),
            label: "ccid5".to_owned(),
            figures: Figures::default(),
            verdict: Verdict { met, ..Verdict::default() },
        }
    }

    #[test]
    fn intervals_are_wilsons() {
        // The expected values are a published example: for 81 of 263, Wilson's interval (1927) is 25.5 to
        // 36.6 %.
        let (low, high) = wilson(81, 263);
        assert!((low - 25.5).abs() < 0.1 && (high - 36.6).abs() < 0.1, "{low} {high}");
        assert!(wilson(10, 10).0 > 70.0 && wilson(0, 10).1 < 30.0);
        assert_eq!(format!("{:.0} {:.0}", wilson(0, 1).0, wilson(1, 1).1), "0 100");
    }

    #[test]
    fn all_variants_stand_beside_each_other_by_class_and_come_back_from_the_file() {
        let row = |label: &str, class: &str, met| Row {
            label: label.to_owned(),
            class: class.to_owned(),
            ..row(1, met)
        };
        let judged = Judged {
            made_by: "`mpdccp lab judge`".to_owned(),
            seed: 1,
            variants: vec!["ccid5".to_owned(), "ccid7".to_owned()],
            rows: vec![row("ccid5", "loss", true), row("ccid7", "loss", false), row("ccid5", "loss", false)],
            kernel: Vec::new(),
            failed: BTreeMap::from([(3, "the run panicked".to_owned())]),
        };
        let dir = tempfile::tempdir().unwrap();
        let written = write(dir.path(), &judged, None).unwrap();
        assert!(
            written.contains("| points met | ccid5 | ccid7 |\n|---|--:|--:|\n| loss | 1 of 2 | 0 of 1 |"),
            "{written}"
        );
        assert!(written.contains("\nPoint 3 failed: the run panicked.\n"), "{written}");
        assert_eq!(text(&read(dir.path()).unwrap(), None), written);
    }

    #[test]
    fn a_class_counts_if_half_of_its_rows_agree_in_each_value() {
        let pair = |class: &str, differs: &[&str]| Pair {
            index: 1,
            class: class.to_owned(),
            words: String::new(),
            label: "bbr".to_owned(),
            sim: Figures::default(),
            kernel: Some(Figures::default()),
            why: String::new(),
            met: None,
            differs: differs.iter().map(|value| (*value).to_owned()).collect(),
        };
        let all = [
            pair("loss", &["rate"]),
            pair("loss", &["latency"]),
            pair("walks", &["loss"]),
            pair("walks", &["loss"]),
            pair("walks", &[]),
            Pair { kernel: None, ..pair("walks", &[]) },
        ];
        let text = with_kernel(&all);
        assert!(text.contains("| loss | 1 of 2 | 1 of 2 | 2 of 2 | yes |"), "{text}");
        assert!(text.contains("| walks | 3 of 3 | 3 of 3 | 1 of 3 | no |"), "{text}");
    }

    #[test]
    fn two_builds_are_compared_point_by_point() {
        let before = [row(1, true), row(2, false), row(3, true)];
        let now = [row(1, false), row(2, true), row(3, true), row(4, true)];
        let text = compared(&before, &now.iter().collect::<Vec<_>>(), "ccid5");
        assert!(
            text.contains("3 points. Met only by this build: 1 (2). Met only by the other build: 1 (1)."),
            "{text}"
        );
    }
}
