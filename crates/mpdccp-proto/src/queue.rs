//! The short send queue of a session. It limits sojourn time and size, is fair between inner flows, signals
//! congestion to them early, drops at its head, and counts every drop.

use crate::PktInfo;
use crate::names::Named;
#[cfg(feature = "serde")]
use crate::names::by_name;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use aqm::{CoDelConfig, Fifo, FqCoDel, FqCoDelConfig, Item, Ledger, Limit, Meta, QueueLen, Reason};
use mpdccp_units::{Duration, Time};

/// Limits of the queue, and its early congestion signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(default = "QueueConfig::of_ip_packets", deny_unknown_fields)
)]
pub struct QueueConfig {
    /// Maximum number of bytes.
    pub max_bytes: usize,
    /// Maximum number of packets.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "some"))]
    pub max_packets: usize,
    /// Longest sojourn time.
    #[cfg_attr(feature = "serde", serde(rename = "max_ms", deserialize_with = "milliseconds"))]
    pub max_sojourn: Duration,
    /// How packets are served.
    pub discipline: Discipline,
}

/// How packets are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// In order of arrival.
    #[default]
    Fifo,
    /// FQ-CoDel (RFC 8290): inner flows take turns. A flow with a standing queue gets a congestion signal:
    /// its packets are marked if they are ECN-capable, and dropped otherwise. TCP in the tunnel therefore
    /// sees little delay and does not starve other flows. This discipline is for payloads that are IP
    /// packets.
    FqCoDel,
}

impl Named for Discipline {
    const WHAT: &'static str = "queue discipline";
    fn all() -> impl Iterator<Item = Discipline> {
        [Discipline::FqCoDel, Discipline::Fifo].into_iter()
    }
    fn name(self) -> &'static str {
        match self {
            Discipline::Fifo => "fifo",
            Discipline::FqCoDel => "fq-codel",
        }
    }
    fn about(self) -> &'static str {
        match self {
            Discipline::Fifo => "first in, first out",
            Discipline::FqCoDel => {
                "a queue for each flow, served in turn, with CoDel's early congestion signals"
            }
        }
    }
}

#[cfg(feature = "serde")]
by_name!(Discipline);

#[cfg(feature = "serde")]
fn milliseconds<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    <u64 as serde::Deserialize>::deserialize(d).map(Duration::from_millis)
}

/// Rejects zero, because a queue of size zero would drop everything.
#[cfg(feature = "serde")]
fn some<'de, D: serde::Deserializer<'de>>(d: D) -> Result<usize, D::Error> {
    match <usize as serde::Deserialize>::deserialize(d)? {
        0 => Err(serde::de::Error::custom("expected 1 or more")),
        n => Ok(n),
    }
}

impl QueueConfig {
    /// Returns the default for payloads that are IP packets.
    pub fn of_ip_packets() -> QueueConfig {
        QueueConfig { discipline: Discipline::FqCoDel, ..QueueConfig::default() }
    }

    /// Returns a configuration without limits, for an owner that limits the queue itself. Packets never
    /// expire.
    pub fn unbounded() -> QueueConfig {
        QueueConfig {
            max_bytes: usize::MAX,
            max_packets: usize::MAX,
            max_sojourn: Duration::from_secs(1 << 31),
            ..QueueConfig::default()
        }
    }
}

impl Default for QueueConfig {
    fn default() -> QueueConfig {
        QueueConfig {
            // This limit leaves enough room for the standing queue that `fq-codel` allows, plus the data that
            // TCP sends at 3 Gbit/s before it reacts to the signal.
            max_bytes: 4 << 20,
            max_packets: 4096,
            max_sojourn: Duration::from_millis(100),
            discipline: Discipline::default(),
        }
    }
}

/// The backlog as a scheduler sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct QueueView {
    pub packets: u32,
    pub bytes: u64,
    pub oldest: Duration,
    /// Bytes queued for the flow of the head packet, including that packet.
    pub flow_bytes: u64,
    /// Whether these bytes belong to streams. A stream packet on a slow path delays only its own stream.
    pub streams: bool,
}

/// Counters of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStats {
    /// Packets accepted.
    pub accepted: u64,
    /// Packets dropped at the head to make room.
    pub dropped_full: u64,
    /// Packets dropped at the head because they were too old.
    pub dropped_old: u64,
    /// Packets dropped to signal congestion to an inner flow.
    pub dropped_early: u64,
    /// Packets marked to signal congestion to an inner flow.
    pub marked: u64,
    /// Packets dropped because no path can carry their size.
    pub dropped_too_big: u64,
}

