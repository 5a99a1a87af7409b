use super::scheduler::{Pick, Scheduler, open};
use crate::{PathRow, PktInfo, QueueView};
use mpdccp_units::{Duration, Time};

/// Earliest Completion First (Lim and others, CoNEXT 2017). While the fastest path is full, a slower path is
/// used unless the fastest alone would finish the backlog sooner. The decision to wait has a hysteresis of a
/// quarter.
#[derive(Debug, Default)]
pub(super) struct Ecf {
    waiting: bool,
}

/// While the scheduler is waiting, the slow path counts as slower by one part in `HYSTERESIS`.
const HYSTERESIS: u32 = 4;

impl Scheduler for Ecf {
    fn pick(&mut self, _now: Time, _pkt: &PktInfo, queue: &QueueView, paths: &[PathRow]) -> Pick {
        let rtt = |path: &PathRow| path.srtt.unwrap_or(Duration::MAX / 8);
        let Some(fast) = paths.iter().min_by_key(|path| (rtt(path), path.id)) else {
            return Pick::Wait(None);
        };
        if fast.is_open() {
            return Pick::One(fast.id);
        }
        let Some(slow) = open(paths).min_by_key(|path| (rtt(path), path.id)) else { return Pick::Wait(None) };
        let delta = fast.rttvar.max(slow.rttvar);
        let on =
            |path: &PathRow, rounds: u64| rtt(path).saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX));
        let rounds = |path: &PathRow| queue.bytes.div_ceil(path.cwnd.max(1)).max(1);
        let slow_once = rtt(slow) + delta;
        let slow_once = if self.waiting { slow_once + slow_once / HYSTERESIS } else { slow_once };
        // On the fast path, the backlog takes one round trip until the window opens, plus the round trips
        // needed to send it.
        self.waiting =
            on(fast, 1 + rounds(fast)) < slow_once && on(slow, rounds(slow)) >= rtt(fast) * 2 + delta;
        if self.waiting { Pick::Wait(None) } else { Pick::One(slow.id) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{closed, pick, row};
    use super::*;
    use crate::PathId;

    #[test]
    fn a_short_backlog_waits_and_a_long_one_does_not() {
        let mut scheduler = Ecf::default();
        let paths = [closed(0, 3), row(1, 3, 50)];
        assert_eq!(pick(&mut scheduler, 1_000, &[row(0, 3, 10), row(1, 3, 50)]), Pick::One(PathId(0)));
        assert_eq!(
            pick(&mut scheduler, 60_000, &paths),
            Pick::One(PathId(1)),
            "the backlog takes five rounds of 10 ms"
        );
        assert_eq!(
            pick(&mut scheduler, 15_000, &paths),
            Pick::Wait(None),
            "the backlog takes only two rounds"
        );
        assert_eq!(
            pick(&mut scheduler, 60_000, &paths),
            Pick::Wait(None),
            "the wait must continue within the hysteresis of a quarter"
        );
        assert_eq!(pick(&mut scheduler, 90_000, &paths), Pick::One(PathId(1)));
    }
}
