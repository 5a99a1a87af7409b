//! The queue before the transmitter.

mod action;
mod drd;
mod dual_pi2;
mod pie;
mod red;

use alloc::vec::Vec;
use mpdccp_units::{Rate, Time};

use crate::error::{ConfigError, ensure};
use crate::random::Random;
use crate::{DropReason, Stats, Verdict};
use action::Action;
use aqm::{CoDel, CoDelConfig, Fifo, FqCoDel, FqCoDelConfig, Item, Limit, QueueLen, mark};
use dual_pi2::DualPi2;
use pie::Pie;
use red::Red;

pub use drd::DrdConfig;
pub use dual_pi2::DualPi2Config;
pub use pie::PieConfig;
pub use red::RedConfig;

/// A queue discipline and its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueConfig {
    /// The discipline.
    pub kind: QueueKind,
    /// Limit of the queue. The packet being transmitted counts until its last bit is sent. The kernel's
    /// `bfifo` and `pfifo` under `tbf` do the same: they keep a packet until it may be sent. A byte limit
    /// divided by the rate is therefore the longest possible time from push to last bit.
    pub limit: Limit,
}

impl Default for QueueConfig {
    /// Returns a drop-tail queue of 1,000 packets.
    fn default() -> QueueConfig {
        QueueConfig { kind: QueueKind::DropTail, limit: Limit::Packets(1_000) }
    }
}

/// A queue discipline.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueKind {
    /// First in, first out. Packets that do not fit are dropped.
    DropTail,
    /// Like drop-tail, but an ECN-capable packet that raises the queue above this level is marked.
    MarkAbove(Limit),
    /// Random early detection, in its gentle variant.
    Red(RedConfig),
    /// Controlled delay.
    CoDel(CoDelConfig),
    /// Flow queueing with controlled delay.
    FqCoDel(FqCoDelConfig),
    /// Derivative random drop.
    Drd(DrdConfig),
    /// Two coupled queues, one of them for L4S.
    DualPi2(DualPi2Config),
    /// Proportional integral controller enhanced.
    Pie(PieConfig),
}

impl QueueConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let (Limit::Bytes(limit) | Limit::Packets(limit)) = self.limit;
        ensure(limit > 0, "queue", "the limit must not be zero")?;
        match &self.kind {
            QueueKind::DropTail | QueueKind::MarkAbove(_) => Ok(()),
            QueueKind::Red(config) => config.validate(),
            QueueKind::CoDel(config) => valid_codel(config),
            QueueKind::FqCoDel(config) => {
                ensure(
                    (1..=65_536).contains(&config.flows),
                    "queue",
                    "the number of flow queues must be from 1 to 65536",
                )?;
                ensure(config.quantum > 0, "queue", "the quantum must not be zero")?;
                valid_codel(&config.codel)
            }
            QueueKind::Drd(config) => config.validate(),
            QueueKind::DualPi2(config) => config.validate(),
            QueueKind::Pie(config) => config.validate(),
        }
    }
}

fn valid_codel(config: &CoDelConfig) -> Result<(), ConfigError> {
    ensure(!config.interval.is_zero(), "queue", "the interval must not be zero")
}

/// State of the transmitter when a packet arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmitter {
    /// Packets in transmission.
    pub(crate) sending: QueueLen,
    pub(crate) rate: Rate,
}

/// A link's queue, with any discipline. The packet being transmitted is not in the queue but counts towards
/// every limit and threshold.
#[derive(Clone, Debug)]
pub(crate) struct Queue<P> {
    config: QueueConfig,
    random: Random,
    shape: Shape<P>,
}

#[derive(Clone, Debug)]
enum Shape<P> {
    Single(Fifo<P>, Control),
    Fair(FqCoDel<P>),
    Dual(DualPi2<P>),
}

/// A discipline that controls a single queue.
#[derive(Clone, Debug)]
enum Control {
    None,
    MarkAbove(Limit),
    Red(Red),
    CoDel(CoDel),
    Drd(DrdConfig),
    Pie(Pie),
}

impl<P> Queue<P> {
    pub(crate) fn new(config: QueueConfig, random: Random, start: Time) -> Queue<P> {
        let single = |control| Shape::Single(Fifo::default(), control);
        let shape = match config.kind.clone() {
            QueueKind::FqCoDel(config) => Shape::Fair(FqCoDel::new(config)),
            QueueKind::DualPi2(config) => Shape::Dual(DualPi2::new(config, start)),
            QueueKind::DropTail => single(Control::None),
            QueueKind::MarkAbove(threshold) => single(Control::MarkAbove(threshold)),
            QueueKind::Red(red) => single(Control::Red(Red::new(red, config.limit, start))),
            QueueKind::CoDel(config) => single(Control::CoDel(CoDel::new(config))),
            QueueKind::Drd(config) => single(Control::Drd(config)),
            QueueKind::Pie(config) => single(Control::Pie(Pie::new(config, start))),
        };
        Queue { config, random, shape }
    }

    /// Returns the fill level, not counting the packet being transmitted.
    pub(crate) fn len(&self) -> QueueLen {
        match &self.shape {
            Shape::Single(fifo, _) => fifo.len(),
            Shape::Fair(fair) => fair.len(),
            Shape::Dual(dual) => dual.len(),
        }
    }

