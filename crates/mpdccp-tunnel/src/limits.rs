//! Applies configured limits of peers and paths to the sessions.

use crate::Cx;
use crate::peer::Peer;
use mpdccp_proto::{PathId, PathName};

impl Peer {
    /// Applies the configured limits to a path of the session. A server also applies its own priority; the
    /// smaller of the two ends' priorities takes effect.
    pub(crate) fn limit_path(&self, cx: &mut Cx<'_>, id: PathId) {
        let (Some(session), Some(status)) = (self.session, self.status(cx)) else { return };
        let path = status.paths.iter().find(|p| p.id == id);
        let Some(spec) = path.and_then(|path| self.cfg_of(path)) else { return };
        if !cx.cfg.is_client() {
            cx.endpoint.name_path(cx.now, session, id, PathName::of(&spec.name));
            if let Some(prio) = spec.priority {
                cx.endpoint.set_prio(cx.now, session, id, prio.0);
            }
        }
        cx.endpoint.cap_path(cx.now, session, id, spec.rate.map(|rate| rate.0));
    }

    /// Applies the configured limits to all sessions with this peer and to their paths.
    pub(crate) fn limit(&self, cx: &mut Cx<'_>) {
        for leaving in &self.leaving {
            cx.endpoint.cap(cx.now, leaving.session, self.cfg.rate.map(|rate| rate.0));
            leaving.paths.iter().for_each(|path| self.tell_leaving(cx, &path.spec.name));
        }
        let Some(session) = self.session else { return };
        cx.endpoint.cap(cx.now, session, self.cfg.rate.map(|rate| rate.0));
        for path in self.status(cx).into_iter().flat_map(|status| status.paths) {
            self.limit_path(cx, path.id);
        }
    }
}
