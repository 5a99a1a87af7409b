//! Leases: inner addresses that the server assigns to peers from a pool. They are stored by public key and
//! survive restarts.

use crate::Cx;
use crate::action::{Action, Actions, StateFile};
use crate::config::{self, Assign, Config, Mtu};
use crate::message::{Gift, Message, Refusal};
use crate::packet::allowed::Allowed;
use crate::peer::Peer;
use crate::peers::Peers;
use crate::shards::{Shard, Told};
use ipnet::IpNet;
use mpdccp_units::{Duration, Time};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Maximum number of addresses to try while searching for a free one.
const MAX_TRIES: u128 = 1 << 16;

/// A peer's request for addresses is ignored if it comes sooner than this after the peer's last one. Clients
/// wait longer between requests.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Mean interval and burst of a client's messages with the names of its paths. Further ones are ignored,
/// because each of them costs as much as many packets.
const NAMES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

impl Peer {
    /// Returns whether to handle the peer's request for addresses. The limit protects the first shard, which
    /// handles the requests to all shards.
    pub(crate) fn may_ask(&mut self, now: Time) -> bool {
        let may = self.asked.is_none_or(|at| now.since(at) >= ASK_EVERY);
        if may {
            self.asked = Some(now);
        }
        may
    }

    /// Returns whether to handle a client's message with the names of its paths.
    pub(crate) fn may_name(&mut self, now: Time) -> bool {
        let may = self.named.since(now) < NAMES.1;
        if may {
            self.named = self.named.max(now) + NAMES.0;
        }
        may
    }
}

