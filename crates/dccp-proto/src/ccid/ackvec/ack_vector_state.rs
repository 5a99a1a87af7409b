use alloc::collections::VecDeque;
use alloc::vec::Vec;
use dccp_wire::ack_vector::{MAX_RUN, State, cell};
use dccp_wire::{OptionBuf, Seq};

/// Maximum number of cells kept, to bound memory. They fit into three full options of 253 cells, which take
/// less than the 1008 option bytes of a packet, so a pure Ack can always report everything.
pub(crate) const MAX_CELLS: u32 = 3 * 253;
/// A packet older than all recorded packets is recorded if at most this many packets are missing between it
/// and the oldest recorded one.
const MAX_BACKFILL: u64 = 1024;

/// Effect of one arriving packet on the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// The packet directly follows the newest one.
    Next,
    /// The packet is newer than the newest one, and at least one packet between them is missing.
    Gap,
    /// The packet is older than the newest one, and was not recorded before.
    Filled,
    /// The packet was recorded before.
    Again,
    /// The state of the packet is no longer kept, or the packet is too old to be recorded.
    TooOld,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    state: State,
    packets: u32,
}

impl Run {
    fn cells(self) -> u32 {
        self.packets.div_ceil(u32::from(MAX_RUN))
    }
}

/// The packets of the peer that arrived, as runs, newest first. This is the content of the next Ack Vector
/// (RFC 4340 section 11.4).
#[derive(Debug, Default)]
pub(crate) struct AckVectorState {
    runs: VecDeque<Run>,
    /// Meaningful only if `runs` is not empty.
    newest: Seq,
    packets: u64,
    cells: u32,
    /// Whether old packets were removed. If so, no packet older than the oldest recorded one may be added.
    trimmed: bool,
}

impl AckVectorState {
    /// Returns the newest packet.
    pub(crate) fn newest(&self) -> Option<Seq> {
        (!self.runs.is_empty()).then_some(self.newest)
    }

    /// Records packet `seq` with `state` (received or marked).
    pub(crate) fn record(&mut self, seq: Seq, state: State) -> Recorded {
        if self.runs.is_empty() {
            self.newest = seq;
            self.push_newest(state, 1);
            return Recorded::Next;
        }
        let ahead = seq.diff(self.newest);
        if ahead > 0 {
            let missing = ahead as u64 - 1;
            if missing >= u64::from(MAX_CELLS) * u64::from(MAX_RUN) {
                *self = AckVectorState { trimmed: true, ..AckVectorState::default() };
            } else if missing > 0 {
                self.push_newest(State::NotYetReceived, missing as u32);
            }
            self.newest = seq;
            self.push_newest(state, 1);
            self.bound(MAX_CELLS);
            return if missing > 0 { Recorded::Gap } else { Recorded::Next };
        }
        let behind = ahead.unsigned_abs();
        if behind >= self.packets {
            return self.backfill(behind - self.packets, state);
        }
        self.change(behind, state)
    }

    fn push_newest(&mut self, state: State, packets: u32) {
        self.packets += u64::from(packets);
        match self.runs.front_mut() {
            Some(run) if run.state == state => {
                self.cells -= run.cells();
                run.packets += packets;
                self.cells += run.cells();
            }
            _ => self.insert(0, Run { state, packets }),
        }
    }

    fn insert(&mut self, at: usize, run: Run) {
        self.cells += run.cells();
        self.runs.insert(at, run);
    }

    fn remove(&mut self, at: usize) -> Option<Run> {
        let run = self.runs.remove(at)?;
        self.cells -= run.cells();
        Some(run)
    }

    /// Adds a packet older than all others. Between it and the oldest recorded packet, `missing` packets have
    /// not arrived.
    fn backfill(&mut self, missing: u64, state: State) -> Recorded {
        if self.trimmed || missing > MAX_BACKFILL {
            return Recorded::TooOld;
        }
        if missing > 0 {
            let run = Run { state: State::NotYetReceived, packets: missing as u32 };
            self.insert(self.runs.len(), run);
        }
        self.insert(self.runs.len(), Run { state, packets: 1 });
        self.merge(self.runs.len().saturating_sub(2));
        self.packets += missing + 1;
        self.bound(MAX_CELLS);
        Recorded::Filled
    }

