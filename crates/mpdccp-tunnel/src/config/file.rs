//! The configuration file. Everything a reader of it may write is in this file; docs/tunnel.md explains it.

use super::{
    Addresses, AllOr, Assign, Bypass, Cipher, Day, Encapsulation, HostPort, Key, Mtu, OneOrMore, OuterDscp,
    OuterEcn, Prio, RateLimit, Remotes, Secret, ServerNumber, ShardCount, Tcp, User, Volume,
};
use ipnet::IpNet;
use mpdccp_proto::{SessionConfig, Settings};
use mpdccp_units::Rate;
use serde::Deserialize;
use std::net::IpAddr;
use std::path::PathBuf;
use toml::Spanned;

/// DCCP Service Code of the tunnel, "MPTU" (RFC 4340 section 8.1.2).
const SERVICE_CODE: u32 = u32::from_be_bytes(*b"MPTU");

/// A configuration file.
#[derive(Clone, Debug, Deserialize)]
pub struct Config {
    /// Which end this is.
    #[serde(deserialize_with = "crate::config::word")]
    pub role: Role,
    /// Name of the interface.
    #[serde(default = "interface")]
    pub interface: String,
    /// Encapsulation of DCCP.
    #[serde(default, alias = "carrier", deserialize_with = "crate::config::word")]
    pub encapsulation: Encapsulation,
    /// Whether there are keys.
    #[serde(default, deserialize_with = "crate::config::word")]
    pub security: Security,
    /// This end's key, or the file that holds it.
    pub private_key: Option<Secret>,
    /// File that holds this end's key.
    pub private_key_file: Option<PathBuf>,
    /// Number of this server among several, that clients write on what is for it.
    #[serde(default)]
    pub server_number: ServerNumber,
    /// How many threads share a server's peers.
    #[serde(default)]
    pub shards: ShardCount,
    /// What records may be sealed with, the best first.
    pub ciphers: Option<Vec<Cipher>>,
    /// Where a server waits.
    #[serde(default)]
    pub listen: OneOrMore<HostPort>,
    /// Addresses of a server that its clients may join beside those in their files.
    #[serde(default)]
    pub advertise: Vec<IpAddr>,
    /// From where a client joins what its server advertises.
    #[serde(default, deserialize_with = "crate::config::word")]
    pub join_advertised: JoinAdvertised,
    /// DCCP port of the server.
    #[serde(default = "dccp_port")]
    pub dccp_port: u16,
    /// Inner addresses of the interface.
    pub addresses: Addresses,
    /// What a server gives clients that ask for their addresses.
    pub assign: Option<Assign>,
    /// MTU of the interface.
    #[serde(default)]
    pub mtu: Mtu,
    /// Most that this end sends to all peers together.
    pub rate: Option<RateLimit>,
    /// Find out what the paths really carry (RFC 8899).
    #[serde(default = "yes")]
    pub mtu_probing: bool,
    /// Lower the maximum segment size that TCP connections announce to what the paths carry.
    #[serde(default = "yes")]
    pub mss_clamp: bool,
    /// How the TCP connections of hosts travel, unless a peer says otherwise.
    #[serde(default, deserialize_with = "crate::config::word")]
    pub tcp: Tcp,
    /// This host can carry them as streams, as far as it is known.
    #[serde(skip)]
    pub proxy: bool,
    /// Takes and gives the kernel several segments of a flow at once, as network cards do.
    #[serde(default = "yes")]
    pub offload: bool,
    /// What outer headers say of ECN and DSCP.
    #[serde(default, deserialize_with = "crate::config::word")]
    pub ecn: OuterEcn,
    /// DSCP of outer headers.
    #[serde(default)]
    pub dscp: OuterDscp,
    /// Route each peer's `allowed_ips` into the interface.
    #[serde(default = "yes")]
    pub routes: bool,
    /// Everything through the tunnel but its own packets; for a client.
    #[serde(default)]
    pub default_route: bool,
    /// And nothing beside it, should it break down.
    #[serde(default)]
    pub kill_switch: bool,
    /// What goes beside the tunnel all the same.
    #[serde(default)]
    pub bypass: Bypass,
    /// Name servers to ask while there is a session.
    #[serde(default)]
    pub dns: Vec<IpAddr>,
    /// A program to run when sessions and paths come and go.
    pub hook: Option<PathBuf>,
    /// Path of the control socket.
    pub control: Option<PathBuf>,
    /// Directory for what must outlive the tunnel: volumes used.
    #[serde(default = "state")]
    pub state: PathBuf,
    /// Paths begin from what they carried before (RFC 9959).
    #[serde(default = "yes")]
    pub careful_resume: bool,
    /// Who the tunnel is once it is up.
    pub user: Option<User>,
    /// Where Prometheus may ask for the counters.
    pub metrics: Option<HostPort>,
    /// Where browsers may look at the paths.
    pub web: Option<HostPort>,
    /// Write all encapsulated packets to this pcap file.
    pub capture: Option<PathBuf>,
    /// Write them as they are before they are sealed.
    #[serde(default)]
    pub capture_plaintext: bool,
    /// Write the keys of all records to this file.
    pub keylog: Option<PathBuf>,
    /// The other ends.
    #[serde(default, rename = "peer")]
    pub peers: Vec<Spanned<Peer>>,
    /// Settings of the sessions, read apart so that their errors can say the line.
    #[serde(skip)]
    pub settings: Settings,
    /// Not in a file: the congestion control of a trial in the simulator.
    #[serde(skip)]
    pub experiment: Option<dccp_proto::Experiment>,
}

