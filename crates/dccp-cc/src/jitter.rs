//! Variation of a path's delay: how much longer packets take than the minimum round-trip time.
//!
//! If most packets take much longer than the minimum delay, a window of a few BDPs computed from this minimum
//! is too small. RTT samples do not show this, because with reordering only the fastest packets give samples,
//! but the ages of all packets do. An age is the time from sending a packet to its acknowledgement
//! ([`RateSample::ages`](crate::RateSample)).

use mpdccp_units::{Duration, Time};

/// Number of rounds over which the variation of delay is measured. BBR's cycle has eight phases and drains
/// the queue once per cycle.
pub(crate) const CYCLE_ROUNDS: usize = 8;
/// Number of RTT samples that a round needs for its variation to count.
const SAMPLES: u32 = 4;
/// The excess of the mean age over the minimum RTT counts at most as this multiple of the variation within a
/// round.
const BEYOND: f64 = 1.2;
/// Maximum number of packets that the receiver collects before it acknowledges them together.
const GROUP: f64 = 4.0;
/// Upper limit for the variation.
const MOST: Duration = Duration::from_millis(100);

/// Variation of one path's delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jitter {
    rounds: usize,
    /// Minimum and number of the round's RTTs.
    round_rtt: (Duration, u32),
    /// Minimum RTTs of the last rounds.
    leasts: [Duration; CYCLE_ROUNDS],
    /// Sum of the ages of the packets acknowledged in the round, and number of these packets.
    ages: (Duration, u32),
    /// Times of the round's first and last RTT samples.
    sampled: (Time, Time),
    /// Mean age of the packets of the last measured round.
    mean_age: Duration,
    smoothed: Option<Duration>,
    /// Delay of the return path beyond its minimum, smoothed.
    returning: Duration,
}

impl Default for Jitter {
    fn default() -> Jitter {
        Jitter {
            rounds: 0,
            round_rtt: (Duration::MAX, 0),
            leasts: [Duration::MAX; CYCLE_ROUNDS],
            ages: (Duration::ZERO, 0),
            sampled: (Time::ZERO, Time::ZERO),
            mean_age: Duration::ZERO,
            smoothed: None,
            returning: Duration::ZERO,
        }
    }
}

impl Jitter {
    /// Returns the typical variation, smoothed.
    pub(crate) fn get(&self) -> Duration {
        self.smoothed.unwrap_or_default()
    }

    /// Returns the mean age of the acknowledged packets in the last round that had enough samples.
    pub(crate) fn mean_age(&self) -> Duration {
        self.mean_age
    }

    /// Returns the amount that arrives, at `bw` per second, during the variation and while acknowledgements
    /// wait on the return path.
    pub(crate) fn allowance(&self, bw: f64) -> f64 {
        bw * (self.get() + self.returning).as_secs_f64()
    }

    /// Adds a sample of the return path's delay, smoothed as round-trip times are (RFC 6298 section 2).
    pub(crate) fn on_returning(&mut self, delay: Duration) {
        self.returning = (self.returning * 7 + delay) / 8;
    }

    /// Forgets the variation, because the path has changed.
    pub(crate) fn forget(&mut self) {
        self.smoothed = Some(Duration::ZERO);
    }

    /// Adds an RTT of the running round.
    pub(crate) fn on_rtt(&mut self, now: Time, rtt: Duration) {
        let (least, n) = self.round_rtt;
        if n == 0 {
            self.sampled.0 = now;
        }
        self.sampled.1 = now;
        self.round_rtt = (least.min(rtt), n + 1);
    }

    /// Adds the ages of the packets of an acknowledgement: their sum and the number of packets.
    pub(crate) fn on_ages(&mut self, (sum, n): (Duration, u32)) {
        self.ages = (self.ages.0.saturating_add(sum), self.ages.1.saturating_add(n));
    }

