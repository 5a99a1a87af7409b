//! What waits for the transmitter.

mod fifo;

use units::Time;

use crate::config::{ConfigError, ensure};
use crate::random::Random;
use crate::{DropReason, Meta, Stats, Verdict};
use fifo::Fifo;

/// A queue discipline and its bound.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueConfig {
    /// What happens as the queue grows.
    pub kind: QueueKind,
    /// What it holds at most. The packet in transmission counts until its last bit is sent, as with a kernel `bfifo` or `pfifo` under
    /// `tbf`, which holds a packet until it may leave: a byte limit over the rate is the longest time from push to last bit.
    pub limit: Limit,
}

impl Default for QueueConfig {
    /// Drop-tail, 1,000 packets.
    fn default() -> QueueConfig {
        QueueConfig { kind: QueueKind::DropTail, limit: Limit::Packets(1_000) }
    }
}

/// A queue discipline.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueKind {
    /// First in, first out; what does not fit is dropped.
    DropTail,
}

/// A bound on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes, as handed to [`Link::push`](crate::Link::push).
    Bytes(u64),
    /// Packets.
    Packets(u64),
}

/// How full a queue is, with the packet in transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QueueLen {
    /// Packets.
    pub packets: u64,
    /// Bytes; the packet in transmission counts whole.
    pub bytes: u64,
}

impl QueueConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let (Limit::Bytes(limit) | Limit::Packets(limit)) = self.limit;
        ensure(limit > 0, "queue", "the limit must not be zero")
    }
}

impl Limit {
    /// Whether `len` is within it.
    fn holds(self, len: QueueLen) -> bool {
        match self {
            Limit::Bytes(n) => len.bytes <= n,
            Limit::Packets(n) => len.packets <= n,
        }
    }
}

impl QueueLen {
    pub(crate) fn plus(self, bytes: u32) -> QueueLen {
        QueueLen { packets: self.packets + 1, bytes: self.bytes + u64::from(bytes) }
    }
}

/// A waiting packet.
#[derive(Clone, Debug)]
pub(crate) struct Item<P> {
    pub(crate) arrived: Time,
    pub(crate) meta: Meta,
    pub(crate) packet: P,
}

/// The queue of a link, of whatever kind. The packet in transmission is not in it, but counts for every limit and threshold.
#[derive(Clone, Debug)]
pub(crate) struct Queue<P> {
    limit: Limit,
    fifo: Fifo<P>,
    #[expect(dead_code, reason = "the disciplines that draw follow")]
    random: Random,
}

impl<P> Queue<P> {
    pub(crate) fn new(config: QueueConfig, random: Random) -> Queue<P> {
        let QueueConfig { kind: QueueKind::DropTail, limit } = config;
        Queue { limit, fifo: Fifo::default(), random }
    }

    /// What waits, without the packet in transmission.
    pub(crate) fn len(&self) -> QueueLen {
        self.fifo.len()
    }

    /// Takes `item` in or drops it; `transmitting` is the size of the packet in transmission.
    pub(crate) fn enqueue(&mut self, item: Item<P>, transmitting: Option<u32>, stats: &mut Stats) -> Verdict {
        let before = transmitting.into_iter().fold(self.len(), QueueLen::plus);
        if !self.limit.holds(before.plus(item.meta.bytes)) {
            return stats.drop(DropReason::Overflow, item.meta.bytes);
        }
        self.fifo.push(item);
        Verdict::Queued
    }

    /// The next packet to transmit.
    pub(crate) fn dequeue(&mut self, _now: Time, _stats: &mut Stats) -> Option<Item<P>> {
        self.fifo.pop()
    }

    /// Drops everything as the link goes down.
    pub(crate) fn flush(&mut self, stats: &mut Stats) {
        while let Some(item) = self.fifo.pop() {
            stats.drop(DropReason::Down, item.meta.bytes);
        }
    }
}
