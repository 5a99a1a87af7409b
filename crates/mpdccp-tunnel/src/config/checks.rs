//! What of a configuration does not go together, and what to write instead.

use super::Place;
use super::{Config, ConfigError, Encapsulation, JoinAdvertised, PathSpec, Peer, Remote, Role, Security};
use ipnet::IpNet;
use mpdccp_proto::PathName;
use toml::Spanned;

impl Config {
    /// Whether TCP connections of any peer are to travel as streams.
    pub fn wants_streams(&self) -> bool {
        let of_peers = self.peers.iter().filter_map(|peer| peer.get_ref().tcp);
        std::iter::once(self.tcp).chain(of_peers).any(|tcp| tcp == super::Tcp::Streams)
    }

    pub(super) fn check(&self, place: &Place<'_>) -> Result<(), ConfigError> {
        if self.interface.is_empty() || self.interface.len() > 15 || self.interface.contains(['/', ' ']) {
            return Err(
                place.whole("interface: a name of 1 to 15 characters without `/` and spaces is needed")
            );
        }
        self.check_assignment().map_err(|e| place.whole(e))?;
        if self.peers.is_empty() {
            return Err(place.whole("at least one [[peer]] is needed"));
        }
        for (key, at) in [("metrics", self.metrics), ("web", self.web)] {
            if let Some(at) = at.filter(|at| at.port.is_none()) {
                let example = "expected \"127.0.0.1:9586\" or the like";
                return Err(place.whole(format!("{key}: {at} has no port, {example}")));
            }
        }
        let everything =
            self.peers.iter().flat_map(|p| &p.get_ref().allowed_ips).any(|net| net.prefix_len() == 0);
        let wrong = match (self.default_route, self.kill_switch) {
            (true, _) if self.role == Role::Server => Some("default_route is for role = \"client\""),
            (true, _) if !everything => {
                Some("default_route needs a peer with \"0.0.0.0/0\" or \"::/0\" in allowed_ips")
            }
            (false, true) => Some("kill_switch needs default_route = true"),
            _ => None,
        };
        if let Some(wrong) = wrong {
            return Err(place.whole(wrong));
        }
        self.check_shards().map_err(|e| place.whole(e))?;
        self.check_own_keys().map_err(|e| place.whole(e))?;
        self.check_advertised().map_err(|e| place.whole(e))?;
        self.check_policy().map_err(|e| place.whole(e))?;
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
        if let Some(addr) =
            self.listen.0.iter().find(|a| self.encapsulation == Encapsulation::Raw && a.port.is_some())
        {
            return Err(place.whole(format!("listen: {addr}: {NO_PORT}")));
        }
        for (i, peer) in self.peers.iter().enumerate() {
            if self.peers[..i].iter().any(|p| p.get_ref().name == peer.get_ref().name) {
                return Err(
                    place.error(peer.span(), format!("two peers are named `{}`", peer.get_ref().name))
                );
            }
            let key = &peer.get_ref().public_key;
            if key.is_some() && self.peers[..i].iter().any(|p| p.get_ref().public_key == *key) {
                return Err(place.error(
                    peer.span(),
                    format!("peer `{}`: another peer has its key", peer.get_ref().name),
                ));
            }
            self.check_peer(place, peer)?;
            for earlier in self.peers[..i].iter().map(Spanned::get_ref) {
                self.check_apart(earlier, peer.get_ref()).map_err(|e| place.error(peer.span(), e))?;
            }
        }
        Ok(())
    }

