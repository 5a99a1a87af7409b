use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use aqm::{Item, Meta, QueueLen};
use mpdccp_units::{Duration, Rate, Time};

use crate::error::ConfigError;
use crate::in_flight::InFlight;
use crate::jitter::Wander;
use crate::loss::Loss;
use crate::policer::Bucket;
use crate::queue::{Queue, Transmitter};
use crate::random::Random;
use crate::server::Server;
use crate::{DropReason, LinkConfig, RateModel, Stats, Verdict};

/// A packet that came out of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered<P> {
    /// Exact arrival time, no later than the time passed to [`Link::pop`].
    pub at: Time,
    /// Time at which the packet was pushed.
    pub pushed: Time,
    /// The metadata as pushed, except that the ECN field may have become CE.
    pub meta: Meta,
    /// The packet.
    pub packet: P,
}

/// One direction of an emulated link, carrying packets of type `P`.
///
/// Times passed to the methods must not decrease: a time before the latest time so far counts as the latest
/// time. The queue's limit and the number of packets pushed within one delay limit the use of memory, if the
/// caller also takes out the lost packets with [`pop_lost`](Self::pop_lost).
#[derive(Clone, Debug)]
pub struct Link<P> {
    now: Time,
    up: bool,
    config: LinkConfig,
    policer: Option<Bucket>,
    queue: Queue<Waiting<P>>,
    /// The number of each flow's newest queued acknowledgement.
    acks: BTreeMap<u32, u64>,
    pushed: u64,
    server: Server,
    /// Until this time, the transmitter waits for the medium and transmits nothing.
    access: Option<Time>,
    medium: Random,
    transmitting: Vec<Item<Waiting<P>>>,
    loss: Loss,
    copies: Random,
    wander: Wander,
    propagating: InFlight<Item<P>>,
    last_arrival: Time,
    lost: Vec<P>,
    stats: Stats,
}

/// A queued packet.
#[derive(Clone, Debug)]
struct Waiting<P> {
    /// The packet's number in push order.
    number: u64,
    /// Delay of the packet in addition to the link's delay.
    detour: Duration,
    packet: P,
}

impl<P: Clone> Link<P> {
    /// Creates a link at `start`, empty and up. Links with equal seeds behave equally, so give different
    /// links different seeds.
    ///
    /// # Errors
    /// Fails if the configuration is invalid.
    pub fn new(config: LinkConfig, seed: u64, start: Time) -> Result<Link<P>, ConfigError> {
        config.validate()?;
        Ok(Link {
            now: start,
            up: true,
            policer: config.policer.map(|policer| Bucket::new(policer, start)),
            queue: Queue::new(config.queue.clone(), Random::new(seed, 0), start),
            acks: BTreeMap::new(),
            pushed: 0,
            server: Server::new(config.rate.clone(), start),
            access: None,
            medium: Random::new(seed, 3),
            transmitting: Vec::new(),
            loss: Loss::new(config.loss, Random::new(seed, 1)),
            copies: Random::new(seed, 5),
            wander: Wander::new(config.jitter, Random::new(seed, 2)),
            config,
            propagating: InFlight::default(),
            last_arrival: start,
            lost: Vec::new(),
            stats: Stats::default(),
        })
    }

    /// Pushes a packet. A packet whose transmission ends at `now` has already left the queue.
    pub fn push(&mut self, now: Time, meta: Meta, packet: P) -> Verdict {
        self.push_farther(now, meta, Duration::ZERO, packet)
    }

    /// Like [`push`](Self::push), but for a packet whose delay exceeds the link's by `detour`, for example
    /// because its flow has a more distant end. Packets with different detours may be reordered.
    pub fn push_farther(&mut self, now: Time, meta: Meta, detour: Duration, packet: P) -> Verdict {
        self.advance(now);
        self.stats.offered.add(meta.bytes);
        if !self.up {
            return self.stats.drop(DropReason::Down, meta.bytes);
        }
        if self.policer.as_mut().is_some_and(|bucket| !bucket.admit(self.now, meta.bytes)) {
            return self.stats.drop(DropReason::Policed, meta.bytes);
        }
        let number = self.pushed;
        self.pushed += 1;
        let item = Item { arrived: self.now, meta, packet: Waiting { number, detour, packet } };
        let verdict = self.queue.enqueue(item, self.transmitter(), &mut self.stats);
        if verdict == Verdict::Queued && meta.bytes < self.config.thin_below {
            self.acks.insert(meta.flow, number);
        }
        if self.transmitting.is_empty() && self.access.is_none() && self.queue.len().packets > 0 {
            self.transmit_next(self.now);
            self.advance(now);
        }
        verdict
    }

