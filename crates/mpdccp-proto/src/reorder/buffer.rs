use super::Back;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use dccp_wire::Seq;
use mpdccp_units::{Duration, Time};

/// Maximum number of packets held. Beyond it, the oldest hole is given up.
pub(super) const MAX_PACKETS: usize = 16_384;
/// Maximum number of bytes held. Beyond it, the oldest hole is given up.
pub(super) const MAX_BYTES: usize = 16 << 20;
/// Holes are remembered up to this distance behind the newest packet, in order to tell late packets from
/// duplicates.
pub(super) const MEMORY: u64 = 65_536;
/// Position of the first packet that arrived. Packets that were sent before it have lower positions.
pub(super) const ORIGIN: u64 = 1 << 50;

/// Missing positions, from `first` up to but not including `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    pub(super) first: u64,
    pub(super) end: u64,
    /// Time at which a packet behind the hole first arrived.
    pub(super) seen: Time,
}

/// What the position of an arriving packet means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The newest position so far.
    New,
    /// A position that has been missing since the given time.
    Missing(Time),
    /// The position was filled before, so the packet is a duplicate.
    Taken,
}

/// A packet behind a hole.
#[derive(Debug)]
struct Held {
    /// `None` if the packet was delivered before its turn.
    data: Option<Vec<u8>>,
    since: Time,
}

/// Result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// The packet is late. It is still delivered, although its hole was given up.
    Late,
    /// The packet is in order. It is delivered together with the packets held behind it.
    InOrder,
    /// The packet is held behind a hole.
    Held,
}

/// Packets by their position in the session, and the holes between them.
///
/// Positions count from the first packet that arrived, so that MP_SEQ may wrap. Each position up to the
/// newest is delivered, held, or in a hole. Holes below `next` have been given up.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// MP_SEQ and position of the newest packet that arrived.
    newest: Option<(Seq, u64)>,
    /// Next position to deliver: the first position of a hole, or one past the newest.
    next: u64,
    held: BTreeMap<u64, Held>,
    held_bytes: usize,
    /// The key is the first position of the hole.
    holes: BTreeMap<u64, Hole>,
    /// Held packets, keyed by the position of the previous packet of their flow. Delivering that packet
    /// releases the held one.
    pub(super) after: BTreeMap<u64, u64>,
    /// Held packets that are released once every position below a limit has been delivered or given up. Each
    /// entry gives the limit and the packet's own position.
    pub(super) beyond: BTreeSet<(u64, u64)>,
    ready: VecDeque<Vec<u8>>,
    /// Packets delivered in order so far.
    pub(super) in_order: u64,
    /// Packets of `in_order` that were delivered although earlier positions were missing.
    pub(super) jumped: u64,
    /// Packets of `in_order` by hold time. Bucket i counts times below 2^i ms. The last bucket counts all
    /// longer times.
    pub(super) held_for: [u64; super::HELD_BUCKETS],
}

/// Maximum distance of an MP_SEQ ahead of the newest packet. It corresponds to hours of lost packets. Without
/// this limit, a hostile peer could move positions to the end of their range.
const MAX_JUMP: u64 = 1 << 32;

impl Buffer {
    pub(super) fn new() -> Buffer {
        Buffer { next: ORIGIN, ..Buffer::default() }
    }

    /// Finds the position of `seq` and removes the position from its hole.
    pub(super) fn place(&mut self, now: Time, seq: Seq) -> (u64, Place) {
        let Some((newest, top)) = self.newest else {
            // Packets that were sent before the first received one may still arrive. They then count as late,
            // not as duplicates.
            self.add_hole(ORIGIN - MEMORY, ORIGIN, now);
            self.newest = Some((seq, ORIGIN));
            return (ORIGIN, Place::New);
        };
        let position = top.wrapping_add_signed(seq.diff(newest));
        if position > top.saturating_add(MAX_JUMP) {
            return (position, Place::Taken);
        }
        if position > top {
            self.newest = Some((seq, position));
            self.add_hole(top + 1, position, now);
            return (position, Place::New);
        }
        let hole = self.holes.range(..=position).next_back().map(|(_, h)| *h);
        let Some(hole) = hole.filter(|h| position < h.end) else { return (position, Place::Taken) };
        self.holes.remove(&hole.first);
        self.add_hole(hole.first, position, hole.seen);
        self.add_hole(position + 1, hole.end, hole.seen);
        (position, Place::Missing(hole.seen))
    }

