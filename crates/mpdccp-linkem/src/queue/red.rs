use aqm::{Limit, QueueLen};
use mpdccp_units::{Rate, Time};

use super::action::Action;
use crate::error::{ConfigError, ensure};
use crate::random::Random;

/// Gentle random early detection (Floyd and Jacobson, 1993). The drop probability grows to `max_p` as the
/// average queue grows from `min` to `max`, then to one as the average grows further to twice `max`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedConfig {
    /// Average queue length below which no packet is dropped. Both thresholds are in the same unit as the
    /// queue's limit: packets or bytes.
    pub min: u64,
    /// Average queue length from which the probability grows more steeply. From twice this length on, every
    /// packet is dropped.
    pub max: u64,
    /// Drop probability when the average is `max`, above 0 and at most 1.
    pub max_p: f64,
    /// The weight of a new queue length in the average, above 0 and at most 1.
    pub weight: f64,
    /// Size of a typical packet in bytes. While the link is idle, the average decays as if packets of this
    /// size were arriving at an empty queue. If the limit is in bytes, the probability applies to packets of
    /// this size.
    pub mean_packet: u32,
    /// Mark ECN-capable packets instead of dropping them, while the average is below `max`
    /// (RFC 3168, section 19.1).
    pub ecn: bool,
}

impl RedConfig {
    /// Returns the usual settings: probability 0.1, weight 0.002, packets of 1,000 bytes, no ECN.
    pub fn new(min: u64, max: u64) -> RedConfig {
        RedConfig { min, max, max_p: 0.1, weight: 0.002, mean_packet: 1_000, ecn: false }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        ensure(0 < self.min && self.min < self.max, "queue", "min must be above zero and below max")?;
        ensure(self.max_p > 0.0 && self.max_p <= 1.0, "queue", "max_p must be above 0 and at most 1")?;
        ensure(self.weight > 0.0 && self.weight <= 1.0, "queue", "weight must be above 0 and at most 1")?;
        ensure(self.mean_packet > 0, "queue", "mean_packet must not be zero")
    }
}

#[derive(Clone, Debug)]
pub(super) struct Red {
    config: RedConfig,
    in_bytes: bool,
    average: f64,
    /// Number of packets that have passed since the last drop or mark, or since the average rose above `min`.
    passed: u32,
    idle_since: Option<Time>,
}

impl Red {
    pub(super) fn new(config: RedConfig, limit: Limit, start: Time) -> Red {
        let in_bytes = matches!(limit, Limit::Bytes(_));
        Red { config, in_bytes, average: 0.0, passed: 0, idle_since: Some(start) }
    }

    pub(super) fn on_idle(&mut self, now: Time) {
        self.idle_since = Some(now);
    }

    pub(super) fn admit(
        &mut self,
        now: Time,
        before: QueueLen,
        bytes: u32,
        rate: Rate,
        random: &mut Random,
    ) -> Action {
        self.update_average(now, before, rate);
        let c = &self.config;
        let (min, max) = (c.min as f64, c.max as f64);
        let base = if self.average < min {
            self.passed = 0;
            return Action::Pass;
        } else if self.average < max {
            c.max_p * (self.average - min) / (max - min)
        } else if self.average < 2.0 * max {
            c.max_p + (1.0 - c.max_p) * (self.average - max) / max
        } else {
            self.passed = 0;
            return Action::Drop;
        };
        let base = if self.in_bytes { base * f64::from(bytes) / f64::from(c.mean_packet) } else { base };
        // Dividing by this value spaces drops and marks evenly: with a constant base probability p, the
        // number of packets from one drop to the next is uniformly distributed from 1 to 1/p.
        let left = 1.0 - f64::from(self.passed) * base;
        if left > 0.0 && !random.chance(base / left) {
            self.passed = self.passed.saturating_add(1);
            return Action::Pass;
        }
        self.passed = 0;
        if c.ecn && self.average < max { Action::Signal } else { Action::Drop }
    }

