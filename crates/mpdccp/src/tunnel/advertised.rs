//! Addresses that a server tells its clients beyond those in their files (RFC 9897 section 3.2.8), and the paths that a client joins to them.

use crate::tunnel::app::TunnelApp;
use crate::tunnel::config::{Config, PathSpec, Role};
use crate::tunnel::peer::WaitingPath;
use crate::tunnel::values::Remotes;
use dccp_net::Core;
use mpdccp_proto::{SessionId, SessionState};
use serde::Deserialize;
use std::net::IpAddr;
use units::{Duration, Time};

/// How long a path to such an address may take to come up.
const PATIENCE: Duration = Duration::from_secs(8);

/// From where a client joins addresses that its server advertises.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JoinAdvertised {
    /// From nowhere.
    #[default]
    No,
    /// Each from every path of the file.
    Mesh,
    /// Each from one path of the file, in turns.
    Pairs,
}

impl Config {
    /// Only a server advertises, and only what can be joined; only a client joins.
    pub(crate) fn check_advertised(&self) -> Result<(), String> {
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
}

/// The paths to join, called by the path they leave like and the address. `files` are those of the file, which lead to their own remotes.
fn wanted(policy: JoinAdvertised, files: &[PathSpec], told: &[IpAddr], most: usize) -> Vec<PathSpec> {
    // What a path may carry is counted by path: another one beside it would be beyond that.
    let bounded = |spec: &&PathSpec| spec.quota.is_some() || spec.rate.is_some();
    let mut found = Vec::new();
    let fresh = |ip: &&IpAddr| !files.iter().any(|spec| spec.remote.ip() == Some(**ip));
    for (turn, ip) in told.iter().filter(fresh).enumerate() {
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

impl TunnelApp {
    /// A server's session is open.
    pub(crate) fn advertise(&self, core: &mut Core, now: Time, session: SessionId) {
        for ip in &self.cfg.advertise {
            core.endpoint.advertise(now, session, *ip, None);
        }
    }

    /// A client joins what it was told, and leaves what was taken back. What does not answer is not tried again in this session (RFC 9897
    /// section 3.4).
    pub(crate) fn follow_advertised(&mut self, core: &mut Core, now: Time) {
        for i in 0..self.peers.len() {
            let peer = &mut self.peers[i];
            let status = peer.session.and_then(|session| core.endpoint.status(now, session));
            let status = status.filter(|status| status.state == SessionState::Open);
            let told: Vec<IpAddr> =
                status.iter().flat_map(|s| &s.peer_addresses).map(|(_, ip, _)| *ip).collect();
            let files = peer.paths.iter().map(|p| &p.spec).chain(peer.waiting.iter().map(|p| &p.spec));
            let mut files: Vec<PathSpec> = files.filter(|spec| !spec.advertised).cloned().collect();
            // The order in which they opened is chance.
            files.sort_by(|a, b| a.name.cmp(&b.name));
            let room = self.session_cfg.max_paths.saturating_sub(files.len());
            let mut wanted = wanted(self.cfg.join_advertised, &files, &told, room);
            peer.unanswered.retain(|name| wanted.iter().any(|spec| spec.name == *name));
            for path in peer.paths.iter_mut().filter(|p| p.spec.advertised && !p.proved) {
                let up = |p: &mpdccp_proto::PathStatus| p.route.socket == path.socket && p.state.is_up();
                path.proved = status.iter().flat_map(|s| &s.paths).any(up);
                if !path.proved && now.since(*path.bad_since.get_or_insert(now)) >= PATIENCE {
                    tracing::warn!("peer {}: path {} does not come up", peer.cfg.name, path.spec.name);
                    peer.unanswered.push(path.spec.name.clone());
                }
            }
            wanted.retain(|spec| !peer.unanswered.contains(&spec.name));
            let over = |spec: &PathSpec| spec.advertised && !wanted.iter().any(|w| w.name == spec.name);
            peer.waiting.retain(|path| !over(&path.spec));
            while let Some(at) = self.peers[i].paths.iter().position(|path| over(&path.spec)) {
                self.take_path(core, now, i, at);
            }
            let peer = &mut self.peers[i];
            let fresh: Vec<_> = wanted.into_iter().filter(|spec| !peer.has_path(&spec.name)).collect();
            peer.waiting.extend(fresh.into_iter().map(WaitingPath::new));
        }
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
        let told = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "2001:db8::2"].map(|ip| ip.parse().unwrap());
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
        assert_eq!(first.remote.to_string(), "192.0.2.2:7000", "the port is that of the path it leaves like");
    }
}
