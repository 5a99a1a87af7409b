use crate::ccid::Late;
use units::Duration;

/// Rounds over which is averaged.
const ROUNDS: f64 = 8.0;
/// A round has no fewer packets than this.
const LEAST: u64 = 8;

/// How much longer packets take than the one that an acknowledgement names, over all packets.
///
/// Where packets overtake each other, only the fastest are ever the newest, and so only those give round-trip times: a path whose delay varies
/// by 25 ms seems 50 ms nearer than it is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delay {
    /// Seconds.
    mean: f64,
    deviation: f64,
}

impl Delay {
    /// So many packets were no later than the newest; `window` are under way.
    pub(crate) fn on_punctual(&mut self, packets: u64, window: u64) {
        if self.mean > 0.0 {
            self.update(0.0, packets, window);
        }
    }

    /// A packet was as late as that.
    pub(crate) fn on_late(&mut self, late: Duration, window: u64) {
        self.update(late.as_secs_f64(), 1, window);
    }

    fn update(&mut self, late: f64, packets: u64, window: u64) {
        let weight = (packets as f64 / (window.max(LEAST) as f64 * ROUNDS)).min(1.0);
        self.deviation += ((late - self.mean).abs() - self.deviation) * weight;
        self.mean += (late - self.mean) * weight;
    }

    pub(crate) fn get(&self) -> Late {
        let time = |s: f64| if s > 1e-6 { Duration::from_secs_f64(s) } else { Duration::ZERO };
        Late { mean: time(self.mean), deviation: time(self.deviation) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_what_is_late_and_forgets_it() {
        let mut delay = Delay::default();
        delay.on_punctual(1_000, 10);
        assert_eq!(delay.get(), Late::default());
        // Every other packet is 40 ms late.
        for _ in 0..400 {
            delay.on_late(Duration::from_millis(40), 10);
            delay.on_punctual(1, 10);
        }
        let Late { mean, deviation } = delay.get();
        assert!(
            (19..22).contains(&mean.as_millis()) && (19..22).contains(&deviation.as_millis()),
            "{mean:?} {deviation:?}"
        );
        // A window of so many more packets hears as much of them.
        let mut wide = Delay::default();
        for _ in 0..4_000 {
            wide.on_late(Duration::from_millis(40), 100);
            wide.on_punctual(1, 100);
        }
        assert!(wide.get().mean.abs_diff(mean) < Duration::from_millis(2));
        (0..100).for_each(|_| delay.on_punctual(10, 10));
        assert_eq!(delay.get(), Late::default());
    }
}