    /// Ends a round and returns its minimum RTT, if the round had enough samples. `least_rtt` is the path's
    /// estimated minimum RTT. `window_limited` says whether the window was full in the round. If so, the
    /// window may be too small, so variation between rounds counts too. If not, such variation comes from
    /// this flow's own queue, which BBR drains.
    pub(crate) fn on_round_end(
        &mut self,
        least_rtt: Option<Duration>,
        window_limited: bool,
    ) -> Option<Duration> {
        self.rounds += 1;
        let (least, n) = self.round_rtt;
        if n < SAMPLES {
            return None; // too few samples; keep them for the next round
        }
        self.round_rtt = (Duration::MAX, 0);
        let ages = core::mem::take(&mut self.ages);
        // RTT samples come from the packets that overtook others, so the ages of all packets show more of the
        // variation. However, the mean age minus the minimum RTT also contains the queues of other flows, so
        // the variation within a round limits it.
        let mean = ages.0.checked_div(ages.1).unwrap_or_default().saturating_sub(self.held(n, ages.1));
        self.mean_age = mean;
        let beyond = mean.saturating_sub(least_rtt.unwrap_or(mean));
        self.leasts[self.rounds % CYCLE_ROUNDS] = least;
        let lowest = self.leasts.into_iter().min().filter(|_| window_limited).unwrap_or(least);
        let within = mean.saturating_sub(lowest);
        let variation = beyond.min(within.mul_f64(BEYOND)).min(MOST);
        // As with the RTT (RFC 6298), the first measurement is the first estimate, because Startup needs an
        // estimate at once.
        self.smoothed = Some(self.smoothed.map_or(variation, |smoothed| (smoothed * 3 + variation) / 4));
        Some(least)
    }

    /// Returns the mean time that a received packet waits to be acknowledged together with others. The path
    /// does not cause this wait. The estimate assumes that packets arrive evenly. A group counts as at most
    /// `GROUP` packets, because the packets of a larger group arrived together after the path had delayed
    /// them.
    fn held(&self, acks: u32, packets: u32) -> Duration {
        let apart = self.sampled.1.since(self.sampled.0).checked_div(packets.max(1)).unwrap_or_default();
        let group = (f64::from(packets) / f64::from(acks.max(1))).clamp(1.0, GROUP);
        apart.mul_f64((group - 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the jitter after rounds of eight acknowledgements, each of which reports packets with these
    /// `ages` in milliseconds.
    fn jitter(ages: &[u64]) -> Duration {
        let ms = Duration::from_millis;
        let mut jitter = Jitter::default();
        let mut now = Time::ZERO;
        for _ in 0..40 {
            for _ in 0..8 {
                now += ms(ages.len() as u64 * 2);
                jitter.on_rtt(now, ms(20));
                ages.iter().for_each(|age| jitter.on_ages((ms(*age), 1)));
            }
            jitter.on_round_end(Some(ms(20)), false);
        }
        jitter.get()
    }

    #[test]
    fn the_first_round_is_the_first_estimate_of_a_path() {
        let ms = Duration::from_millis;
        let mut jitter = Jitter::default();
        let mut round = || {
            for ack in 0..8 {
                jitter.on_rtt(Time::from_millis(ack), ms(if ack == 0 { 20 } else { 40 }));
                jitter.on_ages((ms(40), 1));
            }
            jitter.on_round_end(Some(ms(20)), false);
            jitter.get()
        };
        assert_eq!(round(), ms(20));
        assert_eq!(round(), ms(20));
        let mut changed = jitter;
        changed.forget();
        assert_eq!(changed.get(), Duration::ZERO);
    }

    #[test]
    fn variation_from_round_to_round_counts_where_the_window_is_full() {
        let ms = Duration::from_millis;
        for (full, most) in [(false, ms(1)), (true, ms(20))] {
            let mut jitter = Jitter::default();
            for round in 0..40 {
                let age = ms(20 + round % 4 * 8);
                for ack in 0..8 {
                    jitter.on_rtt(Time::from_millis(round * 40 + ack * 4), age);
                    jitter.on_ages((age, 1));
                }
                jitter.on_round_end(Some(ms(20)), full);
            }
            assert!(jitter.get() <= most && (!full || jitter.get() > ms(8)), "{full}: {:?}", jitter.get());
        }
    }

    #[test]
    fn packets_that_wait_for_a_shared_acknowledgement_are_no_jitter() {
        // A packet arrives every 2 ms.
        assert_eq!(jitter(&[20]), Duration::ZERO);
        assert!(jitter(&[22, 20]) < Duration::from_micros(200), "{:?}", jitter(&[22, 20]));
        assert!(jitter(&[26, 24, 22, 20]) < Duration::from_micros(400), "{:?}", jitter(&[26, 24, 22, 20]));
        // The groups are the same, but the packets are 10 ms older.
        assert!(jitter(&[32, 30]) > Duration::from_millis(8));
    }
}
