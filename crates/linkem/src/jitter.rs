use units::Duration;

use crate::random::Random;

/// How the delay of a packet deviates from the configured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Spread {
    /// It does not.
    #[default]
    None,
    /// Uniformly by up to this much, either way.
    Uniform(Duration),
    /// Normally with this standard deviation, cut at four of them.
    Normal(Duration),
}

/// Varying delay. The sum of delay and deviation is never below zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Jitter {
    /// The deviation, drawn for each packet on its own.
    pub spread: Spread,
    /// Whether a packet may overtake. If not, it arrives no earlier than the one before it, which makes the mean delay longer.
    pub reorder: bool,
}

/// Where a normal deviation is cut, in standard deviations.
const CUT: f64 = 4.0;

impl Jitter {
    /// The delay of the next packet.
    pub(crate) fn draw(&self, delay: Duration, random: &mut Random) -> Duration {
        let (spread, x) = match self.spread {
            Spread::None => return delay,
            Spread::Uniform(d) => (d, 2.0 * random.unit() - 1.0),
            Spread::Normal(d) => (d, random.normal().clamp(-CUT, CUT)),
        };
        let deviation = Duration::from_nanos((spread.as_nanos() as f64 * x.abs()) as u64);
        if x < 0.0 { delay.saturating_sub(deviation) } else { delay.saturating_add(deviation) }
    }

    /// No draw is below this.
    pub(crate) fn floor(&self, delay: Duration) -> Duration {
        match self.spread {
            Spread::None => delay,
            Spread::Uniform(d) => delay.saturating_sub(d),
            Spread::Normal(d) => delay.saturating_sub(d.saturating_mul(CUT as u32)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(20);
    const N: u32 = 20_000;

    /// Mean and standard deviation in ms, smallest and largest draw.
    fn sample(spread: Spread) -> (f64, f64, Duration, Duration) {
        let jitter = Jitter { spread, reorder: true };
        let mut random = Random::new(1, 0);
        let (mut sum, mut squares, mut low, mut high) = (0.0, 0.0, Duration::MAX, Duration::ZERO);
        for _ in 0..N {
            let d = jitter.draw(DELAY, &mut random);
            assert!(d >= jitter.floor(DELAY));
            let ms = d.as_secs_f64() * 1e3;
            sum += ms;
            squares += ms * ms;
            low = low.min(d);
            high = high.max(d);
        }
        let mean = sum / f64::from(N);
        (mean, libm::sqrt(squares / f64::from(N) - mean * mean), low, high)
    }

    #[test]
    fn normal() {
        let (mean, deviation, low, high) = sample(Spread::Normal(Duration::from_millis(2)));
        assert!((mean - 20.0).abs() < 0.1 && (deviation - 2.0).abs() < 0.1, "{mean} {deviation}");
        assert!(low >= Duration::from_millis(12) && high <= Duration::from_millis(28));
    }

    #[test]
    fn uniform() {
        let (mean, deviation, low, high) = sample(Spread::Uniform(Duration::from_millis(6)));
        // The standard deviation of a uniform distribution is its half-width over the root of three.
        assert!((mean - 20.0).abs() < 0.15 && (deviation - 3.464).abs() < 0.1, "{mean} {deviation}");
        assert!(low >= Duration::from_millis(14) && high <= Duration::from_millis(26));
    }

    #[test]
    fn never_negative() {
        let (_, _, low, _) = sample(Spread::Normal(Duration::from_millis(20)));
        assert_eq!(low, Duration::ZERO);
    }
}
