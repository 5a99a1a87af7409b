//! The configuration file: all keys are here; docs/tunnel.md explains them.

use super::{
    Addresses, AllOr, Assign, Bypass, Cipher, Day, Encapsulation, HostPort, Key, Mtu, OneOrMore, OuterDscp,
    OuterEcn, Prio, Proxy, RateLimit, Remotes, Routes, Secret, ServerNumber, ShardCount, Tcp, Threads,
    TlsCheck, User, Volume,
};
use ipnet::IpNet;
use mpdccp_proto::{SessionConfig, Settings};
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
    /// TCP port of TLS.
    #[serde(default = "crate::config::tls_port")]
    pub tls_port: u16,
    /// Files with a server's certificate and its private key, in PEM; without them, it makes a certificate at each start.
    pub tls_certificate: Option<PathBuf>,
    /// The private key.
    pub tls_key: Option<PathBuf>,
    /// Whether peers have keys and encryption.
    #[serde(default, deserialize_with = "crate::config::word")]
    pub security: Security,
    /// This end's key, or the file that holds it.
    pub private_key: Option<Secret>,
    /// File that holds this end's key.
    pub private_key_file: Option<PathBuf>,
    /// Number of this server among several; clients write it on packets for this server.
    #[serde(default)]
    pub server_number: ServerNumber,
    /// How many threads share a server's peers.
    #[serde(default)]
    pub shards: ShardCount,
    /// Whether more threads help each of these.
    #[serde(default)]
    pub threads: Threads,
    /// Ciphers for records, in order of preference.
    pub ciphers: Option<Vec<Cipher>>,
    /// Addresses on which a server listens.
    #[serde(default)]
    pub listen: OneOrMore<HostPort>,
    /// Addresses of a server that its clients may join in addition to those in their files.
    #[serde(default)]
    pub advertise: Vec<IpAddr>,
    /// The paths from which a client joins advertised addresses.
    #[serde(default, deserialize_with = "crate::config::word")]
    pub join_advertised: JoinAdvertised,
    /// DCCP port of the server.
    #[serde(default = "dccp_port")]
    pub dccp_port: u16,
    /// Inner addresses of the interface.
    pub addresses: Addresses,
    /// Addresses and routes that a server assigns to its clients.
    pub assign: Option<Assign>,
    /// MTU of the interface.
    #[serde(default)]
    pub mtu: Mtu,
    /// Rate limit of this end to all peers together.
    pub rate: Option<RateLimit>,
    /// Probe the path MTU (RFC 8899).
    #[serde(default = "yes")]
    pub mtu_probing: bool,
    /// Clamp the MSS of TCP connections to the tunnel's MTU.
    #[serde(default = "yes")]
    pub mss_clamp: bool,
    /// How TCP connections of hosts travel, unless a peer overrides it.
    #[serde(default, deserialize_with = "crate::config::word")]
    pub tcp: Tcp,
    /// Whether this host can carry them as streams, as far as known.
    #[serde(skip)]
    pub proxy: bool,
    /// Exchange super-packets with the kernel, like network cards do (TSO, GRO).
    #[serde(default = "yes")]
    pub offload: bool,
    /// ECN and DSCP of outer headers.
    #[serde(default, deserialize_with = "crate::config::word")]
    pub ecn: OuterEcn,
    /// DSCP of outer headers.
    #[serde(default)]
    pub dscp: OuterDscp,
    /// Peers whose `allowed_ips` are routed into the interface.
    #[serde(default)]
    pub routes: Routes,
    /// Route everything but the tunnel's own packets through it; client only.
    #[serde(default)]
    pub default_route: bool,
    /// Block traffic outside the tunnel, even while the tunnel is down.
    #[serde(default)]
    pub kill_switch: bool,
    /// Traffic that bypasses the tunnel in spite of `default_route`.
    #[serde(default)]
    pub bypass: Bypass,
    /// Name servers to use while there is a session.
    #[serde(default)]
    pub dns: Vec<IpAddr>,
    /// A program to run when sessions and paths go up or down.
    pub hook: Option<PathBuf>,
    /// Path of the control socket.
    pub control: Option<PathBuf>,
    /// Directory for state that must outlive the tunnel.
    #[serde(default = "state")]
    pub state: PathBuf,
    /// Start paths with their earlier capacity (RFC 9959).
    #[serde(default = "yes")]
    pub careful_resume: bool,
    /// User of the process once the tunnel is up.
    pub user: Option<User>,
    /// Address of the metrics for Prometheus.
    pub metrics: Option<HostPort>,
    /// Address of the status page for browsers.
    pub web: Option<HostPort>,
    /// Write all encapsulated packets to this pcap file.
    pub capture: Option<PathBuf>,
    /// Capture packets before encryption.
    #[serde(default)]
    pub capture_plaintext: bool,
    /// Write the keys of all records to this file.
    pub keylog: Option<PathBuf>,
    /// The other ends.
    #[serde(default, rename = "peer")]
    pub peers: Vec<Spanned<Peer>>,
    /// Session settings, parsed separately so that their errors have a line number.
    #[serde(skip)]
    pub settings: Settings,
}

