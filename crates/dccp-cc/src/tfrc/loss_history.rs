use super::LossInterval;
use super::interval::NINTERVAL;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

/// Number of packets that must arrive after a hole before the hole counts as a loss (RFC 5348 section 5.1,
/// RFC 4342 section 6.1).
const NDUPACK: usize = 3;
/// Number of intervals kept: those in the average, and as many older ones, which determine the discount.
const MAX_INTERVALS: usize = 2 * NINTERVAL + 1;
/// Number of runs of losses and marks to keep. A late packet can still fill a kept run.
const MAX_HOLES: usize = 64;
/// Two packets are more than a round trip apart if their window counters differ by more than this value
/// (RFC 4342 section 10.2).
const ROUND_TRIP: u8 = 4;
/// Number of window counter values (WCTRMAX).
const COUNTERS: u8 = 16;

/// A packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Sequence number, unwrapped.
    pub seq: u64,
    /// Window counter of a data packet.
    pub counter: u8,
    /// Whether the packet carries data.
    pub data: bool,
    /// Whether the packet is ECN-marked.
    pub marked: bool,
    /// Number of packets without data directly before this packet (NDP Count).
    pub no_data_before: u64,
}

/// Effect of an arrival on the loss events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Whether a new event began.
    pub began: bool,
    /// Whether a late packet removed an event.
    pub ended: bool,
}

/// Consecutive lost packets, or consecutive marked packets.
#[derive(Clone, Debug)]
struct Hole {
    seqs: Range<u64>,
    /// Whether the packets arrived and were marked. If so, later arrivals do not change this entry.
    marked: bool,
}

#[derive(Clone, Debug)]
struct Interval {
    /// First packet of the interval.
    first: u64,
    /// First packet after the lossy part.
    lossless_from: u64,
    no_data: u64,
    drops: u64,
    /// Window counter before the first loss.
    counter: u8,
    /// Whether a packet that was sent more than a round trip after the first loss has arrived. If so, a
    /// further loss is a new event.
    complete: bool,
    quarters: u64,
    /// Whether this is the interval before the first loss event.
    initial: bool,
}

/// Turns missing packets into loss intervals (RFC 5348 section 5), using window counters instead of times, as
/// in RFC 4342 section 10.2.
#[derive(Clone, Debug, Default)]
pub struct LossHistory {
    /// Newest first. The last one may be the initial interval.
    intervals: VecDeque<Interval>,
    /// All packets up to this number are judged as received or lost.
    judged: Option<u64>,
    /// Window counter of the newest data packet judged.
    counter: Option<u8>,
    /// Packets, in order, that arrived after a hole that later arrivals may still fill.
    pending: Vec<Arrived>,
    /// Oldest first.
    holes: VecDeque<Hole>,
    /// Length assigned to the initial interval when it ended.
    synthetic: u64,
}

impl LossHistory {
    /// Records that a packet arrived.
    pub fn on_packet(&mut self, packet: &Arrived) -> Change {
        let mut change = Change::default();
        let Some(judged) = self.judged else {
            self.start(packet, &mut change);
            return change;
        };
        if packet.seq <= judged {
            change.ended = self.fill(packet);
            return change;
        }
        match self.pending.binary_search_by_key(&packet.seq, |p| p.seq) {
            Ok(_) => return change,
            Err(at) => self.pending.insert(at, *packet),
        }
        while let Some(next) = self.pending.first().copied().filter(|next| self.is_ripe(next)) {
            self.pending.remove(0);
            change.began |= self.judge(&next);
        }
        change
    }

    fn start(&mut self, packet: &Arrived, change: &mut Change) {
        self.intervals.push_front(Interval {
            first: packet.seq,
            lossless_from: packet.seq,
            no_data: 0,
            drops: 0,
            counter: 0,
            complete: true,
            quarters: 0,
            initial: true,
        });
        self.judged = Some(packet.seq.wrapping_sub(1));
        change.began = self.judge(packet);
    }

    /// Returns whether the packets missing before `next`, the first pending packet, can be judged.
    fn is_ripe(&self, next: &Arrived) -> bool {
        let missing = next.seq.wrapping_sub(self.next_seq());
        // RFC 4342 section 6.1: a hole counts as a loss after three later packets.
        let is_lost = self.pending.len() >= NDUPACK;
        // RFC 4342 section 7: a mark counts at once, and so does a hole before it.
        let is_marked = self.pending.iter().any(|p| p.marked && p.data);
        missing <= next.no_data_before || is_lost || is_marked
    }

    /// Returns the first packet that is not judged yet.
    fn next_seq(&self) -> u64 {
        self.judged.map_or(0, |judged| judged.wrapping_add(1))
    }

    /// Adds the packet, and the packets missing before it, to the intervals. Returns true if a loss event
    /// began.
    fn judge(&mut self, packet: &Arrived) -> bool {
        let missing = self.next_seq()..packet.seq;
        // RFC 4342 section 6.1: a missing packet counts as a data packet unless NDP Count says otherwise.
        let no_data_from = packet.seq.saturating_sub(packet.no_data_before).max(missing.start);
        let mut began = false;
        if missing.start < no_data_from {
            began |= self.lose(Hole { seqs: missing.start..no_data_from, marked: false });
        }
        self.add_no_data(packet.seq.saturating_sub(no_data_from));
        // RFC 4342 section 7: a mark counts as a loss.
        if packet.data && packet.marked {
            began |= self.lose(Hole { seqs: packet.seq..packet.seq.saturating_add(1), marked: true });
        }
        if packet.data {
            self.on_counter(packet.counter);
        } else {
            self.add_no_data(1);
        }
        self.judged = Some(packet.seq);
        began
    }

