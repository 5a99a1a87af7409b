//! The configuration file. Everything a reader of it may write is in this file; docs/tunnel.md explains it.

use crate::fault::Fault;
use crate::tunnel::advertised::JoinAdvertised;
use crate::tunnel::assign::Addresses;
use crate::tunnel::leases::Assign;
use crate::tunnel::marking::{OuterDscp, OuterEcn};
use crate::tunnel::values::{
    AllOr, Carrier, Cipher, Day, HostPort, Key, Mtu, OneOrMore, Prio, RateLimit, Remotes, Secret,
    ServerNumber, ShardCount, Volume,
};
use ipnet::IpNet;
use mpdccp_proto::Settings;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use toml::{Spanned, Value};

/// A configuration file.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Config {
    #[serde(deserialize_with = "crate::tunnel::values::word")]
    pub(crate) role: Role,
    #[serde(default = "interface")]
    pub(crate) interface: String,
    #[serde(default, deserialize_with = "crate::tunnel::values::word")]
    pub(crate) carrier: Carrier,
    #[serde(default, deserialize_with = "crate::tunnel::values::word")]
    pub(crate) security: Security,
    /// This end's key, or the file that holds it.
    pub(crate) private_key: Option<Secret>,
    pub(crate) private_key_file: Option<PathBuf>,
    /// Number of this server among several, that clients write on what is for it.
    #[serde(default)]
    pub(crate) server_number: ServerNumber,
    /// How many threads share a server's peers.
    #[serde(default)]
    pub(crate) shards: ShardCount,
    /// What records may be sealed with, the best first.
    pub(crate) ciphers: Option<Vec<Cipher>>,
    /// Where a server waits.
    #[serde(default)]
    pub(crate) listen: OneOrMore<HostPort>,
    /// Addresses of a server that its clients may join beside those in their files.
    #[serde(default)]
    pub(crate) advertise: Vec<IpAddr>,
    /// From where a client joins what its server advertises.
    #[serde(default, deserialize_with = "crate::tunnel::values::word")]
    pub(crate) join_advertised: JoinAdvertised,
    #[serde(default = "dccp_port")]
    pub(crate) dccp_port: u16,
    /// Inner addresses of the interface.
    pub(crate) addresses: Addresses,
    /// What a server gives clients that ask for their addresses.
    pub(crate) assign: Option<Assign>,
    #[serde(default)]
    pub(crate) mtu: Mtu,
    /// Most that this end sends to all peers together.
    pub(crate) rate: Option<RateLimit>,
    /// Find out what the paths really carry (RFC 8899).
    #[serde(default = "yes")]
    pub(crate) mtu_probing: bool,
    /// Lower the maximum segment size that TCP connections announce to what the paths carry.
    #[serde(default = "yes")]
    pub(crate) mss_clamp: bool,
    /// Takes and gives the kernel several segments of a flow at once, as network cards do.
    #[serde(default = "yes")]
    pub(crate) offload: bool,
    /// What outer headers say of ECN and DSCP.
    #[serde(default, deserialize_with = "crate::tunnel::values::word")]
    pub(crate) ecn: OuterEcn,
    #[serde(default)]
    pub(crate) dscp: OuterDscp,
    /// Route each peer's `allowed_ips` into the interface.
    #[serde(default = "yes")]
    pub(crate) routes: bool,
    /// Everything through the tunnel but its own packets; for a client.
    #[serde(default)]
    pub(crate) default_route: bool,
    /// And nothing beside it, should it break down.
    #[serde(default)]
    pub(crate) kill_switch: bool,
    /// Path of the control socket.
    pub(crate) control: Option<PathBuf>,
    /// Directory for what must outlive the tunnel: volumes used.
    #[serde(default = "state")]
    pub(crate) state: PathBuf,
    /// Where Prometheus may ask for the counters.
    pub(crate) metrics: Option<HostPort>,
    /// Where browsers may look at the paths.
    pub(crate) web: Option<HostPort>,
    /// Write all carrier packets to this pcap file.
    pub(crate) capture: Option<PathBuf>,
    /// Write them as they are before they are sealed.
    #[serde(default)]
    pub(crate) capture_plaintext: bool,
    /// Write the keys of all records to this file.
    pub(crate) keylog: Option<PathBuf>,
    #[serde(default, rename = "peer")]
    pub(crate) peers: Vec<Spanned<Peer>>,
    /// Routes that the server gave.
    #[serde(skip)]
    pub(crate) told_routes: Vec<IpNet>,
    /// Settings of the sessions, read apart so that their errors can say the line.
    #[serde(skip)]
    pub(crate) settings: Settings,
    /// The same keys, and those that are not known.
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

