//! The addresses of both ends, keyed by Address ID (RFC 9897 sections 3.2.2 and 3.2.8).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use dccp_proto::Route;
use dccp_wire::Seq;

/// Address IDs of this end, one per source address.
#[derive(Debug, Default)]
pub(super) struct LocalAddrs(pub(super) BTreeMap<u8, Local>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Local {
    /// Socket and address from which this end's subflows are sent.
    Source(u32, Option<IpAddr>),
    /// Address that MP_ADDADDR advertised to the peer.
    Advertised(IpAddr, Option<u16>),
    /// Address that MP_REMOVEADDR has withdrawn, but whose removal the peer has not confirmed yet.
    Leaving,
}

impl LocalAddrs {
    /// Gives Address ID 0 to the source of the first subflow.
    pub(super) fn set_first(&mut self, route: &Route) {
        self.0.insert(0, Local::Source(route.socket, route.local));
    }

    /// Returns the Address ID of a subflow's source, or `None` if all IDs are in use.
    pub(super) fn id_of(&mut self, route: &Route) -> Option<u8> {
        // An address has one ID on all sockets (RFC 9897 section 3.2.2), even if it was advertised before a
        // subflow used it.
        let same = |local: &Local| match local {
            Local::Source(_, Some(addr)) | Local::Advertised(addr, _) => Some(*addr) == route.local,
            _ => false,
        };
        let known = self.0.iter().find(|(_, local)| same(local)).map(|(id, _)| *id);
        known.or_else(|| self.id(Local::Source(route.socket, route.local)))
    }

    /// Frees the IDs of sources that are no longer used.
    pub(super) fn retain_sources(&mut self, used: impl Fn(u8) -> bool) {
        self.0.retain(|&id, local| !matches!(local, Local::Source(..)) || used(id));
    }

    pub(super) fn id(&mut self, wanted: Local) -> Option<u8> {
        if let Some((&id, _)) = self.0.iter().find(|(_, a)| **a == wanted) {
            return Some(id);
        }
        let free = (1..=u8::MAX).find(|id| !self.0.contains_key(id))?;
        self.0.insert(free, wanted);
        Some(free)
    }
}

/// Number of nonces kept per Address ID.
const MAX_NONCES: usize = 16;

/// Addresses that the peer advertised. The entry of a removed address keeps the MP_SEQ of its newest option
/// and the latest nonces, so that outdated options and copies are recognised.
#[derive(Debug, Default)]
pub(super) struct RemoteAddrs(pub(super) BTreeMap<u8, Remote>);

#[derive(Debug, Default)]
pub(super) struct Remote {
    pub(super) addr: Option<(IpAddr, Option<u16>)>,
    pub(super) seq: Seq,
    nonces: VecDeque<u32>,
}

impl Remote {
    /// Returns whether an option with this nonce has been obeyed before. All transmissions of an option have
    /// one nonce, which its HMAC covers, unlike the MP_SEQ.
    pub(super) fn is_copy(&self, nonce: u32) -> bool {
        self.nonces.contains(&nonce)
    }
}

impl RemoteAddrs {
    /// Records an option that is obeyed. Returns the address that the ID had before.
    pub(super) fn set(
        &mut self,
        addr_id: u8,
        addr: Option<(IpAddr, Option<u16>)>,
        seq: Seq,
        nonce: u32,
    ) -> Option<IpAddr> {
        let known = self.0.entry(addr_id).or_default();
        known.seq = seq;
        known.nonces.truncate(MAX_NONCES - 1);
        known.nonces.push_front(nonce);
        core::mem::replace(&mut known.addr, addr).map(|(addr, _)| addr)
    }

    pub(super) fn list(&self) -> Vec<(u8, IpAddr, Option<u16>)> {
        let given = self.0.iter().filter_map(|(&id, r)| r.addr.map(|(addr, port)| (id, addr, port)));
        given.collect()
    }
}

/// Returns whether a host may have this address, so that connecting to it makes sense
/// (RFC 9897 section 3.2.8). Multicast and broadcast addresses, 0.0.0.0 and :: do not qualify.
pub fn is_unicast(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(ip) => !ip.is_multicast() && !ip.is_broadcast() && !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_multicast() && !ip.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9897 section 3.2.2: an address has only one ID.
    #[test]
    fn a_source_that_was_advertised_keeps_its_id() {
        let mut ids = LocalAddrs::default();
        let local: IpAddr = "192.0.2.7".parse().unwrap();
        let route = |local| Route { socket: 1, local, remote: "192.0.2.1:6511".parse().unwrap() };
        ids.set_first(&route(None));
        let told = ids.id(Local::Advertised(local, None));
        assert_eq!((told, ids.id_of(&route(Some(local)))), (Some(1), Some(1)));
        let elsewhere = Route { socket: 2, ..route("192.0.2.8".parse().ok()) };
        assert_eq!((ids.id_of(&route(elsewhere.local)), ids.id_of(&elsewhere)), (Some(2), Some(2)));
        assert_eq!(
            (ids.id_of(&route(None)), ids.id_of(&route("192.0.2.8".parse().ok()))),
            (Some(0), Some(2))
        );
    }
}
