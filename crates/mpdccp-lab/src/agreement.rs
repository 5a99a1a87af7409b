//! Compares the summaries of one experiment on two backends, to see whether the backends agree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::LabError;
use crate::bounds::Tolerance;
pub use crate::estimate::Agreement;
use crate::estimate::{Estimate, agreement, paired};

const FILE: &str = include_str!("../../../scenarios/agreement.toml");

/// Allowed differences between two backends, by metric. `tcp` is for measured TCP flows outside the tunnel,
/// `tunnel` for all other measured flows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowed {
    tunnel: BTreeMap<String, Tolerance>,
    tcp: BTreeMap<String, Tolerance>,
}

/// Parses `scenarios/agreement.toml`.
fn allowed() -> Allowed {
    toml::from_str(FILE).unwrap_or_else(|e| unreachable!("scenarios/agreement.toml: {e}"))
}

/// The values of one metric in the first and in the second directory. Each pair holds the values of two runs
/// with the same seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Both(pub Vec<(f64, f64)>);

impl Both {
    /// Returns one estimate for each directory, over all of its runs.
    fn estimates(&self) -> Option<(Estimate, Estimate)> {
        let (first, second): (Vec<f64>, Vec<f64>) = self.0.iter().copied().unzip();
        Estimate::of(&first).zip(Estimate::of(&second))
    }

    /// Returns by how many per cent the first median exceeds the second.
    fn percent(&self) -> f64 {
        self.estimates().map_or(f64::NAN, |(a, b)| (a.median / b.median - 1.0) * 100.0)
    }
}

/// One variant in one cell of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Name of the scenario.
    pub scenario: String,
    /// Name of the cell.
    pub cell: String,
    /// Label of the variant.
    pub label: String,
    /// Whether all runs have the same inputs, apart from backend and seed.
    pub same_inputs: bool,
    /// Rates received, Mbit/s.
    pub rx_mbps: Both,
    /// Median latencies, or `None` if one directory has none.
    pub p50_ms: Option<Both>,
    /// 95th percentiles of the latency, or `None` if one directory has none.
    pub p95_ms: Option<Both>,
    /// Whether a measured flow uses TCP outside the tunnel, either the kernel's TCP or the simulator's model
    /// of it.
    pub tcp: bool,
}

impl Pair {
    /// Returns whether all figures are within the limits of `scenarios/agreement.toml`.
    pub fn agreement(&self) -> Agreement {
        let allowed = allowed();
        let judged = if self.tcp { allowed.tcp } else { allowed.tunnel };
        let verdict = |(metric, tolerance): (&String, &Tolerance)| {
            let both = match metric.as_str() {
                "rx_mbps" => Some(&self.rx_mbps),
                "app_p50_ms" => self.p50_ms.as_ref(),
                "app_p95_ms" => self.p95_ms.as_ref(),
                _ => None,
            };
            Some(agreement(&both?.0, |theirs| tolerance.of(theirs)))
        };
        judged.iter().filter_map(verdict).max().unwrap_or(Agreement::Open)
    }
}

/// Returns the pairs of runs that both directories contain. Each directory's runs are in its `summary.json`
/// and in those of its subdirectories. Subdirectories with the same name are compared with each other.
///
/// # Errors
/// Fails if a summary cannot be read, or if the directories have nothing in common.
pub fn pairs(a: &Path, b: &Path) -> Result<Vec<Pair>, LabError> {
    let mut out = Vec::new();
    let (dirs, _) = (below(a)?, below(b)?);
    for below in dirs {
        let (a, b) = (a.join(&below).join("summary.json"), b.join(&below).join("summary.json"));
        if a.is_file() && b.is_file() {
            out.extend(common(&read(&a)?, &read(&b)?));
        }
    }
    if out.is_empty() {
        return Err(LabError::Wrong(format!(
            "{} and {} have no scenario and variant in common; give output directories of `lab run` or `lab reproduce`",
            a.display(),
            b.display()
        )));
    }
    Ok(out)
}

/// Returns the relative paths of the directory itself (an empty path) and of its subdirectories.
fn below(dir: &Path) -> Result<Vec<PathBuf>, LabError> {
    let failed = |e| {
        let what = "expected an output directory of `lab run` or `lab reproduce`";
        LabError::Wrong(format!("cannot read {}: {e}; {what}", dir.display()))
    };
    let mut all = vec![PathBuf::new()];
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().is_dir() {
            all.push(entry.file_name().into());
        }
    }
    all.sort();
    Ok(all)
}

