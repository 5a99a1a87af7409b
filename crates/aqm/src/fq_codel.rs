use crate::{CoDel, CoDelConfig, Fifo, Item, Ledger, Limit, QueueLen, Reason};
use alloc::collections::{BTreeMap, VecDeque};
use mpdccp_units::{Duration, Time};

/// Flow queueing with CoDel (RFC 8290). Flows share the link evenly, and each has its own instance of CoDel.
/// A flow that sends less than its share is served at once. [`Meta::flow`](crate::Meta::flow) identifies the
/// flow of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCoDelConfig {
    /// Number of queues, 1 to 65,536. Flows whose hashes are equal modulo this number share a queue.
    pub flows: u32,
    /// Number of bytes that a flow may send per turn.
    pub quantum: u32,
    /// CoDel settings of each queue.
    pub codel: CoDelConfig,
}

impl Default for FqCoDelConfig {
    /// Returns 1,024 queues, a quantum of 1,514 bytes, and CoDel's defaults with ECN (RFC 8290 section 5.2).
    fn default() -> FqCoDelConfig {
        let codel = CoDelConfig { ecn: true, ..CoDelConfig::default() };
        FqCoDelConfig { flows: 1_024, quantum: 1_514, codel }
    }
}

/// Maximum number of packets dropped at once when the limit is exceeded (RFC 8290 section 4.1).
const DROP_BATCH: usize = 64;

#[derive(Clone, Debug)]
struct Flow<P> {
    fifo: Fifo<P>,
    codel: CoDel,
    credit: i64,
    /// Whether the flow is in the list of new or of old flows.
    listed: bool,
}

/// The queues of all flows.
#[derive(Clone, Debug)]
pub struct FqCoDel<P> {
    config: FqCoDelConfig,
    quantum: i64,
    /// Queues that have held a packet since the last [`rest`](Self::rest). Memory is not allocated for all
    /// `flows` queues, because it would be large and most links use only a few of them.
    flows: BTreeMap<u32, Flow<P>>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    len: QueueLen,
}

impl<P> FqCoDel<P> {
    /// Creates an empty queue. If `flows` or `quantum` is zero, it is replaced by one.
    pub fn new(config: FqCoDelConfig) -> FqCoDel<P> {
        FqCoDel {
            config,
            quantum: config.quantum.max(1).into(),
            flows: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            len: QueueLen::default(),
        }
    }

    /// Returns the fill level of the queue.
    #[allow(clippy::len_without_is_empty)] // a measure of two quantities, not a count
    pub fn len(&self) -> QueueLen {
        self.len
    }

    /// Returns the fill level of one flow.
    pub fn flow_len(&self, flow: u32) -> QueueLen {
        self.flows.get(&self.index(flow)).map_or_else(QueueLen::default, |flow| flow.fifo.len())
    }

    fn index(&self, flow: u32) -> u32 {
        flow % self.config.flows.max(1)
    }

    /// Frees all memory if the queue is empty. This also resets CoDel's state, so call it only after a long
    /// idle time.
    pub fn rest(&mut self) {
        if self.len.packets == 0 {
            *self = FqCoDel::new(self.config);
        }
    }

    /// Changes the target and interval of all queues.
    pub fn tune(&mut self, target: Duration, interval: Duration) {
        self.config.codel = CoDelConfig { target, interval, ..self.config.codel };
    }

    /// Queues a packet. While `limit` is exceeded, drops packets at the head of the longest flow. The packet
    /// being transmitted has `transmitting` bytes, which count towards the limit. Returns false if the new
    /// packet itself was dropped.
    pub fn enqueue(
        &mut self,
        item: Item<P>,
        transmitting: Option<u32>,
        limit: Limit,
        ledger: &mut impl Ledger,
    ) -> bool {
        let index = self.index(item.meta.flow);
        let codel = self.config.codel;
        let fresh = || Flow { fifo: Fifo::default(), codel: CoDel::new(codel), credit: 0, listed: false };
        let flow = self.flows.entry(index).or_insert_with(fresh);
        self.len = self.len.plus(item.meta.bytes);
        flow.fifo.push(item);
        if !flow.listed {
            flow.listed = true;
            flow.credit = self.quantum;
            self.new.push_back(index);
        }
        if self.is_within(transmitting, limit) {
            return true;
        }
        self.shrink(transmitting, limit, ledger);
        // Packets are dropped at the head, so the new packet is still in the queue unless its flow is now
        // empty.
        self.flows.get(&index).is_some_and(|flow| flow.fifo.len().packets > 0)
    }

