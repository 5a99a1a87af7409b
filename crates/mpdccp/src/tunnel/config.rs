//! The configuration file. Everything a reader of it may write is in this file; docs/tunnel.md explains it.

use crate::fault::Fault;
use crate::tunnel::values::{
    AllOr, Carrier, Ccid, HostPort, Mtu, OneOrMore, Prio, Reordering, Variant, WindowUnit,
};
use ipnet::IpNet;
use mpdccp_proto::Discipline;
use mpdccp_proto::sched::SchedulerKind;
use serde::{Deserialize, Deserializer};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// A configuration file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) role: Role,
    #[serde(default = "interface")]
    pub(crate) interface: String,
    #[serde(default)]
    pub(crate) carrier: Carrier,
    /// Where a server waits.
    #[serde(default)]
    pub(crate) listen: OneOrMore<HostPort>,
    #[serde(default = "dccp_port")]
    pub(crate) dccp_port: u16,
    /// Inner addresses of the interface.
    pub(crate) addresses: Vec<IpNet>,
    #[serde(default)]
    pub(crate) mtu: Mtu,
    #[serde(default)]
    pub(crate) ccid: Ccid,
    #[serde(default)]
    pub(crate) cc_variant: Variant,
    #[serde(default)]
    pub(crate) units: WindowUnit,
    #[serde(default, deserialize_with = "scheduler")]
    pub(crate) scheduler: SchedulerKind,
    #[serde(default)]
    pub(crate) reordering: Reordering,
    #[serde(default)]
    pub(crate) queue: Queue,
    #[serde(default)]
    pub(crate) fallback: Fallback,
    /// Route each peer's `allowed_ips` into the interface.
    #[serde(default = "yes")]
    pub(crate) routes: bool,
    /// Path of the control socket.
    pub(crate) control: Option<PathBuf>,
    /// Write all carrier packets to this pcap file.
    pub(crate) capture: Option<PathBuf>,
    #[serde(default, rename = "peer")]
    pub(crate) peers: Vec<Spanned<Peer>>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    Client,
    Server,
}

/// Bounds of the send queue of each session.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Queue {
    pub(crate) max_ms: u64,
    pub(crate) max_bytes: usize,
    pub(crate) max_packets: usize,
    #[serde(deserialize_with = "discipline")]
    pub(crate) discipline: Discipline,
}

impl Default for Queue {
    fn default() -> Queue {
        let core = mpdccp_proto::QueueConfig::default();
        Queue {
            max_ms: core.max_sojourn.as_millis() as u64,
            max_bytes: core.max_bytes,
            max_packets: core.max_packets,
            discipline: Discipline::FqCoDel,
        }
    }
}

/// What to do with a peer that does not speak Multipath DCCP.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fallback {
    #[default]
    Refuse,
    Plain,
}

/// The other end of a session.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peer {
    pub(crate) name: String,
    /// Inner addresses behind the peer: sent to it, and accepted from it.
    pub(crate) allowed_ips: Vec<IpNet>,
    /// Outer addresses a server lets the peer come from, beside those of its paths.
    #[serde(default)]
    pub(crate) from: AllOr<IpAddr>,
    #[serde(default, rename = "path")]
    pub(crate) paths: Vec<Spanned<PathSpec>>,
}

impl Peer {
    /// Addresses it may open a session from; empty for any.
    pub(crate) fn origins(&self) -> Vec<IpAddr> {
        match &self.from {
            AllOr::Any => Vec::new(),
            AllOr::Only(from) => {
                from.iter().copied().chain(self.paths.iter().map(|p| p.get_ref().remote.ip)).collect()
            }
        }
    }
}

/// One access network.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathSpec {
    pub(crate) name: String,
    /// Address on this host to send from.
    pub(crate) local: Option<IpAddr>,
    /// Interface to send through.
    pub(crate) interface: Option<String>,
    pub(crate) remote: HostPort,
    #[serde(default)]
    pub(crate) priority: Prio,
    /// Largest IP packet of the path, if it is less than the system knows.
    pub(crate) mtu: Option<u16>,
}

fn interface() -> String {
    "mpdccp0".into()
}

fn dccp_port() -> u16 {
    dccp_wire::DCCP_UDP_PORT
}

fn yes() -> bool {
    true
}

fn discipline<'de, D: Deserializer<'de>>(d: D) -> Result<Discipline, D::Error> {
    let name = String::deserialize(d)?;
    Discipline::from_name(&name).ok_or_else(|| {
        let names: Vec<&str> = Discipline::NAMES.iter().map(|(name, _)| *name).collect();
        serde::de::Error::custom(format!(
            "unknown queue discipline `{name}`, expected one of: {}",
            names.join(", ")
        ))
    })
}

fn scheduler<'de, D: Deserializer<'de>>(d: D) -> Result<SchedulerKind, D::Error> {
    let name = String::deserialize(d)?;
    SchedulerKind::from_name(&name).ok_or_else(|| {
        let known: Vec<&str> = SchedulerKind::NAMES.iter().map(|(name, _)| *name).collect();
        serde::de::Error::custom(format!("unknown scheduler `{name}`, expected one of: {}", known.join(", ")))
    })
}