/// Keys of the file beside those of the settings.
const KEYS: &[&str] = &[
    "role",
    "interface",
    "carrier",
    "security",
    "private_key",
    "private_key_file",
    "ciphers",
    "server_number",
    "shards",
    "listen",
    "advertise",
    "join_advertised",
    "dccp_port",
    "addresses",
    "assign",
    "mtu",
    "rate",
    "mtu_probing",
    "mss_clamp",
    "offload",
    "ecn",
    "dscp",
    "routes",
    "default_route",
    "kill_switch",
    "control",
    "state",
    "metrics",
    "web",
    "capture",
    "capture_plaintext",
    "keylog",
    "peer",
];

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    Client,
    Server,
}

/// Who may take part, and who may read.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Security {
    /// Peers have keys, and everything is encrypted.
    #[default]
    Noise,
    /// Peers have addresses, and everybody on the way can read and change what they say.
    None,
}

impl Security {
    /// As the file has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Security::Noise => "noise",
            Security::None => "none",
        }
    }
}

/// The other end of a session.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Peer {
    pub(crate) name: String,
    /// Inner addresses behind the peer: sent to it, and accepted from it, beside those that it was assigned.
    #[serde(default, deserialize_with = "crate::tunnel::values::prefixes")]
    pub(crate) allowed_ips: Vec<IpNet>,
    pub(crate) public_key: Option<Key>,
    /// A secret that both ends share besides, or the file that holds it.
    pub(crate) preshared_key: Option<Secret>,
    pub(crate) preshared_key_file: Option<PathBuf>,
    /// Without security: outer addresses a server lets the peer come from, beside those of its paths.
    pub(crate) from: Option<AllOr<IpAddr>>,
    /// Most that this end sends to it, and most that it takes from it.
    pub(crate) rate: Option<RateLimit>,
    pub(crate) receive_rate: Option<RateLimit>,
    #[serde(default, rename = "path")]
    pub(crate) paths: Vec<Spanned<PathSpec>>,
}

impl Peer {
    /// How many servers its paths lead to.
    pub(crate) fn servers(&self) -> usize {
        self.paths.iter().map(|p| p.get_ref().remote.count()).max().unwrap_or(0)
    }

    /// What costs more than the cheapest path is for what those before it cannot carry, unless it has a priority of its own.
    fn rank_by_cost(&mut self) {
        let cost = |path: &PathSpec| path.cost.unwrap_or_default();
        let cheapest = self.paths.iter().map(|p| cost(p.get_ref())).fold(f64::INFINITY, f64::min);
        for path in self.paths.iter_mut().map(Spanned::as_mut) {
            if path.priority.is_none() && cost(path) > cheapest {
                path.priority = Some(Prio::OVERFLOW);
            }
        }
    }

    /// Whether it may come from any address.
    pub(super) fn is_anywhere(&self) -> bool {
        matches!(self.from, Some(AllOr::Any))
    }

    /// Addresses it may open a session from; empty for any.
    pub(crate) fn origins(&self) -> Vec<IpAddr> {
        let paths = self.paths.iter().filter_map(|p| p.get_ref().remote.ip());
        match &self.from {
            None => paths.collect(),
            Some(AllOr::Any) => Vec::new(),
            Some(AllOr::Only(from)) => from.iter().copied().chain(paths).collect(),
        }
    }
}

/// One access network.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathSpec {
    pub(crate) name: String,
    /// Address on this host to send from.
    pub(crate) local: Option<IpAddr>,
    /// Interface to send through; with `*` at the end the first free one whose name begins so.
    pub(crate) interface: Option<String>,
    /// Of several, the first is used, and the next ones if a server is not to be had.
    pub(crate) remote: Remotes,
    pub(crate) priority: Option<Prio>,
    /// Largest IP packet of the path, if it is less than the system knows.
    #[serde(default, deserialize_with = "crate::tunnel::values::path_mtu")]
    pub(crate) mtu: Option<u16>,
    /// Most that this end sends on it.
    pub(crate) rate: Option<RateLimit>,
    /// What it may carry in a month, both ways, before it is standby; a client's.
    pub(crate) quota: Option<Volume>,
    /// When the month begins.
    #[serde(default)]
    pub(crate) quota_day: Day,
    /// What a gigabyte costs, in whatever currency.
    pub(crate) cost: Option<f64>,
    /// Not in a file: it leads to an address that the server advertised.
    #[serde(skip)]
    pub(crate) advertised: bool,
}

