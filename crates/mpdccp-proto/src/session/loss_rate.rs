use dccp_proto::ccid::TxView;
use units::{Duration, Time};

/// The share of packets that a path lost of late. What nothing new is known of is forgotten slowly, so that a path that is left
/// out for its losses is tried again.
#[derive(Debug, Default)]
pub(super) struct LossRate {
    rate: f32,
    /// Delivered and lost packets when last looked at.
    seen: (u64, u64),
    samples: u8,
    at: Time,
}

/// Packets of a sample.
const SAMPLE: u64 = 100;
/// Samples that count.
const SAMPLES: u8 = 8;
/// Without a sample for this long, a tenth is forgotten.
const FORGET: Duration = Duration::from_secs(1);

impl LossRate {
    /// Share, 0 to 1.
    pub(super) fn get(&self) -> f32 {
        self.rate
    }

    pub(super) fn update(&mut self, now: Time, view: &TxView) {
        self.count(now, view.delivered.packets, view.lost.packets);
    }

    fn count(&mut self, now: Time, delivered: u64, lost: u64) {
        if delivered < self.seen.0 {
            // Another connection.
            *self = LossRate { rate: self.rate, at: now, ..LossRate::default() };
        }
        let new = delivered - self.seen.0;
        // Losses that proved spurious are taken back.
        let missing = lost.saturating_sub(self.seen.1);
        if new + missing >= SAMPLE {
            self.samples = (self.samples + 1).min(SAMPLES);
            let sample = missing as f32 / (new + missing) as f32;
            self.rate += (sample - self.rate) / f32::from(self.samples);
            (self.seen, self.at) = ((delivered, lost), now);
        } else if now.since(self.at) >= FORGET {
            self.rate -= self.rate / 10.0;
            self.at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_losses_and_forgets_old_ones() {
        let mut loss = LossRate::default();
        let mut now = Time::ZERO;
        let (mut delivered, mut lost) = (0, 0);
        let mut run = |loss: &mut LossRate, samples, share: u64| {
            for _ in 0..samples {
                now += Duration::from_millis(10);
                (delivered, lost) = (delivered + 100 - share, lost + share);
                loss.count(now, delivered, lost);
            }
            (now, delivered, lost)
        };
        run(&mut loss, 1, 10);
        assert!((loss.get() - 0.1).abs() < 1e-3, "the first sample counts whole");
        run(&mut loss, 60, 0);
        assert!(loss.get() < 1e-3);
        let (now, delivered, lost) = run(&mut loss, 60, 30);
        assert!((loss.get() - 0.3).abs() < 1e-2);
        for s in 1..60 {
            loss.count(now + Duration::from_secs(s), delivered, lost);
        }
        assert!(loss.get() < 0.01, "{}", loss.get());
        loss.count(now + Duration::from_secs(61), 5, 0);
        assert!(loss.get() < 0.01, "a new connection counts from the start");
    }
}