    /// Changes the state of the packet that is `behind` numbers before the newest. A mark is never removed
    /// (RFC 4340 section 11.4.1, the receiver's table).
    fn change(&mut self, behind: u64, state: State) -> Recorded {
        let (mut at, mut newer) = (0, behind);
        while let Some(run) = self.runs.get(at) {
            if newer < u64::from(run.packets) {
                break;
            }
            newer -= u64::from(run.packets);
            at += 1;
        }
        let Some(&old) = self.runs.get(at) else {
            return Recorded::TooOld;
        };
        let newer = newer as u32;
        if old.state == state || (old.state, state) == (State::ReceivedEcnMarked, State::Received) {
            return Recorded::Again;
        }
        self.remove(at);
        let older = old.packets - newer - 1;
        // In reverse order, because each run is inserted at `at`.
        if older > 0 {
            self.insert(at, Run { packets: older, ..old });
        }
        self.insert(at, Run { state, packets: 1 });
        if newer > 0 {
            self.insert(at, Run { packets: newer, ..old });
        }
        let changed = at + usize::from(newer > 0);
        self.merge(changed);
        if changed > 0 {
            self.merge(changed - 1);
        }
        self.bound(MAX_CELLS);
        if old.state == State::NotYetReceived { Recorded::Filled } else { Recorded::Again }
    }

    /// Joins run `at` with the next older one if their states are equal.
    fn merge(&mut self, at: usize) {
        if let (Some(&a), Some(&b)) = (self.runs.get(at), self.runs.get(at + 1))
            && a.state == b.state
        {
            self.remove(at + 1);
            self.remove(at);
            let packets = a.packets + b.packets;
            self.insert(at, Run { packets, ..a });
        }
    }

    /// Removes the oldest packets while there are more than `most` cells.
    pub(crate) fn bound(&mut self, most: u32) {
        while self.cells > most {
            let last_cell = match self.runs.back() {
                Some(run) => (run.packets - 1) % u32::from(MAX_RUN) + 1,
                None => return,
            };
            self.drop_oldest(u64::from(last_cell));
        }
    }

    fn drop_oldest(&mut self, mut packets: u64) {
        while packets > 0 {
            let Some(at) = self.runs.len().checked_sub(1) else { return };
            let Some(run) = self.remove(at) else { return };
            self.trimmed = true;
            let gone = packets.min(u64::from(run.packets));
            packets -= gone;
            self.packets -= gone;
            let left = run.packets - gone as u32;
            if left > 0 {
                self.insert(at, Run { packets: left, ..run });
            }
        }
    }

    /// Removes the state of `seq` and of all packets before it, because the peer knows it. Keeps the newest
    /// packet.
    pub(crate) fn trim(&mut self, seq: Seq) {
        if self.runs.is_empty() {
            return;
        }
        let kept = self.newest.diff(seq).max(1).unsigned_abs();
        self.drop_oldest(self.packets.saturating_sub(kept));
    }

    /// Fills `cells` with at most `most` Ack Vector cells, newest first, beginning with packet `ack`. Returns
    /// true if they reach the oldest recorded packet.
    pub(crate) fn cells_from(&self, ack: Seq, most: usize, cells: &mut Vec<u8>) -> bool {
        cells.clear();
        let Ok(mut skip) = u64::try_from(self.newest.diff(ack)) else { return false };
        for run in &self.runs {
            let skipped = skip.min(u64::from(run.packets));
            skip -= skipped;
            let mut left = run.packets - skipped as u32;
            while left > 0 {
                if cells.len() == most {
                    return false;
                }
                let packets = left.min(u32::from(MAX_RUN));
                cells.push(cell(run.state, packets as u8));
                left -= packets;
            }
        }
        true
    }

    #[cfg(test)]
    pub(crate) fn kept(&self) -> (usize, u32) {
        (self.runs.len(), self.cells)
    }
}

/// Returns the number of cells that fit into `room` option bytes. Every 253 cells need a header of 2 bytes.
pub(crate) fn cells_in(room: usize) -> usize {
    let (full, rest) = (room / 255, room % 255);
    full * 253 + rest.saturating_sub(2)
}

