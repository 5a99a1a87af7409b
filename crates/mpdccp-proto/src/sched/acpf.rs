use super::scheduler::{Pick, Scheduler};
use crate::{PathId, PathRow, PktInfo, QueueView};
use alloc::collections::BTreeMap;
use core::cmp::Reverse;
use mpdccp_units::{Duration, Time};

/// Adaptive Cheapest Pipe First: each path may use only part of its window, its live part. The live part
/// shrinks while the path's RTT is above its target, and grows while the RTT is below. The next path
/// therefore steps in before the cheapest one builds a queue.
#[derive(Debug, Default)]
pub(super) struct Acpf {
    live: BTreeMap<PathId, Live>,
}

/// The live part of a window, as a fraction.
#[derive(Clone, Copy, Debug)]
struct Live {
    part: f64,
    at: Time,
}

/// The target RTT is a tenth above the minimum RTT, but exceeds it by at least this much.
const FLOOR: Duration = Duration::from_millis(5);
const LEAST_PART: f64 = 0.3;
const STEP: Duration = Duration::from_millis(1);
/// Adjustment speed: with an error of 100 per cent, the live part changes by this many percentage points per
/// round trip.
const GAIN: f64 = 10.0;

impl Live {
    fn update(&mut self, now: Time, path: &PathRow) {
        let elapsed = now.since(self.at);
        let (Some(rtt), Some(least)) = (path.srtt, path.min_rtt.filter(|min| !min.is_zero())) else { return };
        if elapsed < STEP {
            return;
        }
        self.at = now;
        let least = least.as_secs_f64();
        let target = (FLOOR.as_secs_f64() / least).max(0.1);
        let excess = rtt.as_secs_f64() / least - 1.0;
        let error = target - excess;
        let change = if error > 0.0 { error * self.part } else { error / (1.0 + excess) };
        // Adjust for at most a second at a time, because a longer pause gives no more information.
        let rounds = elapsed.as_secs_f64().min(1.0) / least;
        self.part = (self.part + change * rounds * GAIN / 100.0).clamp(LEAST_PART, 1.0);
    }
}

impl Scheduler for Acpf {
    fn pick(&mut self, now: Time, _pkt: &PktInfo, _queue: &QueueView, paths: &[PathRow]) -> Pick {
        self.live.retain(|id, _| paths.iter().any(|path| path.id == *id));
        for path in paths {
            self.live.entry(path.id).or_insert(Live { part: 1.0, at: now }).update(now, path);
        }
        let has_room = |path: &PathRow| {
            let live = self.live.get(&path.id).map_or(1.0, |live| live.part);
            path.is_open() && path.inflight.bytes as f64 <= live * path.cwnd as f64
        };
        let cost = |path: &&PathRow| (Reverse(path.prio), path.srtt.unwrap_or(Duration::MAX), path.id);
        // If no path has room in its live part, use full windows.
        let live = paths.iter().filter(|path| has_room(path)).min_by_key(cost);
        let pick = live.or_else(|| super::scheduler::open(paths).min_by_key(|path| (path.srtt, path.id)));
        pick.map_or(Pick::Wait(None), |path| Pick::One(path.id))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;
    use dccp_cc::Amount;

    #[test]
    fn leaves_a_path_whose_rtt_grows_and_comes_back() {
        let mut scheduler = Acpf::default();
        let mut pick = |ms: u64, srtt: u64| {
            let used = Amount { packets: 9, bytes: 13_500 };
            let path =
                PathRow { min_rtt: Some(Duration::from_millis(20)), inflight: used, ..row(0, 4, srtt) };
            let queue = QueueView::default();
            scheduler.pick(Time::from_millis(ms), &PktInfo::default(), &queue, &[path, row(1, 3, 30)])
        };
        assert_eq!(pick(0, 20), Pick::One(PathId(0)), "nine tenths of the window are in use");
        assert_eq!(pick(2, 24), Pick::One(PathId(0)), "the target is 5 ms above the smallest RTT");
        assert!(
            (3..200).any(|ms| pick(ms, 60) == Pick::One(PathId(1))),
            "a queue of 40 ms must bring in the next path"
        );
        assert!(
            (200..2_000).any(|ms| pick(ms, 20) == Pick::One(PathId(0))),
            "after the queue, the cheapest path must return"
        );
    }
}
