//! Inner addresses and routes that a server gives its clients: what both ends say to each other, and what a client does with it. What a
//! server has to give is in `leases.rs`.

use crate::tunnel::app::TunnelApp;
use crate::tunnel::config::Config;
use crate::tunnel::routes;
use crate::tunnel::setup;
use dccp_net::Core;
use ipnet::IpNet;
use mpdccp_proto::PktInfo;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::net::IpAddr;
use std::ops::Deref;
use units::{Duration, Time};

/// Messages between tunnels; their first four bits tell them from IP packets.
const ASK: [u8; 2] = [0x10, 2];
const GIVE: [u8; 2] = [0x10, 3];
const REFUSE: [u8; 2] = [0x10, 4];
/// Largest message: it fits where IPv4 does.
const MAX_MESSAGE: usize = 500;
/// How often a client asks that has no answer, one that was refused, and one that has what it wants: the server's file may change.
const UNANSWERED: Duration = Duration::from_secs(1);
const REFUSED: Duration = Duration::from_secs(5);
const ANSWERED: Duration = Duration::from_secs(30);

/// `addresses` of the file: given there, or by the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Addresses {
    pub(crate) auto: bool,
    /// Those in force.
    pub(crate) nets: Vec<IpNet>,
}

impl Addresses {
    /// Whether a file says the same of them as the one before.
    pub(crate) fn is_as(&self, other: &Addresses) -> bool {
        self.auto == other.auto && (self.auto || self.nets == other.nets)
    }
}

impl Deref for Addresses {
    type Target = [IpNet];
    fn deref(&self) -> &[IpNet] {
        &self.nets
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Addresses, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected \"auto\" or a list such as [\"10.0.0.1/24\"]")]
        enum Text {
            Word(String),
            List(Vec<String>),
        }
        let wrong = |text: &str| {
            let message =
                format!("`{text}` is no address with the length of its prefix, such as \"10.0.0.1/24\"");
            serde::de::Error::custom(message)
        };
        match Text::deserialize(d)? {
            Text::Word(word) if word == "auto" => Ok(Addresses { auto: true, nets: Vec::new() }),
            Text::Word(word) => Err(serde::de::Error::custom(format!(
                "`{word}`: expected \"auto\" or a list such as [\"10.0.0.1/24\"]"
            ))),
            Text::List(list) => {
                let nets = list.iter().map(|text| text.parse().map_err(|_| wrong(text)));
                Ok(Addresses { auto: false, nets: nets.collect::<Result<_, _>>()? })
            }
        }
    }
}

/// What a server gives a client.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Gift {
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) routes: Vec<IpNet>,
    /// Largest inner packet the server wants; 0 for whatever the paths carry.
    pub(crate) mtu: u16,
}

/// Why a server gives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It has nothing to give.
    NoPool = 1,
    /// All is given away.
    Exhausted = 2,
}

impl Refusal {
    fn words(self) -> &'static str {
        match self {
            Refusal::NoPool => {
                "the server assigns no addresses: give this end its `addresses`, or the server [assign]"
            }
            Refusal::Exhausted => "the server has no free address left in the pool of its [assign]",
        }
    }
}

/// A message about addresses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    Ask,
    Give(Gift),
    Refuse(Refusal),
}

impl Message {
    /// As a datagram.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Message::Ask => ASK.to_vec(),
            Message::Refuse(why) => [&REFUSE[..], &[*why as u8]].concat(),
            Message::Give(gift) => {
                let mut out = [GIVE, gift.mtu.to_be_bytes()].concat();
                let kinds = [(0x00, &gift.addresses), (0x10, &gift.routes)];
                for (kind, net) in
                    kinds.iter().flat_map(|(kind, nets)| nets.iter().map(move |net| (kind, net)))
                {
                    let version = if net.addr().is_ipv4() { 4 } else { 6 };
                    out.extend([kind | version, net.prefix_len()]);
                    match net.addr() {
                        IpAddr::V4(ip) => out.extend(ip.octets()),
                        IpAddr::V6(ip) => out.extend(ip.octets()),
                    }
                }
                out
            }
        }
    }

    /// Reads a datagram; nothing if it is another one, or wrong.
    pub(crate) fn parse(data: &[u8]) -> Option<Message> {
        let (kind, rest) = data.split_first_chunk::<2>()?;
        match (*kind, rest) {
            (ASK, []) => Some(Message::Ask),
            (REFUSE, [1]) => Some(Message::Refuse(Refusal::NoPool)),
            (REFUSE, [2]) => Some(Message::Refuse(Refusal::Exhausted)),
            (GIVE, [high, low, entries @ ..]) => {
                let mut gift = Gift { mtu: u16::from_be_bytes([*high, *low]), ..Gift::default() };
                let mut rest = entries;
                while let [kind, prefix, after @ ..] = rest {
                    let ip: IpAddr;
                    (ip, rest) = match kind & 15 {
                        4 => after.split_first_chunk::<4>().map(|(ip, rest)| ((*ip).into(), rest))?,
                        6 => after.split_first_chunk::<16>().map(|(ip, rest)| ((*ip).into(), rest))?,
                        _ => return None,
                    };
                    let net = IpNet::new(ip, *prefix).ok()?;
                    match kind >> 4 {
                        0 if ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() => return None,
                        0 => gift.addresses.push(net),
                        1 => gift.routes.push(net.trunc()),
                        _ => return None,
                    }
                }
                (rest.is_empty() && !gift.addresses.is_empty()).then_some(Message::Give(gift))
            }
            _ => None,
        }
    }

    pub(crate) fn fits(&self) -> bool {
        self.to_bytes().len() <= MAX_MESSAGE
    }
}