fn read(file: &Path) -> Result<Value, LabError> {
    let failed = |e: &dyn core::fmt::Display| LabError::failed(format!("cannot read {}", file.display()), e);
    let text = fs::read_to_string(file).map_err(|e| failed(&e))?;
    serde_json::from_str(&text).map_err(|e| failed(&e))
}

fn common(a: &Value, b: &Value) -> Vec<Pair> {
    let list = |v: &Value, key: &str| v[key].as_array().cloned().unwrap_or_default();
    let (ours, theirs) = (list(a, "runs"), list(b, "runs"));
    let pair = |m: &Value| {
        let of = |runs: &[Value]| {
            let same = |run: &&Value| run["label"] == m["label"] && run["cell"] == m["cell"];
            runs.iter().filter(same).cloned().collect::<Vec<_>>()
        };
        let (ours, theirs) = (of(&ours), of(&theirs));
        let both = |metric: &str| {
            let value = |run: &Value| Some((run["seed"].as_u64()?, run["metrics"][metric].as_f64()?));
            let [ours, theirs] =
                [&ours, &theirs].map(|runs| runs.iter().filter_map(value).collect::<Vec<_>>());
            let pairs = paired(&ours, &theirs);
            (!pairs.is_empty()).then_some(Both(pairs))
        };
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let inputs = |run: &Value| text(&run["resolved_hash"]);
        let first = ours.first().map(inputs);
        Some(Pair {
            same_inputs: ours.iter().chain(&theirs).map(inputs).all(|inputs| Some(inputs) == first),
            scenario: text(&a["scenario"]),
            cell: text(&m["cell"]),
            label: text(&m["label"]),
            rx_mbps: both("rx_mbps")?,
            p50_ms: both("app_p50_ms"),
            p95_ms: both("app_p95_ms"),
            tcp: text(&m["label"]).starts_with("tcp-")
                || list(m, "flows").iter().any(|f| f["kind"] == "tcp" && f["measured"] != false),
        })
    };
    if a["scenario"] == b["scenario"] {
        list(a, "medians").iter().filter_map(pair).collect()
    } else {
        Vec::new()
    }
}

/// Formats the pairs as a Markdown table with a summary below.
pub fn as_text(pairs: &[Pair]) -> String {
    let mut out =
        "| scenario | cell | variant | Mbit/s | | % | p50, ms | | % | p95, ms | | % | |\n".to_owned();
    out += "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for p in pairs {
        let three = |both: Option<&Both>| {
            let estimates = both.and_then(Both::estimates);
            estimates.zip(both).map_or("– | – | –".to_owned(), |((a, b), both)| {
                // There is no percentage of zero.
                let percent = Some(both.percent()).filter(|percent| percent.is_finite());
                let percent = percent.map_or("–".to_owned(), |percent| format!("{percent:+.1}"));
                format!("{} | {} | {percent}", a.text(), b.text())
            })
        };
        out += &format!(
            "| {} | {} | {} | {} | {} | {} | {} |\n",
            p.scenario,
            p.cell,
            p.label,
            three(Some(&p.rx_mbps)),
            three(p.p50_ms.as_ref()),
            three(p.p95_ms.as_ref()),
            p.agreement().name(),
        );
    }
    let count = |which| pairs.iter().filter(|p| p.agreement() == which).count();
    let words = |of: &BTreeMap<String, Tolerance>| {
        let each = of.iter().map(|(metric, tolerance)| format!("{metric} {}", tolerance.text()));
        each.collect::<Vec<_>>().join(", ")
    };
    let Allowed { tunnel, tcp } = allowed();
    let others = pairs.iter().filter(|p| !p.same_inputs).count();
    if others > 0 {
        out += &format!("\nRows whose inputs differ: {others}.\n");
    }
    out + &format!(
        "\nThe table compares runs with the same seeds. For each metric, it shows the value in the first directory, the value in the second, and the difference in per cent. The 95 % interval \
         of the difference lies within the tolerance ({}; TCP: {}) in {} of {} rows. {} rows are open: the runs differ too much, or are fewer than the six pairs that an interval needs. {} \
         rows are apart: the interval lies outside the tolerance.\n",
        words(&tunnel),
        words(&tcp),
        count(Agreement::Within),
        pairs.len(),
        count(Agreement::Open),
        count(Agreement::Apart),
    )
}
