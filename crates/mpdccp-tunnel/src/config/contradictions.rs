//! Finds settings in a configuration that contradict each other, and says how to fix them.

use super::diagnose::Found;
use super::{
    Bypass, Config, Encapsulation, HostPort, JoinAdvertised, PathSpec, Peer, Remote, Role, Routes, Security,
    TlsCheck,
};
use ipnet::IpNet;
use mpdccp_proto::{PathName, is_unicast};
use std::collections::BTreeMap;
use toml::Spanned;

impl Config {
    /// Returns all contradictions.
    pub(super) fn check(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let mut say = |at: &str, wrong: Result<(), String>| {
            found.extend(wrong.err().map(|message| Found { at: at.into(), message }));
        };
        say("interface", self.check_interface());
        say("addresses", self.check_addresses());
        say("assign", self.check_assign());
        say("routes", self.check_routes().map_err(str::to_owned));
        say("peer", self.check_peers());
        for (key, at) in [("metrics", self.metrics), ("web", self.web)] {
            say(key, check_port(key, at));
        }
        say("default_route", self.check_default_route());
        let needs = check(self.default_route || !self.kill_switch, "kill_switch needs default_route = true");
        say("kill_switch", needs);
        say(
            "bypass",
            check(
                self.default_route || self.bypass == Bypass::default(),
                "bypass needs default_route = true; without it only allowed_ips use the tunnel",
            ),
        );
        say("dns", self.check_dns());
        let whole = self.hook.as_ref().is_none_or(|hook| hook.is_absolute());
        say("hook", check(whole, "hook: give the absolute path of a program, such as \"/etc/mpdccp/hook\""));
        self.check_tls(&mut say);
        say("shards", self.check_shards().map_err(str::to_owned));
        self.check_own_keys(&mut say);
        say("advertise", self.check_advertise());
        let joins = self.role == Role::Client || self.join_advertised == JoinAdvertised::No;
        say("join_advertised", check(joins, "join_advertised is only for role = \"client\""));
        say("policy_rule", self.check_policy());
        say("listen", self.check_listen());
        // A server may have very many peers, so do not compare each with every other.
        let (mut names, mut keys, mut nets) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let by_address = self.role == Role::Server && self.security == Security::None;
        for (i, peer) in self.peers.iter().map(Spanned::get_ref).enumerate() {
            let (at, name) = (format!("peer.{i}"), &peer.name);
            say(&format!("{at}.name"), check_name(name).map_err(|e| format!("peer: {e}")));
            if owner(&mut names, name, i).is_some() {
                say(&format!("{at}.name"), Err(format!("two peers are named `{name}`")));
            }
            if let Some(earlier) = peer.public_key.and_then(|key| owner(&mut keys, key.0, i)) {
                let earlier = &self.peers[earlier].get_ref().name;
                let message = format!(
                    "peer `{name}`: peer `{earlier}` has the same public_key; each peer needs its own"
                );
                say(&format!("{at}.public_key"), Err(message));
            }
            let taken = |net: &IpNet| Some((*net, owner(&mut nets, net.trunc(), i)?));
            let shared =
                peer.allowed_ips.iter().filter_map(taken).fold(None, |first, net| first.or(Some(net)));
            if let Some((net, earlier)) = shared {
                let earlier = &self.peers[earlier].get_ref().name;
                let message = format!(
                    "peers `{earlier}` and `{name}` both have {net} in allowed_ips; remove it from one of them"
                );
                say(&format!("{at}.allowed_ips"), Err(message));
            }
            let earlier = if by_address { &self.peers[..i] } else { &[] };
            earlier.iter().for_each(|earlier| check_origins(earlier.get_ref(), peer, &at, &mut say));
            self.check_peer(i, peer, &mut say);
        }
        found
    }

