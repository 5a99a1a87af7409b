//! Connections that have ended.

use dccp_proto::{Connection, Ports, Route, State};

/// A connection that ended, with the route and ports by which its packets were recognised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone {
    pub(crate) route: Route,
    pub(crate) ports: Ports,
    /// Whether the connection is in TIMEWAIT (RFC 4340 section 8.3).
    pub(crate) time_wait: bool,
}

impl Gone {
    /// `ours` says whether this end opened the connection. If so, its ports are not reused even after a Reset
    /// by this end, because the peer that received the Reset is in TIMEWAIT.
    pub(super) fn of(conn: &Connection, ours: bool) -> Gone {
        let time_wait = conn.state() == State::TimeWait || ours;
        Gone { route: conn.route(), ports: conn.ports(), time_wait }
    }
}
