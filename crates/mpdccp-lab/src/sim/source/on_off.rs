use core::time::Duration;

use mpdccp_units::Time;

use super::constant::Constant;
use super::interface::Source;

/// A source of datagrams at a constant rate, with pauses.
#[derive(Debug)]
pub(crate) struct OnOff {
    inner: Constant,
    on: Duration,
    off: Duration,
    /// Time at which the current burst ends.
    pause: Time,
}

impl OnOff {
    pub(super) fn new(inner: Constant, on: Duration, off: Duration) -> OnOff {
        OnOff { pause: inner.next + on, inner, on, off }
    }
}

impl Source for OnOff {
    fn next(&self) -> Option<Time> {
        self.inner.next()
    }

    fn emit(&mut self, now: Time, dropped: u64, sizes: &mut Vec<usize>) {
        self.inner.emit(now, dropped, sizes);
        while self.inner.next >= self.pause {
            let begin = self.pause + self.off;
            self.inner.next = begin.max(self.inner.next);
            self.pause = begin + self.on;
        }
    }
}