    fn add_hole(&mut self, first: u64, end: u64, seen: Time) {
        if first < end {
            self.holes.insert(first, Hole { first, end, seen });
        }
    }

    /// Inserts a packet at the position that [`place`](Self::place) found.
    pub(super) fn put(&mut self, now: Time, position: u64, data: Vec<u8>) -> Put {
        if position < self.next {
            self.ready.push_back(data);
            Put::Late
        } else if position == self.next {
            self.next += 1;
            self.in_order += 1;
            self.ready.push_back(data);
            self.release_run(now);
            Put::InOrder
        } else {
            self.held_bytes += data.len();
            self.held.insert(position, Held { data: Some(data), since: now });
            Put::Held
        }
    }

    /// Returns the next packet to deliver, whether in order or late.
    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    /// Returns the hole that blocks delivery. It is the oldest hole, because holes are found in the order of
    /// their positions.
    pub(super) fn head(&self) -> Option<Hole> {
        self.holes.get(&self.next).copied()
    }

    /// Returns whether `position` is the only position between `above` and `below` that is missing or was
    /// given up.
    pub(super) fn only_missing(&self, position: u64, above: u64, below: u64) -> bool {
        let mut holes = self.holes.range(..below).rev().map(|(_, h)| h).take_while(|h| h.end > above + 1);
        holes.next().is_some_and(|h| (h.first, h.end) == (position, position + 1)) && holes.next().is_none()
    }

    /// Returns whether a position in `first..end` is missing or was given up.
    pub(super) fn has_hole(&self, first: u64, end: u64) -> bool {
        self.holes.range(..end).next_back().is_some_and(|(_, hole)| hole.end > first)
    }

    /// Gives up the hole at the head and releases the packets held behind it.
    pub(super) fn skip_hole(&mut self, now: Time) {
        let Some(hole) = self.head() else { return };
        self.next = hole.end;
        self.release_run(now);
        let forget = self.next - MEMORY;
        while let Some(first) = self.holes.first_entry().filter(|h| h.get().end <= forget) {
            first.remove();
        }
    }

    /// Releases all held packets. The next packet to arrive counts as the first one again.
    pub(super) fn restart(&mut self, now: Time) {
        while self.head().is_some() {
            self.skip_hole(now);
        }
        self.holes.clear();
        (self.newest, self.next) = (None, ORIGIN);
    }

    /// Forgets holes that are so far behind the newest packet that no packet is expected to fill them.
    pub(super) fn forget_before_newest(&mut self) {
        let Some((_, top)) = self.newest else { return };
        while let Some(first) = self.holes.first_entry().filter(|h| h.get().end + MEMORY <= top) {
            first.remove();
        }
    }

    /// Delivers a packet before its turn. The packet keeps its position in the order.
    pub(super) fn jump(&mut self, position: u64, now: Time, data: Vec<u8>) {
        self.held.insert(position, Held { data: None, since: now });
        self.jumped += 1;
        self.ready.push_back(data);
    }

    /// Returns whether a packet at this position would have to be held.
    pub(super) fn is_behind_a_hole(&self, position: u64) -> bool {
        position > self.next
    }

    /// Returns the number of packets ready for delivery.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Returns whether the buffer exceeds its limits.
    pub(super) fn is_full(&self) -> bool {
        self.held.len() > MAX_PACKETS || self.held_bytes > MAX_BYTES
    }

    /// Returns the number of packets and of bytes held.
    pub(super) fn occupancy(&self) -> (u64, u64) {
        (self.held.len() as u64, self.held_bytes as u64)
    }

