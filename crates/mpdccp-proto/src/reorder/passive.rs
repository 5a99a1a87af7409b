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
