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
    /// Labels of the variants; all variants if empty.
    pub only: Vec<String>,
    /// Number of points that run in parallel.
    pub jobs: usize,
    /// Output directory.
    pub out: PathBuf,
    /// Directory of the references' stored results.
    pub references: PathBuf,
    /// Output directory of another build, whose results are compared.
    pub against: Option<PathBuf>,
    /// Also runs each point several times on network namespaces, with the kernel's TCP, and compares the
    /// medians with the simulator's.
    pub kernel: Option<Netns>,
}
