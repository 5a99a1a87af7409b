//! Address IDs, MP_ADDADDR and MP_REMOVEADDR (RFC 9897 sections 3.2.2, 3.2.8, 3.2.9 and 3.4).

use super::Session;
use super::address_ids::{Local, Remote, is_unicast};
use super::signal::Signal;
use super::subflow::Subflow;
use crate::keys::{By, same};
use crate::{Counter, JoinFrom, PathConfig, SessionEvent, SessionState};
use alloc::vec::Vec;
use core::net::IpAddr;
use dccp_proto::{Ports, Route};
use dccp_wire::Seq;
use mpdccp_units::Time;
use rand_core::RngCore;

/// Maximum number of addresses kept for a peer.
const MAX_REMOTE: usize = 32;

impl Session {
    /// Advertises an address to the peer (MP_ADDADDR), and returns its Address ID.
    pub(crate) fn advertise(&mut self, now: Time, addr: IpAddr, port: Option<u16>) -> Option<u8> {
        if self.state != SessionState::Open || !self.multipath {
            return None;
        }
        let addr_id = self.local_addrs.id(Local::Advertised(addr, port))?;
        let nonce = self.rng.next_u32();
        self.signal(now, Signal::AddAddr { addr_id, nonce, addr, port });
        Some(addr_id)
    }

    /// Withdraws an advertised address (MP_REMOVEADDR). Its ID becomes free once the peer confirms.
    pub(crate) fn withdraw(&mut self, now: Time, addr_id: u8) {
        if let Some(Local::Advertised(..)) = self.local_addrs.0.get(&addr_id) {
            self.say_removed(now, addr_id);
        }
    }

    /// Call this after removing a silent path, because the path's Close will not arrive. If no other subflow
    /// uses the path's address, an MP_REMOVEADDR on another path tells the peer that the address is no longer
    /// valid.
    pub(super) fn withdraw_source(&mut self, now: Time, addr_id: u8) {
        let used = self.paths.iter().any(|p| !p.removed && p.local_addr == Some(addr_id));
        if self.multipath && !used && self.local_addrs.0.contains_key(&addr_id) {
            self.say_removed(now, addr_id);
        }
    }

    /// Sends MP_REMOVEADDR. The ID stays reserved until the peer confirms; otherwise, a late removal could
    /// end subflows opened since.
    fn say_removed(&mut self, now: Time, addr_id: u8) {
        self.local_addrs.0.insert(addr_id, Local::Leaving);
        let nonce = self.rng.next_u32();
        self.signal(now, Signal::RemoveAddr { addr_id, nonce });
    }

    /// Frees the Address IDs of sources whose last path is gone. Their subflows have ended, so neither end
    /// uses the IDs any more (RFC 9897 section 3.2.2). If the peer may not know that a subflow ended, the ID
    /// stays reserved until the peer confirms the removal.
    pub(super) fn release_sources(&mut self) {
        let paths = &self.paths;
        self.local_addrs.retain_sources(|id| paths.iter().any(|p| p.local_addr == Some(id)));
    }

    /// The peer has confirmed MP_REMOVEADDR, or will never confirm it.
    pub(super) fn release_addr_id(&mut self, addr_id: u8) {
        self.local_addrs.0.remove(&addr_id);
    }

    /// Handles an MP_ADDADDR that arrived on path `on` with `mp_seq`. `tag` is the HMAC that directly
    /// followed the option. Returns true if the option must be confirmed.
    pub(super) fn on_add_addr(
        &mut self,
        (now, on): (Time, usize),
        mp_seq: Seq,
        addr_id: u8,
        nonce: u32,
        (addr, port): (IpAddr, Option<u16>),
        tag: Option<&[u8; 20]>,
    ) -> bool {
        let expected = self.keys.add_addr(By::Remote, addr_id, nonce, addr, port);
        // RFC 9897 section 3.2.6: an option with a wrong HMAC is silently ignored.
        if !tag.is_some_and(|tag| same(&expected, tag)) {
            self.count(Counter::AddAddrBadHmac);
            return false;
        }
        let known = self.remote_addrs.0.get(&addr_id);
        let given = self.remote_addrs.0.values().filter(|r| r.addr.is_some()).count();
        match known {
            // RFC 9897 section 3.2.1: an outdated option may still be confirmed.
            Some(known) if !mp_seq.after(known.seq) => self.count(Counter::OutdatedMpOption),
            // RFC 9897 section 3.2.8: an address that is not unicast is silently ignored. So is a different
            // address under an ID that is in use.
            _ if !is_unicast(addr) => {
                self.count(Counter::AddAddrNotUnicast);
                return false;
            }
            Some(Remote { addr: Some((held, _)), .. }) if *held != addr => {
                self.count(Counter::AddAddrIdInUse);
                return false;
            }
            // A copy would bring back a removed path or address.
            Some(known) if known.is_copy(nonce) => self.count(Counter::OutdatedMpOption),
            // RFC 9897 section 3.2.8 permits discarding advertisements.
            None | Some(Remote { addr: None, .. }) if given >= MAX_REMOTE => {
                self.count(Counter::AddAddrTooMany)
            }
            _ => {
                if self.remote_addrs.set(addr_id, Some((addr, port)), mp_seq, nonce).is_none() {
                    self.events.push_back(SessionEvent::PeerAddresses);
                }
                self.join_advertised(now, on, addr_id);
            }
        }
        true
    }

