//! `tunnel reload` and SIGHUP: the configuration file anew. It is refused whole if anything in it is wrong or cannot be changed while
//! the tunnel runs; sessions that it does not concern do not notice.

use crate::tunnel::app::TunnelApp;
use crate::tunnel::config::{Config, PathSpec, Peer};
use crate::tunnel::marking::Marker;
use crate::tunnel::peer::{PeerState, WaitingPath};
use crate::tunnel::security::{self, Keys, PeerKeys};
use crate::tunnel::shards::Shards;
use crate::tunnel::{routes, setup};
use dccp_net::Core;
use dccp_secure::PrivateKey;
use mpdccp_proto::PeerFilter;
use std::path::Path;
use units::Time;

/// Reads the file again and has the tunnel follow it; in words what changed, or why nothing did.
pub(crate) fn from_file(shards: &Shards, file: &Path) -> Result<String, String> {
    let cfg = Config::load(file).map_err(|e| e.to_string())?;
    let new = cfg.clone();
    let checked = shards.first().call(move |_, app| app.check_reload(&new));
    let keys = checked.unwrap_or_else(|| Err(ENDING.into()))?;
    // Nothing can go wrong from here on, so that either all shards follow it or none.
    let done = shards.each(move |core, app| app.reload(core, cfg.clone(), keys.clone()));
    done.and_then(|all| all.into_iter().next()).ok_or_else(|| ENDING.into())
}

const ENDING: &str = "the tunnel is ending";

/// What was done.
#[derive(Default)]
struct Done {
    added: usize,
    removed: usize,
    paths: usize,
}

impl TunnelApp {
    /// Whether the tunnel can follow another configuration while it runs; its keys.
    fn check_reload(&self, new: &Config) -> Result<Keys, String> {
        if let Some(key) = self.cfg.first_fixed_change(new) {
            return Err(format!(
                "{key} cannot change while the tunnel runs; nothing was changed. Put it back, or start the tunnel again"
            ));
        }
        security::keys(new).map_err(|e| format!("{e}; nothing was changed"))
    }

    /// Whether an entry of the file is of a peer there is, with the same keys.
    fn is_peer(&self, core: &Core, i: usize, new: &Peer, keys: &PeerKeys) -> bool {
        let known = |(key, psk)| core.net.channels().is_some_and(|c| c.has_peer(i as u32, key, psk));
        self.peers[i].cfg.name == new.name && keys.as_ref().is_none_or(|(key, psk)| known((key, psk)))
    }

    /// Takes over this end's key; whether it is another one.
    fn change_key(&mut self, core: &mut Core, own: Option<PrivateKey>) -> bool {
        let (Some(own), Some(channels)) = (own, core.net.channels_mut()) else { return false };
        let changed = !channels.is_own(&own);
        if changed {
            channels.set_private_key(own);
        }
        changed
    }

    /// Follows another configuration; in words what changed.
    fn reload(&mut self, core: &mut Core, new: Config, keys: Keys) -> String {
        let now = core.clock.now();
        let (mut done, mut kept) = (Done::default(), Vec::new());
        let peers: Vec<Peer> = new.peers.iter().map(|p| p.get_ref().clone()).collect();
        // Whoever was agreed with under the old key is to show that it knows the new one.
        let rekeyed = self.change_key(core, keys.own);
        for (i, _) in self.peers.iter().enumerate().filter(|(_, p)| !p.gone && !rekeyed) {
            let known = peers.iter().zip(&keys.peers).any(|(p, keys)| self.is_peer(core, i, p, keys));
            kept.extend(known.then_some(i));
        }
        let old_routes = routes::wanted(&self.cfg);
        for i in 0..self.peers.len() {
            if !self.peers[i].gone && !kept.contains(&i) {
                self.remove_peer(core, now, i);
                done.removed += 1;
            }
        }
        let scheduler = new.settings.scheduler;
        let rescheduled = scheduler != self.cfg.settings.scheduler;
        let steering = new.settings.steer.clone();
        let resteered = steering != self.cfg.settings.steer;
        self.session_cfg = setup::session_config(&new);
        let before = std::mem::replace(&mut self.cfg, new);
        self.cfg.keep_assigned(before);
        core.net.marking = Some(Box::new(Marker::new(&self.cfg)));
        for (peer, key) in peers.into_iter().zip(keys.peers) {
            match kept.iter().find(|i| self.peers[**i].cfg.name == peer.name) {
                Some(&i) => {
                    done.paths += self.change_peer(core, now, i, peer);
                    self.limit_session(core, now, i);
                }
                None => {
                    let number = self.peers.len() as u32;
                    if let (Some((key, psk)), Some(channels)) = (key, core.net.channels_mut()) {
                        channels.add_peer(number, key, psk);
                    }
                    self.peers.push(self.fresh_peer(peer));
                    done.added += 1;
                }
            }
        }
        core.endpoint.cap_all(self.rate());
        self.keep_leases();
        self.assign_again(core, now);
        self.listen_again(core);
        if rescheduled {
            for session in self.sessions.keys() {
                core.endpoint.set_scheduler(now, *session, scheduler);
            }
        }
        if resteered {
            for session in self.sessions.keys() {
                core.endpoint.set_policy(now, *session, &steering);
            }
        }
        if self.cfg.routes
            && self.shard.is_first()
            && let Err(e) = routes::change(&self.cfg, &old_routes)
        {
            tracing::warn!("{e}");
        }
        self.open_waiting(core, now);
        let Done { added, removed, paths } = done;
        let words = format!(
            "{}{added} peer(s) added, {removed} removed, {paths} path(s) changed{}{}; other settings count for sessions from now on",
            if rekeyed { "this end has another key, " } else { "" },
            if rescheduled { ", scheduler changed" } else { "" },
            if resteered { ", steering rules changed" } else { "" }
        );
        if self.shard.is_first() {
            tracing::info!("reloaded: {words}");
        }
        words
    }

