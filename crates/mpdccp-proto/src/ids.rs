//! Identifiers of sessions and paths.

/// Identifier of a session of an endpoint. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Index of a path within its session. It is not reused during the session's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

/// Hash of a path's name. Rules compare only the hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PathName(pub u32);

impl PathName {
    /// The hash of this name. It differs from that of a path without a name.
    pub fn of(name: &str) -> PathName {
        let hash = name.bytes().fold(0x811c_9dc5u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193)); // FNV-1a
        PathName(hash.max(1))
    }

    /// Whether the path has a name.
    pub fn is_known(self) -> bool {
        self != PathName::default()
    }
}
