use alloc::collections::BTreeMap;

use aqm::{Item, Meta, QueueLen};
use units::{Duration, Rate, Time};

use crate::config::ConfigError;
use crate::loss::Loss;
use crate::queue::{Queue, Transmitter};
use crate::random::Random;
use crate::server::Server;
use crate::{DropReason, Jitter, LinkConfig, LossModel, RateModel, Stats, Verdict};

/// A packet that came out of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered<P> {
    /// When it arrived, exactly; no later than the time given to [`Link::pop`].
    pub at: Time,
    /// When it was handed in.
    pub pushed: Time,
    /// As handed in, except that the ECN field may have become CE.
    pub meta: Meta,
    /// The packet.
    pub packet: P,
}

/// One direction of an emulated link, carrying packets of type `P`.
///
/// Times given to its methods must not decrease; an earlier one is taken as the latest seen. Memory is bounded by the queue limit
/// and by what is pushed within one delay.
#[derive(Clone, Debug)]
pub struct Link<P> {
    now: Time,
    up: bool,
    queue: Queue<P>,
    server: Server,
    transmitting: Option<Item<P>>,
    loss: Loss,
    delay: Duration,
    jitter: Jitter,
    jitter_random: Random,
    /// On the way, by time of arrival; the number keeps packets of equal time in order.
    propagating: BTreeMap<(Time, u64), Item<P>>,
    sent: u64,
    last_arrival: Time,
    stats: Stats,
}

impl<P> Link<P> {
    /// A link that starts, empty and up, at `start`. Equal seeds give equal links; use different ones for different links.
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub fn new(config: LinkConfig, seed: u64, start: Time) -> Result<Link<P>, ConfigError> {
        config.validate()?;
        let LinkConfig { rate, delay, jitter, queue, loss } = config;
        Ok(Link {
            now: start,
            up: true,
            queue: Queue::new(queue, Random::new(seed, 0), start),
            server: Server::new(rate, start),
            transmitting: None,
            loss: Loss::new(loss, Random::new(seed, 1)),
            delay,
            jitter,
            jitter_random: Random::new(seed, 2),
            propagating: BTreeMap::new(),
            sent: 0,
            last_arrival: start,
            stats: Stats::default(),
        })
    }

    /// Hands in a packet. Packets whose transmission ends at `now` have left the queue before this one comes.
    pub fn push(&mut self, now: Time, meta: Meta, packet: P) -> Verdict {
        self.advance(now);
        self.stats.offered.add(meta.bytes);
        if !self.up {
            return self.stats.drop(DropReason::Down, meta.bytes);
        }
        let item = Item { arrived: self.now, meta, packet };
        let sending = self.transmitting.as_ref().map(|item| item.meta.bytes);
        let transmitter = Transmitter { sending, rate: self.server.rate(self.now) };
        let verdict = self.queue.enqueue(item, transmitter, &mut self.stats);
        if self.transmitting.is_none() && self.queue.len().packets > 0 {
            self.transmit_next(self.now);
            self.advance(now);
        }
        verdict
    }

    /// The next packet that has arrived by `now`, in order of arrival. Call until it gives none.
    pub fn pop(&mut self, now: Time) -> Option<Delivered<P>> {
        self.advance(now);
        let first = self.propagating.first_entry()?;
        let at = first.key().0;
        if at > self.now {
            return None;
        }
        let Item { arrived, meta, packet } = first.remove();
        self.stats.delivered.add(meta.bytes);
        Some(Delivered { at, pushed: arrived, meta, packet })
    }

    /// No packet arrives before this, unless the link is changed or pushed to. None if none is on its way. [`Link::pop`] at this time may
    /// still give nothing, since the packet expected may be lost.
    pub fn next_event(&self) -> Option<Time> {
        let arrival = self.propagating.first_key_value().map(|(key, _)| key.0);
        let transmitted = self.server.end().map(|end| end + self.jitter.floor(self.delay));
        arrival.into_iter().chain(transmitted).min()
    }

    /// Brings queue and statistics up to `now`. Every other method that takes a time does so by itself.
    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some(end) = self.server.end().filter(|end| *end <= self.now) {
            self.server.finish();
            if let Some(item) = self.transmitting.take() {
                self.propagate(end, item);
            }
            self.transmit_next(end);
        }
    }

    /// From `now` on the rate is constant at `rate`. A packet in transmission goes on at it from where it is.
    pub fn set_rate(&mut self, now: Time, rate: Rate) {
        self.replace_rate(now, RateModel::Constant(rate));
    }

    /// From `now` on the rate follows `model`, whose time starts at `now`.
    ///
    /// # Errors
    /// If the model makes no sense; then nothing changes.
    pub fn set_rate_model(&mut self, now: Time, model: RateModel) -> Result<(), ConfigError> {
        model.validate()?;
        self.replace_rate(now, model);
        Ok(())
    }

    /// Changes the delay of packets not yet sent. Without reordering they arrive no earlier than those before them.
    pub fn set_delay(&mut self, now: Time, delay: Duration) {
        self.advance(now);
        self.delay = delay;
    }

    /// Changes the loss of packets not yet sent.
    ///
    /// # Errors
    /// If the model makes no sense; then nothing changes.
    pub fn set_loss(&mut self, now: Time, loss: LossModel) -> Result<(), ConfigError> {
        loss.validate()?;
        self.advance(now);
        self.loss.set_model(loss);
        Ok(())
    }

    /// Takes the link down: what is queued or in transmission is dropped, and so is everything pushed until [`Link::set_up`]. What
    /// propagates already arrives.
    pub fn set_down(&mut self, now: Time) {
        self.advance(now);
        self.up = false;
        self.server.abort();
        if let Some(item) = self.transmitting.take() {
            self.stats.drop(DropReason::Down, item.meta.bytes);
        }
        self.queue.flush(self.now, &mut self.stats);
    }

    /// Brings the link up again.
    pub fn set_up(&mut self, now: Time) {
        self.advance(now);
        self.up = true;
    }

    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// What has passed, as of the latest time seen.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// How full the queue is, the packet in transmission included, as of the latest time seen.
    pub fn queue_len(&self) -> QueueLen {
        self.transmitting.iter().fold(self.queue.len(), |len, item| len.plus(item.meta.bytes))
    }

    /// Packets sent and not yet taken out with [`Link::pop`].
    pub fn propagating(&self) -> usize {
        self.propagating.len()
    }

    fn replace_rate(&mut self, now: Time, model: RateModel) {
        self.advance(now);
        self.server.set_model(self.now, model);
        self.advance(now);
    }

    /// The first waiting packet goes to the transmitter, which must be free.
    fn transmit_next(&mut self, now: Time) {
        self.transmitting = self.queue.dequeue(now, &mut self.stats);
        if let Some(item) = &self.transmitting {
            self.server.begin(now, item.meta.bytes);
        }
    }

    /// The last bit of a packet was sent at `end`.
    fn propagate(&mut self, end: Time, item: Item<P>) {
        if self.loss.next() {
            self.stats.drop(DropReason::Loss, item.meta.bytes);
            return;
        }
        let mut arrival = end + self.jitter.draw(self.delay, &mut self.jitter_random);
        if !self.jitter.reorder {
            arrival = arrival.max(self.last_arrival);
            self.last_arrival = arrival;
        }
        self.propagating.insert((arrival, self.sent), item);
        self.sent += 1;
    }
}