    fn check_interface(&self) -> Result<(), String> {
        let name = &self.interface;
        // The kernel replaces `%d` by a number, so the interface would have another name.
        let odd = |c: char| c.is_whitespace() || ['/', ':', '%'].contains(&c);
        let fits = (1..=15).contains(&name.len()) && !name.contains(odd) && name != "." && name != "..";
        let what = "expected a name of 1 to 15 characters without spaces, `/`, `:` and `%`";
        check(fits, format!("interface {name:?}: {what}"))
    }

    fn check_peers(&self) -> Result<(), String> {
        check(!self.peers.is_empty(), "no [[peer]]; add one for the other end of the tunnel")
    }

    /// Returns whether a peer has a prefix of length 0, for IPv4 and for IPv6.
    pub fn whole_versions(&self) -> [bool; 2] {
        let nets = || self.peers.iter().flat_map(|peer| &peer.get_ref().allowed_ips);
        [true, false].map(|v4| nets().any(|net| net.prefix_len() == 0 && net.addr().is_ipv4() == v4))
    }

    fn check_default_route(&self) -> Result<(), String> {
        match (self.default_route, self.role) {
            (true, Role::Server) => Err("default_route is only for role = \"client\"".into()),
            (true, _) if self.whole_versions() == [false; 2] => {
                Err("default_route needs a peer with \"0.0.0.0/0\" or \"::/0\" in allowed_ips".into())
            }
            _ => Ok(()),
        }
    }

    fn check_dns(&self) -> Result<(), String> {
        let behind =
            |ip| self.peers.iter().flat_map(|p| &p.get_ref().allowed_ips).any(|net| net.contains(ip));
        match (self.role, self.dns.iter().find(|ip| !behind(*ip))) {
            (Role::Server, _) if !self.dns.is_empty() => Err("dns is only for role = \"client\"".into()),
            (Role::Client, Some(ip)) => Err(format!(
                "dns: {ip} is in no peer's allowed_ips, so the tunnel does not carry packets to it; add it to allowed_ips"
            )),
            _ => Ok(()),
        }
    }

    fn check_listen(&self) -> Result<(), String> {
        let raw = self.encapsulation == Encapsulation::Raw;
        match (self.role, self.listen.0.iter().find(|at| raw && at.port.is_some())) {
            (Role::Server, _) if self.listen.0.is_empty() => {
                Err("role = \"server\" needs `listen`, such as listen = [\"0.0.0.0:6511\"]".into())
            }
            (Role::Client, _) if !self.listen.0.is_empty() => {
                Err("`listen` is only for role = \"server\"; a client sends from the addresses of its paths"
                    .into())
            }
            (_, Some(at)) => Err(format!("listen: {at}: {NO_PORT}")),
            _ => Ok(()),
        }
    }

    /// Checks the settings of TLS.
    fn check_tls(&self, say: &mut impl FnMut(&str, Result<(), String>)) {
        let (tls, client) = (self.encapsulation.has_tls(), self.role == Role::Client);
        let none = self.security == Security::None;
        let any = tls || self.specs().any(|path| path.encapsulation.is_some_and(Encapsulation::has_tls));
        let what =
            "TLS does not replace the tunnel's own encryption, which needs keys; remove security = \"none\"";
        say("encapsulation", check(!(any && none), what));
        for (key, file) in [("tls_certificate", &self.tls_certificate), ("tls_key", &self.tls_key)] {
            let what = format!("{key} is for role = \"server\"; for a client, set `tls_check`");
            say(key, check(file.is_none() || !client, what));
            let what = format!("{key} needs encapsulation = \"tls\" or \"auto\"");
            say(key, check(file.is_none() || client || tls, what));
        }
        let both = self.tls_certificate.is_some() == self.tls_key.is_some();
        say("tls_certificate", check(both, "set both tls_certificate and tls_key, or neither"));
        say("tls_port", check(self.tls_port > 0, "tls_port: invalid port 0; example: 443"));
        let port =
            self.listen.0.iter().find(|at| self.encapsulation == Encapsulation::Tls && at.port.is_some());
        say("listen", port.map_or(Ok(()), |at| Err(format!("listen: {at}: {TLS_PORT}"))));
    }

