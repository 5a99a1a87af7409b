use super::{Arrival, ReorderStats, Reorderer};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use units::Time;

/// Delivers packets as they arrive.
#[derive(Debug, Default)]
pub(super) struct Passive {
    ready: VecDeque<Vec<u8>>,
    stats: ReorderStats,
}

impl Reorderer for Passive {
    fn push(&mut self, _now: Time, _arrival: Arrival, data: Vec<u8>) {
        self.stats.in_order += 1;
        self.ready.push_back(data);
    }
    fn restart(&mut self, _now: Time) {}
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
