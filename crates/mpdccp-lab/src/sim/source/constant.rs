use core::time::Duration;

use mpdccp_units::Time;

use super::interface::Source;

/// A source of datagrams of constant size at a constant rate.
#[derive(Debug)]
pub(crate) struct Constant {
    pub(super) size: usize,
    pub(super) gap: Duration,
    pub(super) next: Time,
    pub(super) stop: Time,
}

impl Source for Constant {
    fn next(&self) -> Option<Time> {
        (self.next < self.stop).then_some(self.next)
    }

    fn emit(&mut self, now: Time, _dropped: u64, sizes: &mut Vec<usize>) {
        while self.next().is_some_and(|t| t <= now) {
            sizes.push(self.size);
            self.next += self.gap;
        }
    }
}