    /// Whether it is known which shard a datagram is for.
    fn check_shards(&self) -> Result<(), &'static str> {
        match (self.shards.0, self.role, self.security, self.encapsulation) {
            (1, ..) | (_, Role::Server, Security::Noise, Encapsulation::Udp) => Ok(()),
            (_, Role::Client, ..) => Err("shards is for role = \"server\""),
            (_, _, Security::None, _) => {
                Err("shards needs keys; what is sent with security = \"none\" does not say for which it is")
            }
            (.., Encapsulation::Raw) => Err(
                "shards needs encapsulation = \"udp\"; the kernel does not spread what comes without ports",
            ),
        }
    }

    /// Only a server advertises, and only what can be joined; only a client joins.
    fn check_advertised(&self) -> Result<(), String> {
        match (self.role, self.advertise.is_empty(), self.join_advertised) {
            (Role::Client, false, _) => Err("advertise is for role = \"server\"".into()),
            (Role::Server, _, JoinAdvertised::Mesh | JoinAdvertised::Pairs) => {
                Err("join_advertised is for role = \"client\"".into())
            }
            _ => match self.advertise.iter().find(|ip| ip.is_unspecified() || ip.is_multicast()) {
                Some(ip) => {
                    Err(format!("advertise: {ip} is no address of one host that clients could reach"))
                }
                None => Ok(()),
            },
        }
    }

    /// Whether rules name paths that there are. A server's clients name theirs themselves.
    fn check_policy(&self) -> Result<(), String> {
        let paths = self.peers.iter().flat_map(|p| &p.get_ref().paths).map(|p| p.get_ref().name.as_str());
        let paths: Vec<&str> = paths.collect();
        let is_known = |name: PathName| paths.iter().any(|path| PathName::of(path) == name);
        let mut rules = self.settings.policy_rule.0.iter();
        match rules.find(|rule| self.role == Role::Client && !rule.names().all(is_known)) {
            Some(rule) => Err(format!(
                "policy_rule: rule `{}` names a path that no peer has, expected one of: {}",
                rule.name,
                paths.join(", ")
            )),
            None => Ok(()),
        }
    }

    /// Whether somebody has addresses, and somebody else asks for them.
    fn check_assignment(&self) -> Result<(), String> {
        let wrong = match (&self.assign, self.role) {
            _ if self.addresses.is_empty() && !self.addresses.auto => {
                "addresses: at least one is needed, such as \"10.0.0.1/24\""
            }
            (Some(_), Role::Client) => {
                "[assign] is for role = \"server\"; a client asks with addresses = \"auto\""
            }
            (None, Role::Server) if self.addresses.auto => "addresses = \"auto\" is for role = \"client\"",
            (Some(_), Role::Server) if self.addresses.auto => {
                "addresses: a server needs its own, such as \"10.0.0.1/24\""
            }
            (Some(_), _) if self.security == Security::None => {
                "[assign] needs keys, to know who is who; security = \"none\" has none"
            }
            _ if self.addresses.auto && self.security == Security::None => {
                "addresses = \"auto\" needs keys, to know who is who; security = \"none\" has none"
            }
            _ if self.addresses.auto && self.peers.len() > 1 => {
                "addresses = \"auto\" needs a single [[peer]], which assigns them"
            }
            _ => "",
        };
        if !wrong.is_empty() {
            return Err(wrong.into());
        }
        if let Some(peer) = self.peers.iter().map(Spanned::get_ref).find(|p| p.allowed_ips.is_empty())
            && self.assign.is_none()
        {
            return Err(format!(
                "peer `{}`: allowed_ips is missing: the inner addresses behind it, such as [\"10.0.0.0/24\"]",
                peer.name
            ));
        }
        self.assign.as_ref().map_or(Ok(()), |assign| assign.check().map_err(|e| format!("assign: {e}")))
    }

    /// Whether `later` can be told from a peer before it in the file.
    fn check_apart(&self, earlier: &Peer, later: &Peer) -> Result<(), String> {
        let (first, second) = (&earlier.name, &later.name);
        let taken = |net: &&IpNet| earlier.allowed_ips.iter().any(|other| other.trunc() == net.trunc());
        if let Some(net) = later.allowed_ips.iter().find(taken) {
            return Err(format!("peers `{first}` and `{second}` both have {net} in allowed_ips"));
        }
        if self.role == Role::Client || self.security == Security::Noise {
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

    fn check_peer(&self, place: &Place<'_>, spanned: &Spanned<Peer>) -> Result<(), ConfigError> {
        let peer = spanned.get_ref();
        let name = &peer.name;
        match self.role {
            Role::Client if peer.paths.is_empty() => {
                return Err(place.error(
                    spanned.span(),
                    format!("peer `{name}`: a client needs at least one [[peer.path]]"),
                ));
            }
            Role::Server
                if self.security == Security::None && peer.origins().is_empty() && !peer.is_anywhere() =>
            {
                return Err(place.error(
                    spanned.span(),
                    format!("peer `{name}`: say where it may come from: from = [\"203.0.113.7\"], or from = \"any\""),
                ));
            }
            _ => {}
        }
        self.check_keys(peer).map_err(|e| place.error(spanned.span(), format!("peer `{name}`: {e}")))?;
        let most = self.session().max_paths;
        if let (Role::Client, Some(path)) = (self.role, peer.paths.get(most)) {
            let message = format!("peer `{name}`: {} paths, expected at most {most}", peer.paths.len());
            return Err(place.error(path.span(), message));
        }
        for (i, path) in peer.paths.iter().enumerate() {
            let taken = peer.paths[..i].iter().any(|p| p.get_ref().name == path.get_ref().name);
            if taken {
                return Err(place.error(
                    path.span(),
                    format!("peer `{name}`: two paths are named `{}`", path.get_ref().name),
                ));
            }
            let servers = path.get_ref().remote.count();
            if servers != peer.paths[0].get_ref().remote.count() {
                return Err(place.error(
                    path.span(),
                    format!("peer `{name}`: each path needs as many remotes as the first, one for each server, in their order"),
                ));
            }
            self.check_path(path.get_ref()).map_err(|e| {
                place.error(path.span(), format!("peer `{name}`, path `{}`: {e}", path.get_ref().name))
            })?;
        }
        Ok(())
    }

    /// Whether the keys given are those that the security asks for.
    fn check_own_keys(&self) -> Result<(), &'static str> {
        let own = (self.private_key.is_some(), self.private_key_file.is_some());
        match (self.security, own) {
            (Security::Noise, (false, false)) => Err(NO_KEYS),
            (Security::Noise, (true, true)) => Err("private_key and private_key_file: give one of them"),
            (Security::None, (false, false))
                if self.ciphers.is_none() && !self.capture_plaintext && self.keylog.is_none() =>
            {
                Ok(())
            }
            (Security::None, _) => Err(
                "security = \"none\" has no private_key, private_key_file, ciphers, capture_plaintext or keylog; leave them out",
            ),
            (Security::Noise, _) if self.ciphers.as_ref().is_some_and(Vec::is_empty) => {
                Err("ciphers: at least one is needed")
            }
            (Security::Noise, _) => Ok(()),
        }
    }

    fn check_keys(&self, peer: &Peer) -> Result<(), &'static str> {
        let shared = (peer.preshared_key.is_some(), peer.preshared_key_file.is_some());
        match self.security {
            Security::Noise if peer.public_key.is_none() => Err(
                "public_key is missing: the other end's, as `mpdccp pubkey` prints it from its private key",
            ),
            Security::Noise if shared == (true, true) => {
                Err("preshared_key and preshared_key_file: give one of them")
            }
            Security::Noise if peer.from.is_some() => Err(
                "`from` is for security = \"none\"; peers are told apart by their keys, wherever they are",
            ),
            Security::None if peer.public_key.is_some() || shared != (false, false) => Err(
                "security = \"none\" has no public_key, preshared_key or preshared_key_file; leave them out",
            ),
            _ => Ok(()),
        }
    }

    /// Whether a path of a client can be used with these settings; says why not.
    pub(crate) fn check_path(&self, path: &PathSpec) -> Result<(), String> {
        if path.name.is_empty() || path.name.chars().any(char::is_control) {
            return Err(format!("name {:?}: expected a word or two", path.name));
        }
        let nowhere = |r: &&Remote| {
            r.port == Some(0) || r.ip().is_some_and(|ip| ip.is_unspecified() || ip.is_multicast())
        };
        if let Some(remote) = path.remote.all().iter().find(nowhere) {
            return Err(format!(
                "remote {remote}: nobody is there, expected the other end's address and port"
            ));
        }
        if let (Encapsulation::Raw, Some(remote)) =
            (self.encapsulation, path.remote.all().iter().find(|r| r.port.is_some()))
        {
            return Err(format!("remote {remote}: {NO_PORT}"));
        }
        if self.role == Role::Server && path.remote.count() > 1 {
            return Err("remote: at a server a path has one".into());
        }
        if path.cost.is_some_and(|cost| !(0.0..=1e9).contains(&cost)) {
            return Err("cost: expected what a gigabyte costs, 0 or more".into());
        }
        if self.role == Role::Server && (path.quota.is_some() || path.cost.is_some()) {
            return Err("quota and cost are for role = \"client\", whose access network it is".into());
        }
        let apart =
            |remote: &Remote| path.local.zip(remote.ip()).is_some_and(|(a, b)| a.is_ipv4() != b.is_ipv4());
        if path.remote.all().iter().any(apart) {
            return Err("local and remote are of different IP versions".into());
        }
        if let (Role::Server, Some(name)) = (self.role, path.remote.name()) {
            return Err(format!("remote {name}: at a server the address of the client is needed"));
        }
        let begin = path.interface.as_deref().map(|name| name.strip_suffix('*').unwrap_or(name));
        if begin.is_some_and(|begin| begin.is_empty() || begin.len() > 15 || begin.contains(['*', '/', ' ']))
        {
            return Err(
                "interface: a name such as \"eth0\", or how some begin, such as \"wwan*\", is needed".into(),
            );
        }
        if self.role == Role::Client && path.local.is_none() && path.interface.is_none() {
            return Err("say where it leaves from: local = \"ADDRESS\" or interface = \"NAME\"".into());
        }
        Ok(())
    }
}

const NO_KEYS: &str = "no keys: give this end private_key_file = \"FILE\" and each peer its public_key (`mpdccp genkey > FILE` \
makes one, `mpdccp pubkey < FILE` prints what the other end needs), or say security = \"none\" to send everything unprotected";
const NO_PORT: &str = "encapsulation = \"raw\" has no UDP port; leave it out (the DCCP port is `dccp_port`)";
