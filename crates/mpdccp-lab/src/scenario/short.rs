//! Draws the start and size of each connection of short flows.

use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use super::FlowSpec;
use super::quantity::Sizes;

/// Maximum number of connections of one short flow.
pub(super) const MAX_SHORT: u64 = 10_000;

impl FlowSpec {
    /// Returns the start of each connection relative to the flow's start, and its size. The starts form a
    /// Poisson process, which is identical on all backends.
    pub fn connections(&self, seed: u64, end_s: f64) -> Vec<(Duration, u32)> {
        let (Some(every), Some(Sizes(sizes))) = (self.every, &self.sizes) else { return Vec::new() };
        let stop = self.stop_s.as_ref().map_or(end_s, |stop| *stop.as_ref());
        let span = Duration::try_from_secs_f64(stop - self.start_s).unwrap_or_default();
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x0053_686f_7274);
        // Returns a random number in (0, 1].
        let mut unit = || ((random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let mut at = Duration::ZERO;
        let mut next = || {
            at += every.mul_f64(-libm::log(unit()));
            let size = sizes[((unit() * sizes.len() as f64) as usize).min(sizes.len() - 1)];
            (at < span).then_some((at, size))
        };
        std::iter::from_fn(&mut next).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_come_at_the_rate_asked_for_and_repeat_by_seed() {
        let text = "name = \"f\"\nkind = \"short\"\ncc = \"cubic\"\nsizes = [\"10 kB\", \"100 kB\"]\nevery = \"100 ms\"\nstart_s = 10";
        let spec: FlowSpec = toml::from_str(text).unwrap();
        let all = spec.connections(1, 410.0);
        assert_eq!(all, spec.connections(1, 410.0));
        assert_ne!(all, spec.connections(2, 410.0));
        // The test expects 4,000 connections, and allows a deviation of five standard deviations.
        assert!((3_684..4_316).contains(&all.len()), "{}", all.len());
        let small = all.iter().filter(|(_, size)| *size == 10_000).count() as f64 / all.len() as f64;
        assert!((0.46..0.54).contains(&small), "{small}");
        assert!(all.is_sorted_by_key(|(at, _)| *at) && all.iter().all(|(at, _)| at.as_secs() < 400));
        assert!(all.iter().all(|(_, size)| [10_000, 100_000].contains(size)));
    }
}