/// What a client was given, and when it asks again.
#[derive(Debug, Default)]
pub(crate) struct Assigned {
    gift: Option<Gift>,
    /// Why it has none, or not the newest.
    pub(crate) why: Option<String>,
    ask_at: Time,
}

impl Assigned {
    /// Largest inner packet the server wants.
    pub(crate) fn mtu(&self) -> Option<u16> {
        self.gift.as_ref().map(|gift| gift.mtu).filter(|mtu| *mtu > 0)
    }
}

impl TunnelApp {
    /// A client that gets its addresses from its server asks for them, at once if a session has just opened.
    pub(crate) fn ask_for_addresses(&mut self, core: &mut Core, now: Time, opened: bool) {
        if !self.cfg.addresses.auto || (self.assigned.ask_at > now && !opened) {
            return;
        }
        if let Some(session) = self.peers.first().and_then(|peer| peer.session) {
            core.endpoint.send(now, session, ASK.to_vec(), PktInfo::default());
            self.assigned.ask_at = now + UNANSWERED;
        }
    }

    /// A message between tunnels from a peer; false if it is not about addresses.
    pub(crate) fn on_message(&mut self, core: &mut Core, now: Time, peer: usize, data: &[u8]) -> bool {
        match (Message::parse(data), setup::is_client(&self.cfg)) {
            (Some(Message::Ask), false) => self.assign(core, now, peer),
            (Some(Message::Give(gift)), true) if self.cfg.addresses.auto => {
                self.assigned.ask_at = now + ANSWERED;
                if self.assigned.gift.as_ref() != Some(&gift) || self.assigned.why.is_some() {
                    self.take(core, now, peer, gift);
                }
            }
            (Some(Message::Refuse(why)), true) if self.cfg.addresses.auto => {
                self.assigned.ask_at = now + REFUSED;
                self.not_taken(peer, why.words().into());
            }
            _ => return false,
        }
        true
    }

    /// Why a client has no addresses of its server, or not the newest.
    pub(crate) fn no_address(&self) -> Option<String> {
        let waiting = || "the server has not assigned one yet".to_owned();
        let why = &self.assigned.why;
        why.clone().or_else(|| (self.cfg.addresses.auto && self.cfg.addresses.is_empty()).then(waiting))
    }

    /// Says why there are no new addresses, once.
    fn not_taken(&mut self, peer: usize, why: String) {
        if self.assigned.why.as_ref() != Some(&why) {
            tracing::error!("peer {}: no addresses: {why}", self.peers[peer].cfg.name);
            self.assigned.why = Some(why);
        }
    }

    /// Gives the interface what the server assigned.
    fn take(&mut self, core: &mut Core, now: Time, peer: usize, gift: Gift) {
        let allowed = self.peers[peer].cfg.allowed_ips.clone();
        if let Err(why) = fits_here(&self.cfg, &gift) {
            return self.not_taken(peer, why);
        }
        let before = routes::wanted(&self.cfg);
        let old = std::mem::replace(&mut self.cfg.addresses.nets, gift.addresses.clone());
        self.cfg.told_routes = usable_routes(&self.cfg, &allowed, &gift.routes);
        self.assigned.gift = Some(gift);
        self.adapt_mtu(core, now, peer);
        let (gone, new): (Vec<IpNet>, Vec<IpNet>) = {
            let nets = &self.cfg.addresses.nets;
            let gone = old.iter().filter(|net| !nets.contains(net)).copied().collect();
            (gone, nets.iter().filter(|net| !old.contains(net)).copied().collect())
        };
        let tun = self.tun.tun();
        let changed = gone.iter().try_for_each(|net| tun.remove_address(net.addr()));
        let changed =
            changed.and_then(|()| new.iter().try_for_each(|n| tun.add_address(n.addr(), n.prefix_len())));
        if let Err(e) = changed {
            self.cfg.addresses.nets = old;
            return self.not_taken(peer, format!("cannot give them to {}: {e}", self.cfg.interface));
        }
        if self.cfg.routes
            && let Err(e) = routes::renew(&self.cfg, &before)
        {
            tracing::warn!("{e}");
        }
        self.assigned.why = None;
        let list = |nets: &[IpNet]| nets.iter().map(|net| net.to_string()).collect::<Vec<_>>().join(", ");
        let name = &self.peers[peer].cfg.name;
        let told = match self.cfg.told_routes.as_slice() {
            [] => String::new(),
            nets => format!("; routes to {}", list(nets)),
        };
        tracing::info!("peer {name}: assigned {}{told}", list(&self.cfg.addresses));
    }
}

