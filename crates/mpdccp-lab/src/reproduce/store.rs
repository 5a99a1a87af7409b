//! Finished runs, one file each.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Job, Set};
use crate::metrics::run_stats;
use crate::{Backend, LabError, Plan};

/// Points by the name of what they show.
pub(super) type AllSeries = BTreeMap<String, Vec<(f64, f64)>>;

/// What is kept of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Of the job.
    pub(super) name: String,
    backend: String,
    seed: u64,
    version: String,
    /// The whole scenario: a run of another one is not this run.
    scenario: String,
    /// By the names of [`crate::metrics::NAMES`].
    pub(super) metrics: BTreeMap<String, f64>,
    pub(super) series: AllSeries,
}

fn file(dir: &Path, job: &Job) -> PathBuf {
    dir.join(format!("{}.json", job.name))
}

/// The run as it was kept, if it was.
pub(super) fn find(dir: &Path, backend: &str, job: &Job) -> Option<Kept> {
    let kept: Kept = serde_json::from_str(&fs::read_to_string(file(dir, job)).ok()?).ok()?;
    let same = kept.scenario == job.text
        && kept.seed == job.seed
        && kept.backend == backend
        && kept.version == env!("CARGO_PKG_VERSION");
    same.then_some(kept)
}

/// Makes a run and keeps it.
///
/// # Errors
/// It failed, or cannot be written.
pub(super) fn make(
    dir: &Path,
    backend: &mut dyn Backend,
    job: &Job,
    set: &dyn Set,
) -> Result<Kept, LabError> {
    let scenario = &job.scenario;
    let contender = scenario
        .contender(&job.label)
        .ok_or_else(|| LabError::Failed(format!("{}: no contender `{}`", job.name, job.label)))?;
    let plan = Plan { scenario, contender, cell: scenario.headline(), repeat: 0, seed: job.seed };
    let run = backend.run(&plan, &mut |_| {})?;
    let metrics = run_stats(&plan, &run).metrics;
    let kept = Kept {
        name: job.name.clone(),
        backend: backend.name().to_owned(),
        seed: job.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: job.text.clone(),
        metrics: metrics.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        series: set.series(&plan, &run),
    };
    let failed = |e: &dyn core::fmt::Display| LabError::failed(format!("keeping run {}", job.name), e);
    let text = serde_json::to_string(&kept).map_err(|e| failed(&e))?;
    // Renamed into place, so that a file that is there is whole.
    let (part, whole) = (dir.join(format!("{}.part", job.name)), file(dir, job));
    fs::write(&part, text).and_then(|()| fs::rename(&part, &whole)).map_err(|e| failed(&e))?;
    Ok(kept)
}
