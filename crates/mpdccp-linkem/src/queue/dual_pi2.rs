use mpdccp_units::{Duration, Time};

use crate::Stats;
use crate::error::{ConfigError, ensure};
use crate::random::Random;
use aqm::{Fifo, Item, QueueLen, mark};
use mpdccp_units::Ecn;

/// Dual-queue coupled AQM (RFC 9332), with a shallow queue for L4S packets, which are ECT(1) or CE, and
/// another queue for all others. Congestion in the classic queue also causes marks in the L4S queue, so that
/// flows of both kinds get about the same rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2Config {
    /// Target delay of the classic queue.
    pub target: Duration,
    /// Update interval of the controller.
    pub update: Duration,
    /// Gain for the deviation of the delay from the target: probability added per update, per second of
    /// deviation.
    pub alpha: f64,
    /// Gain for the change in delay: probability added per update, per second of change.
    pub beta: f64,
    /// L4S packets that are delayed for longer than this are marked.
    pub step: Duration,
    /// Factor between the base probability and the L4S marking probability (k).
    pub coupling: f64,
}

impl Default for DualPi2Config {
    /// Returns the values from RFC 9332 appendix A.1: target 15 ms, updates every 16 ms, alpha 0.16 Hz and
    /// beta 3.2 Hz, step 1 ms, k = 2.
    fn default() -> DualPi2Config {
        DualPi2Config {
            target: Duration::from_millis(15),
            update: Duration::from_millis(16),
            alpha: 0.16,
            beta: 3.2,
            step: Duration::from_millis(1),
            coupling: 2.0,
        }
    }
}

impl DualPi2Config {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        ensure(!self.update.is_zero(), "queue", "the update interval must not be zero")?;
        ensure(self.alpha > 0.0 && self.beta > 0.0, "queue", "alpha and beta must be above 0")?;
        ensure(self.coupling > 0.0, "queue", "the coupling must be above 0")
    }
}

/// While no more than this many L4S packets are queued, a delay above `step` causes no mark (Th_len, RFC 9332
/// appendix A.1).
const MIN_MARKED: u64 = 1;
/// L4S packets go first, but while classic packets are queued, one packet in this many is a classic one
/// (RFC 9332 section 4.2.2).
const CLASSIC_TURN: u32 = 10;
/// An L4S packet goes first only if it arrived less than this long after the oldest classic packet (the
/// time-shifted FIFO of RFC 9332 appendix A).
const SHIFT: Duration = Duration::from_millis(50);

#[derive(Clone, Debug)]
pub(super) struct DualPi2<P> {
    config: DualPi2Config,
    l4s: Fifo<P>,
    classic: Fifo<P>,
    /// Base probability p'. The probability is the square of p' for classic packets, and `coupling` times p'
    /// for L4S packets.
    base: f64,
    /// Delay of the classic queue at the last update, and the time of the next update.
    delay: Duration,
    next: Time,
    l4s_turns: u32,
}

impl<P> DualPi2<P> {
    pub(super) fn new(config: DualPi2Config, start: Time) -> DualPi2<P> {
        DualPi2 {
            config,
            l4s: Fifo::default(),
            classic: Fifo::default(),
            base: 0.0,
            delay: Duration::ZERO,
            next: start + config.update,
            l4s_turns: 0,
        }
    }

    pub(super) fn len(&self) -> QueueLen {
        let (a, b) = (self.l4s.len(), self.classic.len());
        QueueLen { packets: a.packets + b.packets, bytes: a.bytes + b.bytes }
    }

    /// Puts a packet into its queue, using the classifier of RFC 9332 section 2.3.
    pub(super) fn push(&mut self, item: Item<P>) {
        if matches!(item.meta.ecn, Ecn::Ect1 | Ecn::Ce) {
            self.l4s.push(item);
        } else {
            self.classic.push(item);
        }
    }

    pub(super) fn pop_any(&mut self) -> Option<Item<P>> {
        self.l4s.pop().or_else(|| self.classic.pop())
    }

    /// Runs the PI controller (appendix A.1, Figure 6) once for each interval that has passed.
    fn update(&mut self, now: Time) {
        while self.next <= now {
            let delay = self.classic.oldest().map_or(Duration::ZERO, |at| self.next.since(at));
            let (error, change) = (
                delay.as_secs_f64() - self.config.target.as_secs_f64(),
                delay.as_secs_f64() - self.delay.as_secs_f64(),
            );
            self.base += self.config.alpha * error + self.config.beta * change;
            self.base = self.base.clamp(0.0, 1.0);
            self.delay = delay;
            self.next += self.config.update;
            if self.base == 0.0 && self.classic.len().packets == 0 && self.next <= now {
                // The classic queue is empty and the probability is zero, so the updates due until now would
                // change nothing.
                self.next = now + self.config.update;
            }
        }
    }

    /// Returns the next packet, counting drops in `stats`.
    pub(super) fn dequeue(&mut self, now: Time, random: &mut Random, stats: &mut Stats) -> Option<Item<P>> {
        self.update(now);
        loop {
            let l4s = match (self.l4s.oldest(), self.classic.oldest()) {
                (None, None) => return None,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some(l4s), Some(classic)) => l4s < classic + SHIFT && self.l4s_turns < CLASSIC_TURN - 1,
            };
            if l4s {
                self.l4s_turns += 1;
                let mut item = self.l4s.pop()?;
                // Th_len prevents marks on a slow link, where a single packet takes longer than `step` to
                // transmit.
                let queue = self.l4s.len().packets + 1 > MIN_MARKED;
                let late = queue && now.since(item.arrived) > self.config.step;
                if late || random.chance((self.config.coupling * self.base).min(1.0)) {
                    mark(&mut item.meta, stats);
                }
                return Some(item);
            }
            self.l4s_turns = 0;
            let mut item = self.classic.pop()?;
            // Use the square of the probability for classic packets, because the rate of a classic flow
            // depends on the square root of the drop probability (RFC 9332 section 2.4).
            let signal = random.chance(self.base) && random.chance(self.base);
            if !signal || mark(&mut item.meta, stats) {
                return Some(item);
            }
            stats.drop(crate::DropReason::Early, item.meta.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqm::Meta;

    /// With the defaults of RFC 9332 appendix A.1 (Figure 6), an update adds 0.16 per second of delay beyond
    /// the target of 15 ms, and 3.2 per second by which the delay has grown.
    #[test]
    fn the_base_probability_follows_delay_and_growth() {
        let mut dual = DualPi2::new(DualPi2Config::default(), Time::ZERO);
        dual.push(Item { arrived: Time::ZERO, meta: Meta::default(), packet: () });
        dual.update(Time::from_millis(16));
        let first = 0.16 * 0.001 + 3.2 * 0.016;
        assert!((dual.base - first).abs() < 1e-12, "{}", dual.base);
        dual.update(Time::from_millis(32));
        let second = first + 0.16 * 0.017 + 3.2 * 0.016;
        assert!((dual.base - second).abs() < 1e-12, "{}", dual.base);
    }
}