    /// Joins an address that the peer advertised on path `i`, if the settings allow it, either from that
    /// path's local address or from all local addresses. Sources of the other address family are left out,
    /// because they cannot reach the address.
    fn join_advertised(&mut self, now: Time, i: usize, addr_id: u8) {
        let Some((addr, port)) = self.remote_addrs.0.get(&addr_id).and_then(|known| known.addr) else {
            return;
        };
        let from = self.paths[i].cfg.route;
        let source = |route: &Route| (route.socket, route.local);
        let wanted = |p: &&Subflow| match self.cfg.join_advertised {
            JoinFrom::Nowhere => false,
            JoinFrom::One => source(&p.cfg.route) == source(&from),
            JoinFrom::All => true,
        };
        let usable = |p: &&Subflow| p.ours && !p.removed && p.cfg.route.remote.is_ipv4() == addr.is_ipv4();
        let mut begun: Vec<PathConfig> = Vec::new();
        for path in self.paths.iter().filter(usable).filter(wanted) {
            let mut cfg = path.cfg;
            cfg.route.remote.set_ip(addr);
            // RFC 9897 section 3.2.8: without a port, the port of the advertising subflow applies.
            cfg.ports = Ports { local: 0, remote: port.unwrap_or(self.paths[i].cfg.ports.remote) };
            let same =
                |other: &PathConfig| other.route == cfg.route && other.ports.remote == cfg.ports.remote;
            let used = self.paths.iter().any(|p| p.ours && !p.removed && same(&p.cfg));
            if !used && !begun.iter().any(same) {
                begun.push(cfg);
            }
        }
        for cfg in begun {
            if self.paths.iter().filter(|p| p.ours).count() >= self.cfg.max_paths {
                return self.count(Counter::BeyondMaxPaths);
            }
            let id = self.begin_path(now, cfg);
            if let Some(k) = self.index(id) {
                self.paths[k].advertised = Some(addr_id);
            }
        }
    }

    /// Handles an MP_REMOVEADDR that arrived on path `on`. Returns true if the option must be confirmed.
    pub(super) fn on_remove_addr(
        &mut self,
        now: Time,
        on: usize,
        mp_seq: Seq,
        addr_id: u8,
        nonce: u32,
        tag: Option<&[u8; 20]>,
    ) -> bool {
        let expected = self.keys.remove_addr(By::Remote, addr_id, nonce);
        if !tag.is_some_and(|tag| same(&expected, tag)) {
            self.count(Counter::RemoveAddrBadHmac);
            return false;
        }
        let known = self.remote_addrs.0.get(&addr_id);
        // Once the peer has a confirmation, it may give the ID to a new subflow, which a copy of the removal
        // must not end.
        if known.is_some_and(|known| mp_seq.before(known.seq) || known.is_copy(nonce)) {
            self.count(Counter::OutdatedMpOption);
            return true;
        }
        let uses = |p: &Subflow| p.conn.is_some() && p.remote_addr == Some(addr_id);
        if known.is_none() && !self.paths.iter().any(uses) {
            // RFC 9897 section 3.2.9: an unknown ID is silently ignored.
            self.count(Counter::RemoveAddrUnknown);
            return false;
        }
        let removed = self.remote_addrs.set(addr_id, None, mp_seq, nonce);
        self.events.push_back(SessionEvent::PeerAddresses);
        // RFC 9897 section 3.2.9: the removal ends all subflows that use the address.
        for i in 0..self.paths.len() {
            let path = &mut self.paths[i];
            let advertised = path.advertised == Some(addr_id);
            if advertised {
                (path.removed, path.connect_at) = (true, None);
            }
            if let (true, Some(conn)) = (advertised || path.remote_addr == Some(addr_id), &mut path.conn) {
                conn.close(now, false);
                self.after_input(now, i);
            }
        }
        // The peer may have advertised the address again under another ID before this removal arrived.
        let ip = |r: &Remote| r.addr.map(|(addr, _)| addr);
        if let Some(addr) = removed
            && let Some((&again, _)) = self.remote_addrs.0.iter().find(|(_, r)| ip(r) == Some(addr))
        {
            self.join_advertised(now, on, again);
        }
        true
    }
}
