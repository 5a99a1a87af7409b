//! Connections that have ended.

use super::Session;
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
    fn of(conn: &Connection, ours: bool) -> Gone {
        let time_wait = conn.state() == State::TimeWait || ours;
        Gone { route: conn.route(), ports: conn.ports(), time_wait }
    }
}

impl Session {
    /// Parts a path from its connection, which has ended but may still have a last packet to send.
    pub(super) fn retire(&mut self, i: usize) {
        let path = &mut self.paths[i];
        if let Some(conn) = path.conn.take() {
            self.lost_before += lost(&conn);
            self.gone.push(Gone::of(&conn, path.ours));
            self.dying.push(conn);
        }
    }

    /// Returns the number of packets lost on all connections that the session has had.
    pub(super) fn lost(&self) -> u64 {
        self.lost_before + self.paths.iter().filter_map(|p| p.conn.as_ref()).map(lost).sum::<u64>()
    }

    /// Returns the next connection that has ended. From now on, its packets belong to no connection.
    pub(crate) fn poll_gone(&mut self) -> Option<Gone> {
        self.gone.pop()
    }
}

fn lost(conn: &Connection) -> u64 {
    conn.tx_view().map_or(0, |view| view.lost.packets)
}
