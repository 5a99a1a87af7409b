use super::scheduler::{Pick, Scheduler, open};
use crate::{PathRow, PktInfo, QueueView};
use mpdccp_units::Time;

/// Blocking Estimation (Ferlin and others, IFIP Networking 2016). A slower path is used only if the
/// receiver's buffer also has room for the data that the fastest path could send in the meantime.
#[derive(Debug, Default)]
pub(super) struct Blest;

/// Number of bytes that may wait at the receiver behind a packet of the slow path.
const HELD_BACK: u64 = 1 << 20;

impl Scheduler for Blest {
    fn pick(&mut self, _now: Time, pkt: &PktInfo, _queue: &QueueView, paths: &[PathRow]) -> Pick {
        let rtt = |path: &PathRow| path.srtt.map_or(u64::MAX, |srtt| srtt.as_micros() as u64).max(1);
        let Some(fast) = paths.iter().min_by_key(|path| (rtt(path), path.id)) else {
            return Pick::Wait(None);
        };
        if fast.is_open() {
            return Pick::One(fast.id);
        }
        let Some(slow) = open(paths).min_by_key(|path| (rtt(path), path.id)) else { return Pick::Wait(None) };
        let rounds = (rtt(slow) / rtt(fast)).max(1);
        // In the meantime, the window of the fast path grows by one packet per round trip. `window` is its
        // mean over that time.
        let window = fast.cwnd.saturating_add((pkt.len as u64).saturating_mul(rounds - 1) / 2);
        let meanwhile = window.saturating_mul(rounds);
        let room = HELD_BACK.saturating_sub(slow.inflight.bytes + pkt.len as u64);
        if meanwhile > room { Pick::Wait(None) } else { Pick::One(slow.id) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{closed, pick, row};
    use super::*;
    use crate::PathId;
    use mpdccp_units::Duration;

    #[test]
    fn a_slow_path_is_spared_if_the_fast_one_would_stall() {
        let fast = |cwnd| PathRow { cwnd, ..closed(0, 3) };
        assert_eq!(pick(&mut Blest, 1_000, &[fast(100_000), row(1, 3, 50)]), Pick::One(PathId(1)), "500 kB");
        assert_eq!(pick(&mut Blest, 1_000, &[fast(300_000), row(1, 3, 50)]), Pick::Wait(None), "1.5 MB");
        assert_eq!(pick(&mut Blest, 1_000, &[row(0, 3, 10), row(1, 3, 50)]), Pick::One(PathId(0)));
    }

    #[test]
    fn a_path_that_was_never_measured_is_infinitely_slow() {
        let near = PathRow { srtt: Some(Duration::from_micros(50)), ..closed(0, 3) };
        let unknown = PathRow { srtt: None, ..row(1, 3, 50) };
        assert_eq!(pick(&mut Blest, 1_000, &[near, unknown]), Pick::Wait(None));
    }
}
