//! Detects and logs failures of a peer's paths.

use crate::Cx;
use crate::action::{Action, HookEvent};
use crate::host::Looked;
use crate::path::is_elsewhere;
use crate::path_history;
use crate::peer::Peer;
use dccp_proto::Route;
use mpdccp_proto::{PathId, PathState, PathStatus};

/// With this many labels, those of former paths are forgotten.
const MOST_LABELS: usize = 64;

impl Peer {
    /// Returns a path's name and its label in the log. If the path is gone, returns the last known ones.
    pub(crate) fn label(&mut self, cx: &Cx<'_>, id: PathId) -> (String, String) {
        let paths = self.status(cx).map_or_else(Vec::new, |status| status.paths);
        if let Some(path) = paths.iter().find(|p| p.id == id) {
            let (name, place) = (self.path_name(path), self.place(&path.route).to_string());
            let label = if name == place { format!("path {name}") } else { format!("path {name} ({place})") };
            if let Some((before, _)) =
                self.remember(&paths, id, (name.clone(), label)).filter(|(before, _)| *before != name)
            {
                self.histories.rename(&before, name);
            }
        }
        self.labels.get(&id).cloned().unwrap_or_else(|| ("?".into(), "a path".into()))
    }

    /// Stores the name and label of a path. Returns the earlier ones. The paths of a session reuse a
    /// number only after 2^32 others, so when there are many labels, those of former paths are dropped.
    fn remember(
        &mut self,
        paths: &[PathStatus],
        id: PathId,
        label: (String, String),
    ) -> Option<(String, String)> {
        if self.labels.len() >= MOST_LABELS {
            self.labels.retain(|id, _| paths.iter().any(|path| path.id == *id));
        }
        self.labels.insert(id, label)
    }

    /// Handles a session's report that a path does not answer. If the path belongs to this end, asks the host
    /// for the cause before logging the failure.
    pub(crate) fn suspect(&mut self, cx: &mut Cx<'_>, id: PathId) {
        let status = self.status(cx);
        let Some(path) = status.iter().flat_map(|s| &s.paths).find(|path| path.id == id) else { return };
        let (cause, Route { socket, remote, .. }) = (self.histories.cause(cx.now, path), path.route);
        match self.paths.iter().any(|path| path.socket == socket) {
            true => {
                self.suspects.insert(socket, (id, cause));
                cx.out.push(Action::Look { socket, remote, own: true });
                cx.out.push(Action::Suspect(socket));
            }
            false => self.fails(cx, id, &cause),
        }
    }

    /// Handles the failure of a path. Logs the first failure, then nothing more until the path is up again.
    pub(crate) fn fails(&mut self, cx: &mut Cx<'_>, id: PathId, cause: &str) {
        let (path, label) = self.label(cx, id);
        if self.histories.fail(cx.now, &path) {
            let instead =
                path_history::instead(self.status(cx).as_ref(), Some(id), |path| self.path_name(path));
            cx.out.warn(format!("peer {}: {label} fails: {cause}; {instead}", self.name()));
            cx.hook(HookEvent::PathDown, self.name(), Some(&path), cause);
        }
    }

    /// Logs that a path has switched its packets to another encapsulation.
    pub(crate) fn on_encapsulation(&mut self, cx: &mut Cx<'_>, looked: &Looked) {
        let name = self.cfg.name.clone();
        let Some(path) = self.open_paths_mut().find(|path| path.socket == looked.socket) else { return };
        if std::mem::replace(&mut path.over_tls, looked.over_tls) == looked.over_tls {
            return;
        }
        let path = &path.spec.name;
        match looked.over_tls {
            true => cx
                .out
                .warn(format!("peer {name}: path {path}: no answer over UDP; falling back to TLS over TCP")),
            false => cx.out.info(format!("peer {name}: path {path}: UDP works again; leaving TLS")),
        }
    }

    /// Handles the host's answer about one of this end's paths: logs the failure if the path is suspect, and
    /// any change of the source address. A path in another network is measured anew.
    pub(crate) fn on_looked(&mut self, cx: &mut Cx<'_>, looked: &Looked) {
        if let Some((id, cause)) = self.suspects.remove(&looked.socket) {
            self.fails(cx, id, looked.error.as_ref().unwrap_or(&cause));
        }
        let Some(source) = looked.source else { return };
        let Some(path) = self.paths.iter_mut().find(|path| path.socket == looked.socket) else { return };
        // While a path is failing, the system may briefly choose the source address of another line. Ignore
        // such a change.
        if self.histories.since(&path.spec.name, false).is_some() {
            return;
        }
        if let Some(before) = path.source.replace(source).filter(|before| *before != source) {
            let name = path.spec.name.clone();
            cx.out.info(format!(
                "peer {}: path {name} changed its source address from {before} to {source}",
                self.cfg.name
            ));
            let id = self.path_id(cx, &name).filter(|_| is_elsewhere(before, source));
            if let (Some(session), Some(id)) = (self.session, id) {
                cx.endpoint.change_path(cx.now, session, id);
            }
        }
    }

    /// Handles the system's report that sending through a socket has started to fail or works again. Logs
    /// only the path failures that the session does not report itself.
    pub(crate) fn on_link(&mut self, cx: &mut Cx<'_>, socket: u32, error: Option<String>) {
        self.histories.note(socket, error.clone());
        let (Some(why), Some(path)) = (error, self.paths.iter().find(|path| path.socket == socket)) else {
            return;
        };
        let name = path.spec.name.clone();
        let status = self.status(cx);
        let mut paths = status.iter().flat_map(|status| &status.paths);
        let live = paths.find(|path| path.route.socket == socket);
        let tells = live.is_some_and(|path| path.state == PathState::Suspect);
        if !tells && self.histories.fail(cx.now, &name) {
            let instead =
                path_history::instead(status.as_ref(), live.map(|path| path.id), |path| self.path_name(path));
            cx.out.warn(format!("peer {}: path {name} fails: {why}; {instead}", self.name()));
            cx.hook(HookEvent::PathDown, self.name(), Some(&name), &why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labels_of_former_paths_are_forgotten() {
        let mut peer = Peer::new(toml::from_str("name = \"hub\"").unwrap(), None, true);
        (0..1_000).for_each(|n| drop(peer.remember(&[], PathId(n), ("a".into(), "path a".into()))));
        assert!(peer.labels.len() <= MOST_LABELS && peer.labels.contains_key(&PathId(999)));
    }
}