/// A queued packet.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub(crate) struct Queued {
    pub info: PktInfo,
    pub at: Time,
    pub data: Vec<u8>,
}

impl QueueStats {
    /// Sums of the counters of two queues.
    #[must_use]
    pub(crate) fn plus(&self, other: &QueueStats) -> QueueStats {
        QueueStats {
            accepted: self.accepted + other.accepted,
            dropped_full: self.dropped_full + other.dropped_full,
            dropped_old: self.dropped_old + other.dropped_old,
            dropped_early: self.dropped_early + other.dropped_early,
            marked: self.marked + other.marked,
            dropped_too_big: self.dropped_too_big + other.dropped_too_big,
        }
    }
}

impl Ledger for QueueStats {
    fn dropped(&mut self, reason: Reason, _bytes: u32) {
        match reason {
            Reason::Overflow => self.dropped_full += 1,
            Reason::Early => self.dropped_early += 1,
        }
    }

    fn marked(&mut self) {
        self.marked += 1;
    }
}

type Packet = (PktInfo, Vec<u8>);

#[derive(Debug)]
enum Waiting {
    Fifo(Fifo<Packet>),
    Fair(FqCoDel<Packet>),
}

/// The queue.
#[derive(Debug)]
pub(crate) struct SendQueue {
    cfg: QueueConfig,
    waiting: Waiting,
    /// The head, which `head` has already removed from `waiting`. It stays the head until `pop` takes it.
    head: Option<Queued>,
    /// Packets waiting for a path with a larger MTU, in order, while smaller packets pass them.
    aside: VecDeque<Queued>,
    stats: QueueStats,
    /// Longest sojourn time in force: the user's setting, or more if the paths need it.
    max_sojourn: Duration,
    /// Time at which a packet was last added. `None` once the queue has been empty and its memory has been
    /// freed.
    quiet_since: Option<Time>,
}

/// Minimum sojourn limit in round trips. It keeps packets from expiring while a path is briefly slow.
/// `MOST_LEAST` caps this minimum.
const SLOW_ROUNDS: u32 = 4;
const MOST_LEAST: Duration = Duration::from_millis(250);
/// An empty queue frees its memory after this long without a packet. CoDel needs its state for less time than
/// this.
const REST: Duration = Duration::from_secs(30);
/// Number of flow queues in the fair queue. If there are more flows, several share a queue.
const FLOWS: u32 = 1024;
/// Maximum number of packets that are set aside for a path with a larger MTU.
const MOST_ASIDE: usize = 64;

impl SendQueue {
    /// Creates an empty queue.
    pub(crate) fn new(cfg: QueueConfig) -> SendQueue {
        let waiting = match cfg.discipline {
            Discipline::Fifo => Waiting::Fifo(Fifo::default()),
            Discipline::FqCoDel => {
                let codel = CoDelConfig { ecn: true, ..CoDelConfig::default() };
                Waiting::Fair(FqCoDel::new(FqCoDelConfig { flows: FLOWS, codel, ..FqCoDelConfig::default() }))
            }
        };
        SendQueue {
            max_sojourn: cfg.max_sojourn,
            cfg,
            waiting,
            head: None,
            aside: VecDeque::new(),
            stats: QueueStats::default(),
            quiet_since: None,
        }
    }

    /// Adapts the queue to the paths. `standing` is the desired standing queue, `rtt` the longest smoothed
    /// RTT of the paths in use, and `min_rtt` the longest of their minimum RTTs. Three settings could leave
    /// the paths underused, and are adapted. The CoDel target must exceed the standing queue. The interval
    /// must exceed the round trips of the inner flows (RFC 8289 section 4). The sojourn limit must not drop
    /// many packets at once when a path slows down for a few round trips.
    pub(crate) fn tune(&mut self, rtt: Duration, min_rtt: Duration, standing: Duration) {
        // The target is a quarter above the desired queue. With a lower target, the queue would often be
        // shorter than desired.
        let allowance = standing + standing / 4;
        self.max_sojourn = self.cfg.max_sojourn + allowance;
        if let Waiting::Fair(fair) = &mut self.waiting {
            let slow = (min_rtt * SLOW_ROUNDS).min(MOST_LEAST);
            self.max_sojourn = self.cfg.max_sojourn.max(slow) + allowance;
            let least = CoDelConfig::default();
            // Assume that the round trips of inner flows take at most twice as long as those of the paths.
            let (target, interval) = (least.target.max(rtt / 8) + allowance, least.interval.max(rtt * 2));
            fair.tune(target, interval);
        }
    }

