//! Addresses that a server advertises in addition to the addresses in its clients' files
//! (RFC 9897 section 3.2.8), and the client's paths to them.

use crate::Cx;
use crate::action::Action;
use crate::client::paths::Paths;
use crate::config::{JoinAdvertised, PathSpec, Remotes};
use crate::path::WaitingPath;
use crate::peer::Peer;
use crate::peers::Peers;
use mpdccp_units::Duration;
use std::net::IpAddr;

/// A path to an advertised address must come up within this time.
const PATIENCE: Duration = Duration::from_secs(8);

/// Returns the paths to advertised addresses. Each one copies its local end from one of `files`, the paths of
/// the configuration file.
fn wanted(policy: JoinAdvertised, files: &[PathSpec], told: &[IpAddr], most: usize) -> Vec<PathSpec> {
    // Do not copy paths with a quota or a rate limit. These apply to each path separately, so with a second
    // path, the traffic of the access network could exceed them.
    let bounded = |spec: &&PathSpec| spec.quota.is_some() || spec.rate.is_some();
    let mut found = Vec::new();
    let fresh = |ip: &IpAddr| !files.iter().any(|spec| spec.remote.ip() == Some(*ip));
    // An address may have several Address IDs, for example while its removal is not confirmed.
    let once = |&(at, ip): &(usize, &IpAddr)| fresh(ip) && !told[..at].contains(ip);
    for (turn, (_, ip)) in told.iter().enumerate().filter(once).enumerate() {
        let able = |spec: &&PathSpec| spec.local.is_none_or(|local| local.is_ipv4() == ip.is_ipv4());
        let able: Vec<_> = files.iter().filter(able).filter(|spec| !bounded(spec)).collect();
        let from = match policy {
            JoinAdvertised::No => &[],
            JoinAdvertised::Mesh => &able[..],
            JoinAdvertised::Pairs if able.is_empty() => &[],
            JoinAdvertised::Pairs => &able[turn % able.len()..][..1],
        };
        found.extend(from.iter().map(|spec| PathSpec {
            name: format!("{}@{ip}", spec.name),
            remote: Remotes::at(*ip, spec.remote.port),
            advertised: true,
            ..(*spec).clone()
        }));
    }
    found.truncate(most);
    found
}

impl Peer {
    /// Addresses that the server of the current session advertises.
    pub(crate) fn advertised(&self, cx: &Cx<'_>) -> Vec<IpAddr> {
        let status = self.status(cx);
        status.iter().flat_map(|s| &s.peer_addresses).map(|(_, ip, _)| *ip).collect()
    }

    /// Tells the sockets that may use TLS which addresses the server advertises. TLS connections must go to
    /// these addresses, because a load balancer cannot tell to which server a TLS connection belongs.
    pub(crate) fn tell_server(&mut self, cx: &mut Cx<'_>) {
        if self.paths.iter().all(|path| path.knows.is_none()) {
            return;
        }
        let (advertised, ups) = (self.advertised(cx), self.up(cx));
        for path in &mut self.paths {
            let Some(knows) = &mut path.knows else { continue };
            let (socket, up) = (path.socket, ups.contains(&path.socket));
            if *knows != (advertised.clone(), up) {
                *knows = (advertised.clone(), up);
                cx.out.push(Action::TellServer { socket, advertised: advertised.clone(), up });
            }
        }
    }
}

/// Joins newly advertised addresses, and leaves those that are no longer advertised. An address that does not
/// respond is not tried again in this session (RFC 9897 section 3.4).
pub(crate) fn follow(cx: &mut Cx<'_>, peers: &mut Peers, paths: &mut Paths) {
    for number in peers.present() {
        let peer = &mut peers[number];
        let mut told = peer.advertised(cx);
        // A name in the file may lead to an advertised address.
        let is_used =
            |ip: &IpAddr| peer.paths.iter().any(|path| !path.spec.advertised && path.remote.ip() == *ip);
        told.retain(|ip| !is_used(ip));
        let mut files: Vec<PathSpec> = peer.specs().filter(|spec| !spec.advertised).cloned().collect();
        // Paths open in any order, so sort them by name to make the result independent of that order.
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let room = cx.cfg.session().max_paths.saturating_sub(files.len());
        let mut wanted = wanted(cx.cfg.join_advertised, &files, &told, room);
        peer.unanswered.retain(|name| wanted.iter().any(|spec| spec.name == *name));
        let up = peer.up(cx);
        let name = peer.cfg.name.clone();
        for path in peer.paths.iter_mut().filter(|p| p.spec.advertised && !p.proved) {
            path.proved = up.contains(&path.socket);
            if !path.proved && cx.now.since(*path.bad_since.get_or_insert(cx.now)) >= PATIENCE {
                let path = &path.spec.name;
                let seconds = PATIENCE.as_secs_f64();
                cx.out.warn(format!(
                    "peer {name}: cannot connect path {path}: no answer from this advertised address for {seconds} s; \
                     this session does not try it again"
                ));
                peer.unanswered.push(path.clone());
            }
        }
        wanted.retain(|spec| !peer.unanswered.contains(&spec.name));
        let same = |spec: &PathSpec, w: &PathSpec| w.name == spec.name && w.unlimited() == spec.unlimited();
        let over = |spec: &PathSpec| spec.advertised && !wanted.iter().any(|w| same(spec, w));
        peer.waiting.retain(|path| !over(&path.spec));
        while let Some(at) = peers[number].paths.iter().position(|path| over(&path.spec)) {
            paths.close(cx, peers, (number, at), false);
        }
        let peer = &mut peers[number];
        let fresh: Vec<_> = wanted.into_iter().filter(|spec| !peer.has_path(&spec.name)).collect();
        peer.waiting.extend(fresh.into_iter().map(WaitingPath::new));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_by_policy_and_family() {
        let spec = |text: &str| toml::from_str::<PathSpec>(text).unwrap();
        let files = [
            spec("name = \"a\"\ninterface = \"p0\"\nremote = \"192.0.2.1:7000\""),
            spec("name = \"b\"\nlocal = \"192.0.2.9\"\nremote = \"192.0.2.1\""),
            spec("name = \"c\"\nlocal = \"192.0.2.9\"\nremote = \"192.0.2.1\"\nquota = \"5GB\""),
            spec("name = \"d\"\nlocal = \"2001:db8::9\"\nremote = \"2001:db8::1\""),
        ];
        let told = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.2", "2001:db8::2"];
        let told = told.map(|ip| ip.parse().unwrap());
        let names = |policy, most| -> Vec<String> {
            wanted(policy, &files, &told, most).into_iter().map(|spec| spec.name).collect()
        };
        assert!(names(JoinAdvertised::No, 9).is_empty());
        let mesh =
            ["a@192.0.2.2", "b@192.0.2.2", "a@192.0.2.3", "b@192.0.2.3", "a@2001:db8::2", "d@2001:db8::2"];
        assert_eq!(names(JoinAdvertised::Mesh, 9), mesh);
        assert_eq!(names(JoinAdvertised::Mesh, 2), mesh[..2]);
        assert_eq!(names(JoinAdvertised::Pairs, 9), ["a@192.0.2.2", "b@192.0.2.3", "a@2001:db8::2"]);
        let first = wanted(JoinAdvertised::Mesh, &files, &told, 1).remove(0);
        assert_eq!(
            first.remote.to_string(),
            "192.0.2.2:7000",
            "the port is that of the path with the same local end"
        );
    }
}
