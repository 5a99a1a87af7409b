//! The most that this end takes from a peer; what exceeds it is dropped.

use mpdccp_units::{Duration, Rate, Time};

/// What may come at once, in time at the rate: about a round trip, since that is how far TCP overshoots.
const BURST: Duration = Duration::from_millis(100);

/// A token bucket, as the time until which what was taken is paid for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Policer {
    paid: Time,
    /// Packets dropped.
    pub(crate) dropped: u64,
}

impl Policer {
    /// Whether a packet is taken.
    pub(crate) fn takes(&mut self, now: Time, rate: Option<Rate>, bytes: usize) -> bool {
        let Some(rate) = rate else { return true };
        let paid = self.paid.max(now);
        if paid.since(now) >= BURST {
            self.dropped += 1;
            return false;
        }
        self.paid = paid + rate.time_for(bytes as u64);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_the_rate_and_a_burst() {
        let mut policer = Policer::default();
        let rate = Some(Rate::from_bps(8_000_000));
        let at = |ms: u64| Time::from_millis(1_000 + ms);
        // 1,000 bytes are a millisecond.
        let taken = (0..500).filter(|_| policer.takes(at(0), rate, 1_000)).count();
        assert_eq!((taken, policer.dropped), (100, 400));
        // Twice the rate for a second.
        let taken = (0..2_000).filter(|n| policer.takes(at(n / 2), rate, 1_000)).count();
        assert!((999..=1_001).contains(&taken), "{taken}");
        assert!((0..500).all(|_| policer.takes(at(1_000), None, 1_000)));
    }
}
