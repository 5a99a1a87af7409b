use crate::config::INITIAL_WINDOW;

/// Number of small increases after which each further increase doubles the window. A new window doubles from
/// the start.
const RAMP: u8 = 4;

/// Once the peer has sent this many whole windows without being blocked, increases are small again. A sender
/// whose rate grows by at least a quarter each round trip fills a doubled window sooner than that.
const SETTLED: u8 = 3;

/// Flow control window of one stream. It is just large enough not to block the peer while this end reads data
/// as it arrives. No round-trip time is needed: if the peer is blocked, the window must be smaller than the
/// bandwidth-delay product of the paths in use.
#[derive(Debug)]
pub(crate) struct Window {
    /// Limit announced to the peer.
    limit: u64,
    size: u64,
    /// Limits below this one were announced before the window last grew, so a peer blocked at one of them
    /// says nothing about the window's present size.
    grown: u64,
    /// Number of increases since the peer last went unblocked for [`SETTLED`] windows.
    grew: u8,
    /// Number of whole windows since the peer was last blocked, and the read offset at which the current
    /// window began.
    unblocked: u8,
    round: u64,
}

impl Default for Window {
    fn default() -> Window {
        Window { limit: INITIAL_WINDOW, size: INITIAL_WINDOW, grown: 0, grew: RAMP, unblocked: 0, round: 0 }
    }
}

impl Window {
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Handles a peer blocked at `limit`. `read` bytes have been read so far, `waiting` bytes can be read,
    /// and the window may grow to `most` bytes. An increase adds a sixteenth, but after [`RAMP`] increases
    /// each further one doubles the window. If the reader is slow, the window does not grow.
    pub(crate) fn on_blocked(&mut self, limit: u64, read: u64, waiting: u64, most: u64) {
        if limit < self.grown || waiting > self.size / 4 {
            return;
        }
        let more = if self.grew >= RAMP { self.size } else { self.size / 16 };
        self.size = self.size.saturating_add(more).min(most).max(self.size);
        (self.grown, self.grew) = (read + self.size, self.grew.saturating_add(1));
        (self.unblocked, self.round) = (0, read);
    }

    /// Returns whether a new limit is worth announcing, that is, higher by at least a sixteenth of the
    /// window.
    pub(crate) fn is_due(&self, read: u64) -> bool {
        (read + self.size).saturating_sub(self.limit) >= self.size / 16
    }

    /// Raises the limit, and returns it. If the peer has not been blocked for a whole window, the window
    /// shrinks a little. It shrinks only here, because the peer may be waiting until the limit is
    /// [due](Self::is_due).
    pub(crate) fn raise(&mut self, read: u64) -> u64 {
        if read - self.round >= self.size && self.is_due(read) {
            self.size = (self.size - self.size / 64).max(INITIAL_WINDOW);
            (self.unblocked, self.round) = (self.unblocked.saturating_add(1), read);
            if self.unblocked >= SETTLED {
                self.grew = 0;
            }
        }
        self.limit = self.limit.max(read + self.size);
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads everything from a peer that sends up to `product` bytes per round trip. Returns how often the
    /// peer was blocked.
    fn read_rounds(window: &mut Window, read: &mut u64, product: u64, rounds: u64) -> u64 {
        let mut blocked = 0;
        for _ in 0..rounds {
            let sent = product.min(window.limit() - *read);
            if sent < product {
                blocked += 1;
                window.on_blocked(window.limit(), *read + sent, 0, u64::MAX);
            }
            *read += sent;
            window.raise(*read);
        }
        blocked
    }

    #[test]
    fn it_doubles_to_the_product_and_stays_near_it() {
        let (mut window, mut read) = (Window::default(), 0);
        read_rounds(&mut window, &mut read, 10 << 20, 10);
        assert!(window.size() >= 10 << 20, "{}", window.size());
        read_rounds(&mut window, &mut read, 10 << 20, 100);
        assert!((10 << 20..12 << 20).contains(&window.size()), "{}", window.size());
        read_rounds(&mut window, &mut read, 1 << 20, 4_000);
        assert!((1 << 20..5 << 18).contains(&window.size()), "{}", window.size());
    }

    #[test]
    fn it_stays_ahead_of_a_sender_whose_rate_grows() {
        for growth in [1.3, 1.5, 2.0] {
            let (mut window, mut read, mut product, mut blocked) = (Window::default(), 0, 10_000.0, 0);
            while product < 30e6 {
                blocked += read_rounds(&mut window, &mut read, product as u64, 1);
                product *= growth;
            }
            // From 64 KiB to 30 MB, the window doubles nine times. For each doubling, the peer has to be
            // blocked once.
            assert!(blocked <= 9, "{growth}: {blocked}");
        }
    }

    #[test]
    fn it_does_not_grow_for_a_reader_that_is_slow() {
        let mut window = Window::default();
        window.on_blocked(INITIAL_WINDOW, 0, INITIAL_WINDOW, u64::MAX);
        assert_eq!(window.size(), INITIAL_WINDOW);
    }

    #[test]
    fn it_grows_once_for_each_limit_that_the_peer_knows() {
        let mut window = Window::default();
        for _ in 0..5 {
            window.on_blocked(INITIAL_WINDOW, INITIAL_WINDOW, 0, u64::MAX);
        }
        assert_eq!(window.size(), 2 * INITIAL_WINDOW);
        window.on_blocked(3 * INITIAL_WINDOW, INITIAL_WINDOW, 0, 3 * INITIAL_WINDOW);
        assert_eq!(window.size(), 3 * INITIAL_WINDOW, "the window exceeds its limit");
    }

    /// A BLOCKED frame may arrive late, when the peer is waiting for the limit to be due. With a smaller
    /// window, the limit would not become due.
    #[test]
    fn it_does_not_shrink_while_the_peer_is_blocked() {
        let mut window = Window::default();
        window.on_blocked(INITIAL_WINDOW, INITIAL_WINDOW, 0, u64::MAX);
        assert_eq!(window.raise(INITIAL_WINDOW), 3 * INITIAL_WINDOW);
        window.on_blocked(3 * INITIAL_WINDOW, INITIAL_WINDOW, 0, 0);
        assert!(window.is_due(INITIAL_WINDOW + 2 * INITIAL_WINDOW / 16));
    }
}
