use super::occupancy::Occupancy;
use crate::{ListenConfig, SessionState};
use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;
use dccp_proto::Route;

/// A listening port.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) cfg: ListenConfig,
    /// Ids of the peers in [`ListenConfig::peers`].
    pub(super) numbers: BTreeSet<u32>,
    /// For each address, the first filter that lists it: the filter's position and id.
    pub(super) from: BTreeMap<IpAddr, (usize, u32)>,
    /// The first filter that allows any address: its position and id.
    pub(super) anywhere: Option<(usize, u32)>,
    pub(super) sessions: Occupancy,
}

impl Listener {
    /// Creates a listener. `sessions` are the sessions of an earlier listener on the same port; they count
    /// towards the limits.
    pub(super) fn new(cfg: ListenConfig, sessions: Occupancy) -> Listener {
        let numbers = cfg.peers.iter().map(|p| p.id).collect();
        let (mut from, mut anywhere) = (BTreeMap::new(), None);
        for (place, peer) in cfg.peers.iter().enumerate() {
            if peer.remotes.is_empty() {
                anywhere.get_or_insert((place, peer.id));
            }
            for ip in &peer.remotes {
                from.entry(ip.to_canonical()).or_insert((place, peer.id));
            }
        }
        Listener { cfg, numbers, from, anywhere, sessions }
    }

    /// Replaces the settings. Existing sessions still count towards the limits.
    pub(super) fn change(&mut self, cfg: ListenConfig) {
        *self = Listener::new(cfg, core::mem::take(&mut self.sessions));
    }

    /// Moves a session from the half-open to the open count once it has opened.
    pub(super) fn follow(&mut self, source: IpAddr, opened: &mut bool, state: SessionState) {
        if !*opened && matches!(state, SessionState::Open | SessionState::Closing) {
            *opened = true;
            self.sessions.change(source, false, false);
            self.sessions.change(source, true, true);
        }
    }

    pub(super) fn forget(&mut self, source: IpAddr, opened: bool) {
        self.sessions.change(source, opened, false);
    }

    /// Returns the id of the filter that admits a peer from this address.
    pub(super) fn peer(&self, remote: IpAddr) -> Option<u32> {
        let by_address = self.from.get(&remote.to_canonical()).copied();
        by_address.into_iter().chain(self.anywhere).min().map(|(_, id)| id)
    }

    /// Returns whether the peer is unauthenticated, or authenticated but not listed.
    pub(super) fn is_stranger(&self, vouched: Option<u32>) -> bool {
        vouched.is_none_or(|peer| !self.numbers.contains(&peer))
    }

    /// Returns how many sessions one source may have now. The limit is a fixed fraction of the free sessions,
    /// rounded up, so it shrinks as sessions are taken. A few sources together therefore cannot take all
    /// sessions.
    pub(super) fn share_of_source(&self) -> usize {
        let (all, each) = (self.cfg.max_sessions, self.cfg.max_sessions_per_source);
        if each >= all {
            return each;
        }
        let free = all.saturating_sub(self.sessions.all.open);
        (free as u128 * each as u128).div_ceil(all as u128) as usize
    }

    /// Returns the length of the IP and UDP headers on a route, bytes.
    pub(super) fn overhead(&self, route: &Route) -> u16 {
        match route.remote.ip().to_canonical() {
            IpAddr::V4(_) => self.cfg.overhead,
            IpAddr::V6(_) => self.cfg.overhead.saturating_add(20),
        }
    }
}