impl PathSpec {
    /// As configured.
    pub(crate) fn prio(&self) -> Prio {
        self.priority.unwrap_or_default()
    }

    /// How the names of interfaces begin of which it takes one.
    pub(crate) fn pattern(&self) -> Option<&str> {
        self.interface.as_deref()?.strip_suffix('*')
    }

    /// Without what can change under a running connection.
    pub(crate) fn unlimited(&self) -> PathSpec {
        let quota_day = Day::default();
        PathSpec { priority: None, rate: None, quota: None, quota_day, cost: None, ..self.clone() }
    }
}

fn interface() -> String {
    "mpdccp0".into()
}

fn dccp_port() -> u16 {
    dccp_wire::DCCP_UDP_PORT
}

fn state() -> PathBuf {
    "/var/lib/mpdccp".into()
}

fn yes() -> bool {
    true
}

/// Where in a file a complaint belongs.
pub(super) struct Place<'a> {
    file: &'a Path,
    text: &'a str,
}

impl Place<'_> {
    pub(super) fn fault(&self, span: std::ops::Range<usize>, message: impl std::fmt::Display) -> Fault {
        let line = self.text[..span.start.min(self.text.len())].matches('\n').count() + 1;
        Fault::usage(format!("{}: line {line}: {message}", self.file.display()))
    }

    pub(super) fn whole(&self, message: impl std::fmt::Display) -> Fault {
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
        let whole = |e: toml::de::Error| place.whole(e.to_string().trim_end());
        let mut cfg: Config = toml::from_str(&text).map_err(whole)?;
        let keys: BTreeMap<Spanned<String>, Spanned<Value>> = toml::from_str(&text).map_err(whole)?;
        for (key, value) in keys.into_iter().filter(|(key, _)| cfg.others.contains_key(key.as_ref())) {
            if !Settings::KEYS.contains(&key.as_ref().as_str()) {
                let known: Vec<String> =
                    KEYS.iter().chain(Settings::KEYS).map(|k| format!("`{k}`")).collect();
                let known = known.join(", ");
                let message = format!("unknown field `{}`, expected one of {known}", key.as_ref());
                return Err(place.fault(key.span(), message));
            }
            let at = value.span();
            let set = cfg.settings.set(key.as_ref(), value.into_inner());
            set.map_err(|e| place.fault(at, format!("{}: {}", key.as_ref(), e.message())))?;
        }
        cfg.check(&place)?;
        cfg.peers.iter_mut().for_each(|peer| peer.as_mut().rank_by_cost());
        Ok(cfg)
    }

    /// What the server gave stays, in a file read anew.
    pub(crate) fn keep_assigned(&mut self, before: Config) {
        if self.addresses.auto {
            self.addresses = before.addresses;
            self.told_routes = before.told_routes;
        }
    }

    /// The first key, of those that cannot change while the tunnel runs, in which another configuration differs.
    pub(crate) fn first_fixed_change(&self, new: &Config) -> Option<&'static str> {
        let same = [
            ("role", self.role == new.role),
            ("interface", self.interface == new.interface),
            ("carrier", self.carrier == new.carrier),
            ("security", self.security == new.security),
            ("ciphers", self.ciphers == new.ciphers),
            ("server_number", self.server_number == new.server_number),
            ("shards", self.shards == new.shards),
            ("listen", self.listen.0 == new.listen.0),
            ("advertise", self.advertise == new.advertise),
            ("dccp_port", self.dccp_port == new.dccp_port),
            ("addresses", self.addresses.is_as(&new.addresses)),
            ("mtu", self.mtu == new.mtu),
            ("offload", self.offload == new.offload),
            ("routes", self.routes == new.routes),
            ("default_route", self.default_route == new.default_route),
            ("kill_switch", self.kill_switch == new.kill_switch),
            ("control", self.control == new.control),
            ("state", self.state == new.state),
            ("capture", self.capture == new.capture),
            ("capture_plaintext", self.capture_plaintext == new.capture_plaintext),
            ("keylog", self.keylog == new.keylog),
            ("metrics", self.metrics == new.metrics),
            ("web", self.web == new.web),
        ];
        same.into_iter().find(|(_, same)| !same).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_are_right_but_for_the_keys() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["client", "server"] {
            let example = format!("{}/../../packaging/examples/{name}.toml", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(example).unwrap();
            let (before, rest) = text.split_once('<').unwrap();
            let (_, after) = rest.split_once(">\"\n").unwrap();
            let key = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
            let file = directory.path().join(name);
            std::fs::write(&file, format!("{before}{key}\"\n{after}")).unwrap();
            Config::load(&file).unwrap();
        }
    }
}
