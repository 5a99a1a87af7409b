use crate::{PathId, Reason};
use alloc::vec::Vec;

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A peer opened a session here; `peer` is the [`crate::PeerFilter::id`] of the matching filter.
    Accepted {
        /// Id of the filter.
        peer: u32,
    },
    /// The first path is open, and data can flow.
    Opened {
        /// RFC 9897 is in use.
        multipath: bool,
    },
    /// A path carries data, for the first time or again.
    PathUp(PathId),
    /// A path is suspect: no packets arrive on it, or its link is down. The session continues without it.
    PathSuspect(PathId),
    /// The size of the largest IP packet of a path changed, in bytes.
    PathMtu {
        /// The path.
        path: PathId,
        /// The size before the change.
        before: u16,
        /// The size now.
        now: u16,
    },
    /// The peer advertised or withdrew an address ([`crate::SessionStatus::peer_addresses`]).
    PeerAddresses,
    /// Event of a stream. Use [`crate::Endpoint::streams`] to read and write.
    Stream(dccp_streams::Event),
    /// The peer's application sent an option on this path ([`crate::SessionConfig::private_options`]).
    Private(PathId, Vec<u8>),
    /// A path is gone.
    PathDown(PathId, Reason),
    /// The session has ended. Its status can be read until the next call that fetches an event.
    Closed(Reason),
}
