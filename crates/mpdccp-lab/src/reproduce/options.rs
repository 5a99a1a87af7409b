//! Options of a reproduction, and its progress.

use std::path::PathBuf;

use crate::scenario::Scenario;
use crate::{runs, sweep};

/// Options of a reproduction.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to run only headline cells, with fewer and shorter runs, as a test.
    pub quick: bool,
    /// Duration of each run in seconds, instead of the set's.
    pub duration_s: Option<f64>,
    /// Make the runs that a set marks `around` in the simulator, even if the rest uses another
    /// backend.
    pub around_in_sim: bool,
    /// Only these sections, by name or by scenario; all if empty.
    pub only: Vec<String>,
    /// The first seed.
    pub seed: u64,
    /// Maximum number of parallel runs; only backends in virtual time use it.
    pub threads: usize,
    /// Output directory; created if needed. Earlier results in it are reused.
    pub out: PathBuf,
}

/// Progress for the live view.
#[derive(Debug)]
pub enum Progress<'a> {
    /// An experiment begins: number `index` (from 1) of `total`.
    Experiment {
        /// Its scenario.
        scenario: &'a Scenario,
        /// Counted from 1.
        index: usize,
        /// Number of experiments.
        total: usize,
    },
    /// Progress of its runs.
    Run(runs::Event<'a>),
    /// Progress of its sweep.
    Sweep(&'a sweep::Progress<'a>),
    /// A failure; the others continue.
    Failed(&'a str),
}

/// The command line, for a report.
pub(super) fn command(set: &str, backend: &str, options: &Options) -> String {
    let quick = if options.quick { " --quick" } else { "" };
    let duration = options.duration_s.map_or(String::new(), |s| format!(" --duration {s}"));
    format!("mpdccp lab reproduce {set} --backend {backend}{quick}{duration} --seed {}", options.seed)
}
