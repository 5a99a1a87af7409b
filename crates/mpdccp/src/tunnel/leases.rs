//! What a server has to give: a pool of inner addresses, leased to peers by their keys and kept over restarts.

use crate::tunnel::app::TunnelApp;
use crate::tunnel::assign::{Gift, Message, Refusal};
use crate::tunnel::config::{Config, Peer};
use crate::tunnel::quota::write_whole;
use crate::tunnel::values::Mtu;
use dccp_net::Core;
use ipnet::IpNet;
use mpdccp_proto::PktInfo;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use units::Time;

/// Most addresses looked at for a free one.
const MAX_TRIES: u128 = 1 << 16;

/// `[assign]` of the file.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Assign {
    /// Addresses to give, one of each IP version that is there.
    #[serde(deserialize_with = "crate::tunnel::values::prefixes")]
    pub(crate) pool: Vec<IpNet>,
    /// What clients are to reach through the tunnel besides.
    #[serde(default, deserialize_with = "crate::tunnel::values::prefixes")]
    pub(crate) routes: Vec<IpNet>,
}

impl Assign {
    /// Says what is wrong with it.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.pool.is_empty() {
            return Err("pool: at least one network is needed, such as \"10.0.0.0/24\"".into());
        }
        let host: IpNet = IpNet::from(IpAddr::from([0u8; 16]));
        let gift = Gift { addresses: vec![host, host], routes: self.routes.clone(), mtu: 0 };
        if !Message::Give(gift).fits() {
            return Err("routes: there are too many to tell a client in one packet; put them together".into());
        }
        Ok(())
    }

    /// The pools that hold an address.
    fn pool_of(&self, ip: IpAddr) -> Option<&IpNet> {
        self.pool.iter().find(|net| net.contains(&ip))
    }
}

/// Leases by public key, and where to look for the next free address.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    file: PathBuf,
    by_key: BTreeMap<String, Vec<IpAddr>>,
    /// Offset in each network of the pool.
    next: BTreeMap<IpNet, u128>,
}

fn to_number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

fn to_ip(number: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::from((number as u32).to_be_bytes()),
        IpAddr::V6(_) => IpAddr::from(number.to_be_bytes()),
    }
}

impl Leases {
    pub(crate) fn load(cfg: &Config) -> Leases {
        let file = cfg.state.join(format!("{}.leases.json", cfg.interface));
        let by_key = match std::fs::read(&file).ok().filter(|_| cfg.assign.is_some()) {
            Some(text) => serde_json::from_slice(&text).unwrap_or_else(|e| {
                tracing::warn!("{}: {e}; addresses are leased anew", file.display());
                BTreeMap::new()
            }),
            None => BTreeMap::new(),
        };
        Leases { file, by_key, next: BTreeMap::new() }
    }

    fn save(&self) {
        if let Err(e) = write_whole(&self.file, &self.by_key) {
            tracing::warn!("leases are forgotten at a restart: {}: {e}", self.file.display());
        }
    }

    /// The next address of a network that is free, and asked for after none that was given lately.
    fn find(&mut self, pool: IpNet, is_free: impl Fn(IpAddr) -> bool) -> Option<IpAddr> {
        let bits = pool.max_prefix_len() - pool.prefix_len();
        let size = 1u128.checked_shl(bits.into()).unwrap_or(u128::MAX);
        let next = self.next.entry(pool).or_default();
        for _ in 0..size.min(MAX_TRIES) {
            let ip = to_ip(to_number(pool.network()) + *next, pool.network());
            *next = (*next + 1) % size;
            if is_free(ip) {
                return Some(ip);
            }
        }
        None
    }
}

fn key(peer: &Peer) -> Option<String> {
    peer.public_key.as_ref().map(|key| key.0.to_string())
}

impl TunnelApp {
    /// After the file was read: each peer has what it had leased, as long as that is in the pool and nobody else's.
    pub(crate) fn keep_leases(&mut self) {
        self.read_leases();
        self.steer();
    }

    fn read_leases(&mut self) {
        let Some(assign) = self.cfg.assign.clone() else {
            self.peers.iter_mut().for_each(|peer| peer.leased.clear());
            return self.allow();
        };
        self.peers.iter_mut().for_each(|peer| peer.leased.clear());
        self.allow();
        let mut kept = BTreeMap::new();
        for i in 0..self.peers.len() {
            if self.peers[i].gone {
                continue;
            }
            let Some(key) = key(&self.peers[i].cfg) else { continue };
            let Some(mut leased) = self.leases.by_key.remove(&key) else { continue };
            leased.retain(|ip| assign.pool_of(*ip).is_some_and(|pool| self.is_free(*ip, *pool, i)));
            for ip in &leased {
                self.allowed.insert(IpNet::from(*ip), i);
            }
            self.peers[i].leased.clone_from(&leased);
            kept.insert(key, leased);
        }
        self.leases.by_key = kept;
    }

    /// Whether an address of the pool can be a peer's: it is no end's own, and no other peer has it, or a network around it that is not
    /// larger than the pool.
    fn is_free(&self, ip: IpAddr, pool: IpNet, peer: usize) -> bool {
        let special = |net: &IpNet| {
            let host = net.max_prefix_len();
            let whole = net.prefix_len() + 1 < host;
            ip == net.addr()
                || whole
                    && net.contains(&ip)
                    && (ip == net.network() || ip.is_ipv4() && ip == net.broadcast())
        };
        if self.cfg.addresses.iter().any(special) {
            return false;
        }
        self.allowed.longest(ip).is_none_or(|(length, whose)| whose == peer || length < pool.prefix_len())
    }

