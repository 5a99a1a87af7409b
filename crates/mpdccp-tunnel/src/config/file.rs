//! The configuration file with all its keys; docs/tunnel.md explains them.

use super::{
    Addresses, AllOr, Assign, Bypass, Cipher, Day, Encapsulation, HostPort, Key, Mtu, OneOrMore, OuterDscp,
    OuterEcn, Prio, Proxy, RateLimit, Remote, Remotes, Routes, Secret, ServerNumber, ShardCount, Tcp,
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
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Whether this end is the client or the server.
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
    /// File with the server's certificate in PEM. Without it, the server uses the certificate in its state
    /// directory.
    pub tls_certificate: Option<PathBuf>,
    /// File with the private key of the certificate, in PEM.
    pub tls_key: Option<PathBuf>,
    /// Whether peers authenticate by keys and packets are encrypted.
    #[serde(default, deserialize_with = "crate::config::word")]
    pub security: Security,
    /// Private key of this end, in base64.
    pub private_key: Option<Secret>,
    /// File with the private key of this end.
    pub private_key_file: Option<PathBuf>,
    /// Number that identifies this server among several. Clients put it on packets for this server.
    #[serde(default)]
    pub server_number: ServerNumber,
    /// Number of shards (threads) over which a server distributes its peers.
    #[serde(default)]
    pub shards: ShardCount,
    /// Ciphers for records, in order of preference.
    pub ciphers: Option<Vec<Cipher>>,
    /// Addresses on which a server listens.
    #[serde(default)]
    pub listen: OneOrMore<HostPort>,
    /// Additional addresses at which clients may join, besides the remotes in their files.
    #[serde(default)]
    pub advertise: Vec<IpAddr>,
    /// Which paths of a client join advertised addresses.
    #[serde(default, deserialize_with = "crate::config::word")]
    pub join_advertised: JoinAdvertised,
    /// Inner addresses of the interface.
    pub addresses: Addresses,
    /// Addresses and routes that a server assigns to its clients.
    pub assign: Option<Assign>,
    /// MTU of the interface.
    #[serde(default)]
    pub mtu: Mtu,
    /// Rate limit on this end's data to all peers together.
    pub rate: Option<RateLimit>,
    /// How the TCP connections of hosts are carried.
    #[serde(default, deserialize_with = "crate::config::word")]
    pub tcp: Tcp,
    /// Whether this host can carry TCP connections as streams, as far as known. This is not a key of the
    /// file.
    #[serde(skip)]
    pub proxy: bool,
    /// Whether to exchange super-packets with the kernel: several segments in one packet, as with TSO and
    /// GRO.
    #[serde(default = "yes")]
    pub offload: bool,
    /// ECN field of outer headers.
    #[serde(default, deserialize_with = "crate::config::word")]
    pub ecn: OuterEcn,
    /// DSCP of outer headers.
    #[serde(default)]
    pub dscp: OuterDscp,
    /// Which peers' `allowed_ips` are routed into the interface.
    #[serde(default)]
    pub routes: Routes,
    /// Whether to route all traffic through the tunnel, except the tunnel's own packets. Client only.
    #[serde(default)]
    pub default_route: bool,
    /// Whether to block traffic outside the tunnel, even while the tunnel is down.
    #[serde(default)]
    pub kill_switch: bool,
    /// Traffic that bypasses the tunnel while `default_route` is on.
    #[serde(default)]
    pub bypass: Bypass,
    /// Name servers that this host uses while a session is open.
    #[serde(default)]
    pub dns: Vec<IpAddr>,
    /// Program to run when sessions and paths go up or down.
    pub hook: Option<PathBuf>,
    /// Path of the control socket.
    pub control: Option<PathBuf>,
    /// Directory for files that are kept across restarts.
    #[serde(default = "state")]
    pub state: PathBuf,
    /// Whether a new path starts with its stored capacity (Careful Resume, RFC 9959).
    #[serde(default = "yes")]
    pub careful_resume: bool,
    /// User that the process runs as once the tunnel is up.
    pub user: Option<User>,
    /// Address of the metrics for Prometheus.
    pub metrics: Option<HostPort>,
    /// Address of the status page for browsers.
    pub web: Option<HostPort>,
    /// pcap file for all encapsulated packets.
    pub capture: Option<PathBuf>,
    /// File to which the keys of all records are written, for decrypting captures.
    pub keylog: Option<PathBuf>,
    /// The other ends.
    #[serde(default, rename = "peer")]
    pub peers: Vec<Spanned<Peer>>,
    /// Session settings, which are parsed separately so that errors in them have a line number.
    #[serde(skip)]
    pub settings: Settings,
}

/// Deprecated key names, each with the name that replaces it.
pub(super) const RENAMED: &[(&str, &str)] = &[("carrier", "encapsulation"), ("steer", "policy_rule")];

