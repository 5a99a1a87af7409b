use super::{Arrival, ReorderStats, Reorderer};
use alloc::vec::Vec;
use units::Time;

/// Delivers packets as they arrive.
#[derive(Debug, Default)]
pub struct Passive {}

impl Reorderer for Passive {
    fn push(&mut self, _now: Time, _arrival: Arrival, _data: Vec<u8>) {
        todo!()
    }
    fn pop(&mut self) -> Option<Vec<u8>> {
        todo!()
    }
    fn next_timeout(&self) -> Option<Time> {
        None
    }
    fn on_timeout(&mut self, _now: Time) {}
    fn stats(&self) -> ReorderStats {
        todo!()
    }
}