    /// Returns the next packet to have arrived by `now`, in order of arrival. Call this repeatedly until it
    /// returns `None`.
    pub fn pop(&mut self, now: Time) -> Option<Delivered<P>> {
        self.advance(now);
        let (at, Item { arrived, meta, packet }) = self.propagating.pop(self.now)?;
        self.stats.delivered.add(meta.bytes);
        Some(Delivered { at, pushed: arrived, meta, packet })
    }

    /// Returns a packet that was lost on the wire, or that the link held when it went down. Packets that the
    /// queue dropped are not returned. Call this repeatedly until it returns `None`.
    pub fn pop_lost(&mut self) -> Option<P> {
        self.lost.pop()
    }

    /// Ends the link. Returns the lost packets and all packets that the link still holds.
    pub fn end(mut self) -> Vec<P> {
        self.set_down(self.now);
        while let Some((_, item)) = self.propagating.pop(Time::MAX) {
            self.lost.push(item.packet);
        }
        self.lost
    }

    /// Returns the earliest time at which a packet may arrive, if the link neither changes nor gets another
    /// packet until then. Returns `None` if the link holds no packet. At the returned time, [`Link::pop`] may
    /// still return `None`, because the packet may be lost.
    pub fn next_event(&self) -> Option<Time> {
        let arrival = self.propagating.next_arrival();
        let busy = self.server.end().into_iter().chain(self.access).min();
        let transmitted = busy.map(|end| end + self.config.jitter.floor(self.config.delay));
        arrival.into_iter().chain(transmitted).min()
    }

