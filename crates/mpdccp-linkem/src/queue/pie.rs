use aqm::QueueLen;
use mpdccp_units::{Duration, Time};

use super::action::Action;
use crate::error::{ConfigError, ensure};
use crate::random::Random;

/// Proportional integral controller enhanced (RFC 8033), which drops arriving packets with a probability that
/// depends on the queueing delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieConfig {
    /// Target delay (QDELAY_REF).
    pub target: Duration,
    /// Update interval of the controller (T_UPDATE).
    pub update: Duration,
    /// Gain for the deviation from the target: probability added per update, per second of deviation.
    pub alpha: f64,
    /// Gain for the change in delay since the last update: probability added per update, per second of
    /// change.
    pub beta: f64,
    /// Burst allowance (MAX_BURST): no packet is dropped for this long after a period without congestion, in
    /// which the probability is 0 and the delay is below half the target.
    pub max_burst: Duration,
    /// Mark ECN-capable packets instead of dropping them, up to a probability of 0.1 (section 5.1).
    pub ecn: bool,
}

impl Default for PieConfig {
    /// Returns the values from RFC 8033 section 4: target 15 ms, updates every 15 ms, alpha 1/8 and beta 1
    /// 1/4, bursts of 150 ms, no ECN.
    fn default() -> PieConfig {
        let ms = Duration::from_millis;
        PieConfig { target: ms(15), update: ms(15), alpha: 0.125, beta: 1.25, max_burst: ms(150), ecn: false }
    }
}

impl PieConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        ensure(!self.update.is_zero(), "queue", "the update interval must not be zero")?;
        ensure(!self.target.is_zero(), "queue", "the target must not be zero")?;
        ensure(self.alpha > 0.0 && self.beta > 0.0, "queue", "alpha and beta must be above 0")
    }
}

/// Size of a typical packet in bytes. A queue of no more than two such packets never causes a drop
/// (section 4.1).
const MEAN_PACKET: u64 = 1_500;
/// Above this probability, ECN-capable packets are dropped too (section 5.1).
const MAX_MARKED: f64 = 0.1;
/// Two limits on the sum of the probabilities since the last drop, which space drops evenly. Below the first
/// limit, no packet is dropped; from the second limit on, every packet is dropped (section 5.4).
const SPREAD: (f64, f64) = (0.85, 8.5);
/// Pairs of a probability and a factor, in ascending order. Adjustments of the drop probability are
/// multiplied by the factor of the first pair whose probability is larger (section 4.2).
const SCALE: [(f64, f64); 6] = [
    (0.000_001, 1.0 / 2048.0),
    (0.000_01, 1.0 / 512.0),
    (0.000_1, 1.0 / 128.0),
    (0.001, 1.0 / 32.0),
    (0.01, 1.0 / 8.0),
    (0.1, 1.0 / 2.0),
];
/// Largest increase per update if the probability is at least a tenth (section 5.5).
const MOST: f64 = 0.02;
/// While the queue is empty, each update multiplies the probability by this factor (section 4.2).
const DECAY: f64 = 1.0 - 1.0 / 64.0;

#[derive(Clone, Debug)]
pub(super) struct Pie {
    config: PieConfig,
    probability: f64,
    /// Delay at the last update, and when the next update is due.
    delay: Duration,
    next: Time,
    /// Remaining time of the burst allowance.
    burst: Duration,
    /// Sum of the probabilities since the last drop.
    sum: f64,
}

impl Pie {
    pub(super) fn new(config: PieConfig, start: Time) -> Pie {
        Pie {
            config,
            probability: 0.0,
            delay: Duration::ZERO,
            next: start + config.update,
            burst: config.max_burst,
            sum: 0.0,
        }
    }

    /// Updates the probability up to `now`. The packet at the head has been waiting since `oldest`
    /// (section 4.2).
    pub(super) fn update(&mut self, now: Time, oldest: Option<Time>) {
        let PieConfig { target, update, alpha, beta, max_burst, .. } = self.config;
        while self.next <= now {
            let delay = oldest.map_or(Duration::ZERO, |at| self.next.since(at));
            let error = delay.as_secs_f64() - target.as_secs_f64();
            let growth = delay.as_secs_f64() - self.delay.as_secs_f64();
            let scale =
                SCALE.iter().find(|(below, _)| self.probability < *below).map_or(1.0, |(_, scale)| *scale);
            let step = (alpha * error + beta * growth) * scale;
            let step = if self.probability >= 0.1 { step.min(MOST) } else { step };
            self.probability += step;
            if delay.is_zero() && self.delay.is_zero() {
                self.probability *= DECAY;
            }
            self.probability = self.probability.clamp(0.0, 1.0);
            self.burst = self.burst.saturating_sub(update);
            if self.probability == 0.0 && delay < target / 2 && self.delay < target / 2 {
                self.burst = max_burst;
            }
            self.delay = delay;
            self.next += update;
            if oldest.is_none() && self.probability == 0.0 && self.next <= now {
                // The queue is empty and the probability is zero, so the updates due until now would change
                // nothing.
                self.next = now + update;
            }
        }
    }

