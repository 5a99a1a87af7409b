use std::path::PathBuf;

use crate::netns::Netns;

/// Options of the judge.
#[derive(Debug)]
pub struct Options {
    /// Number of points.
    pub draws: u64,
    /// Seed of the points and of everything random in their runs.
    pub seed: u64,
    /// Only this point.
    pub point: Option<u64>,
    /// Only points of this class.
    pub class: Option<String>,
    /// Variants; all if empty.
    pub only: Vec<String>,
    /// Parallel points.
    pub jobs: usize,
    /// Output directory.
    pub out: PathBuf,
    /// Directory of the references' stored results.
    pub references: PathBuf,
    /// Output of another build, for comparison.
    pub against: Option<PathBuf>,
    /// Run each point on network namespaces too, with the kernel's TCP, and compare with the simulator.
    pub kernel: Option<Netns>,
}
