//! Quotas limit the monthly volume of each of a client's paths. The volumes are kept across restarts. A path
//! that has used up its quota is on standby until the next month.

use crate::Cx;
use crate::action::{Actions, StateFile};
use crate::config::PathSpec;
use crate::host::{CLOCK_IS_SET, Looked};
use crate::path::OpenPath;
use crate::peer::Peer;
use crate::status::PathReport;
use mpdccp_units::{Duration, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use time::OffsetDateTime;

/// Interval between writes of the file. A power failure loses what was counted since the last write.
const SAVE: Duration = Duration::from_secs(60);

/// Volume that a path carried in a month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Used {
    /// The month, as months since the year 0.
    month: u32,
    /// IP bytes in both directions.
    bytes: u64,
    /// The month that the clock showed last. It differs from `month` while the clock shows an earlier month.
    #[serde(default)]
    clock: u32,
    /// The day on which the months begin; 0 in files of earlier versions.
    #[serde(default)]
    day: u32,
}

/// Volume of each path, keyed by `peer/path`.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
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

/// Returns the month (UTC) at `seconds` since 1970. Months begin on day `first`.
fn month(seconds: u64, first: u32) -> u32 {
    let time = OffsetDateTime::from_unix_timestamp(seconds as i64).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = time.to_calendar_date();
    (year as u32 * 12 + month as u32 - 1) - u32::from(u32::from(day) < first)
}

impl Quotas {
    /// Loads the file that the last run wrote.
    pub(crate) fn new(saved: Option<&str>, out: &mut Actions) -> Quotas {
        let used = saved.map_or_else(BTreeMap::new, |text| {
            serde_json::from_str(text).unwrap_or_else(|e| {
                out.warn(format!(
                    "cannot read the state file volumes.json; volumes are counted from 0 again: {e}"
                ));
                BTreeMap::new()
            })
        });
        Quotas { used, ..Quotas::default() }
    }

    /// Adds bytes to a path's volume, and returns the volume for this month.
    fn add(&mut self, unix: u64, peer: &str, spec: &PathSpec, bytes: u64) -> u64 {
        let used = self.used.entry(key(peer, &spec.name)).or_default();
        if unix >= CLOCK_IS_SET {
            let day = spec.quota_day.0;
            let old = Some(std::mem::replace(&mut used.day, day)).filter(|old| *old > 0).unwrap_or(day);
            let (before, month) = (month(unix, old), month(unix, day));
            // The file has a new day. What was counted this month still belongs to this month.
            if old != day && used.month == before {
                (used.month, used.clock) = (month, month);
            }
            // A router without a battery may start with an old clock, so an earlier month does not reset the
            // volume. But if that clock reaches the next month, it counts as correct, and `used.month` came
            // from a clock that was ahead.
            let passes = month < used.month && (1..month).contains(&used.clock);
            if month > used.month || passes {
                *used = Used { month, bytes: 0, clock: month, day };
            }
            used.clock = month;
        }
        used.bytes += bytes;
        self.changed |= bytes > 0;
        used.bytes
    }

    /// Charges a socket's new traffic to its path. Returns the path's volume for this month.
    fn count(&mut self, peer: &str, path: &mut OpenPath, looked: &Looked) -> u64 {
        let more = looked.carried.saturating_sub(path.charged);
        path.charged = looked.carried;
        // A reload of the configuration may have removed the quota.
        if is_counted(&path.spec) { self.add(looked.unix, peer, &path.spec, more) } else { 0 }
    }

    /// Charges what a closed path carried since it was charged last.
    pub(crate) fn charge_closed(
        &mut self,
        cx: &mut Cx<'_>,
        peer: &str,
        path: &mut OpenPath,
        looked: &Looked,
    ) {
        self.count(peer, path, looked);
        // It may have been the only open path, so save now: the next charge may never come.
        self.save(cx.out);
    }

    /// Charges a socket's traffic to its path. The path goes on standby once its quota is used up.
    pub(crate) fn charge(&mut self, cx: &mut Cx<'_>, peer: &mut Peer, looked: &Looked) {
        let name = peer.cfg.name.clone();
        let Some(path) = peer.open_paths_mut().find(|p| p.socket == looked.socket) else { return };
        let used = self.count(&name, path, looked);
        let exhausted = path.spec.quota.is_some_and(|quota| used >= quota.0);
        if std::mem::replace(&mut path.exhausted, exhausted) != exhausted {
            let path = path.spec.name.clone();
            match exhausted {
                true => cx
                    .out
                    .warn(format!("peer {name}: path {path} has used up its monthly volume and is now standby")),
                false => cx.out.info(format!(
                    "peer {name}: path {path} is below its quota again (new month or new quota); its configured priority applies"
                )),
            }
            peer.tell_prio(cx, &path);
        }
        if self.changed && (cx.closing || self.save_at <= cx.now) {
            self.save_at = cx.now + SAVE;
            self.save(cx.out);
        }
    }

