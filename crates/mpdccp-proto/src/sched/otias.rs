use super::scheduler::{Pick, Scheduler};
use crate::{PathRow, PktInfo, QueueView};
use mpdccp_units::{Duration, Time};

/// Out-of-order transmission for in-order arrival scheduling: picks the path on which the packet arrives
/// first. The backlog ahead of the packet counts in whole round trips. All paths share one queue, in which
/// the packet waits for its path.
#[derive(Debug, Default)]
pub(super) struct Otias;

fn arrival(path: &PathRow, backlog: u64) -> Duration {
    let room = path.cwnd.saturating_sub(path.inflight.bytes);
    let must_wait = backlog.saturating_sub(room);
    let rounds = must_wait / path.cwnd.max(1);
    let srtt = path.srtt.unwrap_or(Duration::MAX / 4);
    srtt.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX)).saturating_add(srtt / 2)
}

impl Scheduler for Otias {
    fn pick(&mut self, _now: Time, _pkt: &PktInfo, queue: &QueueView, paths: &[PathRow]) -> Pick {
        match paths.iter().min_by_key(|path| (arrival(path, queue.bytes), !path.is_open(), path.id)) {
            Some(path) if path.is_open() => Pick::One(path.id),
            _ => Pick::Wait(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{closed, pick, row};
    use super::*;
    use crate::PathId;
    use dccp_cc::Amount;

    #[test]
    fn counts_the_rounds_that_the_backlog_takes() {
        let full = PathRow { inflight: Amount { packets: 10, bytes: 15_000 }, ..closed(0, 3) };
        let slow = row(1, 3, 35);
        assert_eq!(
            pick(&mut Otias, 1_000, &[full.clone(), slow.clone()]),
            Pick::Wait(None),
            "an arrival after 5 ms is before one after 17 ms"
        );
        assert_eq!(pick(&mut Otias, 14_000, &[full.clone(), slow.clone()]), Pick::Wait(None));
        let slow = PathRow { cwnd: 60_000, ..slow };
        assert_eq!(
            pick(&mut Otias, 31_000, &[full, slow]),
            Pick::One(PathId(1)),
            "the full path takes two more rounds of 10 ms"
        );
    }
}
