use super::buffer::{Buffer, Place};
use super::{Arrival, ReorderStats, Reorderer};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use mpdccp_units::Time;

/// Delivers packets in order of arrival, and each only once.
#[derive(Debug)]
pub(super) struct Passive {
    /// Detects duplicates; holds no packet.
    seen: Buffer,
    ready: VecDeque<Vec<u8>>,
    stats: ReorderStats,
}

impl Passive {
    pub(super) fn new() -> Passive {
        Passive { seen: Buffer::new(), ready: VecDeque::new(), stats: ReorderStats::default() }
    }
}

impl Reorderer for Passive {
    fn push(&mut self, now: Time, arrival: Arrival, data: Vec<u8>) {
        let (_, place) = self.seen.place(now, arrival.mp_seq);
        if place == Place::Taken {
            self.stats.duplicates += 1;
            return;
        }
        self.seen.forget_before_newest();
        self.stats.in_order += 1;
        self.ready.push_back(data);
    }
    fn restart(&mut self, now: Time) {
        self.seen.restart(now);
    }
    fn pop(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }
    fn next_timeout(&self) -> Option<Time> {
        None
    }
    fn on_timeout(&mut self, _now: Time) {}
    fn stats(&self) -> ReorderStats {
        self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_arrival_and_copies_are_dropped() {
        let mut passive = Passive::new();
        let mut got = Vec::new();
        for n in [3u64, 1, 3, 2, 2, 1, 9] {
            passive.push(Time::ZERO, Arrival::nth(0, n), alloc::vec![n as u8]);
            got.extend(core::iter::from_fn(|| passive.pop()).map(|data| data[0]));
        }
        assert_eq!(got, [3, 1, 2, 9]);
        assert_eq!((passive.stats().in_order, passive.stats().duplicates), (4, 3));
    }
}