    /// Drops packets at the head of the longest flow while `limit` is exceeded. The packet being transmitted
    /// has `transmitting` bytes, which count towards the limit.
    pub fn shrink(&mut self, transmitting: Option<u32>, limit: Limit, ledger: &mut impl Ledger) {
        while !self.is_within(transmitting, limit) && self.len.packets > 0 {
            self.drop_from_fattest(ledger);
        }
    }

    fn is_within(&self, transmitting: Option<u32>, limit: Limit) -> bool {
        limit.holds(transmitting.map_or(self.len, |bytes| self.len.plus(bytes)))
    }

    /// Drops half of the bytes of the longest flow (RFC 8290 section 4.1).
    fn drop_from_fattest(&mut self, ledger: &mut impl Ledger) {
        let Some(flow) = self.flows.values_mut().max_by_key(|flow| flow.fifo.len().bytes) else { return };
        let half = flow.fifo.len().bytes / 2;
        for _ in 0..DROP_BATCH {
            let Some(item) = flow.fifo.pop() else { break };
            self.len = self.len.minus(item.meta.bytes);
            ledger.dropped(Reason::Overflow, item.meta.bytes);
            if flow.fifo.len().bytes <= half {
                break;
            }
        }
    }

    /// Returns the next packet to send (RFC 8290 section 4.2).
    pub fn dequeue(&mut self, now: Time, ledger: &mut impl Ledger) -> Option<Item<P>> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let index = list.pop_front()?;
            let Some(flow) = self.flows.get_mut(&index) else { continue };
            if flow.credit <= 0 {
                flow.credit += self.quantum;
                self.old.push_back(index);
                continue;
            }
            let before = flow.fifo.len();
            flow.codel.set(self.config.codel);
            let item = flow.codel.dequeue(now, &mut flow.fifo, ledger);
            let after = flow.fifo.len();
            self.len.packets -= before.packets - after.packets;
            self.len.bytes -= before.bytes - after.bytes;
            match item {
                Some(item) => {
                    flow.credit -= i64::from(item.meta.bytes);
                    let list = if from_new { &mut self.new } else { &mut self.old };
                    list.push_front(index);
                    return Some(item);
                }
                // A new flow that becomes empty spends one round among the old flows. Otherwise it could keep
                // its priority as a new flow forever.
                None if from_new => self.old.push_back(index),
                None => flow.listed = false,
            }
        }
    }

    /// Removes and returns any packet, without CoDel.
    pub fn pop_any(&mut self) -> Option<Item<P>> {
        let flows = &mut self.flows;
        let item = self.new.iter().chain(&self.old).find_map(|index| flows.get_mut(index)?.fifo.pop())?;
        self.len = self.len.minus(item.meta.bytes);
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Meta;
    use crate::tests::Counts;
    use alloc::vec::Vec;
    use mpdccp_units::Ecn;

    const BULK: u32 = 1;
    const SPARSE: u32 = 2;

    struct Rig {
        queue: FqCoDel<u32>,
        limit: Limit,
        stats: Counts,
    }

    #[test]
    fn takes_memory_for_the_flows_there_are_and_gives_it_back() {
        let mut rig = Rig::new(Limit::Packets(3));
        assert!(rig.queue.dequeue(Time::ZERO, &mut rig.stats).is_none() && rig.queue.pop_any().is_none());
        assert!(rig.queue.flows.is_empty());
        rig.push(BULK, 100, 1);
        rig.push(BULK + 1_024, 100, 2);
        assert_eq!(rig.queue.flows.len(), 1, "both flows must be in one queue");
        assert_eq!(rig.queue.flow_len(BULK), QueueLen { packets: 2, bytes: 200 });
        rig.queue.rest();
        assert_eq!(rig.pop(3), [(BULK, 1), (BULK + 1_024, 2)], "no packet may be lost");
        rig.queue.rest();
        assert!(rig.queue.flows.is_empty() && rig.queue.new.capacity() + rig.queue.old.capacity() == 0);
    }

    impl Rig {
        fn new(limit: Limit) -> Rig {
            Rig { queue: FqCoDel::new(FqCoDelConfig::default()), limit, stats: Counts::default() }
        }

        fn push(&mut self, flow: u32, bytes: u32, packet: u32) -> bool {
            let meta = Meta { bytes, ecn: Ecn::NotEct, flow };
            let item = Item { arrived: Time::ZERO, meta, packet };
            self.queue.enqueue(item, None, self.limit, &mut self.stats)
        }

        fn fill(&mut self, packets: core::ops::Range<u32>, flow: u32, bytes: u32) {
            for packet in packets {
                self.push(flow, bytes, packet);
            }
        }

        /// Returns the flow and number of each of the next `n` packets.
        fn pop(&mut self, n: usize) -> Vec<(u32, u32)> {
            let next =
                |_| self.queue.dequeue(Time::ZERO, &mut self.stats).map(|item| (item.meta.flow, item.packet));
            (0..n).map_while(next).collect()
        }
    }

    #[test]
    fn flows_share_bytes_not_packets() {
        let mut rig = Rig::new(Limit::Packets(10_240));
        for i in 0..1_000 {
            rig.push(0, 1_500, i);
            rig.push(1, 300, i);
        }
        let out = rig.pop(600);
        let bytes =
            |flow| out.iter().filter(|p| p.0 == flow).count() as i64 * if flow == 0 { 1_500 } else { 300 };
        // The bytes of the two flows differ by at most a quantum and a packet each.
        assert!((bytes(0) - bytes(1)).abs() <= 2 * (1_514 + 1_500), "{} {}", bytes(0), bytes(1));
    }

    #[test]
    fn a_sparse_flow_goes_first() {
        let mut rig = Rig::new(Limit::Packets(10_240));
        rig.fill(0..100, BULK, 1_500);
        // Two packets of 1,500 bytes exceed the quantum. The flow becomes an old one, but only at its next
        // turn.
        assert_eq!(rig.pop(2), [(BULK, 0), (BULK, 1)]);
        assert_eq!(rig.queue.old.len(), 0, "the flow must not become an old one before its next turn");
        for i in 0..5 {
            rig.pop(1);
            rig.push(SPARSE, 100, i);
            assert_eq!(rig.pop(1), [(SPARSE, i)], "the sparse flow waited behind the bulk flow");
            // At its turn among the old flows, the sparse flow is empty and leaves the lists.
            rig.pop(3);
        }
    }

    #[test]
    fn new_flows_cannot_starve_the_old() {
        let mut rig = Rig::new(Limit::Packets(10_240));
        rig.fill(0..100, BULK, 1_500);
        rig.pop(3);
        // There are two sparse flows. Each queues a packet as soon as the other flow's packet has been sent.
        let mut bulk = 0;
        let mut last = 0;
        for i in 0..90 {
            for flow in [SPARSE, SPARSE + 1] {
                if flow != last && rig.queue.flow_len(flow).packets == 0 {
                    rig.push(flow, 1_500, i);
                }
            }
            last = rig.pop(1)[0].0;
            bulk += u32::from(last == BULK);
        }
        assert!((25..=50).contains(&bulk), "{bulk} of 90 packets are bulk; a fair share is 30");
    }

    #[test]
    fn overload_hits_the_fattest_flow() {
        let mut rig = Rig::new(Limit::Packets(100));
        rig.push(SPARSE, 1_500, 0);
        for i in 0..99 {
            assert!(rig.push(BULK, 1_000, i));
        }
        assert!(rig.push(SPARSE, 1_500, 1));
        // The queue drops half of the flow's 99,000 bytes, rounded up to whole packets.
        assert_eq!(rig.stats.overflow, 50);
        assert_eq!(rig.queue.len(), QueueLen { packets: 51, bytes: 2 * 1_500 + 49 * 1_000 });
        assert_eq!(rig.pop(2), [(SPARSE, 0), (SPARSE, 1)]);
        assert_eq!(rig.pop(1), [(BULK, 50)], "packets must be dropped at the head");
    }

    #[test]
    fn no_more_than_a_batch_at_once() {
        let mut rig = Rig::new(Limit::Packets(1_000));
        rig.fill(0..1_001, BULK, 1_000);
        assert_eq!(rig.stats.overflow, 64);
    }

    #[test]
    fn a_packet_that_never_fits_is_refused() {
        let mut rig = Rig::new(Limit::Bytes(1_000));
        assert!(!rig.push(BULK, 1_001, 0));
        assert_eq!(rig.queue.len(), QueueLen::default());
        assert!(rig.push(BULK, 1_000, 1));
        assert_eq!(rig.pop(2), [(BULK, 1)]);
    }
}
