//! Path priorities (RFC 9897 section 3.2.10), which are applied once, before any scheduler. A path of
//! priority 0 is never used, even if no other path is left: it may be forbidden because of its cost. Priority
//! 1 (standby) is used only when no path of priority 2 or more is usable. Priority 2 (secondary) is used only
//! when all primary paths are gone or congested. Priorities 3 to 15 (primary) are left to the scheduler.

use super::scheduler::congested;
use crate::{PathRow, PktInfo, QueueView};
use alloc::vec::Vec;
use mpdccp_units::Time;

/// Priority of a secondary path.
const SECONDARY: u8 = 2;
pub(crate) const STANDBY: u8 = 1;

/// Returns whether [`offer`] would offer all rows for this packet, that is, whether all are primary and have
/// a large enough MTU.
pub(crate) fn offers_all(pkt: &PktInfo, rows: &[PathRow]) -> bool {
    rows.iter().all(|row| fits(pkt, row) && row.prio > SECONDARY)
}

fn fits(pkt: &PktInfo, row: &PathRow) -> bool {
    row.state.is_up() && pkt.len <= row.max_payload
}

/// Writes the rows that a scheduler may consider for this packet into `offered`. Their gates may be closed.
pub(crate) fn offer(
    now: Time,
    pkt: &PktInfo,
    queue: &QueueView,
    rows: &[PathRow],
    offered: &mut Vec<PathRow>,
) {
    offered.clear();
    let usable = || rows.iter().filter(|row| fits(pkt, row));
    offered.extend(usable().filter(|row| row.prio > SECONDARY).cloned());
    let primaries = offered.len();
    for row in usable().filter(|row| row.prio == SECONDARY) {
        if offered[..primaries].iter().all(|first| congested(now, first, queue, row)) {
            offered.push(row.clone());
        }
    }
    if offered.is_empty() {
        offered.extend(usable().filter(|row| row.prio == STANDBY).cloned());
    }
}

/// Returns the largest payload that fits a path of the best usable priority class. Larger packets would have
/// to take a worse path than small ones.
pub(crate) fn room(rows: &[PathRow]) -> Option<usize> {
    let rank = |row: &&PathRow| row.prio.min(SECONDARY + 1);
    let usable = || rows.iter().filter(|row| row.state.is_up() && row.prio > 0);
    let best = usable().map(|row| rank(&row)).max()?;
    usable().filter(|row| rank(row) == best).map(|row| row.max_payload).max()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{closed, row};
    use super::*;
    use crate::PathState;
    use dccp_proto::{Gate, Why};
    use mpdccp_units::Duration;

    const NOW: Time = Time::from_millis(1_000);

    #[test]
    fn large_packets_are_no_reason_to_take_a_worse_path() {
        let wide = |id, prio, most| PathRow { max_payload: most, ..row(id, prio, 10) };
        assert_eq!(room(&[wide(0, 3, 900), wide(1, 4, 1000), wide(2, 2, 1400)]), Some(1000));
        assert_eq!(room(&[wide(0, 1, 900), wide(1, 2, 800), wide(2, 0, 1400)]), Some(800));
        assert_eq!(room(&[wide(0, 0, 900), wide(1, 0, 800)]), None);
        let down = PathRow { state: PathState::Suspect, ..wide(0, 3, 1400) };
        assert_eq!((room(&[down.clone(), wide(1, 1, 900)]), room(&[down])), (Some(900), None));
    }

    fn offered(backlog: u64, rows: &[PathRow]) -> Vec<u32> {
        let mut out = Vec::new();
        let queue = QueueView { packets: 1, bytes: backlog, ..QueueView::default() };
        let pkt = PktInfo { len: 1000, ..PktInfo::default() };
        offer(NOW, &pkt, &queue, rows, &mut out);
        let ids = |rows: &[PathRow]| rows.iter().map(|row| row.id.0).collect::<Vec<_>>();
        assert!(!offers_all(&pkt, rows) || ids(&out) == ids(rows), "{rows:?}");
        ids(&out)
    }

    /// Returns a path whose pacer releases the next packet after `ms` milliseconds.
    fn paced(id: u32, prio: u8, srtt: u64, ms: u64) -> PathRow {
        PathRow { gate: Gate::At(NOW + Duration::from_millis(ms), Why::Pacing), ..row(id, prio, srtt) }
    }

    #[test]
    fn zero_is_never_used() {
        assert_eq!(offered(0, &[row(0, 0, 10), row(1, 3, 10)]), [1]);
        assert_eq!(
            offered(0, &[row(0, 0, 10), closed(1, 1)]),
            [1],
            "wait for the standby path instead of using priority 0"
        );
        let down = PathRow { state: PathState::Down, ..row(1, 3, 10) };
        assert!(
            offered(0, &[row(0, 0, 10), down]).is_empty(),
            "a path that is down must not bring in priority 0"
        );
        assert!(offered(0, &[row(0, 0, 10), row(1, 0, 10)]).is_empty());
    }

    #[test]
    fn standby_only_when_nothing_else_is_usable() {
        assert_eq!(
            offered(1 << 20, &[row(0, 1, 1), closed(1, 3)]),
            [1],
            "congestion must not bring in a standby path"
        );
        assert_eq!(offered(1 << 20, &[row(0, 1, 1), closed(1, 2)]), [1]);
        let mut gone = row(1, 3, 10);
        for state in [PathState::Suspect, PathState::Down, PathState::Connecting] {
            gone.state = state;
            assert_eq!(offered(0, &[row(0, 1, 10), gone.clone()]), [0]);
            assert_eq!(offered(0, &[row(0, 1, 10), gone.clone(), row(2, 2, 10)]), [2]);
        }
        let narrow = PathRow { max_payload: 999, ..row(1, 3, 10) };
        assert_eq!(
            offered(0, &[row(0, 1, 10), narrow.clone()]),
            [0],
            "the path's MTU is too small for this packet"
        );
        assert_eq!(offered(0, &[row(0, 3, 10), narrow]), [0]);
        assert_eq!(
            offered(0, &[row(0, 3, 10), closed(1, 15)]),
            [0, 1],
            "the scheduler chooses among primaries"
        );
    }

    #[test]
    fn a_secondary_helps_congested_primaries_and_replaces_lost_ones() {
        assert_eq!(offered(1000, &[row(0, 3, 10), row(1, 2, 1)]), [0]);
        // Waiting 3 ms for the pacer and 1 ms for the transmission costs less than using a path that takes 10
        // ms longer.
        assert_eq!(offered(1000, &[paced(0, 3, 10, 3), row(1, 2, 30)]), [0]);
        assert_eq!(offered(1000, &[paced(0, 3, 10, 11), row(1, 2, 30)]), [0, 1]);
        assert_eq!(
            offered(20_000, &[paced(0, 3, 10, 3), row(1, 2, 30)]),
            [0, 1],
            "the backlog congests the primary"
        );
        assert_eq!(
            offered(20_000, &[paced(0, 3, 10, 3), row(1, 2, 30), row(2, 3, 10)]),
            [0, 2],
            "not all primaries are congested"
        );
        let mut gone = row(0, 3, 10);
        gone.state = PathState::Down;
        assert_eq!(offered(0, &[gone, row(1, 2, 30)]), [1]);
        assert_eq!(offered(0, &[row(1, 2, 30), row(2, 1, 1)]), [1]);
    }
}
