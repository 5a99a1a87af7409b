use crate::{PathId, Reason};
use alloc::vec::Vec;

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A peer opened a session at this end.
    Accepted {
        /// The [`crate::PeerFilter::id`] of the filter that admitted the peer.
        peer: u32,
    },
    /// The first path is open, and data can flow.
    Opened {
        /// Whether RFC 9897 is in use.
        multipath: bool,
    },
    /// A path carries data, for the first time or again.
    PathUp(PathId),
    /// A path is suspect: no packets arrive on it, or its link is down. The session continues without it.
    PathSuspect(PathId),
    /// The size of the largest IP packet of a path changed.
    PathMtu {
        /// The path.
        path: PathId,
        /// The size before the change, bytes.
        before: u16,
        /// The size after the change, bytes.
        now: u16,
    },
    /// The peer advertised or withdrew an address ([`crate::SessionStatus::peer_addresses`]).
    PeerAddresses,
    /// A stream has an event. Use [`crate::Endpoint::streams`] to read and write.
    Stream(dccp_streams::Event),
    /// The peer's application sent an option on this path ([`crate::SessionConfig::private_options`]).
    Private(PathId, Vec<u8>),
    /// A path is gone, for this reason.
    PathDown(PathId, Reason),
    /// The session has ended, for this reason. Its status can be read until the next event is fetched.
    Closed(Reason),
}
