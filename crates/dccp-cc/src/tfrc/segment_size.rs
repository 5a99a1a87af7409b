/// Number of loss intervals in the average (RFC 5348 section 4.1).
const INTERVALS: usize = 4;

/// Mean sizes of data packets over the last loss intervals.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentSize {
    /// Number of packets, application bytes and wire bytes of each interval, newest first. The sums are
    /// halved when they become large.
    sums: [[f64; 3]; INTERVALS],
    /// Application bytes and wire bytes of a full packet, used until the first packet is sent.
    full: (f64, f64),
}

/// Above this many packets, sums are halved, so that a change of size takes effect even without losses.
const MANY: f64 = 4096.0;

impl SegmentSize {
    pub(super) fn new(payload: u32, wire: u32) -> SegmentSize {
        let full = (f64::from(payload.max(1)), f64::from(wire.max(1)));
        SegmentSize { sums: [[0.0; 3]; INTERVALS], full }
    }

    pub(super) fn on_sent(&mut self, payload: u32, wire: u32) {
        let [newest, ..] = &mut self.sums;
        if newest[0] >= MANY {
            newest.iter_mut().for_each(|sum| *sum /= 2.0);
        }
        newest[0] += 1.0;
        newest[1] += f64::from(payload);
        newest[2] += f64::from(wire);
    }

    /// Returns whether nothing has been sent yet.
    pub(super) fn is_empty(&self) -> bool {
        self.total(0) == 0.0
    }

    /// Starts a new interval, because a loss interval ended.
    pub(super) fn on_loss_event(&mut self) {
        // RFC 5348 section 4.1: drop the oldest of the four intervals.
        self.sums.rotate_right(1);
        self.sums[0] = [0.0; 3];
    }

    fn total(&self, what: usize) -> f64 {
        self.sums.iter().map(|sums| sums[what]).sum()
    }

    /// Returns the mean application bytes per packet, at least one.
    pub(super) fn payload(&self) -> f64 {
        match self.total(0) {
            0.0 => self.full.0,
            packets => (self.total(1) / packets).max(1.0),
        }
    }

    /// Returns the mean wire bytes per packet, at least one.
    pub(super) fn wire(&self) -> f64 {
        match self.total(0) {
            0.0 => self.full.1,
            packets => (self.total(2) / packets).max(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_over_four_loss_intervals() {
        let mut size = SegmentSize::new(1400, 1460);
        assert_eq!((size.payload(), size.wire()), (1400.0, 1460.0));
        size.on_sent(100, 160);
        for _ in 0..3 {
            size.on_loss_event();
            size.on_sent(500, 560);
        }
        assert_eq!((size.payload(), size.wire()), (400.0, 460.0));
        size.on_loss_event();
        assert_eq!((size.payload(), size.wire()), (500.0, 560.0));
    }

    #[test]
    fn a_new_size_shows_even_without_losses() {
        let mut size = SegmentSize::new(1400, 1460);
        (0..1_000_000).for_each(|_| size.on_sent(100, 160));
        (0..20_000).for_each(|_| size.on_sent(1000, 1060));
        assert!(size.payload() > 950.0, "{}", size.payload());
        (0..3).for_each(|_| size.on_sent(0, 60));
        assert!(SegmentSize::new(0, 0).payload() == 1.0);
    }
}