/// Keys of the file beside those of the settings.
pub(super) const KEYS: &[&str] = &[
    "role",
    "interface",
    "encapsulation",
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
    "tcp",
    "offload",
    "ecn",
    "dscp",
    "routes",
    "default_route",
    "kill_switch",
    "bypass",
    "dns",
    "hook",
    "control",
    "state",
    "careful_resume",
    "user",
    "metrics",
    "web",
    "capture",
    "capture_plaintext",
    "keylog",
    "peer",
];

/// Deprecated names of keys, and the current ones.
pub(super) const RENAMED: &[(&str, &str)] = &[("carrier", "encapsulation"), ("steer", "policy_rule")];

/// Which end of the tunnel this is.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Opens sessions.
    Client,
    /// Waits for them.
    Server,
}

/// Who may take part, and who may read.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// Peers have keys, and everything is encrypted.
    #[default]
    Noise,
    /// Peers have addresses, and everybody on the way can read and change what they say.
    None,
}

impl Security {
    /// As the file has it.
    pub fn name(self) -> &'static str {
        match self {
            Security::Noise => "noise",
            Security::None => "none",
        }
    }
}

/// From where a client joins addresses that its server advertises.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum JoinAdvertised {
    /// From nowhere.
    #[default]
    No,
    /// Each from every path of the file.
    Mesh,
    /// Each from one path of the file, in turns.
    Pairs,
}

/// The other end of a session.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its name, for people.
    pub name: String,
    /// Inner addresses behind the peer: sent to it, and accepted from it, beside those that it was assigned.
    #[serde(default, deserialize_with = "crate::config::prefixes")]
    pub allowed_ips: Vec<IpNet>,
    /// Its public key.
    pub public_key: Option<Key>,
    /// A secret that both ends share besides, or the file that holds it.
    pub preshared_key: Option<Secret>,
    /// File that holds the secret.
    pub preshared_key_file: Option<PathBuf>,
    /// Without security: outer addresses a server lets the peer come from, beside those of its paths.
    pub from: Option<AllOr<IpAddr>>,
    /// Most that this end sends to it, and most that it takes from it.
    pub rate: Option<RateLimit>,
    /// Most that this end takes from it.
    pub receive_rate: Option<RateLimit>,
    /// How TCP connections to hosts behind it travel.
    #[serde(default, deserialize_with = "crate::config::some_word")]
    pub tcp: Option<Tcp>,
    /// Access networks: a client's own, or those that a server knows of.
    #[serde(default, rename = "path")]
    pub paths: Vec<Spanned<PathSpec>>,
}

impl Peer {
    /// How many servers its paths lead to.
    pub fn servers(&self) -> usize {
        self.paths.iter().map(|p| p.get_ref().remote.count()).max().unwrap_or(0)
    }

