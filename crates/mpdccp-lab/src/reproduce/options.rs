//! How a set is made, and what is told meanwhile.

use std::path::PathBuf;

use crate::scenario::Scenario;
use crate::{runs, sweep};

/// How a set is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Headline cells, fewer and shorter runs, to see that all works.
    pub quick: bool,
    /// Seconds of each run instead of what the set says.
    pub duration_s: Option<f64>,
    /// What a set calls `around` runs in the simulator even if the rest does not.
    pub around_in_sim: bool,
    /// Only these sections, by their names or their scenarios' names; all if empty.
    pub only: Vec<String>,
    /// The first seed.
    pub seed: u64,
    /// Runs at a time, in virtual time.
    pub threads: usize,
    /// Directory for everything written; made if need be. What it holds of earlier tries is used.
    pub out: PathBuf,
}

/// What happens, for those who watch.
#[derive(Debug)]
pub enum Progress<'a> {
    /// An experiment begins: number `index` (from 1) of `total`.
    Experiment {
        /// What it runs.
        scenario: &'a Scenario,
        /// Counted from 1.
        index: usize,
        /// Of all.
        total: usize,
    },
    /// It goes on.
    Run(runs::Event<'a>),
    /// A sweep goes on.
    Sweep(&'a sweep::Progress<'a>),
    /// Something failed; the others go on.
    Failed(&'a str),
}

/// What to type for a report.
pub(super) fn command(set: &str, backend: &str, options: &Options) -> String {
    let quick = if options.quick { " --quick" } else { "" };
    let duration = options.duration_s.map_or(String::new(), |s| format!(" --duration {s}"));
    format!("mpdccp lab reproduce {set} --backend {backend}{quick}{duration} --seed {}", options.seed)
}
