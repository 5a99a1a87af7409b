//! The scoreboard, which tracks the segments that are in flight, received out of order, or lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use dccp_cc::{Amount, Snapshot};

use super::segment::HEADERS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Flying,
    Arrived,
    /// The segment was declared lost but has not been retransmitted yet.
    Lost,
}

/// A segment that has not been cumulatively acknowledged yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outstanding {
    pub(super) start: u64,
    pub(super) len: u32,
    /// Number of the segment's latest transmission, and the snapshot taken then.
    pub(super) no: u64,
    pub(super) snapshot: Snapshot,
    /// Number of the first transmission in the same millisecond as the latest transmission of the segment.
    pub(super) stamp: u64,
    pub(super) transmissions: u32,
    pub(super) state: State,
    /// Whether RACK declared the latest transmission lost. Linux then removes the segment from RACK's list.
    /// If the window reduction is undone, only a timeout can declare the segment lost again.
    pub(super) judged: bool,
    /// Whether the segment was declared lost and has not arrived yet. It may have been retransmitted.
    pub(super) missing: bool,
    /// Whether the latest transmission is a tail loss probe that repeats the segment. Linux does not count it
    /// as a retransmission (`tcp_send_loss_probe`).
    pub(super) probe: bool,
}

impl Outstanding {
    pub(super) fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    /// Returns the size of the segment's packet in IP bytes.
    pub(super) fn bytes(&self) -> u32 {
        self.len + HEADERS as u32
    }
}

#[derive(Debug, Default)]
pub(super) struct Board {
    /// Segments in sequence order, without gaps.
    segments: VecDeque<Outstanding>,
    /// Start of each segment in flight that RACK may declare lost, by transmission number.
    flying: BTreeMap<u64, u64>,
    lost: BTreeSet<u64>,
    missing: usize,
    inflight: Amount,
    /// Number of segments in state `Arrived`, and the end of the highest of these segments.
    arrived: u64,
    arrived_to: u64,
}

impl Board {
    pub(super) fn inflight(&self) -> Amount {
        self.inflight
    }

    /// Returns the number of segments that arrived after a hole.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Returns the end of the last segment that arrived after a hole, or `acked` if there is no hole.
    pub(super) fn arrived_to(&self, acked: u64) -> u64 {
        if self.arrived > 0 { self.arrived_to } else { acked }
    }

