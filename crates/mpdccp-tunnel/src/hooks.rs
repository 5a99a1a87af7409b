//! Runs the configured hook program when this end closes a session, and sets this host's name servers while a
//! session is open.

use crate::Cx;
use crate::action::{Action, HookEvent};
use crate::peer::Peer;
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
}

impl NameServers {
    /// Handles the opening of a session. The first session makes the configured name servers reachable, so
    /// this host starts to use them.
    pub(crate) fn on_opened(&mut self, cx: &mut Cx<'_>, session: SessionId) {
        if self.open.insert(session) && self.open.len() == 1 && !cx.cfg.dns.is_empty() {
            cx.out.push(Action::SetDns(cx.cfg.dns.clone()));
        }
    }

    /// Handles the end of a session. After the last session ends, the earlier name servers are restored.
    pub(crate) fn on_closed(&mut self, cx: &mut Cx<'_>, session: SessionId) {
        if self.open.remove(&session) && self.open.is_empty() && !cx.cfg.dns.is_empty() {
            cx.out.push(Action::SetDns(Vec::new()));
        }
    }

    /// Handles the end of the tunnel. Returns the sessions that are still open.
    pub(crate) fn end(&mut self, cx: &mut Cx<'_>) -> BTreeSet<SessionId> {
        let open = self.open.clone();
        open.iter().for_each(|session| self.on_closed(cx, *session));
        open
    }
}