/// Keys of the file other than the settings.
pub(super) const KEYS: &[&str] = &[
    "role",
    "interface",
    "encapsulation",
    "tls_port",
    "tls_certificate",
    "tls_key",
    "security",
    "private_key",
    "private_key_file",
    "ciphers",
    "server_number",
    "shards",
    "threads",
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
    /// Waits for sessions.
    Server,
}

/// Authentication and encryption.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Security {
    /// Peers have keys, and all packets are encrypted.
    #[default]
    Noise,
    /// Peers are known by address; anyone on the path can read and change packets.
    None,
}

impl Security {
    /// Name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Security::Noise => "noise",
            Security::None => "none",
        }
    }
}

/// The paths from which a client joins addresses that its server advertises.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum JoinAdvertised {
    /// None.
    #[default]
    No,
    /// Every path of the file joins each address.
    Mesh,
    /// The addresses are distributed over the paths of the file.
    Pairs,
}

/// The other end of a session.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its name, for people.
    pub name: String,
    /// Inner addresses behind the peer: sent to it, and accepted from it, in addition to assigned addresses.
    #[serde(default, deserialize_with = "crate::config::prefixes")]
    pub allowed_ips: Vec<IpNet>,
    /// Its public key.
    pub public_key: Option<Key>,
    /// The preshared secret of both ends, or the file that holds it.
    pub preshared_key: Option<Secret>,
    /// File that holds the secret.
    pub preshared_key_file: Option<PathBuf>,
    /// Without security: outer addresses from which a server admits the peer, in addition to those of its
    /// paths.
    pub from: Option<AllOr<IpAddr>>,
    /// Rate limit of this end to the peer.
    pub rate: Option<RateLimit>,
    /// Rate limit on packets accepted from the peer.
    pub receive_rate: Option<RateLimit>,
    /// How TCP connections to hosts behind it travel.
    #[serde(default, deserialize_with = "crate::config::some_word")]
    pub tcp: Option<Tcp>,
    /// Access networks: a client's own, or those that a server knows.
    #[serde(default, rename = "path")]
    pub paths: Vec<Spanned<PathSpec>>,
}

impl Peer {
    /// How many servers its paths lead to.
    pub fn servers(&self) -> usize {
        self.paths.iter().map(|p| p.get_ref().remote.count()).max().unwrap_or(0)
    }

    /// Paths that cost more than the cheapest become overflow, unless they have a priority.
    pub(super) fn rank_by_cost(&mut self) {
        let cost = |path: &PathSpec| path.cost.unwrap_or_default();
        let cheapest = self.paths.iter().map(|p| cost(p.get_ref())).fold(f64::INFINITY, f64::min);
        for path in self.paths.iter_mut().map(Spanned::as_mut) {
            if path.priority.is_none() && cost(path) > cheapest {
                path.priority = Some(Prio::OVERFLOW);
            }
        }
    }