/// Where in a file a complaint belongs.
struct Place<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Place<'_> {
    fn fault(&self, span: std::ops::Range<usize>, message: impl std::fmt::Display) -> Fault {
        let line = self.text[..span.start.min(self.text.len())].matches('\n').count() + 1;
        Fault::usage(format!("{}: line {line}: {message}", self.file.display()))
    }

    fn whole(&self, message: impl std::fmt::Display) -> Fault {
        Fault::usage(format!("{}: {message}", self.file.display()))
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Says file, line, key and what is allowed.
    pub(crate) fn load(file: &Path) -> Result<Config, Fault> {
        let text = std::fs::read_to_string(file)
            .map_err(|e| Fault::usage(format!("cannot read configuration {}: {e}", file.display())))?;
        let place = Place { file, text: &text };
        let cfg: Config = toml::from_str(&text).map_err(|e| place.whole(e.to_string().trim_end()))?;
        cfg.check(&place)?;
        Ok(cfg)
    }

    fn check(&self, place: &Place<'_>) -> Result<(), Fault> {
        if self.interface.is_empty() || self.interface.len() > 15 || self.interface.contains(['/', ' ']) {
            return Err(
                place.whole("interface: a name of 1 to 15 characters without `/` and spaces is needed")
            );
        }
        if self.addresses.is_empty() {
            return Err(place.whole("addresses: at least one is needed, such as \"10.0.0.1/24\""));
        }
        if self.peers.is_empty() {
            return Err(place.whole("at least one [[peer]] is needed"));
        }
        match self.role {
            Role::Server if self.listen.0.is_empty() => {
                return Err(
                    place.whole("role = \"server\" needs `listen`, such as listen = [\"0.0.0.0:6511\"]")
                );
            }
            Role::Client if !self.listen.0.is_empty() => {
                return Err(place
                    .whole("`listen` is for role = \"server\"; a client's paths say where it sends from"));
            }
            _ => {}
        }
        if let Some(addr) = self.listen.0.iter().find(|a| self.carrier == Carrier::Raw && a.port.is_some()) {
            return Err(place.whole(format!("listen: {addr}: {NO_PORT}")));
        }
        for (i, peer) in self.peers.iter().enumerate() {
            if self.peers[..i].iter().any(|p| p.get_ref().name == peer.get_ref().name) {
                return Err(
                    place.fault(peer.span(), format!("two peers are named `{}`", peer.get_ref().name))
                );
            }
            self.check_peer(place, peer)?;
            for earlier in self.peers[..i].iter().map(Spanned::get_ref) {
                self.check_apart(earlier, peer.get_ref()).map_err(|e| place.fault(peer.span(), e))?;
            }
        }
        Ok(())
    }

    /// Whether `later` can be told from a peer before it in the file.
    fn check_apart(&self, earlier: &Peer, later: &Peer) -> Result<(), String> {
        let (first, second) = (&earlier.name, &later.name);
        if let Some(net) = later.allowed_ips.iter().find(|net| earlier.allowed_ips.contains(net)) {
            return Err(format!("peers `{first}` and `{second}` both have {net} in allowed_ips"));
        }
        if self.role == Role::Client {
            return Ok(());
        }
        // The first peer that an address fits counts, so the later one would never be let in from there.
        let (known, own) = (earlier.origins(), later.origins());
        if known.is_empty() {
            return Err(format!(
                "peer `{first}` may come from any address, so `{second}` must stand before it"
            ));
        }
        match own.iter().find(|ip| known.contains(ip)) {
            Some(ip) => Err(format!(
                "peers `{first}` and `{second}` may both come from {ip}; a server tells its peers apart by their addresses"
            )),
            None => Ok(()),
        }
    }

    fn check_peer(&self, place: &Place<'_>, spanned: &Spanned<Peer>) -> Result<(), Fault> {
        let peer = spanned.get_ref();
        let name = &peer.name;
        match self.role {
            Role::Client if peer.paths.is_empty() => {
                return Err(place.fault(
                    spanned.span(),
                    format!("peer `{name}`: a client needs at least one [[peer.path]]"),
                ));
            }
            Role::Server if peer.paths.is_empty() && peer.from.is_empty() => {
                return Err(place.fault(
                    spanned.span(),
                    format!("peer `{name}`: say where it may come from: from = [\"203.0.113.7\"], or from = \"any\""),
                ));
            }
            _ => {}
        }
        for (i, path) in peer.paths.iter().enumerate() {
            let taken = peer.paths[..i].iter().any(|p| p.get_ref().name == path.get_ref().name);
            if taken {
                return Err(place.fault(
                    path.span(),
                    format!("peer `{name}`: two paths are named `{}`", path.get_ref().name),
                ));
            }
            self.check_path(path.get_ref()).map_err(|e| {
                place.fault(path.span(), format!("peer `{name}`, path `{}`: {e}", path.get_ref().name))
            })?;
        }
        Ok(())
    }

    /// Whether a path of a client can be used with these settings; says why not.
    pub(crate) fn check_path(&self, path: &PathSpec) -> Result<(), String> {
        if self.carrier == Carrier::Raw && path.remote.port.is_some() {
            return Err(format!("remote {}: {NO_PORT}", path.remote));
        }
        if let Some(mtu) = path.mtu.filter(|mtu| !MTU.contains(mtu)) {
            return Err(format!("mtu = {mtu}, expected {} to {}", MTU.start(), MTU.end()));
        }
        if path.local.is_some_and(|ip| ip.is_ipv4() != path.remote.ip.is_ipv4()) {
            return Err("local and remote are of different IP versions".into());
        }
        if self.role == Role::Client && path.local.is_none() && path.interface.is_none() {
            return Err("say where it leaves from: local = \"ADDRESS\" or interface = \"NAME\"".into());
        }
        Ok(())
    }
}

/// Largest IP packets that a path may be said to carry.
const MTU: std::ops::RangeInclusive<u16> = 576..=9000;
const NO_PORT: &str = "carrier = \"raw\" has no UDP port; leave it out (the DCCP port is `dccp_port`)";
