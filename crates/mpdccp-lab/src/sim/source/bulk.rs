use mpdccp_units::Time;

use super::interface::Source;

/// A source that always has data to send.
#[derive(Debug)]
pub(crate) struct Bulk {
    pub(super) size: usize,
    pub(super) start: Time,
    pub(super) stop: Time,
    pub(super) begun: bool,
}

impl Source for Bulk {
    fn next(&self) -> Option<Time> {
        (!self.begun).then_some(self.start)
    }

    fn emit(&mut self, now: Time, _dropped: u64, _sizes: &mut Vec<usize>) {
        self.begun |= now >= self.start;
    }

    fn backlog(&self, now: Time) -> Option<usize> {
        (self.begun && now < self.stop).then_some(self.size)
    }
}
