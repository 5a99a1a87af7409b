use super::scheduler::{Pick, Scheduler, first_open};
use crate::{PathRow, PktInfo, QueueView};
use mpdccp_units::{Duration, Time};

/// Uses the open path with the lowest smoothed RTT (ATSSS Smallest-Delay).
#[derive(Debug, Default)]
pub(super) struct LowestRtt;

impl Scheduler for LowestRtt {
    fn pick(&mut self, _now: Time, _pkt: &PktInfo, _queue: &QueueView, paths: &[PathRow]) -> Pick {
        first_open(paths, |path| path.srtt.unwrap_or(Duration::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{closed, pick, row};
    use super::*;
    use crate::PathId;

    #[test]
    fn rtt_alone_counts() {
        assert_eq!(pick(&mut LowestRtt, 1000, &[row(0, 9, 20), row(1, 3, 10)]), Pick::One(PathId(1)));
        assert_eq!(pick(&mut LowestRtt, 1000, &[row(0, 9, 20), closed(1, 3)]), Pick::One(PathId(0)));
    }
}