    /// Decides what to do with a packet that arrives while `before` is in the queue (section 4.1).
    pub(super) fn admit(&mut self, before: QueueLen, random: &mut Random) -> Action {
        let calm = self.delay < self.config.target / 2 && self.probability < 0.2;
        if !self.burst.is_zero() || calm || before.bytes <= 2 * MEAN_PACKET {
            return Action::Pass;
        }
        self.sum = if self.probability == 0.0 { 0.0 } else { self.sum + self.probability };
        if self.sum < SPREAD.0 || (self.sum < SPREAD.1 && !random.chance(self.probability)) {
            return Action::Pass;
        }
        self.sum = 0.0;
        if self.config.ecn && self.probability <= MAX_MARKED { Action::Signal } else { Action::Drop }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const QUEUE: QueueLen = QueueLen { packets: 40, bytes: 40_000 };

    /// Runs all updates until `ms`. At each of them, the packet at the head has been waiting for `delay` ms.
    fn hold(pie: &mut Pie, ms: u64, delay: u64) {
        while pie.next <= Time::from_millis(ms) {
            let at = pie.next;
            pie.update(at, Some(Time::from_nanos(at.as_nanos() - delay * 1_000_000)));
        }
    }

    fn actions(pie: &mut Pie, n: usize) -> Vec<Action> {
        let mut random = Random::new(1, 0);
        (0..n).map(|_| pie.admit(QUEUE, &mut random)).collect()
    }

    #[test]
    fn the_probability_goes_by_delay_and_its_growth() {
        let mut pie = Pie::new(PieConfig::default(), Time::ZERO);
        pie.probability = 0.05;
        pie.update(Time::from_millis(15), Some(Time::ZERO));
        // The delay has just grown from zero to the target. The growth adds 1.25 * 0.015 to the probability,
        // scaled by one half.
        assert!((pie.probability - (0.05 + 1.25 * 0.015 / 2.0)).abs() < 1e-12, "{}", pie.probability);
        let before = pie.probability;
        hold(&mut pie, 30, 25);
        assert!((pie.probability - before - (0.125 * 0.010 + 1.25 * 0.010) / 2.0).abs() < 1e-12);
        // While the probability is high, an update adds at most 2 %.
        pie.probability = 0.3;
        hold(&mut pie, 45, 40);
        assert!((pie.probability - 0.32).abs() < 0.001 + 1e-12, "{}", pie.probability);
        pie.update(Time::from_millis(60), None);
        let left = pie.probability;
        pie.update(Time::from_millis(75), None);
        assert!(
            (pie.probability - ((left - 0.125 * 0.015) * DECAY)).abs() < 1e-12,
            "the probability must decay while the queue is empty"
        );
    }

    #[test]
    fn small_probabilities_move_in_small_steps() {
        for (probability, scale) in [
            (0.000_000_5, 2048.0),
            (0.000_005, 512.0),
            (0.000_05, 128.0),
            (0.000_5, 32.0),
            (0.005, 8.0),
            (0.05, 2.0),
            (0.5, 1.0),
        ] {
            let mut pie = Pie::new(PieConfig::default(), Time::from_millis(1_000));
            (pie.probability, pie.delay) = (probability, Duration::from_millis(20));
            hold(&mut pie, 1_020, 20);
            assert!((pie.probability - probability - 0.125 * 0.005 / scale).abs() < 1e-12, "{probability}");
        }
    }

    #[test]
    fn bursts_short_queues_and_short_delays_are_spared() {
        let mut pie = Pie::new(PieConfig::default(), Time::ZERO);
        (pie.probability, pie.delay) = (1.0, Duration::from_millis(30));
        assert_eq!(actions(&mut pie, 50), [Action::Pass; 50], "nothing is dropped in the first 150 ms");
        pie.burst = Duration::ZERO;
        assert!(actions(&mut pie, 50).contains(&Action::Drop));
        let mut random = Random::new(1, 0);
        assert_eq!(pie.admit(QueueLen { packets: 2, bytes: 3_000 }, &mut random), Action::Pass);
        (pie.probability, pie.delay) = (0.19, Duration::from_millis(7));
        assert_eq!(actions(&mut pie, 50), [Action::Pass; 50]);
    }

    #[test]
    fn drops_come_as_often_as_they_should_and_apart() {
        let mut pie = Pie::new(PieConfig::default(), Time::ZERO);
        (pie.probability, pie.delay, pie.burst) = (0.05, Duration::from_millis(30), Duration::ZERO);
        let all = actions(&mut pie, 100_000);
        let at: Vec<usize> = (0..all.len()).filter(|i| all[*i] == Action::Drop).collect();
        let gaps: Vec<usize> = at.windows(2).map(|w| w[1] - w[0]).collect();
        // After a drop, at least 16 packets pass. Each later packet is dropped with the current probability,
        // but the 171st packet after the drop always. On average, one packet in 36 is dropped.
        assert!(gaps.iter().all(|gap| (17..=171).contains(gap)), "{:?}", gaps.iter().max());
        let mean = gaps.iter().sum::<usize>() as f64 / gaps.len() as f64;
        assert!((35.0..37.5).contains(&mean), "{mean}");
    }

    #[test]
    fn marks_up_to_a_tenth() {
        for (probability, action) in [(0.1, Action::Signal), (0.11, Action::Drop)] {
            let mut pie = Pie::new(PieConfig { ecn: true, ..PieConfig::default() }, Time::ZERO);
            (pie.probability, pie.delay, pie.burst) =
                (probability, Duration::from_millis(30), Duration::ZERO);
            let all = actions(&mut pie, 1_000);
            assert!(all.contains(&action) && all.iter().all(|a| [Action::Pass, action].contains(a)));
        }
    }
}
