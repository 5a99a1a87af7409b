//! Sessions with servers that have asked the client to leave. Such a session carries its TCP connections
//! until they end. The client sends packets over it until the session with the next server is open, and
//! receives packets over it until the routers know the route to the next server.

use crate::Cx;
use crate::path::{Leaving, OpenPath};
use crate::peer::Peer;
use crate::peers::Peers;
use dccp_proto::Route;
use mpdccp_proto::{PathId, SessionId, SessionStatus};
use mpdccp_units::Duration;

/// Time that routers behind the servers need to learn the route to the next server. Until then, they send
/// packets for the client to the former server.
const SETTLE: Duration = Duration::from_secs(2);
/// Longest time that a session with a former server stays open.
const LONGEST: Duration = Duration::from_secs(3_600);

impl Peer {
    /// Keeps the current session and its paths open for the session's TCP connections. The next session uses
    /// other paths.
    pub(crate) fn set_aside(&mut self, cx: &mut Cx<'_>) {
        let Some(session) = self.session else { return };
        let paths = std::mem::take(&mut self.paths);
        self.on_closed(cx);
        self.opened = None;
        self.leaving.push(Leaving { session, paths, until: cx.now + LONGEST });
    }

    /// Returns the session that carries packets. Until the session with the next server is open, this is the
    /// one with the former server.
    pub(crate) fn packet_session(&self) -> Option<SessionId> {
        let left = self.leaving.last().filter(|_| self.opened.is_none());
        left.map(|leaving| leaving.session).or(self.session)
    }

    /// Returns whether this is a session with a former server.
    pub(crate) fn has_left(&self, session: SessionId) -> bool {
        self.leaving.iter().any(|leaving| leaving.session == session)
    }

    /// Returns all open paths of this end, including paths to former servers.
    pub(crate) fn open_paths(&self) -> impl Iterator<Item = &OpenPath> {
        self.paths.iter().chain(self.leaving.iter().flat_map(|leaving| &leaving.paths))
    }

    /// Returns the same paths as [`open_paths`](Self::open_paths), for changes.
    pub(crate) fn open_paths_mut(&mut self) -> impl Iterator<Item = &mut OpenPath> {
        self.paths.iter_mut().chain(self.leaving.iter_mut().flat_map(|leaving| &mut leaving.paths))
    }

    /// Applies the priority and the rate limit of a path to the sessions with former servers.
    pub(crate) fn tell_leaving(&self, cx: &mut Cx<'_>, name: &str) {
        for leaving in &self.leaving {
            for (path, id) in leaving.numbers(cx.endpoint.status(cx.now, leaving.session), name) {
                cx.endpoint.set_prio(cx.now, leaving.session, id, path.prio().0);
                cx.endpoint.cap_path(cx.now, leaving.session, id, path.spec.rate.map(|rate| rate.0));
            }
        }
    }
}

impl Leaving {
    /// Returns the session's paths with this name, each with its identifier in the session.
    fn numbers(
        &self,
        status: Option<SessionStatus>,
        name: &str,
    ) -> impl Iterator<Item = (&OpenPath, PathId)> {
        let known = status.map_or_else(Vec::new, |status| status.paths);
        self.paths.iter().filter(move |path| path.spec.name == name).filter_map(move |path| {
            let of = |route: &Route| route.socket == path.socket;
            Some((path, known.iter().rev().find(|known| of(&known.route))?.id))
        })
    }
}

/// Ends sessions with former servers. A session ends once it carries no connection and the next session has
/// been open for [`SETTLE`], and at the latest after [`LONGEST`]. A connection that its hosts have ended
/// counts while its stream has data to deliver.
pub(crate) fn watch(cx: &mut Cx<'_>, peers: &Peers, carries: impl Fn(SessionId) -> bool) {
    for peer in peers.iter() {
        let settled = peer.opened.is_some_and(|at| cx.now.since(at) >= SETTLE);
        for leaving in &peer.leaving {
            let streams = cx.endpoint.streams(cx.now, leaving.session, |streams| !streams.is_empty());
            let carries = streams == Some(true) || carries(leaving.session);
            if leaving.until <= cx.now || settled && !carries {
                cx.endpoint.close(cx.now, leaving.session);
            }
        }
    }
}

/// Removes a path by name from the sessions with former servers, and closes each session that has no path
/// left. Returns the removed paths.
pub(crate) fn remove_path(cx: &mut Cx<'_>, peer: &mut Peer, name: &str) -> Vec<OpenPath> {
    let mut gone = Vec::new();
    for leaving in &mut peer.leaving {
        let ids: Vec<PathId> =
            leaving.numbers(cx.endpoint.status(cx.now, leaving.session), name).map(|(_, id)| id).collect();
        gone.extend(leaving.paths.extract_if(.., |path| path.spec.name == name));
        match leaving.paths.is_empty() {
            true => cx.endpoint.close(cx.now, leaving.session),
            false => ids.into_iter().for_each(|id| cx.endpoint.remove_path(cx.now, leaving.session, id)),
        }
    }
    gone
}

/// Handles the end of a session with a former server, and returns the session's paths.
pub(crate) fn ended(cx: &mut Cx<'_>, peer: &mut Peer, session: SessionId) -> Vec<OpenPath> {
    cx.out.info(format!("peer {}: the session with the previous server is closed", peer.cfg.name));
    peer.leaving.extract_if(.., |leaving| leaving.session == session).flat_map(|gone| gone.paths).collect()
}

/// Aborts all sessions with former servers because the peer was removed. Returns their paths, and the
/// sessions.
pub(crate) fn abort(cx: &mut Cx<'_>, peer: &mut Peer) -> (Vec<OpenPath>, Vec<SessionId>) {
    let (mut paths, mut sessions) = (Vec::new(), Vec::new());
    for leaving in std::mem::take(&mut peer.leaving) {
        cx.endpoint.abort(cx.now, leaving.session);
        paths.extend(leaving.paths);
        sessions.push(leaving.session);
    }
    (paths, sessions)
}