    /// Advances the queue and the statistics to `now`. All other methods that take a time do this on their
    /// own.
    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        loop {
            if let Some(at) = self.access.filter(|at| *at <= self.now) {
                self.access = None;
                self.transmit(at);
            } else if let Some(end) = self.server.end().filter(|end| *end <= self.now) {
                self.server.finish();
                for item in core::mem::take(&mut self.transmitting) {
                    self.propagate(end, item);
                }
                self.transmit_next(end);
            } else {
                break;
            }
        }
    }

    /// Changes the configuration at `now`. Settings that do not change keep their state, and packets stay in
    /// the link. If the queue becomes smaller, packets that no longer fit are dropped.
    ///
    /// # Errors
    /// Fails if the configuration is invalid, in which case nothing changes.
    pub fn reconfigure(&mut self, now: Time, config: LinkConfig) -> Result<(), ConfigError> {
        config.validate()?;
        self.advance(now);
        if config.rate != self.config.rate {
            self.replace_rate(now, config.rate.clone());
        }
        if config.loss != self.config.loss {
            self.loss.set_model(config.loss);
        }
        if config.queue != self.config.queue {
            let transmitter = self.transmitter();
            self.queue.set(self.now, config.queue.clone(), transmitter, &mut self.stats);
        }
        if config.policer != self.config.policer {
            match (&mut self.policer, config.policer) {
                (Some(bucket), Some(policer)) => bucket.set(self.now, policer),
                (bucket, policer) => *bucket = policer.map(|policer| Bucket::new(policer, self.now)),
            }
        }
        self.wander.jitter = config.jitter;
        self.config = config;
        Ok(())
    }

    /// Returns the current configuration.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Sets a constant rate from `now` on, which also applies to the packet being transmitted.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        self.replace_rate(now, RateModel::Constant(rate));
    }

    /// Changes the delay of packets that have not been sent yet. Unless the link may reorder packets, they
    /// arrive no earlier than the packets before them.
    pub fn set_delay(&mut self, now: Time, delay: Duration) {
        self.advance(now);
        self.config.delay = delay;
    }

    /// Takes the link down. Packets in the queue or being transmitted are dropped, as are all packets pushed
    /// before [`Link::set_up`]. Packets that are already propagating still arrive.
    pub fn set_down(&mut self, now: Time) {
        self.advance(now);
        self.up = false;
        self.server.abort();
        self.access = None;
        let mut held = core::mem::take(&mut self.transmitting);
        held.extend(self.queue.flush(self.now, &mut self.stats));
        for item in held {
            self.stats.drop(DropReason::Down, item.meta.bytes);
            self.lost.push(item.packet.packet);
        }
    }

    /// Brings the link up again.
    pub fn set_up(&mut self, now: Time) {
        self.advance(now);
        self.up = true;
    }

    /// Returns whether the link is up.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Returns the counters as of the latest time seen.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Returns the queue's fill level, including the packet being transmitted, as of the latest time seen.
    pub fn queue_len(&self) -> QueueLen {
        self.transmitting.iter().fold(self.queue.len(), |len, item| len.plus(item.meta.bytes))
    }

    /// Returns how many packets have been sent but not yet taken out with [`Link::pop`].
    pub fn propagating(&self) -> usize {
        self.propagating.len()
    }

    fn replace_rate(&mut self, now: Time, model: RateModel) {
        self.advance(now);
        self.server.set_model(self.now, model.clone());
        self.config.rate = model;
        self.advance(now);
    }

    fn transmitter(&self) -> Transmitter {
        let none = QueueLen::default();
        let sending = self.transmitting.iter().fold(none, |len, item| len.plus(item.meta.bytes));
        Transmitter { sending, rate: self.server.rate(self.now) }
    }

    /// Sends the next packets, possibly after waiting for the medium. Call this when the transmitter is free.
    fn transmit_next(&mut self, now: Time) {
        match self.config.aggregation {
            Some(aggregation) if self.queue.len().packets > 0 => {
                self.access = Some(now + aggregation.wait(&mut self.medium));
            }
            _ => self.transmit(now),
        }
    }

    /// Moves packets to the transmitter, which must be free.
    fn transmit(&mut self, now: Time) {
        let most = self.config.aggregation.map_or(1, |a| a.packets as usize);
        while self.transmitting.len() < most
            && let Some(item) = self.queue.dequeue(now, &mut self.stats)
        {
            if self.outdated(&item) {
                self.stats.drop(DropReason::Thinned, item.meta.bytes);
            } else {
                self.transmitting.push(item);
            }
        }
        let bytes = self.transmitting.iter().map(|item| item.meta.bytes).sum();
        if !self.transmitting.is_empty() {
            self.server.begin(now, bytes);
        }
    }

    /// Returns whether a packet is an acknowledgement and a later one of the same flow is queued.
    fn outdated(&mut self, item: &Item<Waiting<P>>) -> bool {
        if item.meta.bytes >= self.config.thin_below {
            return false;
        }
        if self.queue.len().packets == 0 {
            self.acks.clear();
        }
        let newest = self.acks.get(&item.meta.flow).copied();
        if newest == Some(item.packet.number) {
            self.acks.remove(&item.meta.flow);
        }
        newest.is_some_and(|newest| newest > item.packet.number)
    }

    /// Starts the propagation of a packet whose last bit was sent at `end`.
    fn propagate(&mut self, end: Time, item: Item<Waiting<P>>) {
        let Item { arrived, meta, packet: Waiting { detour, packet, .. } } = item;
        if self.loss.next() {
            self.stats.drop(DropReason::Loss, meta.bytes);
            self.lost.push(packet);
            return;
        }
        let item = Item { arrived, meta, packet };
        if self.config.duplicate > 0.0 && self.copies.chance(self.config.duplicate) {
            self.stats.duplicated.add(meta.bytes);
            self.fly(end, detour, item.clone());
        }
        self.fly(end, detour, item);
    }

    fn fly(&mut self, end: Time, detour: Duration, item: Item<P>) {
        let mut arrival = end + self.wander.draw(self.config.delay, end);
        if !self.config.jitter.reorder {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        self.propagating.push(arrival + detour, item);
    }
}