    /// Whether it may connect from any address.
    pub(super) fn is_anywhere(&self) -> bool {
        matches!(self.from, Some(AllOr::Any))
    }

    /// Addresses from which it may open a session; empty for any.
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
    /// Interface to send through; a trailing `*` selects the first free interface with this prefix.
    pub interface: Option<String>,
    /// The first remote is used; the others if a server is unavailable.
    pub remote: Remotes,
    /// Its encapsulation, if not that of the file. Client only.
    #[serde(default, deserialize_with = "crate::config::some_word")]
    pub encapsulation: Option<Encapsulation>,
    /// TCP port of TLS, if not that of the file.
    pub tls_port: Option<u16>,
    /// Name of the server in TLS, if not that of `remote`.
    pub tls_name: Option<String>,
    /// How the server's certificate is checked.
    #[serde(default)]
    pub tls_check: TlsCheck,
    /// HTTP proxy between this host and the server, for TLS.
    pub proxy: Option<Proxy>,
    /// 0 never, 1 standby, 2 overflow, 3 to 15 primary. Among primaries, only the schedulers `cpf`, `acpf`,
    /// `weighted-rr` and `handover` prefer larger values.
    pub priority: Option<Prio>,
    /// Largest IP packet of the path, if it is smaller than the system knows.
    #[serde(default, deserialize_with = "crate::config::path_mtu")]
    pub mtu: Option<u16>,
    /// Rate limit of this end on the path.
    pub rate: Option<RateLimit>,
    /// Monthly volume in both directions; beyond it the path is standby. Client only.
    pub quota: Option<Volume>,
    /// Day on which the month begins.
    #[serde(default)]
    pub quota_day: Day,
    /// Price of a gigabyte, in any currency.
    pub cost: Option<f64>,
    /// Not in a file: it leads to an address that the server advertised.
    #[serde(skip)]
    pub advertised: bool,
}

impl PathSpec {
    /// The configured priority.
    pub fn prio(&self) -> Prio {
        self.priority.unwrap_or_default()
    }

    /// Prefix of the interface names to choose from.
    pub fn pattern(&self) -> Option<&str> {
        self.interface.as_deref()?.strip_suffix('*')
    }

    /// The path without the settings that can change on a running connection.
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
        session.streams = self.proxy && self.wants_streams();
        session
    }

    /// Whether a running tunnel can apply another configuration.
    ///
    /// # Errors
    /// Names the first key that cannot change.
    pub fn check_change(&self, new: &Config) -> Result<(), String> {
        self.first_fixed_change(new).map_or(Ok(()), |key| {
            Err(format!(
                "{key} cannot change while the tunnel runs; no settings were changed. Restore {key}, or restart the tunnel"
            ))
        })
    }

    /// The first key that differs but cannot change while the tunnel runs.
    fn first_fixed_change(&self, new: &Config) -> Option<&'static str> {
        // A client's paths have their own copy of it.
        let ip = |cfg: &Config| cfg.encapsulation == Encapsulation::Raw;
        let paths_only = self.is_client() && ip(self) == ip(new);
        let same = [
            ("role", self.role == new.role),
            ("interface", self.interface == new.interface),
            ("encapsulation", self.encapsulation == new.encapsulation || paths_only),
            ("tls_port", self.tls_port == new.tls_port || self.is_client()),
            ("tls_certificate", self.tls_certificate == new.tls_certificate),
            ("tls_key", self.tls_key == new.tls_key),
            ("security", self.security == new.security),
            ("ciphers", self.ciphers == new.ciphers),
            ("server_number", self.server_number == new.server_number),
            ("shards", self.shards == new.shards),
            ("threads", self.threads == new.threads),
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
