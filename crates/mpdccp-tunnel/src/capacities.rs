//! Keeps the measured capacities of paths across restarts. A new session or path starts with its stored
//! capacity (Careful Resume, RFC 9959).

use crate::Cx;
use crate::action::{Actions, StateFile};
use crate::host::CLOCK_IS_SET;
use crate::peer::Peer;
use dccp_cc::{Memory, RESUME_LIFETIME, Remembered, ResumePhase};
use mpdccp_proto::PathStatus;
use mpdccp_units::{Duration, Rate, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Interval between writes of the file. If the process is killed, measurements made since the last write are
/// lost.
const EVERY: Duration = Duration::from_secs(60);

/// An entry in the capacity file.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    /// Bytes delivered in one minimum round-trip time.
    window: u64,
    min_rtt_us: u64,
    /// Time of the measurement in seconds since 1970.
    at: u64,
}

/// Capacities of this end's paths, keyed by peer, path and peer address.
#[derive(Debug)]
pub(crate) struct Capacities {
    memory: Memory<String>,
    /// The time since 1970 at [`Time::ZERO`].
    epoch: Duration,
    due: Time,
    changed: bool,
}

fn endpoint(peer: &Peer, path: &PathStatus) -> String {
    format!("{} {} {}", peer.name(), peer.path_name(path), peer.place(&path.route).ip())
}

impl Capacities {
    /// Loads the file that the last run wrote. `wall` is the time since 1970.
    pub(crate) fn new(saved: Option<&str>, now: Time, wall: Duration, out: &mut Actions) -> Capacities {
        let entries: BTreeMap<String, Entry> = saved.map_or_else(BTreeMap::new, |text| {
            serde_json::from_str(text).unwrap_or_else(|e| {
                out.warn(format!(
                    "cannot read the state file capacities.json; paths start without stored capacities: {e}"
                ));
                BTreeMap::new()
            })
        });
        let mut memory = Memory::new(RESUME_LIFETIME);
        for (endpoint, Entry { window, min_rtt_us, at }) in entries {
            // The age of the entry is unknown if the clock was not set when the entry was written, or has
            // been set back since.
            if (CLOCK_IS_SET..=wall.as_secs()).contains(&at) {
                let min_rtt = Duration::from_micros(min_rtt_us);
                memory.remember(endpoint, Remembered { window, min_rtt }, Time::from_millis(at * 1_000));
            }
        }
        let mut capacities = Capacities { memory, epoch: wall, due: now + EVERY, changed: false };
        capacities.set_clock(now, wall);
        capacities
    }

    /// Stores that the clock shows `wall`, the time since 1970. The clock may be set while the tunnel runs.
    pub(crate) fn set_clock(&mut self, now: Time, wall: Duration) {
        self.epoch = wall.saturating_sub(now.since(Time::ZERO));
    }

    fn wall(&self, now: Time) -> Time {
        now + self.epoch
    }

    /// Applies the stored capacities to the paths of a peer that are up.
    pub(crate) fn resume(&mut self, cx: &mut Cx<'_>, peer: &Peer) {
        if !cx.cfg.careful_resume {
            return;
        }
        let (Some(session), Some(status)) = (peer.session, peer.status(cx)) else { return };
        for path in status.paths.iter().filter(|path| path.state.is_up()) {
            let begun = path.tx.as_ref().is_none_or(|tx| tx.resumption.is_some());
            let saved =
                (!begun).then(|| self.memory.take(&endpoint(peer, path), self.wall(cx.now))).flatten();
            if let Some(saved) = saved {
                self.changed = true;
                let rate =
                    Rate::from_bytes_per(saved.window, saved.min_rtt.max(Duration::from_micros(1))).mbps();
                let (name, label) = (peer.name(), peer.path_name(path));
                cx.out.info(format!(
                    "peer {name}: path {label} carried {rate:.1} Mbit/s before and starts at half of this rate"
                ));
                cx.endpoint.resume(cx.now, session, path.id, &saved, u64::MAX);
            }
        }
    }

    /// Stores the current capacities of a peer's paths.
    pub(crate) fn observe(&mut self, cx: &Cx<'_>, peer: &Peer) {
        if !cx.cfg.careful_resume {
            return;
        }
        for path in peer.status(cx).into_iter().flat_map(|status| status.paths) {
            let Some(tx) = path.tx.as_ref() else { continue };
            let over = tx.resumption.is_none_or(|phase| matches!(phase, ResumePhase::Normal(_)));
            if let Some(what) = tx.capacity.filter(|_| over) {
                self.memory.remember(endpoint(peer, &path), what, self.wall(cx.now));
                self.changed = true;
            }
        }
    }

    /// Returns whether it is time to write the file. If so, schedules the next write.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        let due = self.due <= now;
        if due {
            self.due = now + EVERY;
        }
        due
    }

    /// Writes the file if a capacity has changed since the last write.
    pub(crate) fn save(&mut self, out: &mut Actions) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let entry = |what: &Remembered, at: Time| Entry {
            window: what.window,
            min_rtt_us: u64::try_from(what.min_rtt.as_micros()).unwrap_or(u64::MAX),
            at: at.as_nanos() / 1_000_000_000,
        };
        let entries = self.memory.iter().map(|(endpoint, what, at)| (endpoint, entry(what, at)));
        let entries: BTreeMap<&String, Entry> =
            entries.filter(|(_, entry)| entry.at >= CLOCK_IS_SET).collect();
        out.save(StateFile::Capacities, &entries);
    }
}