    /// Returns the packets and bytes outside `waiting`.
    fn shown(&self) -> QueueLen {
        let head = self.head.as_ref().map(|head| QueueLen::default().plus(size(&head.data)));
        let head = head.unwrap_or_default();
        match self.aside.is_empty() {
            true => head,
            false => self.aside.iter().fold(head, |len, packet| len.plus(size(&packet.data))),
        }
    }

    /// Adds a packet and, if necessary, drops packets at the head of the longest flow queue. The oldest
    /// packet is the one least useful to its receiver, and dropping it lets the sender notice the loss
    /// soonest.
    pub(crate) fn push(&mut self, now: Time, data: Vec<u8>, info: PktInfo) {
        self.stats.accepted += 1;
        self.quiet_since = Some(now);
        let bytes = size(&data);
        let item =
            Item { arrived: now, meta: Meta { bytes, ecn: info.ecn, flow: info.flow }, packet: (info, data) };
        let shown = self.shown();
        let bytes_left = Limit::Bytes((self.cfg.max_bytes as u64).saturating_sub(shown.bytes));
        let packets_left = Limit::Packets((self.cfg.max_packets as u64).saturating_sub(shown.packets).max(1));
        match &mut self.waiting {
            Waiting::Fifo(fifo) => {
                let fits = |fifo: &Fifo<Packet>| {
                    [bytes_left, packets_left].iter().all(|l| l.holds(fifo.len().plus(bytes)))
                };
                while !fits(fifo) && fifo.pop().is_some() {
                    self.stats.dropped_full += 1;
                }
                fifo.push(item);
            }
            Waiting::Fair(fair) => {
                fair.enqueue(item, None, bytes_left, &mut self.stats);
                fair.shrink(None, packets_left, &mut self.stats);
            }
        }
    }

    /// Drops expired packets, then returns the head without removing it.
    pub(crate) fn head(&mut self, now: Time) -> Option<&Queued> {
        self.aside_head(now);
        loop {
            if self.head.is_none() {
                self.head = self.next(now);
                if self.head.is_none() {
                    self.rest(now);
                    return None;
                }
            }
            // Packets of the head's flow that were set aside must go first.
            if self.head.as_ref().is_some_and(|head| self.is_aside(head.info.flow)) {
                match self.set_aside() {
                    true => continue,
                    false => return None,
                }
            }
            match &self.head {
                Some(head) if now.since(head.at) > self.max_sojourn => {
                    self.stats.dropped_old += 1;
                    self.head = None;
                }
                _ => return self.head.as_ref(),
            }
        }
    }

    /// Frees the memory of a queue that has been empty for a while.
    fn rest(&mut self, now: Time) {
        if self.quiet_since.take_if(|since| now.since(*since) >= REST).is_some() {
            match &mut self.waiting {
                Waiting::Fifo(fifo) => *fifo = Fifo::default(),
                Waiting::Fair(fair) => fair.rest(),
            }
            self.aside.shrink_to_fit();
        }
    }

    fn next(&mut self, now: Time) -> Option<Queued> {
        let item = match &mut self.waiting {
            Waiting::Fifo(fifo) => fifo.pop(),
            Waiting::Fair(fair) => fair.dequeue(now, &mut self.stats),
        }?;
        let (info, mut data) = item.packet;
        if item.meta.ecn != info.ecn {
            set_ce(&mut data);
        }
        Some(Queued { info: PktInfo { ecn: item.meta.ecn, ..info }, at: item.arrived, data })
    }