    /// Makes the held packets that directly follow `next` ready for delivery.
    fn release_run(&mut self, now: Time) {
        while let Some(held) = self.held.remove(&self.next) {
            self.next += 1;
            self.in_order += 1;
            let Some(data) = held.data else { continue };
            self.held_bytes -= data.len();
            self.held_for[bucket(now.since(held.since))] += 1;
            self.ready.push_back(data);
        }
        while let Some(next) = self.after.first_entry().filter(|e| *e.key() < self.next) {
            let position = next.remove();
            self.release_early(now, position);
        }
        while let Some(&(last, position)) = self.beyond.first().filter(|(last, _)| *last < self.next) {
            self.beyond.remove(&(last, position));
            self.release_early(now, position);
        }
    }

    /// Processes the distance to the flow's previous packet. Returns true if that packet has been delivered
    /// or given up, so that this packet need not wait. Otherwise remembers the distance.
    pub(super) fn follows(&mut self, position: u64, back: Back) -> bool {
        match back {
            Back::Exactly(n) => {
                let before = position - n;
                let held = self.held.get(&before).is_some_and(|held| held.data.is_none());
                if !held && before >= self.next {
                    self.after.insert(before, position);
                    return false;
                }
            }
            Back::Beyond(n) => {
                let last = position - n;
                if last >= self.next {
                    self.beyond.insert((last, position));
                    return false;
                }
            }
        }
        true
    }

    /// Releases a held packet before its turn, and then the packets of its flow that are waiting for it.
    pub(super) fn release_early(&mut self, now: Time, position: u64) {
        let mut next = Some(position);
        while let Some(position) = next {
            if let Some(held) = self.held.get_mut(&position)
                && let Some(data) = held.data.take()
            {
                self.held_bytes -= data.len();
                self.held_for[bucket(now.since(held.since))] += 1;
                self.jumped += 1;
                self.ready.push_back(data);
            }
            next = self.after.remove(&position);
        }
    }
}

fn bucket(held: Duration) -> usize {
    let ms = held.as_millis().min(u128::from(u32::MAX)) as u32;
    ((u32::BITS - ms.leading_zeros()) as usize).min(super::HELD_BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn with(numbers: &[u64]) -> Buffer {
        let mut b = Buffer::new();
        for n in numbers {
            let (position, _) = b.place(Time::from_millis(*n), Seq::new(*n));
            b.put(Time::from_millis(*n), position, vec![0]);
        }
        b
    }

    #[test]
    fn memory_is_bounded() {
        let mut b = with(&[0]);
        for n in 1..40_000u64 {
            let (position, _) = b.place(Time::ZERO, Seq::new(n * 2)); // every second number is missing
            b.put(Time::ZERO, position, vec![0]);
            while b.is_full() {
                b.skip_hole(Time::ZERO);
            }
            assert!(b.held.len() <= MAX_PACKETS && b.holes.len() <= MEMORY as usize);
        }
    }

    #[test]
    fn positions_do_not_run_away() {
        let mut b = with(&[0]);
        let mut seq = 0u64;
        for _ in 0..1000 {
            seq = seq.wrapping_add(1 << 46); // a quarter of the circle each
            let (_, place) = b.place(Time::ZERO, Seq::new(seq));
            assert!(matches!(place, Place::Taken));
        }
        assert!(
            matches!(b.place(Time::ZERO, Seq::new(1)).1, Place::New),
            "hostile jumps must not change the newest number"
        );
    }

    #[test]
    fn tells_whether_only_one_is_missing() {
        let b = with(&[0, 1, 3, 4, 6, 7, 8, 11]); // 2, 5, 9 and 10 missing
        let only = |position, above, below| b.only_missing(ORIGIN + position, ORIGIN + above, ORIGIN + below);
        assert!(only(2, 1, 3) && only(2, 0, 4) && only(5, 3, 8));
        assert!(!only(2, 1, 6), "5 is missing as well");
        assert!(!only(5, 1, 6), "2 is missing as well");
        assert!(!only(9, 8, 11), "10 is missing as well");
        assert!(!only(3, 2, 4), "3 is not missing");
    }

    #[test]
    fn buckets_of_time_held() {
        for (ms, want) in
            [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (100, 7), (100_000, super::super::HELD_BUCKETS - 1)]
        {
            assert_eq!(bucket(Duration::from_millis(ms)), want, "{ms} ms");
        }
    }
}
