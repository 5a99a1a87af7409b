use super::{Arrival, ReorderStats, Reorderer};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use dccp_wire::Seq;
use units::{Duration, Time};

/// Most packets held; beyond, the oldest hole is given up.
const MAX_PACKETS: usize = 16_384;
/// Most bytes held.
const MAX_BYTES: usize = 16 << 20;
/// How far behind the newest packet a hole is remembered, to tell a late packet from a duplicate.
const MEMORY: u64 = 65_536;
/// Position of the first packet seen: older ones have positions too.
const ORIGIN: u64 = 1 << 50;

/// Positions that did not arrive yet, up to `end`.
#[derive(Clone, Copy, Debug)]
struct Hole {
    end: u64,
    /// When a packet behind it first arrived.
    seen: Time,
}

/// Holds packets behind a hole until it fills or its timer ends; every hole has its own timer.
///
/// Positions count from the first packet seen, so that MP_SEQ may wrap. All positions up to the newest are in one of three
/// places: delivered, held, or in a hole; a hole below `next` has been given up.
#[derive(Debug)]
pub struct ActiveFixed {
    timeout: Duration,
    /// MP_SEQ and position of the newest packet seen.
    newest: Option<(Seq, u64)>,
    /// Position to deliver next: one behind the newest, or the first of a hole.
    next: u64,
    held: BTreeMap<u64, Vec<u8>>,
    held_bytes: usize,
    /// By first position.
    holes: BTreeMap<u64, Hole>,
    ready: VecDeque<Vec<u8>>,
    stats: ReorderStats,
}

impl ActiveFixed {
    /// Holes last at most `timeout`.
    pub fn new(timeout: Duration) -> ActiveFixed {
        ActiveFixed {
            timeout,
            newest: None,
            next: ORIGIN,
            held: BTreeMap::new(),
            held_bytes: 0,
            holes: BTreeMap::new(),
            ready: VecDeque::new(),
            stats: ReorderStats::default(),
        }
    }

    /// Finds the place of `seq` and closes the hole there; `None` if it is no hole: a duplicate.
    fn place(&mut self, now: Time, seq: Seq) -> Option<u64> {
        let Some((newest, top)) = self.newest else {
            // What was sent before the first packet seen may still come, and is late, not a duplicate.
            self.holes.insert(ORIGIN - MEMORY, Hole { end: ORIGIN, seen: now });
            self.newest = Some((seq, ORIGIN));
            return Some(ORIGIN);
        };
        let position = top.wrapping_add_signed(seq.diff(newest));
        if position > top {
            self.newest = Some((seq, position));
            if position > top + 1 {
                self.holes.insert(top + 1, Hole { end: position, seen: now });
            }
            return Some(position);
        }
        let (&first, &hole) = self.holes.range(..=position).next_back().filter(|(_, h)| position < h.end)?;
        self.holes.remove(&first);
        if first < position {
            self.holes.insert(first, Hole { end: position, ..hole });
        }
        if position + 1 < hole.end {
            self.holes.insert(position + 1, hole);
        }
        Some(position)
    }

    /// Makes the run of held packets at `next` ready.
    fn release_run(&mut self) {
        while let Some(data) = self.held.remove(&self.next) {
            self.held_bytes -= data.len();
            self.deliver_next(data);
        }
    }

    fn deliver_next(&mut self, data: Vec<u8>) {
        self.next += 1;
        self.stats.in_order += 1;
        self.ready.push_back(data);
    }

    /// Gives up the hole at `next` and releases what stood behind it.
    fn skip_hole(&mut self) {
        let Some(hole) = self.holes.get(&self.next) else { return };
        self.next = hole.end;
        self.release_run();
        let forget = self.next - MEMORY;
        while let Some(first) = self.holes.first_entry().filter(|h| h.get().end <= forget) {
            first.remove();
        }
    }
}