    /// What costs more than the cheapest path is for what those before it cannot carry, unless it has a priority of its own.
    pub(super) fn rank_by_cost(&mut self) {
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
    pub fn origins(&self) -> Vec<IpAddr> {
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
pub struct PathSpec {
    /// Its name, for people and policy rules.
    pub name: String,
    /// Address on this host to send from.
    pub local: Option<IpAddr>,
    /// Interface to send through; with `*` at the end the first free one whose name begins so.
    pub interface: Option<String>,
    /// Of several, the first is used, and the next ones if a server is not to be had.
    pub remote: Remotes,
    /// 0 never, 1 standby, 2 overflow, 3 to 15 primary, larger preferred.
    pub priority: Option<Prio>,
    /// Largest IP packet of the path, if it is less than the system knows.
    #[serde(default, deserialize_with = "crate::config::path_mtu")]
    pub mtu: Option<u16>,
    /// Most that this end sends on it.
    pub rate: Option<RateLimit>,
    /// What it may carry in a month, both ways, before it is standby; a client's.
    pub quota: Option<Volume>,
    /// When the month begins.
    #[serde(default)]
    pub quota_day: Day,
    /// What a gigabyte costs, in whatever currency.
    pub cost: Option<f64>,
    /// Not in a file: it leads to an address that the server advertised.
    #[serde(skip)]
    pub advertised: bool,
}

impl PathSpec {
    /// As configured.
    pub fn prio(&self) -> Prio {
        self.priority.unwrap_or_default()
    }

    /// How the names of interfaces begin of which it takes one.
    pub fn pattern(&self) -> Option<&str> {
        self.interface.as_deref()?.strip_suffix('*')
    }

    /// Without what can change under a running connection.
    pub fn unlimited(&self) -> PathSpec {
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

impl Config {
    /// Whether this end is the client.
    pub fn is_client(&self) -> bool {
        self.role == Role::Client
    }

    /// Settings of the sessions with all peers.
    pub fn session(&self) -> SessionConfig {
        let mut session = self.settings.session();
        session.connection.service_code = SERVICE_CODE;
        session.connection.probe_mtu = self.mtu_probing;
        if self.security == Security::None {
            session.connection.least_request = dccp_proto::PADDED_REQUEST;
        }
        self.experiment.into_iter().for_each(|experiment| session.connection.use_experiment(experiment));
        session.streams = self.proxy && self.wants_streams();
        session
    }

    /// Whether a running tunnel can follow another configuration.
    ///
    /// # Errors
    /// Names the first key that cannot change.
    pub fn check_change(&self, new: &Config) -> Result<(), String> {
        self.first_fixed_change(new).map_or(Ok(()), |key| {
            Err(format!(
                "{key} cannot change while the tunnel runs; nothing was changed. Put it back, or start the tunnel again"
            ))
        })
    }

    /// What one of several shards may send to all its peers together.
    pub(crate) fn rate_of_shard(&self) -> Option<Rate> {
        self.rate.map(|rate| Rate::from_bps(rate.0.bps() / u64::from(self.shards.0)))
    }

    /// The first key, of those that cannot change while the tunnel runs, in which another configuration differs.
    fn first_fixed_change(&self, new: &Config) -> Option<&'static str> {
        let same = [
            ("role", self.role == new.role),
            ("interface", self.interface == new.interface),
            ("encapsulation", self.encapsulation == new.encapsulation),
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
            ("tcp", self.wants_streams() == new.wants_streams()),
            ("routes", self.routes == new.routes),
            ("default_route", self.default_route == new.default_route),
            ("kill_switch", self.kill_switch == new.kill_switch),
            ("bypass", self.bypass == new.bypass),
            ("dns", self.dns == new.dns),
            ("hook", self.hook == new.hook),
            ("control", self.control == new.control),
            ("state", self.state == new.state),
            ("user", self.user == new.user),
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
    use std::path::Path;

    #[test]
    fn the_examples_are_right_but_for_the_keys() {
        for name in ["client", "server"] {
            let example = format!("{}/../../packaging/examples/{name}.toml", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(example).unwrap();
            let (before, rest) = text.split_once('<').unwrap();
            let (_, after) = rest.split_once(">\"\n").unwrap();
            let key = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
            Config::parse(Path::new(name), &format!("{before}{key}\"\n{after}"), 1).unwrap();
        }
    }

    #[test]
    fn old_names_of_keys_mean_the_same_and_are_told() {
        let text = |encapsulation: &str, rule: &str| {
            format!(
                "role = \"server\"\nlisten = \"192.0.2.1\"\naddresses = [\"10.0.0.1/24\"]\nsecurity = \"none\"\n\
                 {encapsulation} = \"raw\"\n[[{rule}]]\nprotocol = \"udp\"\ndrop = true\n[[peer]]\nname = \"c\"\nfrom = \"any\"\nallowed_ips = [\"10.0.0.2/32\"]\n"
            )
        };
        let read = |encapsulation, rule| Config::parse(Path::new("t"), &text(encapsulation, rule), 1);
        let (old, new) = (read("carrier", "steer").unwrap(), read("encapsulation", "policy_rule").unwrap());
        assert_eq!((old.encapsulation, new.encapsulation), (Encapsulation::Raw, Encapsulation::Raw));
        assert_eq!(old.settings.policy_rule.0.len(), 1);
        assert_eq!(old.settings.policy_rule, new.settings.policy_rule);
        let warned = |encapsulation, rule| Config::review(&text(encapsulation, rule), 1).warnings;
        let (old, new) = (warned("carrier", "steer"), warned("encapsulation", "policy_rule"));
        assert_eq!(old.len(), new.len() + RENAMED.len());
        assert!(
            old.iter()
                .any(|w| w.line == 5
                    && w.message == "key `carrier` is deprecated; rename it to `encapsulation`")
        );
        for both in [
            text("carrier = \"udp\"\nencapsulation", "steer"),
            text("carrier", "steer") + "[[policy_rule]]\ndrop = true\n",
        ] {
            let error = Config::parse(Path::new("t"), &both, 1).unwrap_err().0;
            assert!(error.contains("is the old name of"), "{error}");
        }
    }
}
