use super::{Pick, Scheduler, usable};
use crate::{PathRow, PktInfo, QueueView};
use core::cmp::Reverse;
use units::{Duration, Time};

/// Cheapest Pipe First: the open path of highest priority, ties by lowest smoothed RTT. Lower priorities are overflow.
#[derive(Debug, Default)]
pub struct Cpf;

impl Scheduler for Cpf {
    fn pick(&mut self, _now: Time, pkt: &PktInfo, _queue: &QueueView, paths: &[PathRow]) -> Pick {
        usable(pkt, paths)
            .max_by_key(|p| (p.prio, Reverse(p.srtt.unwrap_or(Duration::MAX)), Reverse(p.id)))
            .map_or(Pick::Wait(None), |p| Pick::One(p.id))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{closed, row};
    use super::*;
    use crate::PathId;

    fn pick(paths: &[PathRow]) -> Pick {
        Cpf.pick(Time::ZERO, &PktInfo::default(), &QueueView::default(), paths)
    }

    #[test]
    fn prefers_priority_then_rtt_then_the_first() {
        assert_eq!(pick(&[row(0, 2, 10), row(1, 3, 50)]), Pick::One(PathId(1)));
        assert_eq!(pick(&[row(0, 3, 50), row(1, 3, 10)]), Pick::One(PathId(1)));
        assert_eq!(pick(&[row(0, 3, 10), row(1, 3, 10)]), Pick::One(PathId(0)));
    }

    #[test]
    fn overflows_to_the_next_and_waits_for_the_last() {
        assert_eq!(pick(&[closed(0, 3), row(1, 2, 10)]), Pick::One(PathId(1)));
        assert_eq!(pick(&[closed(0, 3), closed(1, 2)]), Pick::Wait(None));
    }

    #[test]
    fn priority_zero_is_never_used() {
        assert_eq!(pick(&[row(0, 0, 10)]), Pick::Wait(None));
    }
}