    /// Removes and returns the head that [`head`](Self::head) showed.
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        self.head.take()
    }

    /// Drops expired packets that were set aside, then returns the first remaining one without removing it.
    pub(crate) fn aside_head(&mut self, now: Time) -> Option<&Queued> {
        if self.aside.is_empty() {
            return None;
        }
        let most = self.max_sojourn;
        while self.aside.pop_front_if(|packet| now.since(packet.at) > most).is_some() {
            self.stats.dropped_old += 1;
        }
        self.aside.front()
    }

    /// Removes and returns the packet that [`aside_head`](Self::aside_head) showed.
    pub(crate) fn pop_aside(&mut self) -> Option<Queued> {
        self.aside.pop_front()
    }

    /// Sets the head aside, so that smaller packets of other flows may pass. Returns false if there is no
    /// head, or no room to set it aside.
    pub(crate) fn set_aside(&mut self) -> bool {
        let room = self.aside.len() < MOST_ASIDE;
        let head = self.head.take_if(|_| room);
        self.aside.extend(head);
        room
    }

    /// Returns whether a packet of the flow is set aside. Always false for flow 0, which means unknown.
    fn is_aside(&self, flow: u32) -> bool {
        flow != 0 && !self.aside.is_empty() && self.aside.iter().any(|packet| packet.info.flow == flow)
    }

    /// Removes and returns the next packet, regardless of its age.
    pub(crate) fn pop_any(&mut self) -> Option<Queued> {
        let next = self.aside.pop_front().or_else(|| self.head.take());
        next.or_else(|| {
            let item = match &mut self.waiting {
                Waiting::Fifo(fifo) => fifo.pop(),
                Waiting::Fair(fair) => fair.pop_any(),
            }?;
            let (info, data) = item.packet;
            Some(Queued { info, at: item.arrived, data })
        })
    }

    /// Drops everything and returns the number of packets.
    pub(crate) fn clear(&mut self) -> u64 {
        let dropped = self.view(Time::ZERO).packets;
        let stats = self.stats;
        *self = SendQueue { stats, ..SendQueue::new(self.cfg) };
        dropped.into()
    }

    /// Drops the head because no path can carry its size.
    pub(crate) fn drop_too_big(&mut self) {
        if self.pop().is_some() {
            self.stats.dropped_too_big += 1;
        }
    }

    /// Drops the first packet set aside, because no path can carry its size.
    pub(crate) fn drop_aside_too_big(&mut self) {
        if self.pop_aside().is_some() {
            self.stats.dropped_too_big += 1;
        }
    }

    /// Returns when the head or the first packet set aside becomes too old. It is dropped and counted at that
    /// time, even if no path ever opens.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        let shown = self.aside.front().into_iter().chain(&self.head);
        shown.map(|p| p.at + self.max_sojourn + Duration::from_nanos(1)).min()
    }

    /// Returns the backlog. `oldest` is the age of the head or of the first packet set aside. In a fair
    /// queue, other packets may have waited longer.
    pub(crate) fn view(&self, now: Time) -> QueueView {
        let waiting = match &self.waiting {
            Waiting::Fifo(fifo) => fifo.len(),
            Waiting::Fair(fair) => fair.len(),
        };
        let shown = self.shown();
        let mut oldest = self.head.as_ref().map_or(now, |head| head.at);
        if !self.aside.is_empty() {
            oldest = self.aside.iter().fold(oldest, |oldest, packet| oldest.min(packet.at));
        }
        QueueView {
            packets: u32::try_from(waiting.packets + shown.packets).unwrap_or(u32::MAX),
            bytes: waiting.bytes + shown.bytes,
            oldest: now.since(oldest),
            flow_bytes: match (&self.waiting, &self.head) {
                (Waiting::Fair(fair), Some(head)) => fair.flow_len(head.info.flow).bytes + shown.bytes,
                _ => waiting.bytes + shown.bytes,
            },
            streams: false,
        }
    }

    /// Counters.
    pub(crate) fn stats(&self) -> QueueStats {
        self.stats
    }

    /// Takes over the counters of another queue, which this queue continues.
    pub(crate) fn set_stats(&mut self, stats: QueueStats) {
        self.stats = stats;
    }
}

fn size(packet: &[u8]) -> u32 {
    u32::try_from(packet.len()).unwrap_or(u32::MAX)
}

/// Sets the ECN field of an ECN-capable IP packet to CE (RFC 3168 section 5), and updates the IPv4 header
/// checksum (RFC 1624).
fn set_ce(packet: &mut [u8]) {
    match packet.first().map(|b| b >> 4) {
        Some(4) if packet.len() >= 20 => {
            let word = |p: &[u8], at: usize| u16::from_be_bytes([p[at], p[at + 1]]);
            let (before, sum) = (word(packet, 0), word(packet, 10));
            packet[1] |= 3;
            let after = word(packet, 0);
            let mut new = u32::from(!sum) + u32::from(!before) + u32::from(after);
            new = (new & 0xffff) + (new >> 16);
            new = (new & 0xffff) + (new >> 16);
            packet[10..12].copy_from_slice(&(!(new as u16)).to_be_bytes());
        }
        Some(6) if packet.len() >= 40 => packet[1] |= 0x30,
        _ => {}
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