impl Reorderer for ActiveFixed {
    fn push(&mut self, now: Time, arrival: Arrival, data: Vec<u8>) {
        let Some(position) = self.place(now, arrival.mp_seq) else {
            self.stats.duplicates += 1;
            return;
        };
        if position < self.next {
            self.stats.late += 1;
            self.ready.push_back(data);
        } else if position == self.next {
            self.deliver_next(data);
            self.release_run();
        } else {
            self.held_bytes += data.len();
            self.stats.held += 1;
            self.held.insert(position, data);
            while self.held.len() > MAX_PACKETS || self.held_bytes > MAX_BYTES {
                self.stats.overflows += 1;
                self.skip_hole();
            }
            self.stats.occupancy_max = self.stats.occupancy_max.max(self.held.len() as u64);
        }
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    /// The hole at `next` is the oldest: holes are found in the order of their positions.
    fn next_timeout(&self) -> Option<Time> {
        self.holes.get(&self.next).map(|hole| hole.seen + self.timeout)
    }

    fn on_timeout(&mut self, now: Time) {
        while self.next_timeout().is_some_and(|t| t <= now) {
            self.stats.timeouts += 1;
            self.skip_hole();
        }
    }

    fn stats(&self) -> ReorderStats {
        ReorderStats {
            occupancy: self.held.len() as u64,
            occupancy_bytes: self.held_bytes as u64,
            ..self.stats
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathId;
    use alloc::vec;

    struct Bench {
        engine: ActiveFixed,
        first: Seq,
    }

    impl Bench {
        fn new(first: u64) -> Bench {
            Bench { engine: ActiveFixed::new(Duration::from_millis(10)), first: Seq::new(first) }
        }

        /// Packet number `n` arrives; returns what is delivered.
        fn push(&mut self, ms: u64, n: u64) -> Vec<u8> {
            let arrival = Arrival {
                mp_seq: self.first.add(n),
                path: PathId(0),
                path_seq: Seq::new(n),
                ndp: None,
                flow: 0,
            };
            self.engine.push(Time::from_millis(ms), arrival, vec![n as u8]);
            self.drain()
        }

        fn timeout(&mut self, ms: u64) -> Vec<u8> {
            self.engine.on_timeout(Time::from_millis(ms));
            self.drain()
        }

        fn drain(&mut self) -> Vec<u8> {
            core::iter::from_fn(|| self.engine.pop()).map(|d| d[0]).collect()
        }
    }

    #[test]
    fn restores_order_also_across_the_wrap() {
        for first in [1, Seq::MODULUS - 2] {
            let mut b = Bench::new(first);
            assert_eq!(b.push(0, 0), [0]);
            assert!(b.push(1, 2).is_empty());
            assert!(b.push(1, 4).is_empty());
            assert_eq!(b.push(2, 1), [1, 2]);
            assert_eq!(b.push(3, 3), [3, 4]);
            assert_eq!(b.engine.next_timeout(), None);
            let s = b.engine.stats();
            assert_eq!((s.in_order, s.held, s.late, s.timeouts, s.occupancy), (5, 2, 0, 0, 0));
        }
    }

    #[test]
    fn every_hole_has_its_own_timer() {
        let mut b = Bench::new(7);
        b.push(0, 0);
        b.push(1, 2); // hole 1, seen at 1 ms
        b.push(5, 4); // hole 3, seen at 5 ms
        assert_eq!(b.engine.next_timeout(), Some(Time::from_millis(11)));
        assert_eq!(b.timeout(10), []);
        assert_eq!(b.timeout(11), [2]);
        assert_eq!(b.engine.next_timeout(), Some(Time::from_millis(15)));
        assert_eq!(b.timeout(15), [4]);
        assert_eq!(b.engine.stats().timeouts, 2);
    }

    #[test]
    fn a_split_hole_keeps_its_time() {
        let mut b = Bench::new(0);
        b.push(0, 0);
        b.push(1, 5); // hole 1 to 4
        b.push(8, 3); // now 1 to 2, and 4
        assert_eq!(b.engine.next_timeout(), Some(Time::from_millis(11)));
        assert_eq!(b.timeout(11), [3, 5], "both parts were seen at 1 ms");
    }

    #[test]
    fn late_packets_are_delivered_once_and_duplicates_never() {
        let mut b = Bench::new(0);
        b.push(0, 0);
        assert_eq!(b.push(0, 0), [], "already delivered");
        b.push(1, 3);
        assert_eq!(b.push(2, 3), [], "already held");
        assert_eq!(b.timeout(20), [3]);
        assert_eq!(b.push(21, 2), [2], "late");
        assert_eq!(b.push(22, 2), [], "late twice");
        assert_eq!(b.push(23, 1), [1]);
        assert_eq!(b.push(24, 4), [4]);
        let s = b.engine.stats();
        assert_eq!((s.late, s.duplicates), (2, 3));
    }

    #[test]
    fn packets_older_than_the_first_are_late() {
        let mut b = Bench::new(100);
        b.first = Seq::new(100);
        assert_eq!(b.push(0, 1), [1]);
        assert_eq!(b.push(0, 0), [0]);
        assert_eq!(b.engine.stats().late, 1);
    }

    #[test]
    fn memory_is_bounded() {
        let mut b = Bench::new(0);
        b.push(0, 0);
        for n in 1..40_000u64 {
            b.push(0, n * 2); // every second one missing
            assert!(b.engine.held.len() <= MAX_PACKETS);
            assert!(b.engine.holes.len() <= MEMORY as usize);
        }
        assert!(b.engine.stats().overflows > 0);
    }
}