    fn specs(&self) -> impl Iterator<Item = &PathSpec> {
        self.peers.iter().flat_map(|peer| &peer.get_ref().paths).map(|path| path.get_ref())
    }

    /// Checks that this end can determine the shard of each datagram.
    fn check_shards(&self) -> Result<(), &'static str> {
        match (self.shards.0, self.role, self.security, self.encapsulation) {
            (1, ..) => Ok(()),
            (_, Role::Client, ..) => Err("shards is only for role = \"server\""),
            (_, _, Security::None, _) => Err(
                "shards needs security = \"noise\", because unencrypted packets do not identify their shard",
            ),
            (.., Encapsulation::Raw) => Err(
                "shards does not work with encapsulation = \"raw\"; the kernel cannot distribute packets without ports",
            ),
            _ => Ok(()),
        }
    }

    /// Checks that only a server advertises, and only addresses that clients can join.
    fn check_advertise(&self) -> Result<(), String> {
        if self.role == Role::Client && !self.advertise.is_empty() {
            return Err("advertise is only for role = \"server\"".into());
        }
        match self.advertise.iter().find(|ip| !is_unicast(**ip)) {
            Some(ip) => Err(format!("advertise: {ip} is not a unicast address that clients can reach")),
            None => Ok(()),
        }
    }

    /// Checks that a client's policy rules refer to existing paths. A server cannot check its rules, because
    /// the clients name the paths.
    fn check_policy(&self) -> Result<(), String> {
        let paths = self.peers.iter().flat_map(|p| &p.get_ref().paths).map(|p| p.get_ref().name.as_str());
        let paths: Vec<&str> = paths.collect();
        let is_known = |name: PathName| paths.iter().any(|path| PathName::of(path) == name);
        let mut rules = self.settings.policy_rule.0.iter();
        match rules.find(|rule| self.role == Role::Client && !rule.names().all(is_known)) {
            Some(rule) => Err(format!(
                "policy_rule: unknown path in rule `{}`; expected one of: {}",
                rule.name,
                paths.join(", ")
            )),
            None => Ok(()),
        }
    }

    /// Checks that this end has addresses, or requests them from its server.
    fn check_addresses(&self) -> Result<(), String> {
        let odd = |net: &&IpNet| !is_unicast(net.addr()) || net.addr().is_loopback();
        if let Some(net) = self.addresses.iter().find(odd) {
            return Err(format!(
                "addresses: an interface cannot have {net}; give one such as \"10.0.0.1/24\""
            ));
        }
        let wrong = match self.role {
            _ if self.addresses.is_empty() && !self.addresses.auto => {
                "addresses: empty; give at least one, such as \"10.0.0.1/24\""
            }
            Role::Server if self.addresses.auto => {
                "addresses = \"auto\" is only for role = \"client\"; give a server an address, such as \"10.0.0.1/24\""
            }
            _ if self.addresses.auto && self.security == Security::None => {
                "addresses = \"auto\" needs keys to identify the client; set security = \"noise\""
            }
            _ if self.addresses.auto && self.peers.len() > 1 => {
                "addresses = \"auto\" needs exactly one [[peer]], the server that assigns the addresses"
            }
            _ => return Ok(()),
        };
        Err(wrong.into())
    }

    /// Checks that `routes = "sessions"` is set only on a server with fixed addresses.
    fn check_routes(&self) -> Result<(), &'static str> {
        match (self.routes, self.role, &self.assign) {
            (Routes::Sessions, Role::Client, _) => Err("routes = \"sessions\" is only for role = \"server\""),
            (Routes::Sessions, _, Some(_)) => Err(
                "routes = \"sessions\" does not work with [assign], because servers do not share leases: give each peer allowed_ips",
            ),
            _ => Ok(()),
        }
    }

    /// If the configuration tells this end to assign addresses, checks that it can.
    fn check_assign(&self) -> Result<(), String> {
        let Some(assign) = &self.assign else { return Ok(()) };
        match (self.role, self.security) {
            (Role::Client, _) => {
                Err("[assign] is only for role = \"server\"; on a client, use addresses = \"auto\"".into())
            }
            (_, Security::None) => {
                Err("[assign] needs keys to identify clients; set security = \"noise\"".into())
            }
            _ => assign.check().map_err(|e| format!("assign: {e}")),
        }
    }

    fn check_peer(&self, i: usize, peer: &Peer, say: &mut dyn FnMut(&str, Result<(), String>)) {
        let (at, name) = (format!("peer.{i}"), &peer.name);
        let under = |key: &str| format!("{at}.{key}");
        let allowed = !peer.allowed_ips.is_empty() || self.assign.is_some();
        let missing = format!(
            "peer `{name}`: allowed_ips is missing; give the inner addresses of this peer, such as [\"10.0.0.0/24\"]"
        );
        say(&under("allowed_ips"), check(allowed, missing));
        let has_paths = self.role == Role::Server || !peer.paths.is_empty();
        let missing = format!(
            "peer `{name}`: no [[peer.path]]; a client needs at least one, with name, remote, and interface or local"
        );
        say(&under("path"), check(has_paths, missing));
        let told = self.role == Role::Client
            || self.security == Security::Noise
            || peer.is_anywhere()
            || !peer.origins().is_empty();
        let missing = format!(
            "peer `{name}`: `from` is missing; give the peer's outer addresses, such as from = [\"203.0.113.7\"], or from = \"any\""
        );
        say(&under("from"), check(told, missing));
        self.check_keys(peer, &mut |key, wrong| {
            say(&under(key), Err(format!("peer `{name}`: {wrong}")));
        });
        let (most, count) = (self.session().max_paths, peer.paths.len());
        let few = self.role == Role::Server || count <= most;
        let many = format!("peer `{name}`: {count} paths; expected at most {most}");
        say(&under(&format!("path.{most}")), check(few, many));
        for (j, path) in peer.paths.iter().map(Spanned::get_ref).enumerate() {
            let under = |key: &str| under(&format!("path.{j}.{key}"));
            let taken = peer.paths[..j].iter().any(|p| p.get_ref().name == path.name);
            say(&under("name"), check(!taken, format!("peer `{name}`: two paths are named `{}`", path.name)));
            let servers = path.remote.count() == peer.paths[0].get_ref().remote.count();
            let differ = format!(
                "peer `{name}`: the paths have different numbers of remotes; list one remote for each server in every path, in the same order"
            );
            say(&under("remote"), check(servers, differ));
            for (key, wrong) in self.wrong_of_path(path) {
                say(&under(key), Err(format!("peer `{name}`, path `{}`: {wrong}", path.name)));
            }
        }
    }

    /// Checks that the keys match the security setting.
    fn check_own_keys(&self, say: &mut dyn FnMut(&str, Result<(), String>)) {
        let (key, file) = (self.private_key.is_some(), self.private_key_file.is_some());
        if self.security == Security::None {
            let (ciphers, keylog) = (self.ciphers.is_some(), self.keylog.is_some());
            let given =
                [("private_key", key), ("private_key_file", file), ("ciphers", ciphers), ("keylog", keylog)];
            return without_keys(given).for_each(|(key, wrong)| say(key, Err(wrong)));
        }
        say("private_key", check(key || file, NO_KEYS));
        let both = "both private_key and private_key_file are set; give only one of them";
        say("private_key", check(!(key && file), both));
        let some = self.ciphers.as_ref().is_none_or(|ciphers| !ciphers.is_empty());
        let what = "ciphers: empty; give at least one cipher, or remove the key to allow all";
        say("ciphers", check(some, what));
    }

    fn check_keys(&self, peer: &Peer, wrong: &mut dyn FnMut(&str, String)) {
        let (psk, psk_file) = (peer.preshared_key.is_some(), peer.preshared_key_file.is_some());
        if self.security == Security::None {
            let given = [
                ("public_key", peer.public_key.is_some()),
                ("preshared_key", psk),
                ("preshared_key_file", psk_file),
            ];
            return without_keys(given).for_each(|(key, what)| wrong(key, what));
        }
        if peer.public_key.is_none() {
            let what = "public_key is missing; run `mpdccp pubkey` on the other end's private key to get it";
            wrong("public_key", what.into());
        }
        if psk && psk_file {
            let what = "both preshared_key and preshared_key_file are set; give only one of them";
            wrong("preshared_key", what.into());
        }
        if peer.from.is_some() {
            let what = "`from` is only for security = \"none\"; with keys, the public_key identifies a peer; remove `from`";
            wrong("from", what.into());
        }
    }

    /// Checks a client's path with these settings. The error says why the path cannot work.
    pub(crate) fn check_path(&self, path: &PathSpec) -> Result<(), String> {
        self.wrong_of_path(path).into_iter().next().map_or(Ok(()), |(_, wrong)| Err(wrong))
    }

    /// Returns those settings of a path that contradict others, each as its key and the error.
    fn wrong_of_path(&self, path: &PathSpec) -> Vec<(&'static str, String)> {
        let (mut found, server) = (Vec::new(), self.role == Role::Server);
        let mut say = |key, wrong: bool, message: String| {
            if wrong {
                found.push((key, message));
            }
        };
        check_name(&path.name).err().into_iter().for_each(|e| say("name", true, e));
        let nowhere = |r: &&Remote| r.port == Some(0) || r.ip().is_some_and(|ip| !is_unicast(ip));
        for remote in path.remote.all().iter().filter(nowhere) {
            let what = "not an address of a host; expected the other end's address and port";
            say("remote", true, format!("remote {remote}: {what}"));
        }
        let raw = self.encapsulation == Encapsulation::Raw;
        for remote in path.remote.all().iter().filter(|r| raw && r.port.is_some()) {
            say("remote", true, format!("remote {remote}: {NO_PORT}"));
        }
        let encapsulation = self.encapsulation_of(path);
        let tls = encapsulation == Encapsulation::Tls;
        for remote in path.remote.all().iter().filter(|r| tls && !server && r.port.is_some()) {
            say("remote", true, format!("remote {remote}: {TLS_PORT}"));
        }
        let mixed = path.encapsulation.is_some_and(|own| (own == Encapsulation::Raw) != raw);
        say("encapsulation", mixed, "encapsulation: use `raw` for all paths of a file, or for none".into());
        let hidden = encapsulation.has_tls();
        let given = [
            ("encapsulation", path.encapsulation.is_some(), true),
            ("tls_port", path.tls_port.is_some(), true),
            ("tls_name", path.tls_name.is_some(), hidden),
            ("tls_check", path.tls_check != TlsCheck::None, hidden),
            ("proxy", path.proxy.is_some(), hidden),
        ];
        for (key, given, fits) in given {
            say(key, server && given, format!("{key} is for role = \"client\""));
            let what = format!("{key} needs encapsulation = \"tls\" or \"auto\"");
            say(key, !server && given && !fits, what);
        }
        say("tls_port", path.tls_port == Some(0), "tls_port: invalid port 0; example: 443".into());
        let named = path.tls_name.is_some() || path.remote.name().is_some();
        let what = "tls_check = \"name\" needs the name of the server: tls_name = \"HOST\"";
        say("tls_check", path.tls_check == TlsCheck::Name && !named, what.into());
        let odd = path.tls_name.as_ref().is_some_and(|name| !is_host(name));
        say("tls_name", odd, "tls_name: this is not a host name; example: \"www.example.org\"".into());
        say(
            "remote",
            server && path.remote.count() > 1,
            "remote: several addresses; a path of a server takes only one".into(),
        );
        if let (true, Some(name)) = (server, path.remote.name()) {
            say(
                "remote",
                true,
                format!("remote {name} is a host name, but a server needs the client's IP address"),
            );
        }
        let cost = path.cost.is_some_and(|cost| !(0.0..=1e9).contains(&cost));
        say("cost", cost, "cost: expected a price per gigabyte, 0 or more".into());
        for (key, given) in [("quota", path.quota.is_some()), ("cost", path.cost.is_some())] {
            let what = format!("{key} is only for role = \"client\"");
            say(key, server && given, what);
        }
        let apart =
            |remote: &Remote| path.local.zip(remote.ip()).is_some_and(|(a, b)| a.is_ipv4() != b.is_ipv4());
        let versions = path.remote.all().iter().any(apart);
        say("local", versions, "local and remote are of different IP versions".into());
        let begin = path.interface.as_deref().map(|name| name.strip_suffix('*').unwrap_or(name));
        let odd = begin
            .is_some_and(|begin| begin.is_empty() || begin.len() > 15 || begin.contains(['*', '/', ' ']));
        let what = "interface: expected a name such as \"eth0\", or a prefix such as \"wwan*\"";
        say("interface", odd, what.into());
        let own = path.interface.as_ref() == Some(&self.interface);
        let what =
            format!("interface: {} is the tunnel's own interface; give that of the line", self.interface);
        say("interface", own, what);
        let leaves = server || path.local.is_some() || path.interface.is_some();
        let what = "no source; give local = \"ADDRESS\" or interface = \"NAME\"";
        say("interface", !leaves, what.into());
        found
    }
}

