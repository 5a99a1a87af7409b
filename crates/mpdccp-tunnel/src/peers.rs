//! All peers, with indices by number, name and session.

use crate::Cx;
use crate::command::PeerKeys;
use crate::config::{Config, Prio};
use crate::host::Looked;
use crate::message::Message;
use crate::path::is_elsewhere;
use crate::peer::Peer;
use mpdccp_proto::SessionId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::ops::{Index, IndexMut};

/// Maximum number of peers about whose paths a server asks the host in one check. Each question takes about
/// 0.1 ms, in which no packets are carried.
const LOOKS: usize = 100;

/// The peers by number. Numbers are never reused.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    list: Vec<Peer>,
    numbers: HashMap<String, usize>,
    sessions: BTreeMap<SessionId, usize>,
    /// The peer at which the next check begins, and the number of peers from there on that must be checked.
    next: usize,
    unchecked: usize,
}

impl Index<usize> for Peers {
    type Output = Peer;
    fn index(&self, number: usize) -> &Peer {
        &self.list[number]
    }
}

impl IndexMut<usize> for Peers {
    fn index_mut(&mut self, number: usize) -> &mut Peer {
        &mut self.list[number]
    }
}

impl Peers {
    /// Creates the configured peers with their keys.
    pub(crate) fn new(cfg: &Config, keys: Vec<PeerKeys>) -> Peers {
        let mut peers = Peers::default();
        for (peer, keys) in cfg.peers.iter().zip(keys) {
            peers.add(Peer::new(peer.get_ref().clone(), keys, cfg.is_client()));
        }
        peers
    }

    /// Adds a peer and returns its number.
    pub(crate) fn add(&mut self, peer: Peer) -> usize {
        let number = self.list.len();
        self.numbers.insert(peer.name().to_owned(), number);
        self.list.push(peer);
        number
    }

    /// Marks a peer as removed from the configuration. Returns the peer's session, if there is one.
    pub(crate) fn remove(&mut self, number: usize) -> Option<SessionId> {
        let peer = &mut self.list[number];
        peer.gone = true;
        peer.leased.clear();
        peer.shut_down();
        if self.numbers.get(peer.name()) == Some(&number) {
            self.numbers.remove(&peer.cfg.name);
        }
        let session = peer.forget_session()?;
        self.sessions.remove(&session);
        Some(session)
    }

    /// Returns the numbers of the peers that are still in the configuration.
    pub(crate) fn present(&self) -> impl Iterator<Item = usize> + use<> {
        let present: Vec<usize> = (0..self.list.len()).filter(|i| !self.list[*i].gone).collect();
        present.into_iter()
    }

    pub(crate) fn get(&self, number: usize) -> Option<&Peer> {
        self.list.get(number).filter(|peer| !peer.gone)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.list.iter().filter(|peer| !peer.gone)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.list.iter_mut().filter(|peer| !peer.gone)
    }

    /// Returns the names of the peers that have a session, separated by commas.
    pub(crate) fn open(&self) -> String {
        let open = self.iter().filter(|peer| peer.session.is_some());
        open.map(Peer::name).collect::<Vec<_>>().join(", ")
    }

    /// Returns the number of the peer with this name.
    pub(crate) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// Returns the numbers of all peers, or of the peer with this name. If a name is given, does not scan the
    /// other peers.
    pub(crate) fn asked(&self, only: Option<&str>) -> Vec<usize> {
        only.map_or_else(|| self.present().collect(), |name| self.number(name).into_iter().collect())
    }

    /// Changes a path's priority by command.
    pub(crate) fn set_prio(
        &mut self,
        cx: &mut Cx<'_>,
        peer: Option<&str>,
        path: &str,
        priority: Prio,
    ) -> Result<(), String> {
        let number = self.meant(peer)?;
        self.list[number].set_prio(cx, path, priority)
    }

    /// Returns the peer that a command refers to. The name may be omitted only if there is a single peer.
    pub(crate) fn meant(&self, name: Option<&str>) -> Result<usize, String> {
        let names = || self.iter().map(Peer::name).collect::<Vec<_>>().join(", ");
        let mut present = self.present();
        match (name, present.next(), present.next()) {
            (Some(name), ..) => {
                self.number(name).ok_or_else(|| format!("no peer `{name}`; expected one of: {}", names()))
            }
            (None, Some(only), None) => Ok(only),
            _ => Err(format!("several peers; choose one with --peer: {}", names())),
        }
    }

    /// Returns the peer of a session.
    pub(crate) fn of(&self, session: SessionId) -> Option<usize> {
        self.sessions.get(&session).copied()
    }

    /// Returns the peers with a session about whose paths to ask the host in this check. After a change, all
    /// peers have their turn within several checks.
    pub(crate) fn next_to_check(&mut self, changed: bool) -> Vec<usize> {
        let mut some = Vec::new();
        if changed {
            self.unchecked = self.list.len();
        }
        while self.unchecked > 0 && some.len() < LOOKS {
            self.unchecked -= 1;
            self.next = (self.next + 1) % self.list.len();
            some.extend(self.get(self.next).is_some_and(|peer| peer.session.is_some()).then_some(self.next));
        }
        some
    }

    /// Returns all sessions with their peers.
    pub(crate) fn sessions(&self) -> &BTreeMap<SessionId, usize> {
        &self.sessions
    }

