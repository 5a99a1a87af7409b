//! Name servers of this host while sessions are open.

use crate::Cx;
use crate::action::Action;
use mpdccp_proto::SessionId;
use std::collections::BTreeSet;

/// State of this host's name servers.
#[derive(Debug, Default)]
pub(crate) struct NameServers {
    open: BTreeSet<SessionId>,
}

impl NameServers {
    /// A session opened, so the name servers behind it can be reached.
    pub(crate) fn on_opened(&mut self, cx: &mut Cx<'_>, session: SessionId) {
        if self.open.insert(session) && self.open.len() == 1 && !cx.cfg.dns.is_empty() {
            cx.out.push(Action::SetDns(cx.cfg.dns.clone()));
        }
    }

    /// A session ended. After the last one, the earlier name servers are restored.
    pub(crate) fn on_closed(&mut self, cx: &mut Cx<'_>, session: SessionId) {
        if self.open.remove(&session) && self.open.is_empty() && !cx.cfg.dns.is_empty() {
            cx.out.push(Action::SetDns(Vec::new()));
        }
    }

    /// The tunnel ends. Returns the sessions that are still open.
    pub(crate) fn end(&mut self, cx: &mut Cx<'_>) -> BTreeSet<SessionId> {
        let open = self.open.clone();
        open.iter().for_each(|session| self.on_closed(cx, *session));
        open
    }
}
