use mpdccp_units::Duration;

/// Lower limit of the RTT increase that ends slow start (RFC 9406 section 4.3).
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
/// Upper limit of the RTT increase that ends slow start (section 4.3).
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
/// MIN_RTT_DIVISOR (section 4.3).
const MIN_RTT_DIVISOR: u32 = 8;
/// N_RTT_SAMPLE (section 4.3).
const SAMPLES: u32 = 8;
/// CSS_GROWTH_DIVISOR (section 4.3).
const GROWTH_DIVISOR: u32 = 4;
/// CSS_ROUNDS (section 4.3).
const CSS_ROUNDS: u32 = 5;
/// Without pacing, the maximum number of segments that one acknowledgement counts for (L, section 4.3).
const MOST_PER_ACK: f64 = 8.0;

const NO_GROUP: (Duration, u32) = (Duration::MAX, 0);

/// HyStart++ (RFC 9406): leaves slow start when the RTT rises, after five rounds of slower growth.
#[derive(Clone, Debug)]
pub(crate) struct HyStart {
    last_round: Option<Duration>,
    this_round: Option<Duration>,
    samples: u32,
    /// Minimum of the latest samples, and their number. A group has at most eight samples.
    group: (Duration, u32),
    /// RTT at the start of conservative slow start, and number of rounds since then.
    conservative: Option<(Duration, u32)>,
}

impl HyStart {
    pub(crate) fn new() -> HyStart {
        HyStart { last_round: None, this_round: None, samples: 0, group: NO_GROUP, conservative: None }
    }

    /// Returns the increase of the RTT beyond `rtt` that indicates a growing queue (section 4.2).
    pub(crate) fn threshold(rtt: Duration) -> Duration {
        (rtt / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
    }

    /// Returns the growth of the window when `segments` are acknowledged (section 4.2).
    pub(crate) fn growth(&self, segments: f64) -> f64 {
        let divisor = if self.conservative.is_some() { GROWTH_DIVISOR } else { 1 };
        segments.min(MOST_PER_ACK) / f64::from(divisor)
    }

    /// Adds an acknowledgement. Returns true if slow start is over.
    pub(crate) fn on_ack(&mut self, rtt: Option<Duration>, round_end: bool) -> bool {
        if let Some(rtt) = rtt {
            self.this_round = Some(self.this_round.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
            self.group = (self.group.0.min(rtt), self.group.1 + 1);
        }
        match (self.conservative, self.this_round) {
            // Any eight consecutive samples of a round can show the increase, not only its first ones.
            // Otherwise, if a round begins before the queue does, its low first samples would hide the
            // increase.
            (None, _) if self.group.1 >= SAMPLES => {
                let least = core::mem::replace(&mut self.group, NO_GROUP).0;
                if self.last_round.is_some_and(|last| least >= last.saturating_add(HyStart::threshold(last)))
                {
                    self.conservative = Some((least, 0));
                    (self.this_round, self.samples) = (None, 0);
                }
            }
            // The increase was a false alarm, so slow start returns to full growth.
            (Some((baseline, _)), Some(this)) if self.samples >= SAMPLES && this < baseline => {
                self.conservative = None;
            }
            // The RTT is still rising, so there is a queue, which further rounds of conservative slow start
            // would fill.
            (Some((baseline, _)), Some(this))
                if self.samples >= SAMPLES
                    && this >= baseline.saturating_add(HyStart::threshold(baseline)) =>
            {
                return true;
            }
            _ => {}
        }
        if round_end {
            self.last_round = self.this_round.take();
            (self.samples, self.group) = (0, NO_GROUP);
            if let Some((_, rounds)) = &mut self.conservative {
                *rounds += 1;
            }
        }
        self.conservative.is_some_and(|(_, rounds)| rounds >= CSS_ROUNDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(h: &mut HyStart, ms: u64, samples: u32) -> bool {
        let over = (0..samples).any(|_| h.on_ack(Some(Duration::from_millis(ms)), false));
        h.on_ack(None, true) || over
    }

    #[test]
    fn a_rise_slows_growth_and_five_rounds_later_ends_it() {
        let mut h = HyStart::new();
        assert!(!round(&mut h, 40, 10));
        assert!(!round(&mut h, 44, 10), "less than an eighth");
        assert_eq!(h.growth(2.0), 2.0);
        assert_eq!(h.growth(20.0), 8.0);
        assert!(!round(&mut h, 50, 10));
        assert_eq!(h.growth(2.0), 0.5);
        for i in 0..3 {
            assert!(!round(&mut h, 56, 10), "{i}");
        }
        assert!(round(&mut h, 56, 10));
    }

    #[test]
    fn a_rise_that_goes_on_ends_it_at_once() {
        let mut h = HyStart::new();
        round(&mut h, 40, 10);
        assert!(!round(&mut h, 50, 10));
        assert!(round(&mut h, 57, 10));
    }

    #[test]
    fn a_false_alarm_and_too_few_samples() {
        let mut h = HyStart::new();
        round(&mut h, 40, 10);
        round(&mut h, 80, 7);
        assert_eq!(h.growth(4.0), 4.0, "seven samples do not count");
        round(&mut h, 100, 8);
        assert_eq!(h.growth(4.0), 1.0);
        round(&mut h, 90, 8);
        assert_eq!(h.growth(4.0), 4.0);
        // The threshold is at least 4 ms and at most 16 ms.
        let mut h = HyStart::new();
        round(&mut h, 8, 8);
        round(&mut h, 11, 8);
        assert_eq!(h.growth(4.0), 4.0);
        round(&mut h, 15, 8);
        assert_eq!(h.growth(4.0), 1.0);
    }
}
