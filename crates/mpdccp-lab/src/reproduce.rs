//! Published experiments, made as a set: many runs, each kept as soon as it is finished and not made again, and one report.

mod dcp;
mod page;
pub mod paper;
mod store;
mod swept;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Backend, LabError, Scenario};

/// The sets that [`run`] knows; [`paper::run`] makes another.
pub const SETS: &[&str] = &["dcp"];

/// How a set is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory for everything written; made if need be. What it holds of earlier tries is used.
    pub out: PathBuf,
    /// Fewer and shorter runs, to see that all works.
    pub quick: bool,
    /// The first seed.
    pub seed: u64,
}

/// What happens, for those who watch.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The run that begins, counted from 1.
    pub index: usize,
    /// Of so many.
    pub total: usize,
    /// What is run.
    pub what: &'a str,
    /// It was finished earlier.
    pub found: bool,
}

/// One run to be made: its name is that of its file.
struct Job {
    name: String,
    scenario: Scenario,
    /// What makes the scenario; a kept run of another text does not count.
    text: String,
    seed: u64,
    label: String,
}

/// Makes the runs of set `name` that are missing and writes the report; gives its place.
///
/// # Errors
/// There is no such set, a run failed (those before it are kept), or something cannot be written.
pub fn run(
    name: &str,
    backend: &mut dyn Backend,
    options: &Options,
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<PathBuf, LabError> {
    let set: &dyn Set = match name {
        "dcp" => &dcp::Dcp,
        _ => return Err(LabError::Failed(format!("no set `{name}`; there are {}", SETS.join(", ")))),
    };
    let sim = backend.name() == "sim";
    let jobs = set.jobs(sim, options)?;
    let figures = options.out.join("figures");
    let kept = options.out.join("runs");
    for dir in [&figures, &kept] {
        fs::create_dir_all(dir).map_err(|e| LabError::failed(format!("making {}", dir.display()), e))?;
    }
    let mut runs = Vec::new();
    for (i, job) in jobs.iter().enumerate() {
        let found = store::find(&kept, backend.name(), job);
        watch(Progress { index: i + 1, total: jobs.len(), what: &job.name, found: found.is_some() });
        runs.push(match found {
            Some(run) => run,
            None => store::make(&kept, backend, job, set)?,
        });
    }
    let page = set.page(&runs, &figures)?;
    let report = options.out.join("report.html");
    let write = |path: &Path, text: String| {
        fs::write(path, text).map_err(|e| LabError::failed(format!("writing {}", path.display()), e))
    };
    write(&report, page.html(backend.name(), options))?;
    write(&options.out.join("report.md"), page.markdown(backend.name(), options))?;
    Ok(report)
}

/// A set of published experiments.
trait Set {
    /// The runs, in the order to be made.
    fn jobs(&self, sim: bool, options: &Options) -> Result<Vec<Job>, LabError>;
    /// What figures need of a run, by name.
    fn series(&self, plan: &crate::Plan<'_>, run: &crate::RunRecord) -> store::AllSeries;
    /// The report of all runs; figures go into a directory.
    fn page(&self, runs: &[store::Kept], figures: &Path) -> Result<page::Page, LabError>;
}
