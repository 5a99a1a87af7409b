use super::action::Action;
use crate::error::{ConfigError, ensure};
use crate::random::Random;
use aqm::QueueLen;

/// Derivative random drop, the queue of the NIST Net emulator. An arriving packet's drop probability grows
/// linearly with the number of packets in the queue. This discipline never marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrdConfig {
    /// While no more than this many packets are queued, no packet is dropped (DRDmin).
    pub min: u64,
    /// While at least this many packets are queued, 95 % of arriving packets are dropped (DRDmax).
    pub max: u64,
}

/// Drop probability at the maximum and beyond.
const HIGHEST: f64 = 0.95;

impl DrdConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        ensure(self.min < self.max, "queue", "min must be below max")
    }

    fn probability(&self, packets: u64) -> f64 {
        let above = packets.saturating_sub(self.min) as f64;
        HIGHEST * (above / (self.max - self.min) as f64).min(1.0)
    }

    pub(super) fn admit(&self, before: QueueLen, random: &mut Random) -> Action {
        if random.chance(self.probability(before.packets)) { Action::Drop } else { Action::Pass }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_rise_in_a_straight_line() {
        let drd = DrdConfig { min: 60, max: 125 };
        let mut random = Random::new(1, 0);
        let mut share = |packets| {
            let before = QueueLen { packets, bytes: 0 };
            let drops = (0..20_000).filter(|_| drd.admit(before, &mut random) == Action::Drop).count();
            drops as f64 / 20_000.0
        };
        assert_eq!(share(0), 0.0);
        assert_eq!(share(60), 0.0);
        for (packets, expected) in [(73, 0.19), (99, 0.57), (112, 0.76), (125, 0.95), (500, 0.95)] {
            let got = share(packets);
            assert!(
                (got - expected).abs() < 0.02,
                "{packets} packets: the drop rate is {got} instead of {expected}"
            );
        }
    }
}
