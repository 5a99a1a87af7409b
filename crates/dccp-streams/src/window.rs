use crate::config::INITIAL_WINDOW;

/// Times a window grows a little before it doubles. A new one doubles at once.
const RAMP: u8 = 4;

/// How much a peer may send on one stream: as much as keeps it from being held back while this end reads what arrives. No round trip is
/// measured: that a peer is held back tells that the window is smaller than the bandwidth-delay product, whatever paths are in use.
#[derive(Debug)]
pub(crate) struct Window {
    /// Told to the peer: it may send up to here.
    limit: u64,
    size: u64,
    /// Limits below it are of a smaller window.
    grown: u64,
    /// It grew so many times in a row. The round since then began when so much had been read.
    grew: u8,
    round: u64,
}

impl Window {
    pub(crate) fn new() -> Window {
        Window { limit: INITIAL_WINDOW, size: INITIAL_WINDOW, grown: 0, grew: RAMP, round: 0 }
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The peer is held back by `limit`; up to `read` was read, and `waiting` bytes could be. The window may have `most` bytes. It grows
    /// by a sixteenth, and doubles if it did so [`RAMP`] times in a row; not for a reader that is slow.
    pub(crate) fn on_blocked(&mut self, limit: u64, read: u64, waiting: u64, most: u64) {
        if limit < self.grown || waiting > self.size / 4 {
            return;
        }
        let more = if self.grew >= RAMP { self.size } else { self.size / 16 };
        self.size = self.size.saturating_add(more).min(most).max(INITIAL_WINDOW);
        (self.grown, self.grew, self.round) = (read + self.size, self.grew.saturating_add(1), read);
    }

    /// Up to `read` was read. What was a window of bytes without a peer held back is more than it needs.
    pub(crate) fn on_read(&mut self, read: u64) {
        if read - self.round >= self.size {
            self.size = (self.size - self.size / 64).max(INITIAL_WINDOW);
            (self.grew, self.round) = (0, read);
        }
    }

    /// A new limit worth telling: it is higher by a sixteenth of the window.
    pub(crate) fn is_due(&self, read: u64) -> bool {
        (read + self.size).saturating_sub(self.limit) >= self.size / 16
    }

    /// Raises the limit, and tells it.
    pub(crate) fn raise(&mut self, read: u64) -> u64 {
        self.limit = self.limit.max(read + self.size);
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all that arrives of a peer that sends up to `product` bytes a round trip.
    fn read_rounds(window: &mut Window, product: u64, rounds: u64) {
        let mut read = window.limit();
        for _ in 0..rounds {
            let sent = product.min(window.limit() - read);
            if sent < product {
                window.on_blocked(window.limit(), read + sent, 0, u64::MAX);
            }
            read += sent;
            window.on_read(read);
            window.raise(read);
        }
    }

    #[test]
    fn it_doubles_to_the_product_and_stays_near_it() {
        let mut window = Window::new();
        read_rounds(&mut window, 10 << 20, 10);
        assert!(window.size() >= 10 << 20, "{}", window.size());
        read_rounds(&mut window, 10 << 20, 100);
        assert!((10 << 20..12 << 20).contains(&window.size()), "{}", window.size());
        read_rounds(&mut window, 1 << 20, 4_000);
        assert!((1 << 20..5 << 18).contains(&window.size()), "{}", window.size());
    }

    #[test]
    fn it_does_not_grow_for_a_reader_that_is_slow() {
        let mut window = Window::new();
        window.on_blocked(INITIAL_WINDOW, 0, INITIAL_WINDOW, u64::MAX);
        assert_eq!(window.size(), INITIAL_WINDOW);
    }

    #[test]
    fn it_grows_once_for_each_limit_that_the_peer_knows() {
        let mut window = Window::new();
        for _ in 0..5 {
            window.on_blocked(INITIAL_WINDOW, INITIAL_WINDOW, 0, u64::MAX);
        }
        assert_eq!(window.size(), 2 * INITIAL_WINDOW);
        window.on_blocked(3 * INITIAL_WINDOW, INITIAL_WINDOW, 0, 3 * INITIAL_WINDOW);
        assert_eq!(window.size(), 3 * INITIAL_WINDOW, "no more than it may");
    }
}