    /// Returns how many segments have not been cumulatively acknowledged yet.
    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }

    /// Returns the number of segments that were declared lost and have not arrived yet (`lost_out`).
    pub(super) fn missing(&self) -> usize {
        self.missing
    }

    /// Returns the start of the first segment to be retransmitted.
    pub(super) fn first_lost(&self) -> Option<u64> {
        self.lost.first().copied()
    }

    /// Returns the segment with the lowest transmission number from `no` on that RACK may declare lost.
    pub(super) fn flying_from(&self, no: u64) -> Option<&Outstanding> {
        let (_, start) = self.flying.range(no..).next()?;
        self.segments.get(self.place(*start))
    }

    /// Returns the first segment not yet cumulatively acknowledged.
    pub(super) fn first(&self) -> Option<&Outstanding> {
        self.segments.front()
    }

    /// Returns the last segment in order.
    pub(super) fn last(&self) -> Option<&Outstanding> {
        self.segments.back()
    }

    fn place(&self, start: u64) -> usize {
        self.segments.partition_point(|s| s.start < start)
    }

    /// Adds a new segment, which is being sent.
    pub(super) fn push(&mut self, segment: Outstanding) {
        self.flying.insert(segment.no, segment.start);
        self.inflight = self.inflight.plus(segment.bytes());
        self.segments.push_back(segment);
    }

    /// Records that the segment at `start` is retransmitted as transmission `no` with this `stamp`.
    pub(super) fn resend(
        &mut self,
        start: u64,
        no: u64,
        stamp: u64,
        snapshot: Snapshot,
    ) -> Option<Outstanding> {
        let place = self.place(start);
        let segment = self.segments.get_mut(place).filter(|s| s.start == start)?;
        match segment.state {
            State::Arrived => return None,
            State::Lost => {
                self.lost.remove(&start);
                self.inflight = self.inflight.plus(segment.bytes());
            }
            // A tail loss probe replaces the transmission in flight.
            State::Flying => {
                self.flying.remove(&segment.no);
            }
        }
        (segment.no, segment.snapshot, segment.state, segment.judged) = (no, snapshot, State::Flying, false);
        (segment.stamp, segment.probe) = (stamp, !segment.missing);
        segment.transmissions += 1;
        self.flying.insert(no, start);
        Some(*segment)
    }

    /// Marks a segment in flight as lost. `judged` means that RACK declared it lost.
    pub(super) fn lose(&mut self, start: u64, judged: bool) {
        if let Some(segment) = self.take_from_flight(start) {
            segment.judged |= judged;
            if !core::mem::replace(&mut segment.missing, true) {
                self.missing += 1;
            }
        }
    }

    /// Plans to retransmit a segment in flight that nothing declared lost.
    pub(super) fn probe(&mut self, start: u64) {
        self.take_from_flight(start);
    }

    fn take_from_flight(&mut self, start: u64) -> Option<&mut Outstanding> {
        let place = self.place(start);
        let segment = self.segments.get_mut(place)?;
        self.flying.remove(&segment.no);
        segment.state = State::Lost;
        self.inflight = self.inflight.minus(Amount::default().plus(segment.bytes()));
        self.lost.insert(start);
        Some(segment)
    }

    /// Returns all segments in flight.
    pub(super) fn all_flying(&self) -> Vec<Outstanding> {
        self.segments.iter().filter(|s| s.state == State::Flying).copied().collect()
    }

    /// Returns the number of retransmitted segments in flight (`retrans_out`).
    pub(super) fn repairing(&self) -> usize {
        let repairs = |s: &&Outstanding| s.state == State::Flying && s.transmissions > 1 && !s.probe;
        self.segments.iter().filter(repairs).count()
    }

    /// Returns whether the segment at `start` was retransmitted, and has arrived after a hole.
    pub(super) fn arrived_again(&self, start: u64) -> bool {
        let segment = self.segments.get(self.place(start));
        segment.is_some_and(|s| s.start == start && s.state == State::Arrived && s.transmissions > 1)
    }

    /// Returns whether a tail loss probe repeated a segment that is not cumulatively acknowledged yet.
    pub(super) fn probed(&self) -> bool {
        self.segments.iter().any(|s| s.probe)
    }

    /// Takes back that segments were declared lost. Those not retransmitted yet count as in flight again.
    pub(super) fn revive(&mut self) {
        self.missing = 0;
        self.segments.iter_mut().for_each(|segment| segment.missing = false);
        for start in std::mem::take(&mut self.lost) {
            let place = self.place(start);
            let Some(segment) = self.segments.get_mut(place) else { continue };
            segment.state = State::Flying;
            if !segment.judged {
                self.flying.insert(segment.no, start);
            }
            self.inflight = self.inflight.plus(segment.bytes());
        }
    }

    /// Marks as lost the data that the receiver reported by SACK and then discarded (RFC 2018 section 8).
    pub(super) fn forget_arrivals(&mut self) {
        for segment in self.segments.iter_mut().filter(|s| s.state == State::Arrived) {
            (segment.state, segment.missing) = (State::Lost, true);
            self.missing += 1;
            self.lost.insert(segment.start);
        }
        self.arrived = 0;
    }

    /// Handles the arrival of all data before `upto`. Calls `newly` for each segment not known before to have
    /// arrived.
    pub(super) fn acknowledge(&mut self, upto: u64, mut newly: impl FnMut(&Outstanding)) {
        while let Some(segment) = self.segments.front().copied().filter(|s| s.end() <= upto) {
            self.segments.pop_front();
            self.leave(&segment);
            if segment.state == State::Arrived {
                self.arrived -= 1;
            } else {
                newly(&segment);
            }
        }
    }

    /// Handles the arrival of all data in `start..end`. Calls `newly` for each segment not known before to
    /// have arrived.
    pub(super) fn select(&mut self, (start, end): (u64, u64), mut newly: impl FnMut(&Outstanding)) {
        let mut place = self.place(start);
        while let Some(segment) = self.segments.get(place).copied().filter(|s| s.end() <= end) {
            if segment.state != State::Arrived {
                self.leave(&segment);
                (self.segments[place].state, self.segments[place].missing) = (State::Arrived, false);
                self.arrived_to =
                    if self.arrived > 0 { self.arrived_to.max(segment.end()) } else { segment.end() };
                self.arrived += 1;
                newly(&segment);
            }
            place += 1;
        }
    }

    fn leave(&mut self, segment: &Outstanding) {
        self.missing -= usize::from(segment.missing);
        match segment.state {
            State::Flying => {
                self.flying.remove(&segment.no);
                self.inflight = self.inflight.minus(Amount::default().plus(segment.bytes()));
            }
            State::Lost => {
                self.lost.remove(&segment.start);
            }
            State::Arrived => {}
        }
    }
}