    /// Adds the limits and the volume of a path to its status.
    pub(crate) fn report(&self, peer: &str, spec: &PathSpec, report: &mut PathReport) {
        report.rate_limit_mbps = spec.rate.map(|rate| rate.0.mbps());
        report.quota_bytes = spec.quota.map(|quota| quota.0);
        if is_counted(spec) {
            let bytes = self.used.get(&key(peer, &spec.name)).map_or(0, |used| used.bytes);
            report.quota_used_bytes = Some(bytes);
            report.cost = spec.cost.map(|cost| cost * bytes as f64 / 1e9);
        }
    }

    /// Saves the volumes if they have changed.
    fn save(&mut self, out: &mut Actions) {
        if std::mem::take(&mut self.changed) {
            out.save(StateFile::Volumes, &self.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;

    #[test]
    fn months_begin_on_the_day_given() {
        let day = |n: u64| n * 86_400;
        // Day 20818 since 1970 is 2026-12-31.
        assert_eq!(month(day(20_819), 1), month(day(20_818), 1) + 1);
        assert_eq!(month(day(20_819), 15), month(day(20_818), 15));
        assert_eq!(month(day(20_819 + 14), 15), month(day(20_818), 15) + 1);
    }

    #[test]
    fn volumes_survive_a_restart_and_end_with_the_month() {
        const NOW: u64 = 1_767_225_600; // 2026-01-01
        let (mut quotas, mut out) = (Quotas::default(), Actions::default());
        let spec: PathSpec =
            toml::from_str("name = \"lte\"\nremote = \"192.0.2.1\"\nquota = \"1GB\"").unwrap();
        assert_eq!(quotas.add(NOW, "hub", &spec, 600), 600);
        assert_eq!(quotas.add(NOW + 10, "hub", &spec, 600), 1_200);
        quotas.save(&mut out);
        let Some(Action::Save(StateFile::Volumes, text)) = out.waiting.pop_front() else { panic!() };
        let mut again = Quotas::new(Some(&text), &mut out);
        assert_eq!(again.add(5, "hub", &spec, 1), 1_201, "the clock is not set yet");
        assert_eq!(again.add(NOW + 20, "hub", &spec, 1), 1_202);
        const MONTH: u64 = 31 * 86_400;
        assert_eq!(again.add(NOW + MONTH, "hub", &spec, 5), 5);
        assert_eq!(again.add(NOW - 3 * MONTH, "hub", &spec, 5), 10, "the clock is old until it is set");
        assert_eq!(again.add(NOW + MONTH, "hub", &spec, 5), 15);
        // The clock shows a future month once. After its correction, the next month begins a new count.
        assert_eq!(again.add(NOW + 100 * MONTH, "hub", &spec, 5), 5);
        assert_eq!(again.add(NOW + MONTH, "hub", &spec, 5), 10);
        assert_eq!(again.add(NOW + 2 * MONTH, "hub", &spec, 5), 5);
        assert_eq!(again.add(NOW + 2 * MONTH, "hub", &spec, 5), 10);
    }

    /// If a new day made the current month an earlier one, that day would not begin a new month.
    #[test]
    fn a_new_day_keeps_the_volume_and_begins_the_next_month() {
        const DAY: u64 = 86_400;
        const NOW: u64 = 1_767_225_600 + 9 * DAY; // 2026-01-10
        let spec = |day: u32| -> PathSpec {
            let text = format!("name = \"lte\"\nremote = \"192.0.2.1\"\nquota = \"1GB\"\nquota_day = {day}");
            toml::from_str(&text).unwrap()
        };
        let mut quotas = Quotas::default();
        let mut add = |at: u64, day: u32| quotas.add(at, "hub", &spec(day), 1);
        assert_eq!([add(NOW, 1), add(NOW, 15), add(NOW + 4 * DAY, 15)], [1, 2, 3]);
        assert_eq!([add(NOW + 5 * DAY, 15), add(NOW + 6 * DAY, 1), add(NOW + 21 * DAY, 1)], [1, 2, 3]);
        assert_eq!(add(NOW + 22 * DAY, 1), 1, "on the first of February");
    }
}
