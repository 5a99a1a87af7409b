use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's limit on open file descriptors to its maximum, and returns the limit.
pub(crate) fn raise() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If this call fails, the old limit stays in force.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |n| n as usize)
}
