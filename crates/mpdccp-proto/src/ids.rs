//! Identifiers of sessions and paths.

/// Identifier of a session, never reused within an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Index of a path. Within its session, it is not reused before 2^32 other paths have been added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

/// Hash of a path's name. Rules compare only the hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathName(pub u32);

impl PathName {
    /// Returns the hash of this name. It is never 0, which means that a path has no name.
    pub fn of(name: &str) -> PathName {
        let hash = name.bytes().fold(0x811c_9dc5u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193)); // FNV-1a
        PathName(hash.max(1))
    }

    /// Returns whether the path has a name.
    pub fn is_known(self) -> bool {
        self != PathName::default()
    }
}
