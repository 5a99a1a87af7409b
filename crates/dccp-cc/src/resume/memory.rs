//! What is remembered of paths (RFC 9959 section 3.1).

use alloc::collections::BTreeMap;

use crate::AckEvent;
use mpdccp_units::{Duration, Time};

/// Least window that is worth remembering, in initial windows (section 3.1).
const WORTH: u64 = 4;
/// A rate that was limited by the path is taken in by this part each round.
const SMOOTHING: f64 = 0.125;
/// How long what was saved may be used, if nothing else is said.
pub const LIFETIME: Duration = Duration::from_secs(3_600);
/// Endpoints that are remembered.
const MOST: usize = 1_024;

/// What is remembered of a path (section 3.1): its capacity, free of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// IP bytes that arrived in a least round-trip time.
    pub window: u64,
    /// The least round-trip time.
    pub min_rtt: Duration,
}

/// Notes what a path carries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Observer {
    window: f64,
    min_rtt: Duration,
}

impl Observer {
    /// Takes in an acknowledgement. A rate that the application limited shows that the path carries it, and no more.
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

    /// What is worth remembering, for initial windows of `initial` bytes.
    pub fn get(&self, initial: u64) -> Option<Remembered> {
        let window = self.window as u64;
        (window >= WORTH * initial).then_some(Remembered { window, min_rtt: self.min_rtt })
    }
}

/// What is remembered of several endpoints, `K` being what identifies them (section 1.4.2): at most one set each.
#[derive(Clone, Debug)]
pub struct Memory<K> {
    lifetime: Duration,
    entries: BTreeMap<K, (Remembered, Time)>,
}

impl<K: Ord + Clone> Memory<K> {
    /// Whose entries may be used for `lifetime`.
    pub fn new(lifetime: Duration) -> Memory<K> {
        Memory { lifetime, entries: BTreeMap::new() }
    }

    /// Takes the place of what there was.
    pub fn remember(&mut self, endpoint: K, what: Remembered, now: Time) {
        if self.entries.len() >= MOST && !self.entries.contains_key(&endpoint) {
            let oldest = self.entries.iter().min_by_key(|(_, (_, at))| *at).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.entries.remove(&key));
        }
        self.entries.insert(endpoint, (what, now));
    }

    /// Gives it to one connection, which alone has it from then on: no other can use it at the same time, and a retreat leaves nothing to delete.
    /// None if it is too old.
    pub fn take(&mut self, endpoint: &K, now: Time) -> Option<Remembered> {
        let (what, at) = self.entries.remove(endpoint)?;
        (now.since(at) <= self.lifetime).then_some(what)
    }

    /// All there is, and when it was saved.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Remembered, Time)> {
        self.entries.iter().map(|(key, (what, at))| (key, what, *at))
    }
}
