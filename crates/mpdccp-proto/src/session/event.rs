use crate::{PathId, Reason};
use alloc::vec::Vec;

/// What happened to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A peer opened a session here; `peer` is the [`crate::PeerFilter::id`] that let it in.
    Accepted {
        /// Filter that matched.
        peer: u32,
    },
    /// The first path is open: data flows.
    Opened {
        /// RFC 9897 is in use.
        multipath: bool,
    },
    /// A path carries data (again).
    PathUp(PathId),
    /// A path is silent or its link is down; the session goes on without it.
    PathSuspect(PathId),
    /// The largest IP packet of a path is another one now, bytes.
    PathMtu {
        /// Which path.
        path: PathId,
        /// The size before.
        before: u16,
        /// The size now.
        now: u16,
    },
    /// Something happened to a stream; [`crate::Endpoint::streams`] reads and writes.
    Stream(dccp_streams::Event),
    /// The peer sent an option of the application's on this path ([`crate::SessionConfig::private_options`]).
    Private(PathId, Vec<u8>),
    /// A path is gone.
    PathDown(PathId, Reason),
    /// Over. The session's status can be read until the endpoint is asked for the next event.
    Closed(Reason),
}
