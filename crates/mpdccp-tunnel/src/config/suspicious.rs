//! Finds values that are allowed but most likely not intended.

use super::diagnose::Found;
use super::{Config, HostPort, PathSpec, Peer, RateLimit, Role, Routes, Volume};
use mpdccp_units::Rate;
use std::net::IpAddr;
use toml::Spanned;

/// A rate limit below this value is suspicious, because no modern line needs such a low limit.
const SLOW: Rate = Rate::from_bps(64_000);
/// A monthly quota below this number of bytes is suspicious.
const LITTLE: u64 = 100_000_000;

impl Config {
    /// Returns the settings that the owner should check.
    pub(super) fn suspicious(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let mut say = |at: String, message: Option<String>| {
            found.extend(message.map(|message| Found { at, message }));
        };
        say("rate".into(), slow(self.rate));
        for (key, at) in [("metrics", self.metrics), ("web", self.web)] {
            say(key.into(), at.and_then(|at| reachable(key, at)));
        }
        for (i, peer) in self.peers.iter().map(Spanned::get_ref).enumerate() {
            say(format!("peer.{i}.rate"), slow(peer.rate));
            say(format!("peer.{i}.receive_rate"), slow(peer.receive_rate));
            let specs: Vec<&PathSpec> = peer.paths.iter().map(Spanned::get_ref).collect();
            for (j, path) in specs.iter().enumerate() {
                let at = |key: &str| format!("peer.{i}.path.{j}.{key}");
                say(at("rate"), slow(path.rate));
                say(at("quota"), path.quota.and_then(little));
                let never = path.quota_day != Default::default() && path.quota.is_none();
                say(at("quota_day"), never.then(|| "quota_day does nothing without `quota`".into()));
                let twin =
                    specs[..j].iter().find(|other| self.role == Role::Client && is_same_line(other, path));
                let twice = |other: &&PathSpec| {
                    let (first, second) = (&other.name, &path.name);
                    format!(
                        "paths `{first}` and `{second}` use the same Internet connection to the same remote; together they carry no more than one path"
                    )
                };
                say(at("interface"), twin.map(twice));
                if let Some((key, message)) = self.routed_into_itself(peer, path) {
                    say(at(key), Some(message));
                }
            }
            let never = |path: &&PathSpec| path.priority.is_some_and(|prio| prio.0 == 0);
            let all = !specs.is_empty() && specs.iter().all(never);
            let what = "all paths have priority 0 (never use), so the tunnel carries nothing";
            say(format!("peer.{i}.path.0.priority"), all.then(|| what.into()));
        }
        found
    }

    /// Warns if the tunnel's own packets would be routed into the tunnel. Also returns the key.
    fn routed_into_itself(&self, peer: &Peer, path: &PathSpec) -> Option<(&'static str, String)> {
        let covers =
            |ip: &IpAddr| peer.allowed_ips.iter().find(|net| net.prefix_len() > 0 && net.contains(ip));
        let mut outer = path.outer().filter_map(|(key, at)| Some((key, at.ip()?)));
        let (key, ip, net) = outer.find_map(|(key, ip)| Some((key, ip, covers(&ip)?)))?;
        // If a path is bound to an interface, its packets leave through that interface regardless of the
        // routes.
        let bound = path.interface.is_some();
        (self.routes == Routes::All && !bound && self.role == Role::Client).then(|| {
            let what = "the tunnel's own packets would be routed into the tunnel; set the path's `interface`";
            (key, format!("{key} {ip} is within {net} of allowed_ips: {what}"))
        })
    }
}

fn slow(rate: Option<RateLimit>) -> Option<String> {
    let rate = rate.filter(|rate| rate.0 < SLOW)?.0;
    let bps = rate.bps();
    let meant = if bps < 1_000 { format!("{bps}M") } else { format!("{}k", bps / 1_000) };
    let unit = if bps < 1_000 { format!("; did you mean \"{meant}\"?") } else { String::new() };
    Some(format!("rate of {bps} bit/s: too low for normal traffic{unit}"))
}

fn little(volume: Volume) -> Option<String> {
    let bytes = volume.0;
    (bytes < LITTLE)
        .then(|| format!("quota of {} MB a month: a transfer uses it up within seconds", bytes / 1_000_000))
}

fn reachable(key: &str, at: HostPort) -> Option<String> {
    let what = "access is not controlled; use 127.0.0.1 and `ssh -L`";
    (!at.ip.is_loopback()).then(|| format!("{key}: others can reach {at}, and {what}"))
}

fn is_same_line(one: &PathSpec, other: &PathSpec) -> bool {
    let pattern = |path: &PathSpec| path.pattern().is_some();
    one.interface == other.interface
        && one.local == other.local
        && one.remote == other.remote
        && !pattern(one)
}