/// Keys that no longer exist, with their sections.
pub(super) const REMOVED: &[&str] = &[
    "capture_plaintext",
    "dccp_port",
    "fallback",
    "flow_order",
    "mss_clamp",
    "mtu_probing",
    "peer.tcp",
    "threads",
    "time_wait",
    "units",
];

/// The role of this end of the tunnel.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The client opens sessions.
    Client,
    /// The server waits for sessions.
    Server,
}

mpdccp_units::named! {
    /// Authentication and encryption.
    #[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
    #[serde(rename_all = "lowercase")]
    pub enum Security {
        /// Peers have keys, and all packets are encrypted.
        #[default]
        Noise = "noise",
        /// Peers are identified by address. Anyone on the path can read and change packets.
        None = "none",
    }
}

/// Which of a client's paths join the addresses that the server advertises.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum JoinAdvertised {
    /// No path joins advertised addresses.
    #[default]
    No,
    /// Every path of the file joins every advertised address.
    Mesh,
    /// The advertised addresses are distributed over the paths of the file.
    Pairs,
}

/// The other end of a session.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Name of the peer, for logs and commands.
    pub name: String,
    /// Inner addresses behind the peer. Packets to these addresses are sent to the peer, and packets from the
    /// peer are accepted if their source is one of these addresses. Addresses assigned by the server are
    /// added to the list.
    #[serde(default, deserialize_with = "crate::config::prefixes")]
    pub allowed_ips: Vec<IpNet>,
    /// Public key of the peer.
    pub public_key: Option<Key>,
    /// Preshared key with the peer, in base64.
    pub preshared_key: Option<Secret>,
    /// File with the preshared key.
    pub preshared_key_file: Option<PathBuf>,
    /// Outer addresses from which a server admits the peer, in addition to the addresses of the peer's paths.
    /// Only with `security = "none"`.
    pub from: Option<AllOr<IpAddr>>,
    /// Rate limit for data that this end sends to the peer.
    pub rate: Option<RateLimit>,
    /// Rate limit for data that this end accepts from the peer.
    pub receive_rate: Option<RateLimit>,
    /// On a client, its paths to the peer. On a server, those paths of the peer that the file lists.
    #[serde(default, rename = "path")]
    pub paths: Vec<Spanned<PathSpec>>,
}

impl Peer {
    /// Returns the number of servers that the peer's paths can reach.
    pub fn servers(&self) -> usize {
        self.paths.iter().map(|p| p.get_ref().remote.count()).max().unwrap_or(0)
    }

    /// Makes each path that costs more than the cheapest path an overflow path, unless the path has a
    /// priority.
    pub(super) fn rank_by_cost(&mut self) {
        let cost = |path: &PathSpec| path.cost.unwrap_or_default();
        let cheapest = self.paths.iter().map(|p| cost(p.get_ref())).fold(f64::INFINITY, f64::min);
        for path in self.paths.iter_mut().map(Spanned::as_mut) {
            if path.priority.is_none() && cost(path) > cheapest {
                path.priority = Some(Prio::OVERFLOW);
            }
        }
    }

    /// Returns whether the peer may connect from any address.
    pub(super) fn is_anywhere(&self) -> bool {
        matches!(self.from, Some(AllOr::Any))
    }

    /// Returns the addresses from which the peer may open a session. The list is empty if any address is
    /// allowed.
    pub fn origins(&self) -> Vec<IpAddr> {
        let paths = self.paths.iter().filter_map(|p| p.get_ref().remote.ip());
        match &self.from {
            None => paths.collect(),
            Some(AllOr::Any) => Vec::new(),
            Some(AllOr::Only(from)) => from.iter().copied().chain(paths).collect(),
        }
    }
}

