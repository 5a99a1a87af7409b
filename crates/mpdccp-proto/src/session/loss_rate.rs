use dccp_proto::ccid::TxView;
use units::{Duration, Time};

/// The share of packets that a path loses whatever its load: the least of the last samples, so that what a queue lost while its rate was
/// being found does not count. What nothing new is known of is forgotten, so that a path that is left out for its losses is tried again.
#[derive(Debug, Default)]
pub(super) struct LossRate {
    samples: [f32; SAMPLES],
    taken: usize,
    /// Delivered and lost packets when last looked at.
    seen: (u64, u64),
    at: Time,
}

/// A sample has so many packets at least, and lasts so long: a fast path that loses while it finds its rate is done with that sooner.
const SAMPLE: u64 = 250;
const LASTS: Duration = Duration::from_millis(250);
/// Samples that count.
const SAMPLES: usize = 4;
/// Without a sample for this long, a quarter is forgotten.
const FORGET: Duration = Duration::from_secs(1);

impl LossRate {
    /// Share, 0 to 1.
    pub(super) fn get(&self) -> f32 {
        // Without all samples nothing is known yet.
        self.samples.iter().copied().fold(1.0, f32::min)
    }

    pub(super) fn update(&mut self, now: Time, view: &TxView) {
        self.count(now, view.delivered.packets, view.lost.packets);
    }

    fn count(&mut self, now: Time, delivered: u64, lost: u64) {
        if delivered < self.seen.0 {
            // Another connection.
            self.seen = (0, 0);
        }
        let new = delivered - self.seen.0;
        // Losses that proved spurious are taken back.
        let missing = lost.saturating_sub(self.seen.1);
        if new + missing >= SAMPLE && now.since(self.at) >= LASTS {
            self.samples[self.taken % SAMPLES] = missing as f32 / (new + missing) as f32;
            self.taken += 1;
            (self.seen, self.at) = ((delivered, lost), now);
        } else if now.since(self.at) >= FORGET {
            self.samples.iter_mut().for_each(|share| *share -= *share / 4.0);
            self.at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lasting_losses_count_and_are_forgotten() {
        let mut loss = LossRate::default();
        let mut now = Time::ZERO;
        let (mut delivered, mut lost) = (0, 0);
        let mut run = |loss: &mut LossRate, samples: u64, share: u64| {
            for _ in 0..samples {
                now += LASTS;
                (delivered, lost) = (delivered + SAMPLE - share, lost + share);
                loss.count(now, delivered, lost);
            }
            (now, delivered, lost)
        };
        run(&mut loss, SAMPLES as u64 - 1, 25);
        assert_eq!(loss.get(), 0.0, "a burst of losses");
        run(&mut loss, 1, 25);
        assert!((loss.get() - 0.1).abs() < 1e-3, "they last");
        run(&mut loss, 1, 0);
        assert_eq!(loss.get(), 0.0);
        let mut fast = LossRate::default();
        for ms in 0..1_000 {
            fast.count(Time::from_millis(ms), ms * SAMPLE, ms * SAMPLE / 4);
        }
        assert_eq!(fast.get(), 0.0, "while a fast path finds its rate");
        let (now, delivered, lost) = run(&mut loss, SAMPLES as u64, 75);
        assert!((loss.get() - 0.3).abs() < 1e-3);
        for s in 1..20 {
            loss.count(now + Duration::from_secs(s), delivered, lost);
        }
        assert!(loss.get() < 0.01, "{}", loss.get());
        loss.count(now + Duration::from_secs(21), 5, 0);
        assert!(loss.get() < 0.01, "a new connection counts from the start");
    }
}
