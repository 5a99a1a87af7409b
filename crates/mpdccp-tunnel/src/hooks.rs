//! Runs the configured hook program when this end closes a session, and sets this host's name servers while a
//! session is open.

use crate::Cx;
use crate::action::{Action, HookEvent};
use crate::client::paths::{PATIENCE, names};
use crate::peer::Peer;
use crate::peers::Peers;
use mpdccp_proto::SessionId;
use std::collections::BTreeSet;

impl Peer {
    /// Reports that this end ends the session, unless the session has never opened. The caller must then
    /// forget the session, so that no later event reports its end again.
    pub(crate) fn report_down(&mut self, cx: &mut Cx<'_>, why: &str) {
        if self.opened.take().is_some() {
            cx.hook(HookEvent::SessionDown, self.name(), None, why);
        }
    }
}

/// State of this host's name servers.
#[derive(Debug, Default)]
pub(crate) struct NameServers {
    open: BTreeSet<SessionId>,
    /// Whether an outage has lasted so long that the name of the server or its proxy must be looked up
    /// outside the tunnel.
    away: bool,
    /// Whether this host uses the configured name servers.
    used: bool,
}

impl NameServers {
    /// Handles the opening of a session. The first session makes the configured name servers reachable, so
    /// this host starts to use them.
    pub(crate) fn on_opened(&mut self, cx: &mut Cx<'_>, session: SessionId) {
        self.open.insert(session);
        self.away = false;
        self.update(cx);
    }

    /// Handles the end of a session. After the last session ends, the earlier name servers are restored.
    pub(crate) fn on_closed(&mut self, cx: &mut Cx<'_>, session: SessionId) {
        self.open.remove(&session);
        self.update(cx);
    }

    /// Checks the paths; called periodically. If none works, and the name of a path has to be looked up, the
    /// earlier name servers are restored until a path works.
    pub(crate) fn watch(&mut self, cx: &mut Cx<'_>, peers: &Peers) {
        if cx.cfg.dns.is_empty() {
            return;
        }
        let up = peers.iter().any(|peer| !peer.up(cx).is_empty());
        let paths = peers.iter().flat_map(|peer| &peer.paths);
        let mut named = paths.filter(|path| names(&path.spec).next().is_some());
        let bad = named.any(|path| path.bad_since.is_some_and(|at| cx.now.since(at) >= PATIENCE));
        self.away = !up && (self.away || bad);
        self.update(cx);
    }

    fn update(&mut self, cx: &mut Cx<'_>) {
        let uses = !self.open.is_empty() && !self.away;
        if std::mem::replace(&mut self.used, uses) != uses && !cx.cfg.dns.is_empty() {
            cx.out.push(Action::SetDns(if uses { cx.cfg.dns.clone() } else { Vec::new() }));
        }
    }

    /// Handles the end of the tunnel. Returns the sessions that are still open.
    pub(crate) fn end(&mut self, cx: &mut Cx<'_>) -> BTreeSet<SessionId> {
        let open = self.open.clone();
        open.iter().for_each(|session| self.on_closed(cx, *session));
        open
    }
}
