//! Memory of paths (RFC 9959 section 3.1).

use alloc::collections::BTreeMap;

use crate::AckEvent;
use mpdccp_units::{Duration, Time};

/// Minimum window worth remembering, in initial windows (section 3.1).
const WORTH: u64 = 4;
/// Weight of a new round in the average, if the round's rate was limited by the path and not by the
/// application.
const SMOOTHING: f64 = 0.125;
/// Default lifetime of saved values.
pub const LIFETIME: Duration = Duration::from_secs(3_600);
/// Maximum number of remembered endpoints.
const MOST: usize = 1_024;

/// Remembered capacity of a path, measured without queues (section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// IP bytes that arrive per minimum round-trip time.
    pub window: u64,
    /// Minimum round-trip time.
    pub min_rtt: Duration,
}

/// Measures a path's capacity.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observer {
    window: f64,
    min_rtt: Duration,
}

impl Observer {
    /// Adds an acknowledgement. An application-limited sample is only a lower bound for the path's rate.
    pub fn on_ack(&mut self, ev: &AckEvent<'_>) {
        let (Some(rate), Some((min_rtt, _)), true) = (&ev.rate, ev.estimator.min(), ev.round_end) else {
            return;
        };
        let window = rate.rate.bytes_per_sec() * min_rtt.as_secs_f64();
        self.min_rtt = min_rtt;
        if self.window == 0.0 || window > self.window && rate.app_limited {
            self.window = window;
        } else if !rate.app_limited && !ev.app_limited {
            self.window += SMOOTHING * (window - self.window);
        }
    }

    /// Returns the capacity, if it is worth remembering for initial windows of `initial` bytes.
    pub fn get(&self, initial: u64) -> Option<Remembered> {
        let window = self.window as u64;
        (window >= WORTH * initial).then_some(Remembered { window, min_rtt: self.min_rtt })
    }
}

/// Capacities of several endpoints, identified by `K` (section 1.4.2), with at most one capacity per
/// endpoint.
#[derive(Clone, Debug)]
pub struct Memory<K> {
    lifetime: Duration,
    entries: BTreeMap<K, (Remembered, Time)>,
}

impl<K: Ord + Clone> Memory<K> {
    /// Creates a memory whose entries may be used for `lifetime`.
    pub fn new(lifetime: Duration) -> Memory<K> {
        Memory { lifetime, entries: BTreeMap::new() }
    }

    /// Stores a capacity, replacing any old capacity of this endpoint.
    pub fn remember(&mut self, endpoint: K, what: Remembered, now: Time) {
        if self.entries.len() >= MOST && !self.entries.contains_key(&endpoint) {
            let oldest = self.entries.iter().min_by_key(|(_, (_, at))| *at).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.entries.remove(&key));
        }
        self.entries.insert(endpoint, (what, now));
    }

    /// Removes the capacity of an endpoint and returns it, or `None` if the capacity is too old. Because the
    /// entry is removed, no other connection can use it at the same time, and a connection that retreats has
    /// nothing to delete.
    pub fn take(&mut self, endpoint: &K, now: Time) -> Option<Remembered> {
        let (what, at) = self.entries.remove(endpoint)?;
        (now.since(at) <= self.lifetime).then_some(what)
    }

    /// Returns all entries, each with the time when it was saved.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Remembered, Time)> {
        self.entries.iter().map(|(key, (what, at))| (key, what, *at))
    }
}
