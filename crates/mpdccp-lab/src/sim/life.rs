//! Simulates the delay from the arrival of a packet at a host until the program receives it.

use core::time::Duration;

use mpdccp_units::Time;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// Returns a uniform random number in [0, 1).
fn share(rng: &mut ChaCha8Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Holds packets that have arrived at a host until the program wakes up, and keeps them in order.
#[derive(Debug)]
pub(super) struct WakeUp<T> {
    mean: Duration,
    rng: ChaCha8Rng,
    waiting: std::collections::VecDeque<(Time, T)>,
}

impl<T> WakeUp<T> {
    pub(super) fn new(mean: Duration, seed: u64) -> WakeUp<T> {
        WakeUp { mean, rng: ChaCha8Rng::seed_from_u64(seed), waiting: Default::default() }
    }

    pub(super) fn push(&mut self, now: Time, what: T) {
        let wait = if self.mean.is_zero() {
            Duration::ZERO
        } else {
            self.mean.mul_f64(-libm::log(1.0 - share(&mut self.rng)))
        };
        let at = self.waiting.back().map_or(now, |(last, _)| now.max(*last));
        self.waiting.push_back((at.max(now + wait), what));
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.waiting.front().map(|(at, _)| *at)
    }

    pub(super) fn pop(&mut self, now: Time) -> Option<T> {
        self.waiting.pop_front_if(|(at, _)| *at <= now).map(|(_, what)| what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_wakes_up_in_order_and_as_late_as_it_should() {
        let mean = Duration::from_micros(100);
        let mut host = WakeUp::new(mean, 1);
        let mut late = Duration::ZERO;
        for i in 0..2_000u64 {
            let now = Time::from_millis(i);
            host.push(now, i);
            let at = host.next().unwrap();
            assert!(at >= now);
            late += at.since(now);
            assert_eq!(host.pop(at), Some(i));
        }
        let mean_late = late / 2_000;
        assert!((90..110).contains(&mean_late.as_micros()), "{mean_late:?}");
        host.push(Time::ZERO, 1);
        host.push(Time::ZERO, 2);
        assert_eq!((host.pop(Time::MAX), host.pop(Time::MAX), host.pop(Time::MAX)), (Some(1), Some(2), None));
    }
}
