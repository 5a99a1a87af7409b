use super::scheduler::{Pick, Scheduler, first_open};
use crate::{PathId, PathRow, PktInfo, QueueView};
use alloc::collections::BTreeMap;
use mpdccp_units::Time;

/// Weighted round robin (ATSSS Load-Balancing): each path gets bytes in proportion to its priority. A path
/// that is full misses its turns and does not catch up later.
#[derive(Debug, Default)]
pub(super) struct Weighted {
    /// Bytes sent on each path, divided by its weight.
    served: BTreeMap<PathId, u64>,
    weights: BTreeMap<PathId, u8>,
}

/// Scale of the quotients, large enough to count small packets precisely.
const SCALE: u64 = 1 << 10;

impl Scheduler for Weighted {
    fn pick(&mut self, _now: Time, _pkt: &PktInfo, _queue: &QueueView, paths: &[PathRow]) -> Pick {
        self.weights = paths.iter().map(|path| (path.id, path.prio.max(1))).collect();
        self.served.retain(|id, _| self.weights.contains_key(id));
        // A path that can send again after a pause starts from the lowest count among the open paths.
        let least = super::scheduler::open(paths)
            .filter_map(|path| self.served.get(&path.id))
            .min()
            .copied()
            .unwrap_or(0);
        for path in paths {
            let served = self.served.entry(path.id).or_insert(least);
            if !path.is_open() {
                *served = (*served).max(least);
            }
        }
        first_open(paths, |path| self.served[&path.id])
    }

    fn on_sent(&mut self, _now: Time, path: PathId, bytes: usize) {
        let weight = self.weights.get(&path).copied().unwrap_or(1);
        *self.served.entry(path).or_insert(0) += bytes as u64 * SCALE / u64::from(weight);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{closed, pick, row};
    use super::*;

    fn shares(scheduler: &mut Weighted, paths: &[PathRow], packets: u32) -> [u32; 2] {
        let mut got = [0; 2];
        for _ in 0..packets {
            let Pick::One(id) = pick(scheduler, 1000, paths) else { continue };
            scheduler.on_sent(Time::ZERO, id, 1000);
            got[id.0 as usize] += 1;
        }
        got
    }

    #[test]
    fn shares_are_the_priorities() {
        let mut scheduler = Weighted::default();
        assert_eq!(shares(&mut scheduler, &[row(0, 12, 10), row(1, 3, 99)], 100), [80, 20]);
        assert_eq!(shares(&mut scheduler, &[closed(0, 12), row(1, 3, 99)], 100), [0, 100]);
        let [a, b] = shares(&mut scheduler, &[row(0, 12, 10), row(1, 3, 99)], 100);
        assert!((78..=81).contains(&a), "a path must not get missed turns back: {a} and {b} packets");
    }
}
