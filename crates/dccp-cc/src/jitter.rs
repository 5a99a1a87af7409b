//! How much a path's delay varies: how long packets are under way beyond the least round-trip time.
//!
//! A window of a few BDPs of the least delay is too small where most packets take longer. RTT samples alone do not show it, for where packets
//! overtake each other only the fastest are sampled; the ages of all packets do ([`RateSample::ages`](crate::RateSample)).

use mpdccp_units::{Duration, Time};

/// Rounds in which delay shows how much it varies.
const LEASTS: usize = 8;
/// RTT samples before a round's variation is believed.
const SAMPLES: u32 = 4;
/// What delay varies by beyond the least RTT is believed up to this multiple of what it varies by within a round.
const BEYOND: f64 = 1.2;
/// Packets that wait for each other's acknowledgement.
const GROUP: f64 = 4.0;
/// No more than this.
const MOST: Duration = Duration::from_millis(100);
/// With it, windows are at least this multiple of what is under way at the path's rate: where delay varies by more than the least RTT, twice the
/// latter would leave no room to probe.
const PROBE_ROOM: f64 = 1.5;

/// Variation of one path's delay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jitter {
    rounds: usize,
    /// RTTs of the round: least, count.
    round_rtt: (Duration, u32),
    /// Least RTTs of the last rounds.
    leasts: [Duration; LEASTS],
    /// How long the packets acknowledged in the round were under way, together, and how many.
    ages: (Duration, u32),
    /// When the first and the last RTT sample of the round came.
    sampled: (Time, Time),
    smoothed: Duration,
}

impl Default for Jitter {
    fn default() -> Jitter {
        Jitter {
            rounds: 0,
            round_rtt: (Duration::MAX, 0),
            leasts: [Duration::MAX; LEASTS],
            ages: (Duration::ZERO, 0),
            sampled: (Time::ZERO, Time::ZERO),
            smoothed: Duration::ZERO,
        }
    }
}

impl Jitter {
    /// The usual variation, smoothed.
    pub(crate) fn get(&self) -> Duration {
        self.smoothed
    }

    /// What arrives meanwhile at `bw` a second.
    pub(crate) fn allowance(&self, bw: f64) -> f64 {
        bw * self.smoothed.as_secs_f64()
    }

    /// A window of `gain` times `bdp` with room for an `allowance`.
    pub(crate) fn window(gain: f64, bdp: f64, allowance: f64) -> f64 {
        (gain * bdp + allowance).max(gain.min(PROBE_ROOM) * (bdp + allowance))
    }

    /// The path is another.
    pub(crate) fn forget(&mut self) {
        self.smoothed = Duration::ZERO;
    }

    /// Notes an RTT of the running round.
    pub(crate) fn on_rtt(&mut self, now: Time, rtt: Duration) {
        let (least, n) = self.round_rtt;
        if n == 0 {
            self.sampled.0 = now;
        }
        self.sampled.1 = now;
        self.round_rtt = (least.min(rtt), n + 1);
    }

    /// Notes how long the packets of an acknowledgement were under way.
    pub(crate) fn on_ages(&mut self, (sum, n): (Duration, u32)) {
        self.ages = (self.ages.0.saturating_add(sum), self.ages.1.saturating_add(n));
    }

    /// Ends a round and returns its least RTT, if it had enough samples. `least_rtt` is what the path is believed to take at least. Where the round's
    /// window was full, there may be too little room for how much delay varies from round to round; else that is a queue of ours, which
    /// drains make shorter.
    pub(crate) fn on_round_end(
        &mut self,
        least_rtt: Option<Duration>,
        window_limited: bool,
    ) -> Option<Duration> {
        self.rounds += 1;
        let (least, n) = self.round_rtt;
        if n < SAMPLES {
            return None; // carry on in the next round
        }
        self.round_rtt = (Duration::MAX, 0);
        let ages = core::mem::take(&mut self.ages);
        // Samples are of the packets that overtook others: they tell less than all packets do. The least RTT is rarer than a round's least,
        // but a queue of others lies between the two as well.
        let mean = ages.0.checked_div(ages.1).unwrap_or_default().saturating_sub(self.held(n, ages.1));
        let beyond = mean.saturating_sub(least_rtt.unwrap_or(mean));
        self.leasts[self.rounds % LEASTS] = least;
        let lowest = self.leasts.into_iter().min().filter(|_| window_limited).unwrap_or(least);
        let within = mean.saturating_sub(lowest);
        let variation = beyond.min(within.mul_f64(BEYOND)).min(MOST);
        self.smoothed = (self.smoothed * 3 + variation) / 4;
        Some(least)
    }

    /// How long the average packet waited for the others of its acknowledgement, had all arrived evenly: no delay of the path. No more than
    /// a few wait for each other; larger groups came together, and that is delay.
    fn held(&self, acks: u32, packets: u32) -> Duration {
        let apart = self.sampled.1.since(self.sampled.0).checked_div(packets.max(1)).unwrap_or_default();
        let group = (f64::from(packets) / f64::from(acks.max(1))).clamp(1.0, GROUP);
        apart.mul_f64((group - 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jitter after rounds of eight acknowledgements, each of packets that took as long as `ages` says, in milliseconds.
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
        // One each 2 ms.
        assert_eq!(jitter(&[20]), Duration::ZERO);
        assert!(jitter(&[22, 20]) < Duration::from_micros(200), "{:?}", jitter(&[22, 20]));
        assert!(jitter(&[26, 24, 22, 20]) < Duration::from_micros(400), "{:?}", jitter(&[26, 24, 22, 20]));
        // The same groups, later than that.
        assert!(jitter(&[32, 30]) > Duration::from_millis(8));
    }
}