/// Returns the number of another peer that has this value. If there is none, stores that `peer` has it.
fn owner<K: Ord>(owners: &mut BTreeMap<K, usize>, value: K, peer: usize) -> Option<usize> {
    Some(*owners.entry(value).or_insert(peer)).filter(|owner| *owner != peer)
}

/// Checks that a server without keys can tell a peer from an earlier one. A packet belongs to the first peer
/// whose addresses include its source, so no later peer would be admitted from the same address.
fn check_origins(earlier: &Peer, later: &Peer, at: &str, say: &mut dyn FnMut(&str, Result<(), String>)) {
    let (first, second) = (&earlier.name, &later.name);
    let (known, own) = (earlier.origins(), later.origins());
    let message = match own.iter().find(|ip| known.contains(ip)) {
        _ if earlier.is_anywhere() => format!(
            "peer `{first}` has from = \"any\" and would match all packets of peer `{second}`; move peer `{second}` before it"
        ),
        Some(ip) => format!(
            "peers `{first}` and `{second}` both have {ip} in `from`; give each peer different addresses"
        ),
        None => return,
    };
    say(&format!("{at}.from"), Err(message));
}

/// Returns those settings that are given, although this end uses no keys, each with the error.
fn without_keys(
    settings: impl IntoIterator<Item = (&'static str, bool)>,
) -> impl Iterator<Item = (&'static str, String)> {
    let given = settings.into_iter().filter(|(_, given)| *given);
    given.map(|(key, _)| {
        (key, format!("{key} cannot be combined with security = \"none\"; leave out one of them"))
    })
}

/// Returns an error with this message if `well` is false.
fn check(well: bool, message: impl Into<String>) -> Result<(), String> {
    if well { Ok(()) } else { Err(message.into()) }
}

fn check_name(name: &str) -> Result<(), String> {
    let well = !name.is_empty() && !name.contains(char::is_control);
    check(well, format!("name {name:?}: expected one or more characters, and no control characters"))
}

fn check_port(key: &str, at: Option<HostPort>) -> Result<(), String> {
    let Some(at) = at.filter(|at| at.port.is_none()) else { return Ok(()) };
    Err(format!("{key}: {at} has no port; example: \"127.0.0.1:9586\""))
}

const NO_KEYS: &str = "no keys: give this end private_key_file = \"FILE\" and each peer its public_key (`mpdccp genkey > FILE` \
creates a key, `mpdccp pubkey < FILE` prints its public key for the other end), or set security = \"none\" for no encryption";

/// Returns whether this is a valid host name for TLS.
fn is_host(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(label) && name.parse::<std::net::IpAddr>().is_err()
}

const TLS_PORT: &str =
    "encapsulation = \"tls\" has no UDP port; remove the port, and write the TCP port as `tls_port`";
const NO_PORT: &str = "encapsulation = \"raw\" has no UDP port; remove the port";
