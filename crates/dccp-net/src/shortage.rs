//! Detects a shortage of descriptors or memory. An error due to a shortage says nothing about the path that
//! was checked.

use rustix::io::Errno;
use std::io;

/// Whether the current shortage has been logged, so that it is logged only once.
#[derive(Debug, Default)]
pub(crate) struct Shortage {
    told: bool,
}

impl Shortage {
    /// Returns whether a system call failed because it ran out of descriptors or memory.
    pub(crate) fn is_behind<T>(&mut self, answer: &io::Result<T>) -> bool {
        let error = answer.as_ref().err();
        let short = |e: &&io::Error| {
            matches!(
                Errno::from_io_error(e),
                Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)
            )
        };
        let shortage = error.filter(short);
        if let (Some(e), false) = (shortage, self.told) {
            tracing::warn!("cannot monitor the paths: {e}; raise the limit of open files (ulimit -n)");
        }
        self.told = shortage.is_some();
        self.told
    }
}