/// Leases by public key, and the position in each network from which to continue the search for a free
/// address.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    by_key: BTreeMap<String, Vec<IpAddr>>,
    /// Offset in each network of the pool at which the next search starts.
    next: BTreeMap<IpNet, u128>,
    /// Whether an address was leased since the last save.
    changed: bool,
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
    /// Loads the file written by the last run.
    pub(crate) fn new(saved: Option<&str>, out: &mut Actions) -> Leases {
        let by_key = saved.map_or_else(BTreeMap::new, |text| {
            serde_json::from_str(text).unwrap_or_else(|e| {
                out.warn(format!(
                    "cannot read the state file leases.json; clients may get other addresses: {e}"
                ));
                BTreeMap::new()
            })
        });
        Leases { by_key, ..Leases::default() }
    }

    /// Writes the file if it has changed. Called once a second, because a server may lease thousands of
    /// addresses at once, and the file contains all of them.
    pub(crate) fn save(&mut self, out: &mut Actions) {
        if std::mem::take(&mut self.changed) {
            out.save(StateFile::Leases, &self.by_key);
        }
    }

    /// Returns the allowed IPs of all peers: the configured networks and the leases. Called for each new
    /// configuration.
    pub(crate) fn allow(&mut self, cx: &mut Cx<'_>, peers: &mut Peers, shard: &Shard) -> Allowed {
        let nets = |number: usize| peers[number].cfg.allowed_ips.iter().map(move |net| (*net, number));
        let mut allowed = Allowed::new(peers.present().flat_map(nets));
        self.keep(cx.cfg, peers, &mut allowed);
        if shard.is_first() {
            let queues = allowed.iter().map(|(net, peer)| (net, shard.home(peer)));
            cx.out.push(Action::AssignQueues(queues.collect()));
        }
        allowed
    }

    /// Keeps a peer's lease if it is in the pool and no other peer has it. `allowed` already contains the
    /// configured networks.
    fn keep(&mut self, cfg: &Config, peers: &mut Peers, allowed: &mut Allowed) {
        peers.iter_mut().for_each(|peer| peer.leased.clear());
        // While the configuration has no pool, no lease is in force, but all stay reserved.
        let Some(assign) = &cfg.assign else { return };
        let mut kept = BTreeMap::new();
        for number in peers.present() {
            let Some(key) = key(&peers[number].cfg) else { continue };
            let Some(mut leased) = self.by_key.remove(&key) else { continue };
            leased.retain(|ip| {
                pool_of(assign, *ip).is_some_and(|pool| is_free(cfg, allowed, *ip, *pool, number))
            });
            for ip in &leased {
                allowed.insert(IpNet::from(*ip), number);
            }
            peers[number].leased.clone_from(&leased);
            kept.insert(key, leased);
        }
        self.by_key = kept;
    }

    /// Answers a peer's request for addresses. Only the first shard assigns addresses, so that two shards
    /// never assign the same one.
    ///
    /// # Errors
    /// If this server has no pool, or no address is free. The answer to the peer has the same reason.
    pub(crate) fn answer(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        allowed: &mut Allowed,
        shard: &Shard,
        number: usize,
    ) -> Result<(), Refusal> {
        if !shard.is_first() {
            cx.tell_shard(0, Told::Asks(number));
            return Ok(());
        }
        // Another shard may already have reloaded the configuration and know the peer, while this shard does
        // not yet.
        if peers.get(number).is_none() {
            return Ok(());
        }
        let fresh = |cx: &mut Cx<'_>, ip| {
            for other in shard.others() {
                cx.tell_shard(other, Told::Leased(number, ip));
            }
            cx.out.push(Action::AssignQueue(ip, shard.home(number)));
        };
        let leased = self.lease(cx, peers, allowed, number, fresh);
        if let Err(why) = &leased {
            let why = match why {
                Refusal::NoPool => "requests an address, but this server has no [assign]",
                Refusal::Exhausted => "no free address left in the pool of [assign]; enlarge `pool`",
            };
            cx.out.warn(format!("peer {}: {why}", peers[number].name()));
        }
        let message = leased.clone().map_or_else(Message::Refuse, Message::Give);
        match shard.is_home(number) {
            true => peers.tell(cx, number, &message),
            false => cx.tell_shard(shard.home(number), Told::Send(number, message)),
        }
        leased.map(drop)
    }

    /// Returns the addresses of a peer. If the peer has none, assigns free ones and calls `fresh` with each.
    fn lease(
        &mut self,
        cx: &mut Cx<'_>,
        peers: &mut Peers,
        allowed: &mut Allowed,
        number: usize,
        mut fresh: impl FnMut(&mut Cx<'_>, IpAddr),
    ) -> Result<Gift, Refusal> {
        let assign = cx.cfg.assign.as_ref().ok_or(Refusal::NoPool)?;
        peers[number].asked.get_or_insert(cx.now);
        let mut given = Vec::new();
        for v4 in [true, false] {
            let pools = || assign.pool.iter().filter(|net| net.addr().is_ipv4() == v4);
            if pools().next().is_none() {
                continue;
            }
            // If a peer's `allowed_ips` name single addresses of the pool (/32 or /128), assign the first of
            // them.
            let own = &peers[number].cfg.allowed_ips;
            let own = own.iter().filter(|net| net.prefix_len() == net.max_prefix_len());
            let own = own.map(|net| net.addr()).find(|ip| pools().any(|pool| pool.contains(ip)));
            let had = peers[number].leased.iter().find(|ip| ip.is_ipv4() == v4).copied();
            if let Some(ip) = own.or(had) {
                given.push(ip);
                continue;
            }
            let cfg = cx.cfg;
            let mut found =
                pools().map(|pool| self.find(*pool, |ip| is_free(cfg, allowed, ip, *pool, number)));
            let ip = found.find_map(|ip| ip).ok_or(Refusal::Exhausted)?;
            cx.out.info(format!("peer {}: address {ip} assigned", peers[number].name()));
            self.note(peers, allowed, number, ip);
            self.changed = true;
            fresh(cx, ip);
            given.push(ip);
        }
        let prefix =
            |ip: &IpAddr| cx.cfg.addresses.iter().find(|net| net.contains(ip)).map(IpNet::prefix_len);
        let with_prefix = |ip: IpAddr| {
            let host = IpNet::from(ip);
            prefix(&ip).and_then(|length| IpNet::new(ip, length).ok()).unwrap_or(host)
        };
        Ok(Gift {
            addresses: given.into_iter().map(with_prefix).collect(),
            routes: assign.routes.clone(),
            mtu: match cx.cfg.mtu {
                Mtu::Fixed(mtu) => mtu,
                Mtu::Auto => 0,
            },
        })
    }

    /// Stores an address that the first shard leased to a peer.
    pub(crate) fn note(&mut self, peers: &mut Peers, allowed: &mut Allowed, number: usize, ip: IpAddr) {
        // Another shard may already have reloaded the configuration and know the peer, while this shard does
        // not yet.
        if peers.get(number).is_none() {
            return;
        }
        let peer = &mut peers[number];
        peer.leased.push(ip);
        allowed.insert(IpNet::from(ip), number);
        if let Some(key) = key(&peer.cfg) {
            self.by_key.insert(key, peer.leased.clone());
        }
    }

    /// Returns the next free address of a network, searching from the last assigned address.
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

fn key(peer: &config::Peer) -> Option<String> {
    peer.public_key.as_ref().map(|key| key.0.to_string())
}

/// Returns the network of the pool that contains this address.
fn pool_of(assign: &Assign, ip: IpAddr) -> Option<&IpNet> {
    assign.pool.iter().find(|net| net.contains(&ip))
}

/// Returns whether an address of the pool can be assigned to a peer. It must not be an address of this end,
/// or the network or broadcast address of one of this end's networks. It must also not belong to another
/// peer, either alone or as part of a network that is not larger than the pool.
fn is_free(cfg: &Config, allowed: &Allowed, ip: IpAddr, pool: IpNet, peer: usize) -> bool {
    let special = |net: &IpNet| {
        let whole = net.prefix_len() + 1 < net.max_prefix_len();
        let edge = ip == net.network() || ip.is_ipv4() && ip == net.broadcast();
        ip == net.addr() || whole && net.contains(&ip) && edge
    };
    let taken = |(length, whose): (u8, usize)| whose != peer && length >= pool.prefix_len();
    !cfg.addresses.iter().any(special) && !allowed.longest(ip).is_some_and(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_quick_succession_are_ignored() {
        let mut peer = Peer::new(toml::from_str("name = \"c\"").unwrap(), None, false);
        let mut at = |ms| peer.may_ask(Time::from_millis(ms));
        assert_eq!(
            [1_000, 1_001, 1_499, 1_500, 1_999, 2_500].map(&mut at),
            [true, false, false, true, false, true]
        );
    }

    #[test]
    fn names_in_quick_succession_are_ignored() {
        let mut peer = Peer::new(toml::from_str("name = \"c\"").unwrap(), None, false);
        let mut taken = |ms| (0..1_000).filter(|_| peer.may_name(Time::from_millis(ms))).count();
        assert_eq!([1_000, 2_000].map(&mut taken), [50, 10]);
    }

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
        assert_eq!(leases.find(everything, |_| false), None, "the search ends");
    }
}
