use mpdccp_units::{Duration, Time};

/// While the window is below this many segments, no delay ends slow start.
const LOW_WINDOW: f64 = 16.0;
/// Maximum gap between two acknowledgements of one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// Number of samples that a round needs for its delay to count.
const SAMPLES: u32 = 8;
/// Lower limit of the rise in delay that ends slow start. The threshold is an eighth of the minimum delay,
/// within these two limits.
const MIN_RISE: Duration = Duration::from_millis(4);
/// Upper limit of the rise in delay that ends slow start.
const MAX_RISE: Duration = Duration::from_millis(16);

/// HyStart (Ha and Rhee, 2011) with the constants of Linux's `tcp_cubic`. It ends slow start as soon as a
/// train of closely spaced acknowledgements has lasted half of the minimum round-trip time, or the minimum
/// delay of a round has risen.
#[derive(Clone, Debug, Default)]
pub(crate) struct HyStart {
    /// Start of the round, and the latest acknowledgement in the train.
    train: Option<(Time, Time)>,
    this_round: Option<Duration>,
    samples: u32,
}

impl HyStart {
    /// Returns true if slow start is over. `least` is the smallest round-trip time of the connection.
    pub(crate) fn on_ack(
        &mut self,
        now: Time,
        rtt: Option<Duration>,
        round_end: bool,
        least: Option<Duration>,
        cwnd: f64,
    ) -> bool {
        if round_end || self.train.is_none() {
            *self = HyStart { train: Some((now, now)), ..HyStart::default() };
        }
        let (Some(rtt), Some(least), true) = (rtt, least, cwnd >= LOW_WINDOW) else { return false };
        let mut over = false;
        if let Some((begun, latest)) = &mut self.train
            && now.since(*latest) <= TRAIN_GAP
        {
            *latest = now;
            over = now.since(*begun) > least / 2;
        }
        self.this_round = Some(self.this_round.map_or(rtt, |r| r.min(rtt)));
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let rise = (least / 8).clamp(MIN_RISE, MAX_RISE);
            over |= self.this_round.is_some_and(|r| r > least + rise);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: Option<Duration> = Some(Duration::from_millis(40));

    fn ack(h: &mut HyStart, at_ms: u64, rtt_ms: u64, round_end: bool, cwnd: f64) -> bool {
        let rtt = Some(Duration::from_millis(rtt_ms));
        h.on_ack(Time::from_millis(at_ms), rtt, round_end, LEAST, cwnd)
    }

    #[test]
    fn a_train_of_half_a_round_trip_ends_slow_start() {
        let mut h = HyStart::default();
        assert!(!ack(&mut h, 100, 40, true, 20.0));
        for at in (102..=120).step_by(2) {
            assert!(!ack(&mut h, at, 40, false, 20.0), "{at}");
        }
        assert!(!ack(&mut h.clone(), 122, 40, false, 15.0), "small windows stay");
        assert!(ack(&mut h, 122, 40, false, 20.0));
        // A gap ends the train for the rest of the round.
        let mut h = HyStart::default();
        ack(&mut h, 100, 40, true, 20.0);
        for at in [103, 105, 121, 122] {
            assert!(!ack(&mut h, at, 40, false, 20.0), "{at}");
        }
    }

    #[test]
    fn nine_samples_above_the_least_by_an_eighth_end_it() {
        for (rtt, over) in [(45, false), (46, true)] {
            let mut h = HyStart::default();
            let at = |i: u64| 100 + 3 * i;
            assert!((0..8).all(|i| !ack(&mut h, at(i), rtt, i == 0, 20.0)));
            assert_eq!(ack(&mut h, at(8), rtt, false, 20.0), over, "{rtt}");
        }
    }
}
