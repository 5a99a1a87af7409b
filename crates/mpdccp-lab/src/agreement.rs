//! Whether two backends agree: the summaries of one experiment side by side.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::LabError;
use crate::comparison::number;

/// Rates should differ by no more than this, per cent.
pub const RATE_PCT: f64 = 3.0;
/// Median latencies should differ by no more than this ...
pub const LATENCY_MS: f64 = 3.0;
/// ... or than this share of the second, whatever is more, per cent.
pub const LATENCY_PCT: f64 = 10.0;

/// Of TCP, rate and latencies should differ by no more than this, per cent: the model's aim.
pub const TCP_PCT: f64 = 10.0;

/// One contender in one cell of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Scenario.
    pub scenario: String,
    /// Cell.
    pub cell: String,
    /// Contender.
    pub label: String,
    /// Rates received, Mbit/s.
    pub rx_mbps: (f64, f64),
    /// Median latencies; none if either has none.
    pub p50_ms: Option<(f64, f64)>,
    /// 95th percentiles, likewise.
    pub p95_ms: Option<(f64, f64)>,
    /// A TCP of its own stack, the kernel's or the model.
    pub tcp: bool,
}

impl Pair {
    /// How much the first rate lies above the second, per cent.
    pub fn rate_pct(&self) -> f64 {
        (self.rx_mbps.0 / self.rx_mbps.1 - 1.0) * 100.0
    }

    /// Whether rate and latency are as close as they should be.
    pub fn agrees(&self) -> bool {
        if self.tcp {
            let near = |(a, b): (f64, f64)| (a - b).abs() <= b * TCP_PCT / 100.0;
            return near(self.rx_mbps) && self.p50_ms.is_none_or(near) && self.p95_ms.is_none_or(near);
        }
        let near = |(a, b): (f64, f64)| (a - b).abs() <= LATENCY_MS.max(b * LATENCY_PCT / 100.0);
        self.rate_pct().abs() <= RATE_PCT && self.p50_ms.is_none_or(near)
    }
}

/// All that both directories hold: their own `summary.json`, and those of the directories below with the same names.
///
/// # Errors
/// A summary that cannot be read, or nothing in common.
pub fn pairs(a: &Path, b: &Path) -> Result<Vec<Pair>, LabError> {
    let mut out = Vec::new();
    for below in below(a)? {
        let (a, b) = (a.join(&below).join("summary.json"), b.join(&below).join("summary.json"));
        if a.is_file() && b.is_file() {
            out.extend(common(&read(&a)?, &read(&b)?));
        }
    }
    if out.is_empty() {
        return Err(LabError::Failed(format!(
            "{} and {} have no contender of a scenario in common; name directories that `lab run` or `lab reproduce` wrote",
            a.display(),
            b.display()
        )));
    }
    Ok(out)
}

/// The directory itself, as an empty path, and those in it.
fn below(dir: &Path) -> Result<Vec<PathBuf>, LabError> {
    let failed = |e| LabError::failed(format!("reading {}", dir.display()), e);
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
    let failed = |e: &dyn core::fmt::Display| LabError::failed(format!("reading {}", file.display()), e);
    let text = fs::read_to_string(file).map_err(|e| failed(&e))?;
    serde_json::from_str(&text).map_err(|e| failed(&e))
}

fn common(a: &Value, b: &Value) -> Vec<Pair> {
    let medians = |v: &Value| v["medians"].as_array().cloned().unwrap_or_default();
    let theirs = medians(b);
    let pair = |m: &Value| {
        let same = |key: &str, o: &Value| o[key] == m[key];
        let other = theirs.iter().find(|o| same("label", o) && same("cell", o))?;
        let both = |metric: &str| Some((m["metrics"][metric].as_f64()?, other["metrics"][metric].as_f64()?));
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        Some(Pair {
            scenario: text(&a["scenario"]),
            cell: text(&m["cell"]),
            label: text(&m["label"]),
            rx_mbps: both("rx_mbps")?,
            p50_ms: both("app_p50_ms"),
            p95_ms: both("app_p95_ms"),
            tcp: text(&m["label"]).starts_with("tcp-") || m["flows"][0]["kind"] == "tcp",
        })
    };
    if a["scenario"] == b["scenario"] { medians(a).iter().filter_map(pair).collect() } else { Vec::new() }
}

/// As a table in Markdown, with a sentence below.
pub fn as_text(pairs: &[Pair]) -> String {
    let mut out = "| scenario | cell | contender | Mbit/s | | differ by, % | p50, ms | | differ by, ms | p95, ms | | differ by, ms | |\n"
        .to_owned();
    out += "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for p in pairs {
        let ms = |both: Option<(f64, f64)>| {
            both.map_or("– | – | –".to_owned(), |(a, b)| {
                format!("{} | {} | {:+.1}", number(Some(a)), number(Some(b)), a - b)
            })
        };
        let verdict = if p.agrees() { "within" } else { "apart" };
        out += &format!(
            "| {} | {} | {} | {} | {} | {:+.1} | {} | {} | {verdict} |\n",
            p.scenario,
            p.cell,
            p.label,
            number(Some(p.rx_mbps.0)),
            number(Some(p.rx_mbps.1)),
            p.rate_pct(),
            ms(p.p50_ms),
            ms(p.p95_ms)
        );
    }
    let within = pairs.iter().filter(|p| p.agrees()).count();
    out + &format!(
        "\n{within} of {} agree within {RATE_PCT} % of rate and {LATENCY_MS} ms or {LATENCY_PCT} % of median latency; TCP within {TCP_PCT} % of rate, p50 and p95.\n",
        pairs.len()
    )
}