/// Whether what the server gives can be used on this host.
fn fits_here(cfg: &Config, gift: &Gift) -> Result<(), String> {
    let least = setup::MIN_MTU_V6;
    if gift.mtu > 0 && gift.mtu < least && gift.addresses.iter().any(|net| net.addr().is_ipv6()) {
        return Err(format!(
            "the server wants packets of at most {} bytes, but IPv6 needs {least}",
            gift.mtu
        ));
    }
    let networks = networks_here(&cfg.interface);
    for given in &gift.addresses {
        if let Some((interface, net)) = networks.iter().find(|(_, net)| net.contains(&given.addr())) {
            return Err(format!(
                "the server assigned {given}, but {} is a network of {interface} here; the server needs another pool",
                net.trunc()
            ));
        }
    }
    Ok(())
}

/// Networks of this host's other interfaces; none if `ip` cannot tell.
fn networks_here(own: &str) -> Vec<(String, IpNet)> {
    let shown: Vec<Value> = match routes::ip(&["-j", "address"]) {
        Ok(text) => serde_json::from_str(&text).unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let mut found = Vec::new();
    for interface in shown.iter().filter(|interface| interface["ifname"] != own) {
        for address in interface["addr_info"].as_array().into_iter().flatten() {
            let ip = address["local"].as_str().and_then(|ip| ip.parse().ok());
            let length = address["prefixlen"].as_u64().and_then(|n| u8::try_from(n).ok());
            let net = ip.zip(length).and_then(|(ip, length)| IpNet::new(ip, length).ok());
            found.extend(net.map(|net| (interface["ifname"].as_str().unwrap_or_default().to_owned(), net)));
        }
    }
    found
}

/// The server's routes that lie within what this end lets the server be, and do not swallow the tunnel's own packets.
fn usable_routes(cfg: &Config, allowed: &[IpNet], told: &[IpNet]) -> Vec<IpNet> {
    let usable = |net: &&IpNet| {
        let inside = allowed.iter().any(|a| a.contains(*net));
        if !inside {
            tracing::warn!("the server's route to {net} is not taken: it is not within allowed_ips");
        }
        inside && !routes::swallows(cfg, **net)
    };
    told.iter().filter(usable).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gift() -> Gift {
        let nets = |list: &[&str]| list.iter().map(|net| net.parse().unwrap()).collect();
        Gift {
            addresses: nets(&["10.0.0.5/24", "fd00::5/64"]),
            routes: nets(&["192.168.0.0/16", "fd01::/16"]),
            mtu: 1300,
        }
    }

    #[test]
    fn messages_are_read_as_written() {
        let refusals = [Refusal::NoPool, Refusal::Exhausted].map(Message::Refuse);
        for message in refusals.into_iter().chain([Message::Ask, Message::Give(gift())]) {
            let bytes = message.to_bytes();
            assert_eq!(bytes[0] >> 4, 1, "not an IP packet");
            assert_eq!(Message::parse(&bytes), Some(message));
        }
        let bytes = Message::Give(gift()).to_bytes();
        assert_eq!(bytes[..10], [0x10, 3, 0x05, 0x14, 4, 24, 10, 0, 0, 5], "as docs/tunnel.md says");
    }

    #[test]
    fn what_is_cut_short_or_makes_no_sense_is_nothing() {
        let bytes = Message::Give(gift()).to_bytes();
        // Whole entries may be missing at the end, but an address there must be.
        let whole = [10, 28, 34];
        for n in 0..bytes.len() {
            assert_eq!(Message::parse(&bytes[..n]).is_some(), whole.contains(&n), "{n} bytes");
        }
        let with = |entry: &[u8]| Message::parse(&[&GIVE[..], &[0, 0], entry].concat());
        assert!(with(&[4, 24, 10, 0, 0, 5]).is_some());
        for wrong in [[4, 33, 10, 0, 0, 5], [5, 24, 10, 0, 0, 5], [0x24, 24, 10, 0, 0, 5]] {
            assert_eq!(with(&wrong), None, "prefix, version, kind");
        }
        for wrong in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 1]] {
            assert_eq!(with(&[&[4, 8][..], &wrong].concat()), None);
        }
        assert_eq!(Message::parse(&[0x10, 2, 0]), None);
        assert_eq!(Message::parse(&[0x10, 4, 9]), None);
    }
}
