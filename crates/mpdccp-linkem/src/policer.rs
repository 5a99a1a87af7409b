use mpdccp_units::{Rate, Time};

use crate::error::{ConfigError, ensure};
use crate::server::{Work, work};

/// A token bucket that lets conforming packets pass immediately and drops all others, like an operator's rate
/// limit without a queue. Tokens accumulate at `rate` up to `burst`, and a packet takes one token per byte.
/// This is the same as `tc`'s police action, and as the single rate of RFC 2697 without the excess bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Rate of tokens.
    pub rate: Rate,
    /// Number of bytes that may pass at once after a pause.
    pub burst: u32,
}

impl Policer {
    pub(crate) fn validate(self) -> Result<(), ConfigError> {
        ensure(self.burst > 0, "policer", "the burst must not be zero")
    }
}

/// A token bucket that counts its tokens exactly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    config: Policer,
    tokens: Work,
    at: Time,
}

impl Bucket {
    /// Creates a full bucket.
    pub(crate) fn new(config: Policer, now: Time) -> Bucket {
        Bucket { config, tokens: work(config.burst), at: now }
    }

    /// Returns whether a packet of this size may pass now, and if so takes its tokens.
    pub(crate) fn admit(&mut self, now: Time, bytes: u32) -> bool {
        let earned = Work::from(self.config.rate.bps()) * now.since(self.at).as_nanos();
        self.tokens = (self.tokens + earned).min(work(self.config.burst));
        self.at = now;
        let left = self.tokens.checked_sub(work(bytes));
        self.tokens = left.unwrap_or(self.tokens);
        left.is_some()
    }

    /// Changes the limits from `now` on. Accumulated tokens are kept, up to the new burst.
    pub(crate) fn set(&mut self, now: Time, config: Policer) {
        self.admit(now, 0);
        self.config = config;
        self.tokens = self.tokens.min(work(config.burst));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut bucket = Bucket::new(Policer { rate: Rate::from_mbps(8.0), burst: 10_000 }, Time::ZERO);
        let passed = (0..20).filter(|_| bucket.admit(Time::ZERO, 1_000)).count();
        assert_eq!(passed, 10, "a burst of ten packets must pass at once");
        // 8 Mbit/s is 1,000 bytes per millisecond, and packets arrive twice as fast.
        let passed = (1..=2_000u64).filter(|i| bucket.admit(Time::from_micros(i * 500), 1_000)).count();
        assert_eq!(passed, 1_000);
        let passed = (0..20).filter(|_| bucket.admit(Time::from_millis(60_000), 1_000)).count();
        assert_eq!(passed, 10, "a pause must not accumulate more than the burst");
    }

    #[test]
    fn a_packet_over_the_burst_never_passes_and_takes_nothing() {
        let mut bucket = Bucket::new(Policer { rate: Rate::from_mbps(8.0), burst: 1_000 }, Time::ZERO);
        assert!(!bucket.admit(Time::from_millis(5), 1_001));
        assert!(bucket.admit(Time::from_millis(5), 1_000));
    }
}
