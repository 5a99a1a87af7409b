use crate::ccid::Late;
use mpdccp_units::{Duration, Time};

/// Averaging period in rounds.
const ROUNDS: f64 = 8.0;
/// Minimum number of packets that count as a round.
const LEAST: u64 = 8;
/// Fraction of the averages that remains after each second without feedback. After `FORGOTTEN` seconds,
/// practically nothing remains.
const KEPT: f64 = 0.75;
const FORGOTTEN: u64 = 60;

/// Extra delay of packets compared with the newest packet that an acknowledgement reports, averaged over all
/// packets.
///
/// With reordering, the newest packet of an acknowledgement is always one of the fastest, so only fast
/// packets give round-trip times. A path with 25 ms of jitter (standard deviation) therefore seems 50 ms
/// shorter than it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delay {
    /// In seconds.
    mean: f64,
    deviation: f64,
    /// Time of the last update.
    told: Time,
}

impl Delay {
    /// Records that `packets` packets arrived no later than the newest one, with `window` packets in flight.
    pub(crate) fn on_punctual(&mut self, now: Time, packets: u64, window: u64) {
        if self.mean > 0.0 && packets > 0 {
            self.update(now, 0.0, packets, window);
        }
    }

    /// Records that a packet arrived later than the newest one by `late`.
    pub(crate) fn on_late(&mut self, now: Time, late: Duration, window: u64) {
        self.update(now, late.as_secs_f64(), 1, window);
    }

    fn update(&mut self, now: Time, late: f64, packets: u64, window: u64) {
        *self = Delay { told: now, ..self.faded(now) };
        let weight = (packets as f64 / (window.max(LEAST) as f64 * ROUNDS)).min(1.0);
        self.deviation += ((late - self.mean).abs() - self.deviation) * weight;
        self.mean += (late - self.mean) * weight;
    }

    /// Decays old values, so that a path that was avoided because of its delay is tried again.
    fn faded(self, now: Time) -> Delay {
        let seconds = now.since(self.told).as_secs().min(FORGOTTEN);
        let left = (0..seconds).fold(1.0, |left, _| left * KEPT);
        Delay { mean: self.mean * left, deviation: self.deviation * left, ..self }
    }

    pub(crate) fn get(&self, now: Time) -> Late {
        let time = |s: f64| if s > 1e-6 { Duration::from_secs_f64(s) } else { Duration::ZERO };
        let Delay { mean, deviation, .. } = self.faded(now);
        Late { mean: time(mean), deviation: time(deviation) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_what_is_late_and_forgets_it() {
        let now = Time::from_millis(1_000);
        let mut delay = Delay::default();
        delay.on_punctual(now, 1_000, 10);
        assert_eq!(delay.get(now), Late::default());
        // Every other packet is 40 ms late.
        for _ in 0..400 {
            delay.on_late(now, Duration::from_millis(40), 10);
            delay.on_punctual(now, 1, 10);
        }
        let Late { mean, deviation } = delay.get(now);
        assert!(
            (19..22).contains(&mean.as_millis()) && (19..22).contains(&deviation.as_millis()),
            "{mean:?} {deviation:?}"
        );
        let later = |seconds| delay.get(now + Duration::from_secs(seconds)).mean;
        assert!(
            later(0) > later(2) && later(3) < mean / 2 && later(60) < Duration::from_micros(1),
            "values must decay without feedback"
        );
        // With a larger window, more packets are acknowledged per round.
        let mut wide = Delay::default();
        for _ in 0..4_000 {
            wide.on_late(now, Duration::from_millis(40), 100);
            wide.on_punctual(now, 1, 100);
        }
        assert!(wide.get(now).mean.abs_diff(mean) < Duration::from_millis(2));
        (0..100).for_each(|_| delay.on_punctual(now, 10, 10));
        assert_eq!(delay.get(now), Late::default());
    }
}