    /// Answers a peer that asks for its addresses.
    pub(crate) fn assign(&mut self, core: &mut Core, now: Time, peer: usize) {
        if !self.shard.is_first() {
            // One gives them away, so that none is given twice.
            return self.shard.at_first(move |core, app| app.assign(core, core.clock.now(), peer));
        }
        if self.peers.get(peer).is_none_or(|peer| peer.gone) {
            return;
        }
        let message = match self.lease(peer) {
            Ok(gift) => Message::Give(gift),
            Err(why) => {
                let name = &self.peers[peer].cfg.name;
                match why {
                    Refusal::NoPool => {
                        tracing::warn!("peer {name}: asks for an address, but there is no [assign]")
                    }
                    Refusal::Exhausted => {
                        tracing::warn!("peer {name}: no address left in the pool of [assign]")
                    }
                }
                self.counters.drop("no_address_to_assign");
                Message::Refuse(why)
            }
        };
        match self.shard.is_home(peer) {
            true => self.tell(core, now, peer, &message),
            false => {
                let tell = move |core: &mut Core, app: &mut TunnelApp| {
                    app.tell(core, core.clock.now(), peer, &message)
                };
                self.shard.at_home(peer, tell);
            }
        }
    }

    fn tell(&self, core: &mut Core, now: Time, peer: usize, message: &Message) {
        if let Some(session) = self.peers.get(peer).and_then(|peer| peer.session) {
            core.endpoint.send(now, session, message.to_bytes(), PktInfo::default());
        }
    }

    /// A peer has an address more.
    fn note_lease(&mut self, peer: usize, ip: IpAddr) {
        // Another shard may know of a peer before this one has read the file again.
        let Some(state) = self.peers.get_mut(peer) else { return };
        state.leased.push(ip);
        let key = key(&state.cfg).map(|key| (key, state.leased.clone()));
        self.allow_also(ip, peer);
        if let Some((key, leased)) = key {
            self.leases.by_key.insert(key, leased);
        }
    }

    /// Those who have addresses of the pool hear what they are now.
    pub(crate) fn assign_again(&mut self, core: &mut Core, now: Time) {
        for peer in 0..self.peers.len() {
            if self.peers[peer].asked && !self.peers[peer].gone {
                self.assign(core, now, peer);
            }
        }
    }

    /// What a peer gets: the addresses it has, or free ones.
    fn lease(&mut self, peer: usize) -> Result<Gift, Refusal> {
        let assign = self.cfg.assign.clone().ok_or(Refusal::NoPool)?;
        self.peers[peer].asked = true;
        let mut given = Vec::new();
        for v4 in [true, false] {
            let pools = || assign.pool.iter().filter(|net| net.addr().is_ipv4() == v4);
            if pools().next().is_none() {
                continue;
            }
            let cfg = &self.peers[peer].cfg;
            // A single address that the file gives the peer is the one it gets.
            let own = cfg.allowed_ips.iter().filter(|net| net.prefix_len() == net.max_prefix_len());
            let own = own.map(|net| net.addr()).find(|ip| pools().any(|pool| pool.contains(ip)));
            let had = self.peers[peer].leased.iter().find(|ip| ip.is_ipv4() == v4).copied();
            if let Some(ip) = own.or(had) {
                given.push(ip);
                continue;
            }
            let mut leases = std::mem::take(&mut self.leases);
            let found = pools().find_map(|pool| leases.find(*pool, |ip| self.is_free(ip, *pool, peer)));
            self.leases = leases;
            let ip = found.ok_or(Refusal::Exhausted)?;
            tracing::info!("peer {}: is assigned {ip}", self.peers[peer].cfg.name);
            self.note_lease(peer, ip);
            self.shard.at_others(move |_, app| app.note_lease(peer, ip));
            self.leases.save();
            given.push(ip);
        }
        let prefix =
            |ip: &IpAddr| self.cfg.addresses.iter().find(|net| net.contains(ip)).map(IpNet::prefix_len);
        let with_prefix = |ip: IpAddr| {
            let host = IpNet::from(ip);
            prefix(&ip).and_then(|length| IpNet::new(ip, length).ok()).unwrap_or(host)
        };
        Ok(Gift {
            addresses: given.into_iter().map(with_prefix).collect(),
            routes: assign.routes,
            mtu: match self.cfg.mtu {
                Mtu::Fixed(mtu) => mtu,
                Mtu::Auto => 0,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_gone_through_and_then_begun_again() {
        let mut leases = Leases::default();
        let pool: IpNet = "10.0.0.4/30".parse().unwrap();
        let mut taken: Vec<IpAddr> = vec!["10.0.0.5".parse().unwrap()];
        for expected in ["10.0.0.4", "10.0.0.6", "10.0.0.7"] {
            let ip = leases.find(pool, |ip| !taken.contains(&ip)).unwrap();
            assert_eq!(ip.to_string(), expected);
            taken.push(ip);
        }
        assert_eq!(leases.find(pool, |ip| !taken.contains(&ip)), None, "exhausted");
        let back = taken.remove(1);
        assert_eq!(leases.find(pool, |ip| !taken.contains(&ip)), Some(back));
        let large: IpNet = "fd00::/64".parse().unwrap();
        assert_eq!(leases.find(large, |ip| ip != large.network()).unwrap().to_string(), "fd00::1");
        let everything: IpNet = "::/0".parse().unwrap();
        assert_eq!(leases.find(everything, |_| false), None, "an end to looking");
    }
}
