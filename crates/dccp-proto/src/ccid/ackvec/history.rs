use alloc::collections::{BTreeMap, VecDeque};
use core::ops::Range;
use dccp_cc::Snapshot;
use dccp_wire::Seq;
use mpdccp_units::Time;

/// Maximum number of packets remembered: 100 ms of full packets at 30 Gbit/s.
pub(crate) const MAX_PACKETS: usize = 1 << 18;
/// Maximum number of packets kept while the oldest has no data. Packets without data are kept only to measure
/// the round-trip time.
const KEPT_NON_DATA: usize = 256;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The packet is outstanding.
    InFlight,
    /// The packet was declared lost at this time, but is kept because it may still arrive.
    Lost(Time),
    /// The peer reported the packet as received.
    Received,
}

/// A sent packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) sent_at: Time,
    /// Size of the IP packet, bytes, or 0 if this half did not send the packet and `sent_at` is too late.
    pub(crate) bytes: u32,
    pub(crate) fate: Fate,
    /// Delivery state of a packet with data. Packets without data have none, because congestion control
    /// ignores them.
    pub(crate) snapshot: Option<Snapshot>,
}

/// Sent packets in order. Their index counts from the first sequence number and does not wrap.
///
/// Each Ack Vector repeats the previous ones until the peer knows that they arrived. The ranges of
/// unacknowledged packets are therefore stored separately, so that each run of a vector costs one lookup plus
/// the work for its new packets, and packets already known to be received cost nothing.
#[derive(Debug)]
pub(crate) struct History {
    /// Sequence number of index 0.
    origin: Seq,
    /// Index of the oldest packet kept.
    base: u64,
    packets: VecDeque<Packet>,
    /// Ranges of packets not reported as received: in flight, lost or without data. Maps the start of each
    /// range to its end. Ranges are disjoint and never adjacent.
    open: BTreeMap<u64, u64>,
}

impl History {
    /// Creates an empty history. `origin` is the first sequence number of this direction.
    pub(crate) fn new(origin: Seq) -> History {
        History { origin, base: 0, packets: VecDeque::new(), open: BTreeMap::new() }
    }