    /// Queues `item` or drops it.
    pub(crate) fn enqueue(
        &mut self,
        mut item: Item<P>,
        transmitter: Transmitter,
        stats: &mut Stats,
    ) -> Verdict {
        let sending = transmitter.sending;
        let before = sending.and(self.len());
        let (fifo, control) = match &mut self.shape {
            Shape::Single(fifo, control) => (fifo, control),
            Shape::Dual(dual) => {
                if !self.config.limit.holds(before.plus(item.meta.bytes)) {
                    return stats.drop(DropReason::Overflow, item.meta.bytes);
                }
                dual.push(item);
                return Verdict::Queued;
            }
            Shape::Fair(fair) => {
                let room = match self.config.limit {
                    Limit::Packets(n) => Limit::Packets(n.saturating_sub(sending.packets)),
                    Limit::Bytes(n) => Limit::Bytes(n.saturating_sub(sending.bytes)),
                };
                let kept = fair.enqueue(item, None, room, stats);
                return if kept { Verdict::Queued } else { Verdict::Dropped(DropReason::Overflow) };
            }
        };
        let (now, bytes) = (item.arrived, item.meta.bytes);
        let after = before.plus(bytes);
        let action = match control {
            Control::None | Control::CoDel(_) => Action::Pass,
            Control::MarkAbove(threshold) if threshold.holds(after) => Action::Pass,
            Control::MarkAbove(_) => Action::Mark,
            Control::Red(red) => red.admit(now, before, bytes, transmitter.rate, &mut self.random),
            Control::Drd(drd) => drd.admit(before, &mut self.random),
            Control::Pie(pie) => {
                pie.update(now, fifo.oldest());
                pie.admit(before, &mut self.random)
            }
        };
        if !self.config.limit.holds(after) {
            return stats.drop(DropReason::Overflow, bytes);
        }
        let refused = match action {
            Action::Pass => false,
            Action::Mark => {
                mark(&mut item.meta, stats);
                false
            }
            Action::Signal => !mark(&mut item.meta, stats),
            Action::Drop => true,
        };
        if refused {
            return stats.drop(DropReason::Early, bytes);
        }
        fifo.push(item);
        Verdict::Queued
    }

    /// Changes the limit and the discipline from now on. A discipline that does not change keeps its state.
    /// Queued packets that do not fit the new limit are dropped.
    pub(crate) fn set(
        &mut self,
        now: Time,
        config: QueueConfig,
        transmitter: Transmitter,
        stats: &mut Stats,
    ) {
        let sending = transmitter.sending;
        // RED counts in the unit of the limit.
        let unit = |limit| matches!(limit, Limit::Bytes(_));
        if config.kind == self.config.kind && unit(config.limit) == unit(self.config.limit) {
            self.config = config;
            if !self.config.limit.holds(sending.and(self.len())) {
                let items: Vec<Item<P>> = core::iter::from_fn(|| self.pop_any()).collect();
                items.into_iter().for_each(|item| self.put_back(item, sending, stats));
            }
            return;
        }
        let fresh = Queue::new(config, self.random.clone(), now);
        let mut old = core::mem::replace(self, fresh);
        while let Some(item) = old.pop_any() {
            self.enqueue(item, transmitter, stats);
        }
    }

    /// Queues a packet that the discipline has already admitted, if it fits.
    fn put_back(&mut self, item: Item<P>, sending: QueueLen, stats: &mut Stats) {
        let bytes = item.meta.bytes;
        let fits = self.config.limit.holds(sending.and(self.len()).plus(bytes));
        match &mut self.shape {
            _ if !fits => {
                stats.drop(DropReason::Overflow, bytes);
            }
            Shape::Single(fifo, _) => fifo.push(item),
            Shape::Dual(dual) => dual.push(item),
            Shape::Fair(fair) => {
                fair.enqueue(item, None, self.config.limit, stats);
            }
        }
    }

    /// Removes the next packet without applying the discipline.
    fn pop_any(&mut self) -> Option<Item<P>> {
        match &mut self.shape {
            Shape::Single(fifo, _) => fifo.pop(),
            Shape::Fair(fair) => fair.pop_any(),
            Shape::Dual(dual) => dual.pop_any(),
        }
    }

    /// Returns the next packet to send. Call this only when the transmitter is free.
    pub(crate) fn dequeue(&mut self, now: Time, stats: &mut Stats) -> Option<Item<P>> {
        match &mut self.shape {
            Shape::Single(fifo, Control::CoDel(codel)) => codel.dequeue(now, fifo, stats),
            Shape::Single(fifo, control) => {
                if let Control::Pie(pie) = control {
                    pie.update(now, fifo.oldest());
                }
                let item = fifo.pop();
                if let (None, Control::Red(red)) = (&item, control) {
                    red.on_idle(now);
                }
                item
            }
            Shape::Fair(fair) => fair.dequeue(now, stats),
            Shape::Dual(dual) => dual.dequeue(now, &mut self.random, stats),
        }
    }

    /// Removes and returns all packets, because the link is going down.
    pub(crate) fn flush(&mut self, now: Time, stats: &mut Stats) -> Vec<Item<P>> {
        let all = core::iter::from_fn(|| self.pop_any()).collect();
        // Tells the discipline that the queue is idle.
        self.dequeue(now, stats);
        all
    }
}
