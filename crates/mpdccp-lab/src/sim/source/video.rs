use core::time::Duration;

use mpdccp_units::{Rate, Time};

use super::interface::Source;

/// Time without a drop after which the source tries the next higher rate.
const CLIMB: Duration = Duration::from_secs(2);
/// Number of frames from one key frame to the next, and the size of a key frame relative to other frames.
const KEY_EVERY: u64 = 60;
const KEY_SIZE: f64 = 4.0;

/// A video call: each frame is a burst of datagrams, at one of several rates. The source steps down when the
/// sender drops datagrams, and back up after some time without drops.
#[derive(Debug)]
pub(crate) struct Video {
    size: usize,
    interval: Duration,
    ladder: Vec<Rate>,
    rung: usize,
    frame: u64,
    next: Time,
    stop: Time,
    dropped: u64,
    changed: Time,
}

impl Video {
    pub(super) fn new(size: usize, frames_per_s: u32, ladder: Vec<Rate>, start: Time, stop: Time) -> Video {
        let interval = Duration::from_secs(1) / frames_per_s.max(1);
        Video { size, interval, ladder, rung: 0, frame: 0, next: start, stop, dropped: 0, changed: start }
    }

    fn adapt(&mut self, now: Time, dropped: u64) {
        if dropped > self.dropped {
            self.rung = self.rung.saturating_sub(1);
            self.changed = now;
        } else if now.since(self.changed) >= CLIMB && self.rung + 1 < self.ladder.len() {
            self.rung += 1;
            self.changed = now;
        }
        self.dropped = dropped;
    }

    /// Returns the size of the next frame in bytes. Over a group of frames, the mean matches the current
    /// rate.
    fn frame_bytes(&self) -> usize {
        let rate = self.ladder.get(self.rung).copied().unwrap_or(Rate::ZERO);
        let group = KEY_SIZE + (KEY_EVERY - 1) as f64;
        let share =
            if self.frame.is_multiple_of(KEY_EVERY) { KEY_SIZE } else { 1.0 } * KEY_EVERY as f64 / group;
        (rate.bytes_in(self.interval) as f64 * share) as usize
    }
}

impl Source for Video {
    fn next(&self) -> Option<Time> {
        (self.next < self.stop).then_some(self.next)
    }

    fn adapts(&self) -> bool {
        true
    }

    fn emit(&mut self, now: Time, dropped: u64, sizes: &mut Vec<usize>) {
        while self.next().is_some_and(|t| t <= now) {
            self.adapt(now, dropped);
            let mut left = self.frame_bytes();
            while left > 0 {
                let size = left.min(self.size);
                sizes.push(size);
                left -= size;
            }
            self.frame += 1;
            self.next += self.interval;
        }
    }
}