    /// Returns the index of the oldest packet kept.
    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Returns the index of the next packet to send.
    pub(crate) fn next(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    /// Returns the sequence number of `index`.
    pub(crate) fn seq(&self, index: u64) -> Seq {
        self.origin.add(index)
    }

    /// Returns the index of `seq`. Returns `None` if `seq` is before the first packet or was not sent yet.
    pub(crate) fn index(&self, seq: Seq) -> Option<u64> {
        let next = self.next();
        let back = self.origin.add(next).diff(seq);
        (back > 0).then(|| next.checked_sub(back.unsigned_abs())).flatten()
    }

    pub(crate) fn get(&self, index: u64) -> Option<&Packet> {
        self.packets.get(usize::try_from(index.checked_sub(self.base)?).ok()?)
    }

    pub(crate) fn get_mut(&mut self, index: u64) -> Option<&mut Packet> {
        self.packets.get_mut(usize::try_from(index.checked_sub(self.base)?).ok()?)
    }

    /// Adds packet `seq` and returns its index. If `seq` was sent before, ignores the packet and returns
    /// `None`. Skipped numbers count as packets without data.
    pub(crate) fn push(&mut self, seq: Seq, packet: Packet) -> Option<u64> {
        let ahead = u64::try_from(seq.diff(self.origin.add(self.next()))).ok()?;
        if self.packets.is_empty() {
            // Skip the numbers of packets that were sent before this half existed.
            self.base += ahead;
        } else {
            for _ in 0..ahead.min(MAX_PACKETS as u64) {
                let skipped = Packet { bytes: 0, snapshot: None, ..packet };
                self.append(skipped);
            }
        }
        Some(self.append(packet))
    }

    /// Replaces the snapshot of every data packet.
    pub(crate) fn restamp(&mut self, mut snapshot: impl FnMut(&Packet) -> Snapshot) {
        for packet in self.packets.iter_mut().filter(|packet| packet.snapshot.is_some()) {
            packet.snapshot = Some(snapshot(packet));
        }
    }

    fn append(&mut self, packet: Packet) -> u64 {
        let index = self.next();
        self.packets.push_back(packet);
        match self.open.last_entry() {
            Some(mut last) if *last.get() == index => *last.get_mut() = index + 1,
            _ => {
                self.open.insert(index, index + 1);
            }
        }
        index
    }

    /// Closes the open ranges within `range` and passes them to `closed`, newest first.
    pub(crate) fn close(&mut self, range: Range<u64>, mut closed: impl FnMut(Range<u64>)) {
        while let Some((&start, &end)) = self.open.range(..range.end).next_back() {
            if end <= range.start {
                return;
            }
            self.open.remove(&start);
            if end > range.end {
                self.open.insert(range.end, end);
            }
            closed(start.max(range.start)..end.min(range.end));
            if start <= range.start {
                if start < range.start {
                    self.open.insert(start, range.start);
                }
                return;
            }
        }
    }

    /// Returns the first open index in `range`.
    pub(crate) fn first_open(&self, range: Range<u64>) -> Option<u64> {
        let within = self.open.range(..=range.start).next_back().is_some_and(|(_, &end)| end > range.start);
        let found = if within {
            Some(range.start)
        } else {
            self.open.range(range.start..).next().map(|(&start, _)| start)
        };
        found.filter(|&index| index < range.end)
    }

    /// Removes the oldest packets, as long as each was received, was lost before `lost_before`, or has no
    /// data. If too many packets remain, also removes and returns the oldest one, which the caller counts as
    /// lost if it is in flight. Call this until it returns `None`.
    pub(crate) fn trim(&mut self, lost_before: impl Fn() -> Time) -> Option<Packet> {
        while let Some(oldest) = self.packets.front() {
            let settled = match oldest.fate {
                Fate::Received => true,
                Fate::Lost(at) => at < lost_before(),
                Fate::InFlight => oldest.snapshot.is_none() && self.packets.len() > KEPT_NON_DATA,
            };
            if !settled {
                break;
            }
            self.pop();
        }
        if self.packets.len() > MAX_PACKETS { self.pop() } else { None }
    }

    fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        if let Some(end) = self.open.remove(&self.base)
            && end > self.base + 1
        {
            self.open.insert(self.base + 1, end);
        }
        self.base += 1;
        Some(packet)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn packet() -> Packet {
        Packet { sent_at: Time::ZERO, bytes: 100, fate: Fate::InFlight, snapshot: None }
    }

    #[test]
    fn indexes_across_the_wrap() {
        let origin = Seq::new(Seq::MODULUS - 2);
        let mut history = History::new(origin);
        assert_eq!(history.index(origin), None);
        for i in 0..5 {
            assert_eq!(history.push(origin.add(i), packet()), Some(i));
        }
        assert_eq!(history.push(origin.add(4), packet()), None);
        assert_eq!(history.index(Seq::new(1)), Some(3));
        assert_eq!(history.index(Seq::new(3)), None);
        assert_eq!(history.index(origin.sub(1)), None);
        assert_eq!(history.push(origin.add(7), packet()), Some(7));
        assert_eq!(history.len(), 8);
    }

    #[test]
    fn starts_late() {
        let mut history = History::new(Seq::new(10));
        assert_eq!(history.push(Seq::new(13), packet()), Some(3));
        assert_eq!((history.base(), history.next()), (3, 4));
        assert!(history.get(2).is_none() && history.get(3).is_some() && history.get(4).is_none());
    }

    #[test]
    fn is_bounded() {
        let mut history = History::new(Seq::new(0));
        for i in 0..1000 {
            history.push(Seq::new(i), packet());
            assert!(history.trim(|| Time::ZERO).is_none());
        }
        assert_eq!(history.len(), KEPT_NON_DATA);
        assert_eq!(history.first_open(0..2000), Some(1000 - KEPT_NON_DATA as u64));
    }

    proptest! {
        /// `close` returns each index once. The open set equals that of a naive implementation.
        #[test]
        fn closes_once(ranges in proptest::collection::vec((0u64..100, 0u64..40), 0..60), from in 0u64..110, to in 0u64..110) {
            let mut history = History::new(Seq::new(0));
            for i in 0..100 {
                history.push(Seq::new(i), packet());
            }
            let mut open = [true; 100];
            for (start, len) in ranges {
                let range = start..(start + len).min(100);
                let mut closed = Vec::new();
                history.close(range.clone(), |part| closed.push(part));
                let mut now: Vec<u64> = closed.into_iter().flatten().collect();
                now.sort_unstable();
                let expected: Vec<u64> = range.filter(|&i| core::mem::take(&mut open[i as usize])).collect();
                prop_assert_eq!(now, expected);
            }
            let first = (from..to.min(100)).find(|&i| open[i as usize]);
            prop_assert_eq!(history.first_open(from..to), first);
        }
    }
}
