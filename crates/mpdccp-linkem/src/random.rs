use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// One random stream of a link. Loss, jitter and queue have separate streams, so that enabling one of them
/// leaves the values of the others unchanged.
#[derive(Clone, Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    pub(crate) fn new(seed: u64, stream: u64) -> Random {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Random(rng)
    }

    /// Returns a uniformly distributed number in [0, 1), with the 53 bits of an `f64`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with probability `p`. Draws a random number even if `p` is 0 or 1, so that a change of
    /// `p` does not affect later draws.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Returns a standard normally distributed number (Box-Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        radius * libm::cos(core::f64::consts::TAU * self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        const N: u32 = 20_000;
        let mut r = Random::new(1, 0);
        let mean = (0..N).map(|_| r.unit()).sum::<f64>() / f64::from(N);
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..N {
            let x = r.normal();
            sum += x;
            squares += x * x;
        }
        assert!((sum / f64::from(N)).abs() < 0.03);
        assert!((squares / f64::from(N) - 1.0).abs() < 0.04);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, stream| Random::new(seed, stream).unit();
        assert_eq!(draw(7, 0), draw(7, 0));
        assert_ne!(draw(7, 0), draw(7, 1));
        assert_ne!(draw(7, 0), draw(8, 0));
    }
}