    fn update_average(&mut self, now: Time, before: QueueLen, rate: Rate) {
        let weight = self.config.weight;
        if let Some(since) = self.idle_since.take() {
            let packet = rate.time_for(self.config.mean_packet.into()).as_secs_f64();
            self.average *= libm::pow(1.0 - weight, now.since(since).as_secs_f64() / packet);
        } else {
            let queue = if self.in_bytes { before.bytes } else { before.packets };
            self.average += weight * (queue as f64 - self.average);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use mpdccp_units::Duration;

    /// Returns settings with weight 1, which makes the average equal to the current queue.
    fn instant(ecn: bool) -> RedConfig {
        RedConfig { max_p: 0.02, weight: 1.0, ecn, ..RedConfig::new(20, 60) }
    }

    fn busy(config: RedConfig, limit: Limit) -> Red {
        Red { idle_since: None, ..Red::new(config, limit, Time::ZERO) }
    }

    /// Returns the action for each of `n` packets at a constant queue length.
    fn steady(red: &mut Red, n: usize, before: QueueLen, bytes: u32) -> Vec<Action> {
        let mut random = Random::new(1, 0);
        (0..n).map(|_| red.admit(Time::ZERO, before, bytes, Rate::from_mbps(10.0), &mut random)).collect()
    }

    fn packets(packets: u64) -> QueueLen {
        QueueLen { packets, bytes: packets * 1_000 }
    }

    fn share(actions: &[Action], what: Action) -> f64 {
        actions.iter().filter(|a| **a == what).count() as f64 / actions.len() as f64
    }

    #[test]
    fn the_published_curve() {
        // The number of packets per drop is uniformly distributed from 1 to 1/p. Its mean is (1/p + 1) / 2,
        // so the drop rate is about twice the base probability p.
        for (queue, base) in [(30u64, 0.005), (40, 0.01), (50, 0.015), (61, 0.02 + 0.98 / 60.0), (66, 0.118)]
        {
            let mut red = busy(instant(false), Limit::Packets(1_000));
            let dropped = share(&steady(&mut red, 200_000, packets(queue), 1_000), Action::Drop);
            let expected = 2.0 / (1.0 / base + 1.0);
            assert!(
                (dropped / expected - 1.0).abs() < 0.06,
                "queue {queue}: {dropped} drops instead of {expected}"
            );
        }
        let none = steady(&mut busy(instant(false), Limit::Packets(1_000)), 1_000, packets(19), 1_000);
        assert_eq!(share(&none, Action::Pass), 1.0);
        let all = steady(&mut busy(instant(false), Limit::Packets(1_000)), 1_000, packets(120), 1_000);
        assert_eq!(share(&all, Action::Drop), 1.0);
    }

    #[test]
    fn gaps_are_uniform() {
        // With a base probability of 0.01, consecutive drops are at most 100 packets apart, and short
        // distances are as frequent as long ones.
        let actions = steady(&mut busy(instant(false), Limit::Packets(1_000)), 200_000, packets(40), 1_000);
        let at: Vec<usize> = (0..actions.len()).filter(|i| actions[*i] == Action::Drop).collect();
        let gaps: Vec<usize> = at.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps.iter().all(|gap| *gap <= 100), "{:?}", gaps.iter().max());
        let short = gaps.iter().filter(|gap| **gap <= 50).count() as f64 / gaps.len() as f64;
        assert!((short - 0.5).abs() < 0.05, "{short}");
    }

    #[test]
    fn marks_only_below_max() {
        let at =
            |queue| steady(&mut busy(instant(true), Limit::Packets(1_000)), 5_000, packets(queue), 1_000);
        assert_eq!(share(&at(59), Action::Drop), 0.0);
        assert!(share(&at(59), Action::Signal) > 0.03);
        assert_eq!(share(&at(60), Action::Signal), 0.0);
        assert!(share(&at(60), Action::Drop) > 0.03);
    }

    #[test]
    fn in_bytes_small_packets_are_spared() {
        let config = RedConfig { min: 20_000, max: 60_000, ..instant(false) };
        let dropped = |bytes| {
            share(
                &steady(&mut busy(config, Limit::Bytes(1_000_000)), 200_000, packets(40), bytes),
                Action::Drop,
            )
        };
        let ratio = dropped(1_000) / dropped(100);
        assert!((9.0..11.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn the_average_follows_slowly_and_decays_when_idle() {
        let mut red = busy(RedConfig::new(20, 60), Limit::Packets(1_000));
        let (rate, mut random) = (Rate::from_mbps(8.0), Random::new(1, 0));
        for _ in 0..500 {
            red.admit(Time::ZERO, packets(10), 1_000, rate, &mut random);
        }
        // The expected average is 10 * (1 - 0.998^500).
        assert!((red.average - 6.325).abs() < 0.01, "{}", red.average);
        red.on_idle(Time::ZERO);
        red.admit(Time::ZERO + Duration::from_millis(500), packets(0), 1_000, rate, &mut random);
        // In half a second, 500 packets could have passed, so the average decays by the factor 0.998^500.
        assert!((red.average - 2.325).abs() < 0.01, "{}", red.average);
    }
}
