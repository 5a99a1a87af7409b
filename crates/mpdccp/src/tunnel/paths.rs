//! A client's own paths: those that wait for their interface, address or name, and those whose name leads elsewhere now.

use crate::fault::Fault;
use crate::tunnel::app::TunnelApp;
use crate::tunnel::config::Config;
use crate::tunnel::names::Names;
use crate::tunnel::peer::{PeerState, WaitingPath};
use crate::tunnel::setup::{self, OpenPath, Unopened};
use dccp_net::{Core, interfaces_like};
use std::net::IpAddr;
use units::{Duration, Time};

/// How long a path may not work before its name is looked up again.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long a removed path's socket stays for its last packets.
const LINGER: Duration = Duration::from_secs(3);

/// Opens what can be opened of the waiting paths; the rest goes on waiting.
///
/// # Errors
/// The first path that waiting will not mend; it waits nevertheless.
pub(crate) fn open_waiting(
    core: &mut Core,
    now: Time,
    cfg: &Config,
    peers: &mut [PeerState],
    names: &mut Names,
) -> Result<(), Fault> {
    let mut result = Ok(());
    for (number, peer) in (0u32..).zip(peers) {
        for mut path in std::mem::take(&mut peer.waiting) {
            path.spec.remote.choose(peer.server);
            let taken = peer.interfaces();
            let why = match open(core, now, cfg, number, &path, names, &taken) {
                Ok(open) => {
                    if !path.why.is_empty() {
                        tracing::info!(
                            "peer {}: path {} joins, to {}",
                            peer.cfg.name,
                            path.spec.name,
                            open.remote
                        );
                    }
                    peer.add_path(core, now, open, cfg.dccp_port);
                    continue;
                }
                Err(Unopened::Absent(why)) => why,
                Err(Unopened::Fault(why)) => {
                    let whose = format!("peer `{}`, path `{}`", peer.cfg.name, path.spec.name);
                    result = result.and(Err(Fault::usage(format!("{whose}: {why}"))));
                    why
                }
            };
            if path.why != why {
                tracing::warn!("peer {}: path {} waits: {why}", peer.cfg.name, path.spec.name);
                path.why = why;
            }
            peer.waiting.push(path);
        }
    }
    result
}

fn open(
    core: &mut Core,
    now: Time,
    cfg: &Config,
    peer: u32,
    path: &WaitingPath,
    names: &mut Names,
    taken: &[String],
) -> Result<OpenPath, Unopened> {
    let ip = match (path.spec.remote.ip(), path.spec.remote.name()) {
        (Some(ip), _) => ip,
        (None, name) => {
            let name = name.unwrap_or_default();
            names.address(name, path.spec.local, path.failed).map_err(|why| {
                names.ask(now, name);
                Unopened::Absent(why)
            })?
        }
    };
    setup::open_path(core, cfg, peer, &path.spec, ip, taken)
}

impl TunnelApp {
    pub(crate) fn open_waiting(&mut self, core: &mut Core, now: Time) {
        if self.peers.iter().any(|peer| !peer.waiting.is_empty()) {
            // What does not open has been told, and waits.
            let _ = open_waiting(core, now, &self.cfg, &mut self.peers, &mut self.names);
        }
    }

    /// Moves paths whose pattern led to an interface that works no more to another that fits, if there is one.
    pub(crate) fn watch_interfaces(&mut self, core: &mut Core, now: Time) {
        for i in 0..self.peers.len() {
            let taken = self.peers[i].interfaces();
            let left = |path: &OpenPath| {
                let Some((begin, own)) = path.spec.pattern().zip(path.interface.as_ref()) else {
                    return false;
                };
                let all = interfaces_like(begin, path.remote.is_ipv4()).unwrap_or_default();
                !all.contains(own) && all.iter().any(|name| !taken.contains(name))
            };
            if let Some(at) = self.peers[i].paths.iter().position(left) {
                let path = self.take_path(core, now, i, at);
                let (peer, gone) = (&mut self.peers[i], path.interface.unwrap_or_default());
                tracing::info!("peer {}: path {} leaves {gone} for another", peer.cfg.name, path.spec.name);
                peer.waiting.push(WaitingPath::new(path.spec));
            }
        }
    }

    /// Looks the names of paths that do not work up again.
    pub(crate) fn watch_names(&mut self, core: &Core, now: Time) {
        for peer in &mut self.peers {
            let status = peer.session.and_then(|session| core.endpoint.status(now, session));
            let up: Vec<u32> = status
                .iter()
                .flat_map(|s| &s.paths)
                .filter(|p| p.state.is_up())
                .map(|p| p.route.socket)
                .collect();
            for path in &mut peer.paths {
                let Some(name) = path.spec.remote.name() else { continue };
                if up.contains(&path.socket) {
                    path.bad_since = None;
                } else if now.since(*path.bad_since.get_or_insert(now)) >= PATIENCE {
                    self.names.ask(now, name);
                }
            }
        }
    }

    /// A name was looked up, or could not be.
    pub(crate) fn on_resolved(&mut self, core: &mut Core, name: String, answer: Result<Vec<IpAddr>, String>) {
        let now = core.clock.now();
        self.names.learn(&name, answer);
        for i in 0..self.peers.len() {
            let elsewhere = |names: &Names, path: &OpenPath| {
                let bad = path.bad_since.is_some_and(|at| now.since(at) >= PATIENCE);
                let there = Some(path.remote.ip());
                let next = names.address(&name, path.spec.local, there).ok();
                path.spec.remote.name() == Some(&name) && bad && next.is_some() && next != there
            };
            while let Some(at) = self.peers[i].paths.iter().position(|p| elsewhere(&self.names, p)) {
                let path = self.take_path(core, now, i, at);
                let (peer, there) = (&mut self.peers[i], path.remote);
                tracing::info!("peer {}: path {}: {there} does not answer", peer.cfg.name, path.spec.name);
                let why = format!("{there} does not answer");
                peer.waiting.push(WaitingPath { spec: path.spec, why, failed: Some(there.ip()) });
            }
        }
        self.open_waiting(core, now);
    }

    /// Closes a path and forgets it; with the last one the session goes too.
    pub(crate) fn take_path(&mut self, core: &mut Core, now: Time, peer: usize, at: usize) -> OpenPath {
        let id = self.peers[peer].path_id(core, now, &self.peers[peer].paths[at].spec.name);
        let peer = &mut self.peers[peer];
        let path = peer.paths.remove(at);
        if let Some(session) = peer.session {
            if peer.paths.is_empty() {
                core.endpoint.close(now, session);
                peer.on_closed(now);
                self.sessions.remove(&session);
            } else if let Some(id) = id {
                core.endpoint.remove_path(now, session, id);
            }
        }
        self.retired.push((now + LINGER, path.socket));
        path
    }
}
