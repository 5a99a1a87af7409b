use super::scheduler::{Pick, Scheduler};
use crate::{PathId, PathRow, PktInfo, QueueView};
use core::cmp::Reverse;
use mpdccp_units::{Duration, Time};

/// One path at a time (ATSSS Active-Standby): uses the path with the highest priority, and keeps it until it
/// fails or a path with a higher priority comes up.
#[derive(Debug, Default)]
pub(super) struct Handover {
    active: Option<PathId>,
}

impl Scheduler for Handover {
    fn pick(&mut self, _now: Time, _pkt: &PktInfo, _queue: &QueueView, paths: &[PathRow]) -> Pick {
        let rank = |path: &&PathRow| {
            let changes = self.active != Some(path.id);
            (Reverse(path.prio), changes, path.srtt.unwrap_or(Duration::MAX), path.id)
        };
        let Some(active) = paths.iter().min_by_key(rank) else { return Pick::Wait(None) };
        self.active = Some(active.id);
        if active.is_open() { Pick::One(active.id) } else { Pick::Wait(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{closed, pick, row};
    use super::*;

    #[test]
    fn one_path_until_it_is_lost_or_a_higher_one_comes() {
        let mut scheduler = Handover::default();
        assert_eq!(pick(&mut scheduler, 1000, &[row(0, 3, 20), row(1, 3, 10)]), Pick::One(PathId(1)));
        assert_eq!(pick(&mut scheduler, 1000, &[row(0, 3, 5), row(1, 3, 10)]), Pick::One(PathId(1)), "kept");
        assert_eq!(
            pick(&mut scheduler, 99_000, &[row(0, 3, 5), closed(1, 3)]),
            Pick::Wait(None),
            "the scheduler must wait for a full path instead of switching away from it"
        );
        assert_eq!(pick(&mut scheduler, 1000, &[row(0, 3, 5)]), Pick::One(PathId(0)));
        assert_eq!(pick(&mut scheduler, 1000, &[row(0, 3, 5), row(1, 4, 10)]), Pick::One(PathId(1)));
    }
}
