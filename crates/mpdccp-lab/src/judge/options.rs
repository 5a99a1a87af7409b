use std::path::PathBuf;

/// What to judge, and where the result goes.
#[derive(Clone, Debug)]
pub struct Options {
    /// Points.
    pub draws: u64,
    /// Of the points and of everything random on them.
    pub seed: u64,
    /// Only this point.
    pub point: Option<u64>,
    /// Only points of this class.
    pub class: Option<String>,
    /// Variants; all if empty.
    pub only: Vec<String>,
    /// Points at a time.
    pub jobs: usize,
    /// Directory of what is written.
    pub out: PathBuf,
    /// Directory that keeps the references' results.
    pub references: PathBuf,
    /// What another build wrote, to compare with.
    pub against: Option<PathBuf>,
}
