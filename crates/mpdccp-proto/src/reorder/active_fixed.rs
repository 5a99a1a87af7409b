use super::{Arrival, ReorderStats, Reorderer};
use alloc::vec::Vec;
use units::{Duration, Time};

/// Holds packets behind a hole until it fills or its timer ends; every hole has its own timer.
#[derive(Debug)]
pub struct ActiveFixed {}

impl ActiveFixed {
    /// Holes last at most `timeout`.
    pub fn new(timeout: Duration) -> ActiveFixed {
        let _ = timeout;
        todo!()
    }
}

impl Reorderer for ActiveFixed {
    fn push(&mut self, _now: Time, _arrival: Arrival, _data: Vec<u8>) {
        todo!()
    }
    fn pop(&mut self) -> Option<Vec<u8>> {
        todo!()
    }
    fn next_timeout(&self) -> Option<Time> {
        todo!()
    }
    fn on_timeout(&mut self, _now: Time) {
        todo!()
    }
    fn stats(&self) -> ReorderStats {
        todo!()
    }
}
