//! Tracks how much of the window is in use, as in Linux (`tcp_cwnd_validate`).

/// Records how much of the congestion window was used while the latest window of data was sent.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// Whether the window prevented sending.
    limited: bool,
    /// Largest number of unacknowledged segments, no longer updated once `limited` is set.
    most: u64,
    /// End of the current window of data. The next window of data begins when all data before this point is
    /// acknowledged.
    end: u64,
}

impl Usage {
    /// Updates the state. Call this after sending a segment, or with `limited` when the window prevents
    /// sending. All data before `acked` is acknowledged, `next` is the end of the data sent, and
    /// `outstanding` segments are unacknowledged.
    pub(super) fn update(&mut self, limited: bool, acked: u64, next: u64, outstanding: u64) {
        if acked >= self.end || limited || (!self.limited && outstanding > self.most) {
            *self = Usage { limited, most: outstanding, end: next };
        }
    }

    /// Returns whether a window of `cwnd` segments counts as used. During slow start, the use of more than
    /// half of the window is enough, so that the window can grow to twice the acknowledged data.
    pub(super) fn fills(&self, cwnd: u64, slow_start: bool) -> bool {
        self.limited || (slow_start && cwnd < 2 * self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_window_fills_it_in_slow_start_only() {
        let mut usage = Usage::default();
        (1..=5).for_each(|n| usage.update(false, 0, n * 1_000, n));
        assert!(!usage.fills(10, true) && !usage.fills(9, false) && usage.fills(9, true));
    }

    #[test]
    fn a_full_window_counts_until_the_next_window_of_data() {
        let mut usage = Usage::default();
        usage.update(true, 0, 10_000, 10);
        usage.update(false, 5_000, 11_000, 6);
        assert!(usage.fills(10, false));
        usage.update(false, 10_000, 12_000, 2);
        assert!(!usage.fills(10, false));
    }
}