/// A path over one access network.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct PathSpec {
    /// Name of the path, for logs, commands and policy rules.
    pub name: String,
    /// Address on this host to send from.
    pub local: Option<IpAddr>,
    /// Interface to send through; a trailing `*` selects the first free interface with this prefix.
    pub interface: Option<String>,
    /// Address of the other end. Further addresses belong to further servers, which the client uses if the
    /// first server is unavailable.
    pub remote: Remotes,
    /// Encapsulation of the path; defaults to that of the file. Client only.
    #[serde(default, deserialize_with = "crate::config::some_word")]
    pub encapsulation: Option<Encapsulation>,
    /// TCP port for TLS; defaults to that of the file.
    pub tls_port: Option<u16>,
    /// Server name for TLS; defaults to the name in `remote`.
    pub tls_name: Option<String>,
    /// How to check the server's certificate.
    #[serde(default)]
    pub tls_check: TlsCheck,
    /// HTTP proxy for TLS connections to the server.
    pub proxy: Option<Proxy>,
    /// Priority: 0 never, 1 standby, 2 overflow, 3 to 15 primary. Among primary paths, only the schedulers
    /// `cpf`, `acpf`, `weighted-rr` and `handover` prefer higher values.
    pub priority: Option<Prio>,
    /// Size in bytes of the largest IP packet on the path, if smaller than the MTU known to the system.
    #[serde(default, deserialize_with = "crate::config::path_mtu")]
    pub mtu: Option<u16>,
    /// Rate limit for data that this end sends on the path.
    pub rate: Option<RateLimit>,
    /// Monthly volume, counting both directions. A path that has used up its quota becomes a standby path.
    /// Client only.
    pub quota: Option<Volume>,
    /// Day of the month on which a new monthly volume begins.
    #[serde(default)]
    pub quota_day: Day,
    /// Price per gigabyte, in any currency.
    pub cost: Option<f64>,
    /// Whether the path leads to an address that the server advertised. Not a key of the file.
    #[serde(skip)]
    pub advertised: bool,
}

impl PathSpec {
    /// Returns the configured priority, or the default.
    pub fn prio(&self) -> Prio {
        self.priority.unwrap_or_default()
    }

    /// Returns the hosts to which this end sends the path's packets, each with its key.
    pub(crate) fn outer(&self) -> impl Iterator<Item = (&'static str, &Remote)> {
        let proxy = self.proxy.iter().map(|proxy| ("proxy", &proxy.at));
        self.remote.all().iter().map(|remote| ("remote", remote)).chain(proxy)
    }

    /// Returns the interface name prefix if the path chooses its interface by a pattern.
    pub fn pattern(&self) -> Option<&str> {
        self.interface.as_deref()?.strip_suffix('*')
    }

    /// Returns a copy of the path without the settings that can change while the path is open.
    pub fn unlimited(&self) -> PathSpec {
        let quota_day = Day::default();
        PathSpec { priority: None, rate: None, quota: None, quota_day, cost: None, ..self.clone() }
    }
}

fn interface() -> String {
    "mpdccp0".into()
}

fn state() -> PathBuf {
    "/var/lib/mpdccp".into()
}

fn yes() -> bool {
    true
}

impl Config {
    /// Returns whether this end is the client.
    pub fn is_client(&self) -> bool {
        self.role == Role::Client
    }

    /// Returns whether TCP connections are carried as streams.
    pub fn wants_streams(&self) -> bool {
        self.tcp == Tcp::Streams
    }

    /// Returns the session settings that apply to all peers.
    pub fn session(&self) -> SessionConfig {
        let mut session = self.settings.session();
        session.connection.service_code = SERVICE_CODE;
        session.connection.probe_mtu = true;
        session.flow_order = true;
        if self.security == Security::None {
            session.connection.least_request = dccp_proto::PADDED_REQUEST;
        }
        session.streams = self.proxy && self.wants_streams();
        session
    }

    /// Checks whether a running tunnel can switch to another configuration.
    ///
    /// # Errors
    /// Names the first key that differs but cannot change at run time.
    pub fn check_change(&self, new: &Config) -> Result<(), String> {
        self.first_fixed_change(new).map_or(Ok(()), |key| {
            Err(format!(
                "{key} cannot change while the tunnel runs; no settings were changed. Restore {key}, or restart the tunnel"
            ))
        })
    }

    /// Returns the first key that differs but cannot change at run time.
    fn first_fixed_change(&self, new: &Config) -> Option<&'static str> {
        // A client copies `encapsulation` into its paths, so a change replaces only these paths. A change to
        // or from `raw` needs a restart.
        let ip = |cfg: &Config| cfg.encapsulation == Encapsulation::Raw;
        let paths_only = self.is_client() && ip(self) == ip(new);
        let whole = |cfg: &Config| cfg.default_route.then(|| cfg.whole_versions());
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
            ("listen", self.listen.0 == new.listen.0),
            ("advertise", self.advertise == new.advertise),
            ("addresses", self.addresses.is_as(&new.addresses)),
            ("mtu", self.mtu == new.mtu),
            ("offload", self.offload == new.offload),
            ("tcp", self.tcp == new.tcp),
            ("routes", self.routes == new.routes),
            ("default_route", self.default_route == new.default_route),
            ("0.0.0.0/0 or ::/0 in allowed_ips", whole(self) == whole(new)),
            ("kill_switch", self.kill_switch == new.kill_switch),
            ("bypass", self.bypass == new.bypass),
            ("dns", self.dns == new.dns),
            ("hook", self.hook == new.hook),
            ("control", self.control == new.control),
            ("state", self.state == new.state),
            ("user", self.user == new.user),
            ("capture", self.capture == new.capture),
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
