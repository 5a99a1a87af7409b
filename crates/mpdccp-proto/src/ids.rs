//! Names of sessions and paths.

/// A session of an endpoint; not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Index of a path within its session; not reused during a session's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

/// What a path is called, as far as rules need to know: a number made of its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathName(pub u32);

impl PathName {
    /// The number of this name; never that of a path without one.
    pub fn of(name: &str) -> PathName {
        let hash = name.bytes().fold(0x811c_9dc5u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193)); // FNV-1a
        PathName(hash.max(1))
    }

    /// Whether the path has a name.
    pub fn is_known(self) -> bool {
        self != PathName::default()
    }
}
