use std::path::PathBuf;

use crate::Backend;

/// Options of the judge.
pub struct Options {
    /// Number of points.
    pub draws: u64,
    /// Seed of the points and of everything random in their runs.
    pub seed: u64,
    /// Index of the only point to judge.
    pub point: Option<u64>,
    /// The only class whose points are judged.
    pub class: Option<String>,
    /// Labels of the variants to judge; if empty, all are judged.
    pub only: Vec<String>,
    /// Number of points that run in parallel.
    pub jobs: usize,
    /// Output directory.
    pub out: PathBuf,
    /// Directory of the references' stored results.
    pub references: PathBuf,
    /// Output directory of another build, whose results are compared with those of this build.
    pub against: Option<PathBuf>,
    /// Backend with the kernel's TCP. Each point also runs several times on this backend, and the medians are
    /// compared with those of the simulator. If absent, only the simulator runs the points.
    pub kernel: Option<Box<dyn Backend>>,
}
