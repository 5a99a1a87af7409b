//! Volumes: what each of a client's paths carried this month, kept over restarts. A path whose volume is used up is standby until the
//! next month.

use crate::tunnel::app::TunnelApp;
use crate::tunnel::config::{Config, PathSpec};
use crate::tunnel::status::PathReport;
use dccp_net::{Clock, Core};
use dccp_proto::Route;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use units::{Duration, Time};

/// How often to write the file: so much is forgotten when the power goes.
const SAVE: Duration = Duration::from_secs(60);

/// Volume of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Used {
    /// Number of the month it belongs to: months since the year 0.
    month: u32,
    /// IP bytes, both ways.
    bytes: u64,
}

/// Volumes by `peer/path`.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    file: PathBuf,
    used: BTreeMap<String, Used>,
    changed: bool,
    save_at: Time,
}

fn key(peer: &str, path: &str) -> String {
    format!("{peer}/{path}")
}

fn is_counted(spec: &PathSpec) -> bool {
    spec.quota.is_some() || spec.cost.is_some()
}

/// Days since 1970 as year, month, day.
fn date(mut days: u64) -> (u32, u32, u32) {
    let leap = |year: u32| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days as u32 + 1)
}

/// Which month (UTC) it is for one whose months begin on the day `first`, at `seconds` since 1970.
fn month(seconds: u64, first: u32) -> u32 {
    let (year, month, day) = date(seconds / 86_400);
    (year * 12 + month - 1) - u32::from(day < first)
}

impl Quotas {
    pub(crate) fn load(cfg: &Config) -> Quotas {
        let file = cfg.state.join(format!("{}.volumes.json", cfg.interface));
        let used = match std::fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|e| {
                tracing::warn!("{}: {e}; volumes are counted from 0 again", file.display());
                BTreeMap::new()
            }),
            Err(_) => BTreeMap::new(),
        };
        Quotas { file, used, changed: false, save_at: Time::ZERO }
    }

    /// Adds bytes of a path; what it carried this month.
    fn charge(&mut self, seconds: u64, peer: &str, spec: &PathSpec, bytes: u64) -> u64 {
        let used = self.used.entry(key(peer, &spec.name)).or_default();
        let month = month(seconds, spec.quota_day.0);
        if used.month != month {
            *used = Used { month, bytes: 0 };
        }
        used.bytes += bytes;
        self.changed |= bytes > 0;
        used.bytes
    }

    /// Adds what is known to a path's status.
    pub(crate) fn report(&self, peer: &str, spec: &PathSpec, report: &mut PathReport) {
        report.rate_limit_mbps = spec.rate.map(|rate| rate.0.mbps());
        report.quota_bytes = spec.quota.map(|quota| quota.0);
        if is_counted(spec) {
            let bytes = self.used.get(&key(peer, &spec.name)).map_or(0, |used| used.bytes);
            report.quota_used_bytes = Some(bytes);
            report.cost = spec.cost.map(|cost| cost * bytes as f64 / 1e9);
        }
    }

    fn save_sometimes(&mut self, now: Time) {
        if self.changed && self.save_at <= now {
            self.save_at = now + SAVE;
            self.save();
        }
    }

    /// Writes the file, if there is something new.
    pub(crate) fn save(&mut self) {
        if std::mem::take(&mut self.changed)
            && let Err(e) = write_whole(&self.file, &self.used)
        {
            tracing::warn!("volumes are forgotten at a restart: {}: {e}", self.file.display());
        }
    }
}

/// Writes a file of the state directory, whole or not at all, should the power go.
pub(crate) fn write_whole(file: &Path, what: &impl Serialize) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let new = file.with_extension("new");
    std::fs::write(&new, serde_json::to_vec_pretty(what)?)?;
    std::fs::rename(new, file)
}

impl TunnelApp {
    /// Charges the paths with what their sockets carried, and sees who has used up its volume.
    pub(crate) fn charge(&mut self, core: &mut Core, now: Time) {
        let seconds = Clock.wall_nanos() / 1_000_000_000;
        for i in 0..self.peers.len() {
            for at in 0..self.peers[i].paths.len() {
                let peer = &mut self.peers[i];
                let path = &mut peer.paths[at];
                if !is_counted(&path.spec) {
                    continue;
                }
                let route = Route { socket: path.socket, local: None, remote: path.remote };
                let under = core.net.resolve(&route).socket;
                let carried = core.net.carrier(under).map_or(0, |c| c.stats().tx_bytes + c.stats().rx_bytes);
                let more = carried.saturating_sub(path.charged);
                path.charged = carried;
                let used = self.quotas.charge(seconds, &peer.cfg.name, &path.spec, more);
                let exhausted = path.spec.quota.is_some_and(|quota| used >= quota.0);
                if exhausted == path.exhausted {
                    continue;
                }
                path.exhausted = exhausted;
                let (name, prio) = (path.spec.name.clone(), path.spec.prio());
                match exhausted {
                    true => tracing::warn!(
                        "peer {}: path {name} has used up its volume of the month, and is standby",
                        peer.cfg.name
                    ),
                    false => tracing::info!("peer {}: path {name} has volume again", peer.cfg.name),
                }
                let _ = self.prio_of(core, now, i, &name, prio);
            }
        }
        self.quotas.save_sometimes(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(11_017), (2000, 3, 1));
        assert_eq!(date(20_818), (2026, 12, 31));
        assert_eq!(date(47_540), (2100, 2, 28));
        assert_eq!(date(47_541), (2100, 3, 1));
    }

    #[test]
    fn months_begin_on_the_day_given() {
        let day = |n: u64| n * 86_400;
        // 2026-12-31 and the day after.
        assert_eq!(month(day(20_819), 1), month(day(20_818), 1) + 1);
        assert_eq!(month(day(20_819), 15), month(day(20_818), 15));
        assert_eq!(month(day(20_819 + 14), 15), month(day(20_818), 15) + 1);
    }

    #[test]
    fn volumes_outlive_the_tunnel_and_end_with_the_month() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state/tun.volumes.json");
        let mut quotas = Quotas { file: file.clone(), ..Quotas::default() };
        let spec: PathSpec =
            toml::from_str("name = \"lte\"\nremote = \"192.0.2.1\"\nquota = \"1GB\"").unwrap();
        assert_eq!(quotas.charge(0, "hub", &spec, 600), 600);
        assert_eq!(quotas.charge(10, "hub", &spec, 600), 1_200);
        quotas.save();
        let text = std::fs::read(&file).unwrap();
        let mut again = Quotas { used: serde_json::from_slice(&text).unwrap(), ..Quotas::default() };
        assert_eq!(again.charge(20, "hub", &spec, 1), 1_201);
        assert_eq!(again.charge(31 * 86_400, "hub", &spec, 5), 5);
    }
}
