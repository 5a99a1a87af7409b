//! Packets that have arrived on one of the peer's paths, and when to acknowledge them.

use crate::ranges::RangeSet;
use mpdccp_units::{Duration, Time};

/// Longest delay of an acknowledgement (docs/streams.md).
pub(crate) const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// Delay before sending an acknowledgement that reports a new gap. It is short but not zero, because more
/// gaps may follow.
const GAP_DELAY: Duration = Duration::from_millis(1);
/// Maximum number of ranges of packet numbers to keep. If there are more, the lowest range is forgotten, and
/// its packets no longer count as received. A fast path with reordering has hundreds of ranges.
const MAX_RANGES: usize = 1_024;
/// Shortest time for which acknowledgements name a number. Lost packets leave gaps for good, so without a
/// limit, each acknowledgement on a lossy path would soon be as long as a packet may be.
const NAMED: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Arrivals {
    /// The peer's identifier of the path.
    pub(crate) path: u64,
    numbers: RangeSet,
    /// Time at which the packet with the highest number arrived.
    highest_at: Time,
    /// Deadline of the next acknowledgement.
    pub(crate) due: Option<Time>,
    pub(crate) last_at: Time,
    /// The highest number at the time `marked_at`, which is when numbers were last forgotten.
    mark: u64,
    marked_at: Time,
}

impl Arrivals {
    pub(crate) fn new(path: u64, now: Time) -> Arrivals {
        Arrivals {
            path,
            numbers: RangeSet::default(),
            highest_at: now,
            due: None,
            last_at: now,
            mark: 0,
            marked_at: now,
        }
    }

    pub(crate) fn on_packet(&mut self, now: Time, number: u64, ack_now: bool) {
        self.last_at = now;
        if now.since(self.marked_at) >= NAMED {
            self.numbers.remove(0..self.mark);
            (self.mark, self.marked_at) = (self.numbers.last().map_or(0, |range| range.end - 1), now);
        }
        let next = self.numbers.last().map_or(0, |range| range.end);
        if number >= next {
            self.highest_at = now;
        }
        self.numbers.insert(number..number + 1);
        while self.numbers.len() > MAX_RANGES {
            self.numbers.pop_first();
        }
        let wait = match () {
            () if ack_now => Duration::ZERO,
            () if number != next => GAP_DELAY,
            () => MAX_ACK_DELAY,
        };
        self.due = Some((now + wait).min(self.due.unwrap_or(Time::MAX)));
    }

    /// Returns the ranges in descending order.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = core::ops::Range<u64>> + Clone {
        self.numbers.descending()
    }

    /// Returns the time since the packet with the highest number arrived, in microseconds.
    pub(crate) fn delay(&self, now: Time) -> u64 {
        now.since(self.highest_at).as_micros().try_into().unwrap_or(u64::MAX).min(1 << 40)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn acknowledged_at_once_soon_or_in_the_end() {
        let t = Time::from_millis;
        let mut arrivals = Arrivals::new(0, t(0));
        arrivals.on_packet(t(1), 0, false);
        assert_eq!(arrivals.due, Some(t(1) + MAX_ACK_DELAY));
        arrivals.on_packet(t(2), 1, false);
        assert_eq!(arrivals.due, Some(t(1) + MAX_ACK_DELAY), "the delay must count from the first packet");
        arrivals.on_packet(t(3), 3, false);
        assert_eq!(arrivals.due, Some(t(3) + GAP_DELAY));
        arrivals.on_packet(t(3), 4, true);
        assert_eq!(arrivals.due, Some(t(3)));
        assert_eq!(arrivals.ranges().collect::<Vec<_>>(), [3..5, 0..2]);
    }

    #[test]
    fn numbers_are_named_for_a_second_or_two() {
        let t = Time::from_millis;
        let mut arrivals = Arrivals::new(0, t(0));
        for n in 0..40 {
            arrivals.on_packet(t(100 * n), 2 * n, false);
        }
        assert_eq!(arrivals.ranges().last(), Some(38..39), "this number arrived at 1,900 ms");
        // Late packets are named, too, and the highest number is never forgotten.
        for late in [10_000, 20_000] {
            arrivals.on_packet(t(late), 0, false);
        }
        assert_eq!(arrivals.ranges().collect::<Vec<_>>(), [78..79, 0..1]);
    }

    #[test]
    fn ranges_are_bounded() {
        let mut arrivals = Arrivals::new(0, Time::ZERO);
        (0..10_000).for_each(|n| arrivals.on_packet(Time::ZERO, 2 * n, false));
        assert_eq!(arrivals.ranges().count(), MAX_RANGES);
        assert_eq!(arrivals.ranges().next(), Some(19_998..19_999));
    }
}
