use mpdccp_units::Time;
use rand_chacha::ChaCha8Rng;
use rand_core::RngCore;

use super::constant::Constant;
use super::interface::Source;

/// A source that sends datagrams of constant size at independent, exponentially distributed intervals.
#[derive(Debug)]
pub(crate) struct Poisson {
    /// A constant source that supplies the mean interval.
    inner: Constant,
    random: ChaCha8Rng,
}

impl Poisson {
    pub(super) fn new(inner: Constant, random: ChaCha8Rng) -> Poisson {
        Poisson { inner, random }
    }
}

impl Source for Poisson {
    fn next(&self) -> Option<Time> {
        self.inner.next()
    }

    fn emit(&mut self, now: Time, _dropped: u64, sizes: &mut Vec<usize>) {
        while self.next().is_some_and(|t| t <= now) {
            sizes.push(self.inner.size);
            // Returns a random number in (0, 1].
            let unit = ((self.random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            self.inner.next += self.inner.gap.mul_f64(-libm::log(unit));
        }
    }
}
