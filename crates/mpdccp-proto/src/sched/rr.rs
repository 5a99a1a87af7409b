use super::scheduler::{Pick, Scheduler, first_open};
use crate::{PathId, PathRow, PktInfo, QueueView};
use mpdccp_units::Time;

/// Round robin over the open paths, one packet each. Full paths are skipped, so all windows are filled under
/// load.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    last: Option<PathId>,
}

impl Scheduler for RoundRobin {
    fn pick(&mut self, _now: Time, _pkt: &PktInfo, _queue: &QueueView, paths: &[PathRow]) -> Pick {
        // Pick the open path with the next higher identifier, or the lowest one after the highest.
        first_open(paths, |path| self.last.is_some_and(|last| path.id <= last))
    }

    fn on_sent(&mut self, _now: Time, path: PathId, _bytes: usize) {
        self.last = Some(path);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{closed, pick, row};
    use super::*;

    fn served(rr: &mut RoundRobin, paths: &[PathRow]) -> Option<u32> {
        match pick(rr, 1000, paths) {
            Pick::One(id) => {
                rr.on_sent(Time::ZERO, id, 1);
                Some(id.0)
            }
            _ => None,
        }
    }

    #[test]
    fn alternates_and_skips_full_paths() {
        let mut rr = RoundRobin::default();
        let all = [row(0, 3, 10), row(1, 3, 99), row(2, 3, 1)];
        let order: alloc::vec::Vec<_> = (0..6).filter_map(|_| served(&mut rr, &all)).collect();
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
        let one_full = [row(0, 3, 10), closed(1, 3), row(2, 3, 1)];
        let order: alloc::vec::Vec<_> = (0..4).filter_map(|_| served(&mut rr, &one_full)).collect();
        assert_eq!(order, [0, 2, 0, 2]);
        assert_eq!(served(&mut rr, &[closed(0, 3)]), None);
    }
}
