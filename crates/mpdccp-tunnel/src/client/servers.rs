//! Moves a client between servers. The client moves to the next server on its list when its current server
//! asks it to, ends the session, or falls silent.

use crate::Cx;
use crate::action::Action;
use crate::client::paths::Paths;
use crate::path::WaitingPath;
use crate::peer::Peer;
use crate::peers::Peers;
use mpdccp_units::{Duration, Time};

/// Once no path has worked for this long, a client tries its next server, and a server removes its routes to
/// the client. The time must be longer than an answer takes on a line with a round trip of one second, yet
/// short enough for users.
pub(crate) const SILENT: Duration = Duration::from_secs(2);

/// Moves the paths of a peer to the next server on its list, if there is one. If the server requested the
/// move, `connections` is the number of TCP connections in the current session. That session then stays open
/// for these connections, and also carries packets until the next session can.
pub(crate) fn next(
    cx: &mut Cx<'_>,
    peers: &mut Peers,
    paths: &mut Paths,
    number: usize,
    why: &str,
    connections: Option<usize>,
) {
    let Some(servers) = peers.get(number).map(|peer| peer.cfg.servers()).filter(|servers| *servers > 1)
    else {
        return;
    };
    let peer = &mut peers[number];
    peer.server = (peer.server + 1) % servers;
    (peer.silent_since, peer.slow) = (None, 0);
    cx.out.warn(format!("peer {}: switching to server {} of {servers}: {why}", peer.name(), peer.server + 1));
    // The host is still opening sockets to the former server. Ignore its answers.
    peer.waiting.iter_mut().for_each(|path| path.opening = None);
    cx.out.push(Action::LeaveServer(number as u32));
    if let Some(connections) = connections {
        peer.waiting.extend(peer.paths.iter().map(WaitingPath::again));
        if connections > 0 {
            cx.out.info(format!(
                "peer {}: {connections} connection(s) stay with the previous server until they end, for at most one hour",
                peer.name()
            ));
        }
        peer.set_aside(cx);
    }
    while !peers[number].paths.is_empty() {
        let path = paths.close(cx, peers, (number, 0), false);
        peers[number].waiting.push(WaitingPath::again(&path));
    }
    // The only path may have been closed before, in order to move to another interface or address.
    peers.close_session(cx, number);
    // Drop waiting paths to addresses that the former server advertised.
    peers[number].waiting.retain(|path| !path.spec.advertised);
    paths.open(cx, peers);
}

impl Peer {
    /// If there is another server to try, records since when no path of the open session has worked. Here, a
    /// path counts as not working as soon as one answer is overdue. The path becomes suspect only after a
    /// second overdue answer, which takes seconds longer on a line with a long round trip.
    pub(crate) fn note_silence(&mut self, cx: &Cx<'_>) {
        let session = self.session.filter(|_| self.opened.is_some() && self.cfg.servers() > 1);
        let silent = session.filter(|session| !cx.endpoint.is_answered(*session));
        let paths = self.status(cx).map(|status| status.paths).unwrap_or_default();
        let silent =
            silent.filter(|_| paths.iter().all(|p| !p.state.is_up() || p.unanswered_since.is_some()));
        let since = paths.iter().filter_map(|path| path.unanswered_since).max();
        self.silent_since = silent.and(self.silent_since.or(since).or(Some(cx.now)));
    }

    /// Returns when to leave the current server because it is silent.
    pub(crate) fn silence_ends(&self) -> Option<Time> {
        self.silent_since.filter(|_| self.session.is_some()).map(|since| since + SILENT)
    }
}

/// Leaves each server that has been silent on all paths for [`SILENT`].
pub(crate) fn watch(cx: &mut Cx<'_>, peers: &mut Peers, paths: &mut Paths) {
    for number in peers.present() {
        let peer = &mut peers[number];
        peer.note_silence(cx);
        if peer.silence_ends().is_some_and(|at| at <= cx.now) {
            next(cx, peers, paths, number, "the previous server does not answer", None);
        }
    }
}
