use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises this process's limit on descriptors to its maximum, and returns it.
pub(crate) fn raise() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If this fails, the limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |n| n as usize)
}
