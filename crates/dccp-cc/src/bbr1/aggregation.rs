//! Aggregation of acknowledgements: the amount by which acknowledgements exceed what BtlBw would deliver in
//! the same time. Linux's BBR and the tuned variant measure it; the draft does not.

use mpdccp_units::{Duration, Time};

/// Number of rounds in each half of the filter.
const HALF: u32 = 5;
/// The aggregation is limited to the amount that BtlBw delivers in this time.
const MOST: Duration = Duration::from_millis(100);

/// Highest aggregation of the last five to ten rounds, in the controller's unit.
#[derive(Clone, Debug, Default)]
pub(super) struct Aggregation {
    since: Option<Time>,
    acked: f64,
    rounds: u32,
    /// Highest aggregation in the current half of the filter, and in the previous half.
    extra: [f64; 2],
}

impl Aggregation {
    /// Adds an acknowledgement of `acked` units. BtlBw is `bw` units per second.
    pub(super) fn on_ack(&mut self, now: Time, acked: f64, bw: f64, cwnd: f64, round_end: bool) {
        if round_end {
            self.rounds += 1;
            if self.rounds >= HALF {
                self.rounds = 0;
                self.extra = [0.0, self.extra[0]];
            }
        }
        let since = *self.since.get_or_insert(now);
        let mut expected = bw * now.since(since).as_secs_f64();
        if self.acked <= expected {
            self.since = Some(now);
            (self.acked, expected) = (0.0, 0.0);
        }
        self.acked += acked;
        self.extra[0] = self.extra[0].max((self.acked - expected).min(cwnd));
    }

    /// Returns the amount to add to the window's target.
    pub(super) fn allowance(&self, bw: f64) -> f64 {
        self.extra[0].max(self.extra[1]).min(bw * MOST.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregation_is_remembered_for_ten_rounds() {
        let mut a = Aggregation::default();
        // The path delivers 1,000 units per second in bursts of 20 every 20 ms. Each burst exceeds the
        // expected amount by 20.
        for i in 1..=100 {
            a.on_ack(Time::from_millis(20 * i), 20.0, 1000.0, 1e6, false);
        }
        assert_eq!(a.allowance(1000.0), 20.0);
        assert_eq!(a.allowance(100.0), 10.0, "at most 100 ms of rate");
        // From here on, each millisecond brings one acknowledgement of half a unit, which is half of BtlBw.
        // After about 40 ms, the deficit has cancelled the last burst. The recorded maximum of 20 expires
        // after ten rounds.
        for i in 1..=9 {
            a.on_ack(Time::from_millis(2_000 + i), 0.5, 1000.0, 1e6, true);
        }
        assert_eq!(a.allowance(1000.0), 20.0);
        for i in 10..=60 {
            a.on_ack(Time::from_millis(2_000 + i), 0.5, 1000.0, 1e6, true);
        }
        assert!(a.allowance(1000.0) <= 2.0, "{a:?}");
    }

    #[test]
    fn no_more_than_the_window() {
        let mut a = Aggregation::default();
        a.on_ack(Time::from_millis(1), 50.0, 1000.0, 30.0, false);
        assert_eq!(a.allowance(1e6), 30.0);
    }
}
