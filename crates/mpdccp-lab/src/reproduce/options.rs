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
    /// An experiment, or a run of a sweep, failed. The others continue.
    Failed(&'a str),
}

/// Returns the command line in the form that reports show. `set` is the set's name or file.
pub(super) fn command(set: &str, backend: &str, options: &Options) -> String {
    // With `--backend netns`, the additional experiments would not use the simulator.
    let usual = options.around_in_sim && backend == "netns";
    let backend = if usual { String::new() } else { format!(" --backend {backend}") };
    let quick = if options.quick { " --quick" } else { "" };
    let duration = options.duration_s.map_or(String::new(), |s| format!(" --duration {s}"));
    let only: String = options.only.iter().map(|name| format!(" --only \"{name}\"")).collect();
    format!("mpdccp lab reproduce {set}{backend}{quick}{duration}{only} --seed {}", options.seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_makes_the_same_experiments() {
        let usual = Options {
            quick: true,
            duration_s: None,
            around_in_sim: true,
            only: vec!["paper/delay".to_owned()],
            seed: 7,
            threads: 1,
            out: PathBuf::new(),
        };
        assert_eq!(
            command("paper", "netns", &usual),
            "mpdccp lab reproduce paper --quick --only \"paper/delay\" --seed 7"
        );
        let chosen = Options { around_in_sim: false, only: Vec::new(), ..usual };
        assert_eq!(
            command("paper", "netns", &chosen),
            "mpdccp lab reproduce paper --backend netns --quick --seed 7"
        );
    }
}