    /// A peer with its paths still to be opened.
    pub(crate) fn fresh_peer(&self, peer: Peer) -> PeerState {
        let mut state = PeerState::new(peer);
        if setup::is_client(&self.cfg) {
            let specs = state.cfg.paths.iter().map(|p| p.get_ref().clone());
            state.waiting = specs.map(WaitingPath::new).collect();
        }
        state
    }

    /// Nothing of the peer is let through from now on. Its number is not used again.
    fn remove_peer(&mut self, core: &mut Core, now: Time, i: usize) {
        let peer = &mut self.peers[i];
        if self.shard.is_home(i) {
            tracing::info!("peer {}: removed", peer.cfg.name);
        }
        peer.gone = true;
        peer.waiting.clear();
        peer.shut_down();
        if let Some(session) = peer.session.take() {
            core.endpoint.abort(now, session);
            self.sessions.remove(&session);
        }
        self.count_carried(i, None);
        for path in std::mem::take(&mut self.peers[i].paths) {
            core.net.remove(path.socket);
        }
        if let Some(channels) = core.net.channels_mut() {
            channels.remove_peer(i as u32);
        }
    }

    /// The peer is as the file has it now; what was changed by command and not in the file stays. Returns how many paths changed.
    fn change_peer(&mut self, core: &mut Core, now: Time, i: usize, new: Peer) -> usize {
        let old = std::mem::replace(&mut self.peers[i].cfg, new.clone());
        if !setup::is_client(&self.cfg) {
            return 0;
        }
        let specs = |peer: &Peer| peer.paths.iter().map(|p| p.get_ref().clone()).collect::<Vec<PathSpec>>();
        let (before, after) = (specs(&old), specs(&new));
        let mut changed = 0;
        for path in &before {
            let next = after.iter().find(|p| p.name == path.name);
            match next {
                Some(next) if next == path => continue,
                // Another priority or limit does not need another connection.
                Some(next) if next.unlimited() == path.unlimited() => {
                    self.limit_anew(core, now, i, path, next)
                }
                _ => {
                    self.peers[i].waiting.retain(|p| p.spec.name != path.name);
                    if let Some(at) = self.peers[i].paths.iter().position(|p| p.spec.name == path.name) {
                        self.take_path(core, now, i, at);
                    }
                }
            }
            changed += 1;
        }
        for path in after {
            if !self.peers[i].has_path(&path.name) {
                changed += usize::from(!before.iter().any(|p| p.name == path.name));
                self.peers[i].waiting.push(WaitingPath::new(path));
            }
        }
        changed
    }

    /// A path with other limits, and another priority if the file has another.
    fn limit_anew(&mut self, core: &mut Core, now: Time, i: usize, old: &PathSpec, new: &PathSpec) {
        let peer = &mut self.peers[i];
        let open = peer.paths.iter_mut().map(|p| &mut p.spec);
        for spec in open.chain(peer.waiting.iter_mut().map(|p| &mut p.spec)).filter(|s| s.name == new.name) {
            *spec = PathSpec { priority: spec.priority, ..new.clone() };
        }
        if old.prio() != new.prio() {
            let _ = self.prio_of(core, now, i, &new.name, new.prio());
        }
    }

    /// The limits of a peer's session and of its paths are those of the file.
    fn limit_session(&self, core: &mut Core, now: Time, i: usize) {
        let Some(session) = self.peers[i].session else { return };
        core.endpoint.cap(now, session, self.peers[i].cfg.rate.map(|rate| rate.0));
        for path in core.endpoint.status(now, session).into_iter().flat_map(|status| status.paths) {
            self.set_limits(core, now, session, i, path.id);
        }
    }

    /// A server lets in those that are peers now.
    fn listen_again(&mut self, core: &mut Core) {
        let Some(listener) = &mut self.listener else { return };
        let peers = (0u32..).zip(&self.peers).filter(|(_, peer)| !peer.gone);
        listener.peers = peers.map(|(id, peer)| PeerFilter { id, remotes: peer.cfg.origins() }).collect();
        listener.session = self.session_cfg.clone();
        listener.max_sessions = listener.peers.len() + setup::SPARE_SESSIONS;
        core.endpoint.listen(listener.clone());
    }
}