    /// Assigns a session to a peer. Returns the peer's earlier session.
    pub(crate) fn accept(&mut self, number: usize, session: SessionId) -> Option<SessionId> {
        let old = self.list[number].session.replace(session).filter(|old| *old != session);
        if let Some(old) = old {
            self.sessions.remove(&old);
        }
        self.sessions.insert(session, number);
        old
    }

    /// Removes a session that has ended.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    /// Closes the session of a peer that has no path left, if there is a session.
    pub(crate) fn close_session(&mut self, cx: &mut Cx<'_>, number: usize) {
        let peer = &mut self.list[number];
        if let Some(session) = peer.session {
            cx.endpoint.close(cx.now, session);
            peer.report_down(cx, "its last path is closed");
            peer.on_closed(cx);
            self.forget(session);
        }
    }

    /// Starts the connection attempts that are due, and gives up those whose time limit has passed. Returns
    /// the peers whose attempts failed.
    pub(crate) fn on_timeout(&mut self, cx: &mut Cx<'_>) -> Vec<usize> {
        let mut failed = Vec::new();
        for (number, peer) in self.list.iter_mut().enumerate() {
            if let Some(session) = peer.on_timeout(cx) {
                self.sessions.remove(&session);
                failed.push(number);
            }
            if let Some(session) = peer.session {
                self.sessions.insert(session, number);
            }
        }
        failed
    }

    /// Sends a message to a peer, if there is a peer with this number.
    pub(crate) fn tell(&self, cx: &mut Cx<'_>, number: usize, message: &Message) {
        if let Some(peer) = self.get(number) {
            peer.tell(cx, message);
        }
    }

    /// Passes the packet sizes that the system knows for a destination to all sessions that use it.
    pub(crate) fn on_looked(&self, cx: &mut Cx<'_>, looked: &Looked) {
        for (session, path) in cx.endpoint.paths_over(looked.socket, looked.remote) {
            if let Some(number) = self.of(session) {
                self.list[number].hint_mtu(cx, path, looked.sizes);
            }
        }
    }

    /// Handles the host's report that sending to a destination has started to fail or works again.
    pub(crate) fn on_link(
        &mut self,
        cx: &mut Cx<'_>,
        socket: u32,
        peer: Option<u32>,
        remote: SocketAddr,
        error: Option<String>,
    ) {
        let over =
            cx.endpoint.paths_over(socket, remote).into_iter().filter_map(|(session, _)| self.of(session));
        let owns = |number: &usize| self.list[*number].paths.iter().any(|path| path.socket == socket);
        let own = self.present().filter(|_| cx.cfg.is_client()).filter(owns);
        let told: BTreeSet<usize> = over.chain(own).chain(peer.map(|number| number as usize)).collect();
        for number in told.into_iter().filter(|number| self.get(*number).is_some()).collect::<Vec<_>>() {
            self.list[number].on_link(cx, socket, error.clone());
        }
    }

    /// Handles the first answer from the other end of a channel. Does nothing on a server, which has no paths
    /// of its own.
    pub(crate) fn on_answered(&mut self, cx: &mut Cx<'_>, socket: u32) {
        let owns = |peer: &&mut Peer| peer.paths.iter().any(|path| path.socket == socket);
        if let Some(peer) = self.iter_mut().find(owns) {
            peer.on_answered(cx, socket);
        }
    }

    /// Stores that the other end of a channel has moved to another address. A path in another network is
    /// measured anew. A new port alone means that a NAT has lost its binding, so the network is still the
    /// same (RFC 9000 section 9.4).
    pub(crate) fn on_moved(&mut self, cx: &mut Cx<'_>, socket: u32, peer: Option<u32>, remote: SocketAddr) {
        let Some(number) = peer.map(|n| n as usize).filter(|n| self.get(*n).is_some()) else { return };
        let peer = &mut self.list[number];
        let status = peer.status(cx);
        // Use the newest match: a closed path with the same socket may still be listed.
        let path = status.iter().flat_map(|status| &status.paths).rev().find(|p| p.route.socket == socket);
        let label = path.map_or_else(String::new, |path| format!("path {} ", peer.path_name(path)));
        cx.out.info(format!("peer {}: {label}moved to {remote}", peer.name()));
        let moved = path.filter(|path| is_elsewhere(peer.place(&path.route).ip(), remote.ip()));
        if let (Some(session), Some(path)) = (peer.session, moved) {
            cx.endpoint.change_path(cx.now, session, path.id);
            // The new network may carry larger packets.
            peer.look(cx, Some(path.id));
        }
        peer.on_moved(socket, remote);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peers(count: usize) -> Peers {
        let mut peers = Peers::default();
        for n in 0..count {
            let number =
                peers.add(Peer::new(toml::from_str(&format!("name = \"c{n}\"")).unwrap(), None, false));
            peers.accept(number, SessionId(n as u64));
        }
        peers
    }

    /// Each route that the server sets for a client is a change.
    #[test]
    fn a_check_takes_bounded_time_and_reaches_all_peers_in_the_end() {
        let mut some = peers(LOOKS * 5 / 2);
        let counts = [true, false, false, false].map(|changed| some.next_to_check(changed).len());
        assert_eq!(counts, [LOOKS, LOOKS, LOOKS / 2, 0]);
        let mut reached: Vec<usize> = (0..5).flat_map(|_| some.next_to_check(true)).collect();
        reached.sort_unstable();
        reached.dedup();
        assert_eq!(reached.len(), LOOKS * 5 / 2);
        assert_eq!(peers(3).next_to_check(true).len(), 3);
        assert!(Peers::default().next_to_check(true).is_empty());
    }
}
