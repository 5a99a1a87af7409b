use core::time::Duration;

use mpdccp_units::Time;

use super::interface::Source;

/// Replays recorded datagrams once.
#[derive(Debug)]
pub(crate) struct Trace {
    /// The remaining datagrams, latest first: time after the start, and bytes.
    left: Vec<(Duration, u32)>,
    most: usize,
    start: Time,
    stop: Time,
}

impl Trace {
    pub(super) fn new(mut packets: Vec<(Duration, u32)>, most: usize, start: Time, stop: Time) -> Trace {
        packets.reverse();
        Trace { left: packets, most, start, stop }
    }
}

impl Source for Trace {
    fn next(&self) -> Option<Time> {
        self.left.last().map(|(after, _)| self.start + *after).filter(|t| *t < self.stop)
    }

    fn emit(&mut self, now: Time, _dropped: u64, sizes: &mut Vec<usize>) {
        while self.next().is_some_and(|t| t <= now) {
            if let Some((_, bytes)) = self.left.pop() {
                // An entry above the maximum size becomes several datagrams.
                let (full, rest) = (bytes as usize / self.most, bytes as usize % self.most);
                sizes.extend(std::iter::repeat_n(self.most, full));
                sizes.extend(Some(rest).filter(|rest| *rest > 0));
            }
        }
    }
}
