//! Random choices for the points that the judge draws.

use core::ops::Range;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// Random choices of one point.
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    /// Returns the choices for point `index` under a given seed.
    pub(super) fn new(seed: u64, index: u64) -> Dice {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(index + 1);
        Dice(random)
    }

    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(super) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    pub(super) fn pick(&mut self, n: usize) -> usize {
        ((self.unit() * n as f64) as usize).min(n - 1)
    }

    pub(super) fn uniform(&mut self, range: Range<f64>) -> f64 {
        range.start + self.unit() * (range.end - range.start)
    }

    /// Returns a log-uniformly distributed number.
    pub(super) fn log(&mut self, range: Range<f64>) -> f64 {
        range.start * (range.end / range.start).powf(self.unit())
    }
}
