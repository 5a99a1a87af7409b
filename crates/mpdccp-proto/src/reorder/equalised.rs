use super::buffer::{Buffer, MAX_BYTES, MAX_PACKETS, Place};
use super::{Arrival, ReorderStats, Reorderer};
use crate::PathId;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use mpdccp_units::{Duration, Time};

/// Delay equalisation: delays the packets of each faster path by its difference to the slowest path. All
/// packets then take equally long and arrive in order, so the receiver need not wait for missing packets.
#[derive(Debug, Default)]
pub(super) struct Equalised {
    /// Paths that are slower than the fastest path by more than this do not delay other packets.
    max: Duration,
    seen: Buffer,
    paths: BTreeMap<PathId, Path>,
    held: BTreeMap<u64, Held>,
    held_bytes: u64,
    ready: VecDeque<Vec<u8>>,
    stats: ReorderStats,
}

#[derive(Debug, Default)]
struct Path {
    rtt: Option<Duration>,
    /// Time at which data last arrived on the path.
    data: Option<Time>,
}

#[derive(Debug)]
struct Held {
    due: Time,
    data: Vec<u8>,
}

/// A path that has carried no data for this long does not delay other paths.
const IDLE: Duration = Duration::from_secs(10);

impl Equalised {
    pub(super) fn new(max: Duration) -> Equalised {
        Equalised { max, seen: Buffer::new(), ..Equalised::default() }
    }

    /// Returns the one-way delays of the paths in use, estimated as half of their round trips.
    fn delays(&self, now: Time) -> impl Iterator<Item = Duration> {
        let in_use = move |p: &&Path| p.data.is_some_and(|at| now.since(at) <= IDLE);
        self.paths.values().filter(in_use).filter_map(|p| p.rtt).map(|rtt| rtt / 2)
    }

    /// Returns by how much this path is faster than the slowest path that is taken into account.
    fn lead(&self, now: Time, path: PathId) -> Duration {
        let own = self.paths.get(&path).and_then(|p| p.rtt).map(|rtt| rtt / 2);
        let (Some(own), Some(fastest)) = (own, self.delays(now).min()) else { return Duration::ZERO };
        let slowest = self.delays(now).filter(|d| *d <= fastest + self.max).max();
        slowest.map_or(Duration::ZERO, |slowest| slowest.saturating_sub(own))
    }

    fn release(&mut self, now: Time) {
        while let Some((_, first)) = self.held.first_key_value() {
            let full = self.held.len() > MAX_PACKETS || self.held_bytes > MAX_BYTES as u64;
            if first.due > now && !full {
                break;
            }
            if let Some((_, held)) = self.held.pop_first() {
                self.held_bytes -= held.data.len() as u64;
                self.ready.push_back(held.data);
            }
        }
    }
}

impl Reorderer for Equalised {
    fn push(&mut self, now: Time, arrival: Arrival, data: Vec<u8>) {
        let (position, place) = self.seen.place(now, arrival.mp_seq);
        if place == Place::Taken {
            self.stats.duplicates += 1;
            return;
        }
        self.seen.forget_before_newest();
        self.paths.entry(arrival.path).or_default().data = Some(now);
        let due = now + self.lead(now, arrival.path);
        self.stats.in_order += 1;
        self.stats.held += u64::from(due > now);
        self.held_bytes += data.len() as u64;
        self.held.insert(position, Held { due, data });
        self.release(now);
        self.stats.occupancy_max = self.stats.occupancy_max.max(self.held.len() as u64);
    }

    fn restart(&mut self, now: Time) {
        self.release(Time::MAX);
        self.seen.restart(now);
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    fn on_path(&mut self, path: PathId, rtt: Option<Duration>, up: bool) {
        if up {
            let path = self.paths.entry(path).or_default();
            path.rtt = rtt.or(path.rtt);
        } else {
            self.paths.remove(&path);
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        self.held.first_key_value().map(|(_, held)| held.due)
    }

    fn on_timeout(&mut self, now: Time) {
        self.release(now);
    }

    fn stats(&self) -> ReorderStats {
        let (occupancy, occupancy_bytes) = (self.held.len() as u64, self.held_bytes);
        ReorderStats { occupancy, occupancy_bytes, wait: self.max, ..self.stats }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn push(e: &mut Equalised, ms: u64, path: u32, n: u64) -> Vec<u8> {
        push_data(e, ms, path, n, alloc::vec![n as u8])
    }

    fn push_data(e: &mut Equalised, ms: u64, path: u32, n: u64, data: Vec<u8>) -> Vec<u8> {
        e.push(Time::from_millis(ms), Arrival::nth(path, n), data);
        drain(e, ms)
    }

    fn drain(e: &mut Equalised, ms: u64) -> Vec<u8> {
        e.on_timeout(Time::from_millis(ms));
        core::iter::from_fn(|| e.pop()).map(|data| data[0]).collect()
    }

    #[test]
    fn all_packets_take_as_long_as_on_the_slowest_path() {
        let mut e = Equalised::new(MS(100));
        e.on_path(PathId(0), Some(MS(20)), true);
        e.on_path(PathId(1), Some(MS(60)), true);
        assert_eq!(push(&mut e, 0, 0, 1), [1], "the slow path has not delivered data yet");
        assert_eq!(push(&mut e, 30, 1, 2), [2]);
        assert_eq!(push(&mut e, 31, 0, 4), [], "the fast path's packet waits 20 ms");
        assert_eq!(push(&mut e, 40, 1, 3), [3]);
        assert_eq!(push(&mut e, 40, 1, 3), [], "a duplicate must be dropped");
        assert_eq!(e.next_timeout(), Some(Time::from_millis(51)));
        assert_eq!(drain(&mut e, 51), [4]);
        assert_eq!(push(&mut e, 52, 0, 6), []);
        assert_eq!(drain(&mut e, 72), [6], "6 must not wait for 5");
        assert_eq!(push(&mut e, 73, 1, 5), [5]);
    }

    #[test]
    fn idle_gone_and_hopeless_paths_delay_nothing() {
        let mut e = Equalised::new(MS(100));
        e.on_path(PathId(0), Some(MS(20)), true);
        e.on_path(PathId(1), Some(MS(600)), true);
        e.on_path(PathId(2), Some(MS(60)), true);
        push(&mut e, 0, 1, 1);
        assert_eq!(push(&mut e, 1, 0, 2), [2], "a lag of 290 ms exceeds the maximum");
        assert_eq!(push(&mut e, 2, 2, 3), [3]);
        assert_eq!(push(&mut e, 3, 0, 4), []);
        assert_eq!(drain(&mut e, 23), [4]);
        e.on_path(PathId(2), None, false);
        assert_eq!(push(&mut e, 30, 0, 5), [5]);
        e.on_path(PathId(2), Some(MS(60)), true);
        push(&mut e, 31, 2, 6);
        assert_eq!(push(&mut e, 10_040, 0, 7), [7], "idle");
    }

    #[test]
    fn memory_is_bounded() {
        for (len, held) in [(1, MAX_PACKETS), (9_000, MAX_BYTES / 9_000)] {
            let mut e = Equalised::new(MS(10_000));
            e.on_path(PathId(0), Some(MS(2)), true);
            e.on_path(PathId(1), Some(MS(10_000)), true);
            push(&mut e, 0, 1, 1);
            for n in 2..40_000 {
                push_data(&mut e, 1, 0, n, alloc::vec![0; len]);
            }
            assert_eq!(e.stats().occupancy, held as u64);
        }
    }
}
