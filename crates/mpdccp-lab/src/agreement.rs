//! Whether two backends agree: the summaries of one experiment side by side.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::LabError;
use crate::estimate::Estimate;

/// Rates should differ by no more than this, per cent.
pub const RATE_PCT: f64 = 3.0;
/// Median latencies should differ by no more than this ...
pub const LATENCY_MS: f64 = 3.0;
/// ... or than this share of the second, whatever is more, per cent.
pub const LATENCY_PCT: f64 = 10.0;

/// Of TCP, rate and latencies should differ by no more than this, per cent: the model's aim.
pub const TCP_PCT: f64 = 10.0;

/// A figure of the first and of the second.
pub type Both = (Estimate, Estimate);

/// One variant in one cell of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Scenario.
    pub scenario: String,
    /// Cell.
    pub cell: String,
    /// Variant.
    pub label: String,
    /// Rates received, Mbit/s.
    pub rx_mbps: Both,
    /// Median latencies; none if either has none.
    pub p50_ms: Option<Both>,
    /// 95th percentiles, likewise.
    pub p95_ms: Option<Both>,
    /// A TCP of its own stack, the kernel's or the model.
    pub tcp: bool,
}

/// How near two backends are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The medians are as near as they should be.
    Within,
    /// The medians are not, but each figure's 95 % intervals overlap or are near: more runs would have to tell.
    Open,
    /// Some figure differs by more than chance and more than it may.
    Apart,
}

impl Agreement {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Agreement::Within => "within",
            Agreement::Open => "open",
            Agreement::Apart => "apart",
        }
    }
}

impl Pair {
    /// How much the first rate lies above the second, per cent.
    pub fn rate_pct(&self) -> f64 {
        percent(self.rx_mbps)
    }

    /// Whether rate and latency are as close as they should be.
    pub fn agreement(&self) -> Agreement {
        let tcp = |b: f64| b * TCP_PCT / 100.0;
        let latency = |b: f64| LATENCY_MS.max(b * LATENCY_PCT / 100.0);
        let judged = if self.tcp {
            [
                Some(judge(self.rx_mbps, tcp)),
                self.p50_ms.map(|p| judge(p, tcp)),
                self.p95_ms.map(|p| judge(p, tcp)),
            ]
        } else {
            let rate = judge(self.rx_mbps, |b| b * RATE_PCT / 100.0);
            [Some(rate), self.p50_ms.map(|p| judge(p, latency)), None]
        };
        let all: Vec<Agreement> = judged.into_iter().flatten().collect();
        match all.iter().find(|a| **a == Agreement::Apart).or(all.iter().find(|a| **a == Agreement::Open)) {
            Some(worst) => *worst,
            None => Agreement::Within,
        }
    }
}

fn percent((a, b): Both) -> f64 {
    (a.median / b.median - 1.0) * 100.0
}

/// `allowed`: how far the first may lie from a second of this value.
fn judge((a, b): Both, allowed: impl Fn(f64) -> f64) -> Agreement {
    let ((a_low, a_high), (b_low, b_high)) = (a.range(), b.range());
    if (a.median - b.median).abs() <= allowed(b.median) {
        Agreement::Within
    } else if a_low <= b_high && b_low <= a_high {
        Agreement::Open
    } else {
        Agreement::Apart
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
            "{} and {} have no variant of a scenario in common; name directories that `lab run` or `lab reproduce` wrote",
            a.display(),
            b.display()
        )));
    }
    Ok(out)
}

/// The directory itself, as an empty path, and those in it.
fn below(dir: &Path) -> Result<Vec<PathBuf>, LabError> {
    let failed = |e| {
        let what = "expected a directory that `lab run` or `lab reproduce` wrote";
        LabError::Wrong(format!("reading {}: {e}; {what}", dir.display()))
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
        let both = |metric: &str| Some((estimate(m, metric)?, estimate(other, metric)?));
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

/// Of a summary's medians.
fn estimate(of: &Value, metric: &str) -> Option<Estimate> {
    let bound = |i: usize| of["intervals"][metric][i].as_f64();
    let interval = bound(0).zip(bound(1));
    Some(Estimate { interval, ..Estimate::single(of["metrics"][metric].as_f64()?) })
}

/// As a table in Markdown, with a sentence below.
pub fn as_text(pairs: &[Pair]) -> String {
    let mut out =
        "| scenario | cell | variant | Mbit/s | | % | p50, ms | | % | p95, ms | | % | |\n".to_owned();
    out += "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
    for p in pairs {
        let three = |both: Option<Both>| {
            both.map_or("– | – | –".to_owned(), |(a, b)| {
                format!("{} | {} | {:+.1}", a.text(), b.text(), percent((a, b)))
            })
        };
        out += &format!(
            "| {} | {} | {} | {} | {} | {} | {} |\n",
            p.scenario,
            p.cell,
            p.label,
            three(Some(p.rx_mbps)),
            three(p.p50_ms),
            three(p.p95_ms),
            p.agreement().word(),
        );
    }
    let count = |which| pairs.iter().filter(|p| p.agreement() == which).count();
    out + &format!(
        "\nEach figure of the first, of the second, and how far the first lies above. {} of {} are within {RATE_PCT} % of rate and \
         {LATENCY_MS} ms or {LATENCY_PCT} % of median latency, TCP within {TCP_PCT} % of rate, p50 and p95; {} are open, for the intervals \
         overlap; {} are apart.\n",
        count(Agreement::Within),
        pairs.len(),
        count(Agreement::Open),
        count(Agreement::Apart),
    )
}
