use mpdccp_units::Duration;

use crate::random::Random;

/// A normally distributed value that varies around zero over time (an Ornstein-Uhlenbeck process).
pub(super) struct Walk {
    spread: f64,
    /// Share of a deviation that remains after a step.
    keep: f64,
    at: f64,
}

impl Walk {
    /// Creates a process with the standard deviation `spread`. The correlation of two values that are
    /// `memory` apart is 1/e. A step takes `tick`.
    pub(super) fn new(spread: f64, memory: Duration, tick: Duration, random: &mut Random) -> Walk {
        let keep = libm::exp(-tick.as_secs_f64() / memory.as_secs_f64());
        Walk { spread, keep, at: spread * random.normal() }
    }

    /// Returns the current value and advances by a step.
    pub(super) fn step(&mut self, random: &mut Random) -> f64 {
        let now = self.at;
        self.at = self.keep * now + self.spread * libm::sqrt(1.0 - self.keep * self.keep) * random.normal();
        now
    }

    /// Returns the exponential of the current value, as a factor around 1, and advances by a step.
    pub(super) fn factor(&mut self, random: &mut Random) -> f64 {
        libm::exp(self.step(random))
    }
}
