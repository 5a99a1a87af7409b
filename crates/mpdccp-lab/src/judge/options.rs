use std::path::PathBuf;

use crate::netns::Netns;

/// Options of the judge.
#[derive(Debug)]
pub struct Options {
    /// Number of points.
    pub draws: u64,
    /// Seed of the points and of everything random in their runs.
    pub seed: u64,
    /// Index of the only point to judge.
    pub point: Option<u64>,
    /// The only class whose points are judged.
    pub class: Option<String>,
    /// Labels of the variants, or nothing to judge all variants.
    pub only: Vec<String>,
    /// Number of points that run in parallel.
    pub jobs: usize,
    /// Output directory.
    pub out: PathBuf,
    /// Directory of the references' stored results.
    pub references: PathBuf,
    /// Output directory of another build, with whose results this build is compared.
    pub against: Option<PathBuf>,
    /// Namespaces on which each point also runs several times, with the kernel's TCP. The judge compares the
    /// medians with those of the simulator. Absent if only the simulator runs the points.
    pub kernel: Option<Netns>,
}
