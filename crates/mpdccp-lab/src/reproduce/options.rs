//! Options of a reproduction, and progress reports.

use std::path::PathBuf;

use crate::scenario::Scenario;
use crate::{runs, sweep};

/// Options of a reproduction.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether to make only a quick test, with just the headline cells and with fewer and shorter runs.
    pub quick: bool,
    /// Duration of each run in seconds. If absent, the set's duration applies.
    pub duration_s: Option<f64>,
    /// Whether the runs that a set marks as `around` use the simulator, even if the other runs use another
    /// backend.
    pub around_in_sim: bool,
    /// Sections to make, by name or by scenario; if empty, all sections.
    pub only: Vec<String>,
    /// The first seed.
    pub seed: u64,
    /// Maximum number of parallel runs, used only by backends in virtual time.
    pub threads: usize,
    /// Output directory, created if needed. Results that it already contains are reused.
    pub out: PathBuf,
}

/// Progress for the live view.
#[derive(Debug)]
pub enum Progress<'a> {
    /// An experiment begins.
    Experiment {
        /// Scenario of the experiment.
        scenario: &'a Scenario,
        /// Number of the experiment, counted from 1.
        index: usize,
        /// Number of experiments.
        total: usize,
    },
    /// Progress of the experiment's runs.
    Run(runs::Event<'a>),
    /// Progress of the experiment's sweep.
    Sweep(&'a sweep::Progress<'a>),
    /// An experiment failed. The others continue.
    Failed(&'a str),
}

/// Returns the command line in the form that reports show.
pub(super) fn command(set: &str, backend: &str, options: &Options) -> String {
    let quick = if options.quick { " --quick" } else { "" };
    let duration = options.duration_s.map_or(String::new(), |s| format!(" --duration {s}"));
    format!("mpdccp lab reproduce {set} --backend {backend}{quick}{duration} --seed {}", options.seed)
}