/// Appends `cells` as Ack Vector options. The type is always 38, because RFC 8311 section 5.1 obsoletes the
/// ECN nonce.
pub(crate) fn push_cells(cells: &[u8], out: &mut OptionBuf) {
    for part in cells.chunks(253) {
        out.push(&dccp_wire::Opt::AckVector(false, part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use dccp_wire::ack_vector::runs;
    use proptest::prelude::*;

    fn expand(state: &AckVectorState, ack: Seq) -> Vec<State> {
        let mut cells = Vec::new();
        state.cells_from(ack, usize::MAX, &mut cells);
        runs(&cells).flat_map(|(s, n)| core::iter::repeat_n(s, usize::from(n))).collect()
    }

    #[test]
    fn example_of_the_rfc() {
        // RFC 4340 section 11.4: the vector 0,192,3,64,5 acknowledges packet 100.
        let mut state = AckVectorState::default();
        for seq in 88..=100 {
            match seq {
                99 => continue,
                94 => state.record(Seq::new(seq), State::ReceivedEcnMarked),
                _ => state.record(Seq::new(seq), State::Received),
            };
        }
        let mut cells = Vec::new();
        assert!(state.cells_from(Seq::new(100), 100, &mut cells));
        assert_eq!(cells, [0, 192, 3, 64, 5]);
        assert!(!state.cells_from(Seq::new(100), 4, &mut cells));
        assert_eq!(cells, [0, 192, 3, 64]);
        assert_eq!(state.record(Seq::new(99), State::Received), Recorded::Filled);
        assert!(state.cells_from(Seq::new(98), 100, &mut cells));
        assert_eq!(cells, [3, 64, 5]);
    }

    #[test]
    fn a_mark_is_not_taken_back_and_may_come_later() {
        let mut state = AckVectorState::default();
        state.record(Seq::new(1), State::ReceivedEcnMarked);
        assert_eq!(state.record(Seq::new(1), State::Received), Recorded::Again);
        assert_eq!(expand(&state, Seq::new(1)), [State::ReceivedEcnMarked]);
        state.record(Seq::new(2), State::Received);
        assert_eq!(state.record(Seq::new(2), State::ReceivedEcnMarked), Recorded::Again);
        assert_eq!(expand(&state, Seq::new(2)), [State::ReceivedEcnMarked; 2]);
    }

    #[test]
    fn trimmed_packets_stay_forgotten() {
        let mut state = AckVectorState::default();
        for seq in [10, 12, 13] {
            state.record(Seq::new(seq), State::Received);
        }
        state.trim(Seq::new(11));
        assert_eq!(expand(&state, Seq::new(13)), [State::Received; 2]);
        assert_eq!(state.record(Seq::new(11), State::Received), Recorded::TooOld);
        state.trim(Seq::new(13));
        assert_eq!(expand(&state, Seq::new(13)), [State::Received]);
    }

    #[test]
    fn fits_options() {
        assert_eq!([0, 1, 2, 3, 255, 256, 257, 258].map(cells_in), [0, 0, 0, 1, 253, 253, 253, 254]);
        for cells in [1, 253, 254, 506, 507, MAX_CELLS as usize] {
            let mut out = OptionBuf::new();
            push_cells(&alloc::vec![0; cells], &mut out);
            assert!(cells_in(out.len()) >= cells && out.len() <= 1008);
        }
    }

    proptest! {
        /// For any arrivals and trims, the state equals that of a simple map of packets. In this test the
        /// sequence numbers wrap.
        #[test]
        fn equals_a_naive_model(steps in proptest::collection::vec((0u64..60, 0u8..10), 1..370)) {
            let origin = Seq::new(Seq::MODULUS - 100);
            let (mut state, mut model) = (AckVectorState::default(), BTreeMap::new());
            let (mut front, mut low) = (2000u64, None::<u64>);
            for (jump, kind) in steps {
                if kind == 9 {
                    state.trim(origin.add(front - jump.min(front)));
                    if let Some(&newest) = model.keys().next_back() {
                        let cut = (front - jump + 1).min(newest);
                        if model.keys().next().is_some_and(|&oldest| oldest < cut) {
                            low = Some(cut);
                            model = model.split_off(&cut);
                        }
                    }
                    continue;
                }
                let number = front + jump - 30;
                let marked = if kind == 8 { State::ReceivedEcnMarked } else { State::Received };
                if low.is_none_or(|l| number >= l) {
                    if let (Some(&first), Some(&last)) = (model.keys().next(), model.keys().next_back()) {
                        for n in (number..first).chain(last..number + 1) {
                            model.entry(n).or_insert(State::NotYetReceived);
                        }
                    }
                    let entry = model.entry(number).or_insert(State::NotYetReceived);
                    if *entry != State::ReceivedEcnMarked {
                        *entry = marked;
                    }
                }
                front = front.max(number);
                state.record(origin.add(number), marked);
                let newest = *model.keys().next_back().unwrap();
                let expected: Vec<_> = model.values().rev().copied().collect();
                prop_assert_eq!(expand(&state, origin.add(newest)), expected);
                prop_assert_eq!(state.packets, model.len() as u64);
                prop_assert_eq!(state.cells, state.runs.iter().map(|r| r.cells()).sum::<u32>());
            }
        }

        /// Memory is bounded for any arrivals.
        #[test]
        fn is_bounded(numbers in proptest::collection::vec(0u64..100_000, 1..3000)) {
            let mut state = AckVectorState::default();
            for n in numbers {
                state.record(Seq::new(n), State::Received);
                let (runs, cells) = state.kept();
                prop_assert!(runs <= cells as usize && cells <= MAX_CELLS);
            }
        }
    }
}