    fn add_no_data(&mut self, packets: u64) {
        if let Some(newest) = self.intervals.front_mut() {
            newest.no_data += packets;
        }
    }

    fn on_counter(&mut self, counter: u8) {
        let distance = |from: u8| counter.wrapping_sub(from) % COUNTERS;
        if let Some(newest) = self.intervals.front_mut() {
            // RFC 5622 section 8.4: the duration of the interval grows.
            newest.quarters += u64::from(self.counter.map_or(0, distance));
            // RFC 4342 section 10.2: a later loss is a new event.
            newest.complete |= distance(newest.counter) > ROUND_TRIP;
        }
        self.counter = Some(counter);
    }

    /// Adds a hole. Returns true if the hole began a loss event.
    fn lose(&mut self, hole: Hole) -> bool {
        let (first, end) = (hole.seqs.start, hole.seqs.end);
        let Some(newest) = self.intervals.front_mut() else { return false };
        // RFC 4342 section 6.1: losses within a round trip are one event.
        let begins = newest.initial || newest.complete;
        if begins {
            // Before the first data packet, there is no counter. The value 0 then makes the next loss a new
            // event.
            let counter = self.counter.unwrap_or(0);
            self.intervals.push_front(Interval {
                first,
                lossless_from: end,
                no_data: 0,
                drops: end - first,
                counter,
                complete: false,
                quarters: 0,
                initial: false,
            });
            self.intervals.truncate(MAX_INTERVALS);
        } else {
            newest.lossless_from = end;
            newest.drops += end - first;
        }
        self.holes.push_back(hole);
        self.forget_holes();
        begins
    }

    fn forget_holes(&mut self) {
        while self.holes.len() > MAX_HOLES {
            self.holes.pop_front();
        }
    }

    /// A packet arrived that had already been judged, perhaps as lost. Returns true if the arrival removed a
    /// loss event.
    fn fill(&mut self, packet: &Arrived) -> bool {
        let seq = packet.seq;
        let Some(at) = self.holes.iter().position(|h| !h.marked && h.seqs.contains(&seq)) else {
            return false;
        };
        let Some(hole) = self.holes.remove(at) else { return false };
        let rests = [hole.seqs.start..seq, seq + 1..hole.seqs.end];
        for rest in rests.into_iter().rev().filter(|rest| !rest.is_empty()) {
            self.holes.insert(at, Hole { seqs: rest, marked: false });
        }
        self.forget_holes();
        // A marked packet that already counted as lost changes nothing: its loss had the same effect as the
        // mark.
        let Some(index) = self.intervals.iter().position(|i| i.first <= seq) else { return false };
        let end = match index.checked_sub(1).and_then(|newer| self.intervals.get(newer)) {
            Some(newer) => newer.first,
            None => self.next_seq(),
        };
        let interval = &mut self.intervals[index];
        // RFC 5348 section 5.1: a late packet was not lost.
        interval.drops = interval.drops.saturating_sub(1);
        interval.no_data += u64::from(!packet.data);
        if interval.drops == 0 {
            return self.merge(index);
        }
        let first = interval.first;
        let left = self.holes.iter().map(|h| &h.seqs).filter(|seqs| seqs.start >= first && seqs.end <= end);
        let known: u64 = left.clone().map(|seqs| seqs.end - seqs.start).sum();
        // If some holes have been forgotten, the lossy part keeps its length.
        if known == interval.drops
            && let Some(first) = left.clone().map(|seqs| seqs.start).min()
            && let Some(last) = left.map(|seqs| seqs.end).max()
        {
            interval.first = first;
            // RFC 4342 section 8.6.1: the lossy part is as short as possible.
            interval.lossless_from = last;
        }
        false
    }

    /// Merges the interval at `index`, which has no losses left, with the interval before it.
    fn merge(&mut self, index: usize) -> bool {
        let Some(gone) = self.intervals.remove(index) else { return false };
        match self.intervals.get_mut(index) {
            Some(older) => {
                older.no_data += gone.no_data;
                older.quarters += gone.quarters;
                older.complete |= gone.complete;
                true
            }
            // The interval was the oldest one kept, so there is nothing to merge it with.
            None => {
                self.intervals.push_back(gone);
                false
            }
        }
    }

    /// Sets the length of the interval before the first loss, in data packets.
    pub fn set_initial_length(&mut self, packets: u64) {
        // RFC 5348 section 6.3.1: the length corresponds to the best receive rate.
        self.synthetic = packets;
    }

    /// Returns whether no loss event has occurred yet.
    pub fn is_lossless(&self) -> bool {
        self.intervals.front().is_none_or(|newest| newest.initial)
    }

    /// Returns the packet up to which all packets have been judged. Later packets may be missing or late.
    pub fn judged(&self) -> Option<u64> {
        self.judged
    }

    /// Loss intervals, newest first.
    pub fn intervals(&self) -> Vec<LossInterval> {
        let mut end = self.next_seq();
        let describe = |interval: &Interval| {
            let packets = end.saturating_sub(interval.first);
            let lossy = interval.lossless_from.saturating_sub(interval.first).min(packets);
            end = interval.first;
            let data = match interval.initial {
                // RFC 4342 section 6.1.1: until the first loss, the length is undefined and reported as 0.
                true if self.intervals.len() == 1 => 0,
                true => self.synthetic,
                // RFC 4342 section 6.1.1: only data packets count.
                false => packets.saturating_sub(interval.no_data).max(1),
            };
            let quarters = (!interval.initial).then_some(interval.quarters);
            LossInterval { lossy, lossless: packets - lossy, data, drops: interval.drops, quarters }
        };
        self.intervals.iter().map(describe).collect()
    }
}

#[cfg(test)]
#[path = "loss_history_tests.rs"]
mod tests;
