use mpdccp_units::{Duration, Time};

use crate::random::Random;

/// Distribution of the deviation from the configured delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Spread {
    /// No deviation.
    #[default]
    None,
    /// Uniformly distributed between minus and plus this value.
    Uniform(Duration),
    /// Normally distributed with this standard deviation, truncated at four standard deviations.
    Normal(Duration),
}

/// Varying delay. The delay plus its deviation is never below zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Jitter {
    /// Distribution of the deviation.
    pub spread: Spread,
    /// Time after which the correlation of the deviations has fallen to 1/e. If zero, the deviations are
    /// independent. The deviations follow an Ornstein-Uhlenbeck process (AR(1) in continuous time); uniform
    /// deviations are computed from its quantiles.
    pub memory: Duration,
    /// Whether packets may be reordered. If not, packets arrive in order, which increases the mean delay.
    pub reorder: bool,
}

/// Number of standard deviations at which normal deviations are truncated.
const CUT: f64 = 4.0;

impl Jitter {
    /// Returns a lower bound on all delays drawn.
    pub(crate) fn floor(&self, delay: Duration) -> Duration {
        match self.spread {
            Spread::None => delay,
            Spread::Uniform(d) => delay.saturating_sub(d),
            Spread::Normal(d) => delay.saturating_sub(d.saturating_mul(CUT as u32)),
        }
    }
}

/// Draws the delays of consecutive packets.
#[derive(Clone, Debug)]
pub(crate) struct Wander {
    pub(crate) jitter: Jitter,
    random: Random,
    /// The time of the last draw, and the standard normal value drawn then.
    last: Option<(Time, f64)>,
}

impl Wander {
    pub(crate) fn new(jitter: Jitter, random: Random) -> Wander {
        Wander { jitter, random, last: None }
    }

    /// Returns the delay of a packet whose transmission ends at `now`.
    pub(crate) fn draw(&mut self, delay: Duration, now: Time) -> Duration {
        let free = self.jitter.memory.is_zero();
        let (spread, x) = match self.jitter.spread {
            Spread::None => return delay,
            Spread::Uniform(d) if free => (d, 2.0 * self.random.unit() - 1.0),
            Spread::Normal(d) if free => (d, self.random.normal()),
            Spread::Uniform(d) => (d, libm::erf(self.next(now) * core::f64::consts::FRAC_1_SQRT_2)),
            Spread::Normal(d) => (d, self.next(now)),
        };
        let x = x.clamp(-CUT, CUT);
        let deviation = Duration::from_nanos((spread.as_nanos() as f64 * x.abs()) as u64);
        if x < 0.0 { delay.saturating_sub(deviation) } else { delay.saturating_add(deviation) }
    }

    /// Returns the standard normal value of the process at `now`.
    fn next(&mut self, now: Time) -> f64 {
        let fresh = self.random.normal();
        let x = match self.last {
            None => fresh,
            Some((at, x)) => {
                let passed = now.since(at).as_nanos() as f64 / self.jitter.memory.as_nanos() as f64;
                let kept = libm::exp(-passed);
                kept * x + libm::sqrt(1.0 - kept * kept) * fresh
            }
        };
        self.last = Some((now, x));
        x
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const DELAY: Duration = Duration::from_millis(20);
    const N: u32 = 20_000;

    /// Draws a delay every millisecond, and returns the delays in ms.
    fn draws(spread: Spread, memory: Duration) -> Vec<f64> {
        let mut wander = Wander::new(Jitter { spread, memory, reorder: true }, Random::new(1, 0));
        let draw = |i: u32| {
            let d = wander.draw(DELAY, Time::from_millis(i.into()));
            assert!(d >= wander.jitter.floor(DELAY));
            d.as_secs_f64() * 1e3
        };
        (0..N).map(draw).collect()
    }

    /// Returns mean, standard deviation, minimum and maximum.
    fn moments(ms: &[f64]) -> (f64, f64, f64, f64) {
        let mean = ms.iter().sum::<f64>() / f64::from(N);
        let variance = ms.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / f64::from(N);
        let (low, high) = ms.iter().fold((f64::MAX, 0.0f64), |(l, h), x| (l.min(*x), h.max(*x)));
        (mean, libm::sqrt(variance), low, high)
    }

    #[test]
    fn normal() {
        let (mean, deviation, low, high) =
            moments(&draws(Spread::Normal(Duration::from_millis(2)), Duration::ZERO));
        assert!((mean - 20.0).abs() < 0.1 && (deviation - 2.0).abs() < 0.1, "{mean} {deviation}");
        assert!(low >= 12.0 && high <= 28.0);
    }

    #[test]
    fn uniform() {
        let (mean, deviation, low, high) =
            moments(&draws(Spread::Uniform(Duration::from_millis(6)), Duration::ZERO));
        // A uniform distribution's standard deviation is its half-width divided by the square root of three.
        assert!((mean - 20.0).abs() < 0.15 && (deviation - 3.464).abs() < 0.1, "{mean} {deviation}");
        assert!(low >= 14.0 && high <= 26.0);
    }

    #[test]
    fn never_negative() {
        let (_, _, low, _) = moments(&draws(Spread::Normal(Duration::from_millis(20)), Duration::ZERO));
        assert!(low.abs() < f64::EPSILON);
    }

    /// Returns the correlation of draws that are `lag` milliseconds apart.
    fn correlation(ms: &[f64], lag: usize) -> f64 {
        let (mean, deviation, ..) = moments(ms);
        let pairs = ms.iter().zip(&ms[lag..]);
        let sum: f64 = pairs.map(|(a, b)| (a - mean) * (b - mean)).sum();
        sum / (ms.len() - lag) as f64 / (deviation * deviation)
    }

    #[test]
    fn memory_keeps_the_distribution_and_fades_as_it_should() {
        let memory = Duration::from_millis(10);
        let normal = draws(Spread::Normal(Duration::from_millis(2)), memory);
        let (mean, deviation, ..) = moments(&normal);
        assert!((mean - 20.0).abs() < 0.2 && (deviation - 2.0).abs() < 0.15, "{mean} {deviation}");
        let uniform = draws(Spread::Uniform(Duration::from_millis(6)), memory);
        let (mean, deviation, low, high) = moments(&uniform);
        assert!((mean - 20.0).abs() < 0.4 && (deviation - 3.464).abs() < 0.2, "{mean} {deviation}");
        assert!(low >= 14.0 && high <= 26.0);
        // The expected correlations are exp(-1), exp(-0.1) and exp(-3).
        for (lag, expected) in [(10, 0.368), (1, 0.905), (30, 0.05)] {
            let seen = correlation(&normal, lag);
            assert!((seen - expected).abs() < 0.06, "lag {lag}: {seen}");
        }
        let free = correlation(&draws(Spread::Normal(Duration::from_millis(2)), Duration::ZERO), 1);
        assert!(free.abs() < 0.03, "{free}");
    }
}
