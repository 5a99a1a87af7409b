use super::ack_vector_state::{AckVectorState, Recorded, cells_in, push_cells};
use crate::ccid::Feedback;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use dccp_wire::ack_vector::State;
use dccp_wire::{OptionBuf, Seq};

/// Most acknowledgements of ours remembered.
const MAX_SENT: usize = 1024;
/// So many in a row that could not tell everything, and what they left out is given up: it will not fit the next one either.
const MAX_PARTIAL: u32 = 3;
/// Packets may come so many times as late as late ones lately did.
const LATE_ROOM: u64 = 2;
/// What is known of late packets fades by this part of itself.
const LATE_FADES: u64 = 32;
/// Most that are reckoned with.
const MOST_LATE: u64 = 1 << 16;
/// Cells that an Ack of its own always has room for.
const LEAST_KEPT: usize = 32;

/// An acknowledgement of ours that told the whole state.
#[derive(Clone, Copy, Debug)]
struct SentAck {
    seq: Seq,
    /// If it arrived, the peer knows the state up to this packet.
    knows: Seq,
}

/// Ack Vectors as they are sent: what arrived, and what the peer was told of it.
#[derive(Debug, Default)]
pub(crate) struct AckVectorReport {
    state: AckVectorState,
    /// Oldest first.
    sent: VecDeque<SentAck>,
    partial: u32,
    cells: Vec<u8>,
    /// How far behind the newest packet late ones came: the most lately, fading. What may come so late is kept, known to the peer as missing
    /// or not, or its arrival could not be told any more.
    late: u64,
    /// Newest packet when that last faded.
    faded: Seq,
}

impl AckVectorReport {
    /// The newest packet.
    pub(crate) fn newest(&self) -> Option<Seq> {
        self.state.newest()
    }

    /// Takes in packet `seq`.
    pub(crate) fn record(&mut self, seq: Seq, state: State) -> Recorded {
        let recorded = self.state.record(seq, state);
        if recorded == Recorded::Filled {
            self.outdate(seq);
        }
        if matches!(recorded, Recorded::Filled | Recorded::TooOld)
            && let Some(newest) = self.state.newest()
        {
            self.late = self.late.max(newest.diff(seq).unsigned_abs()).min(MOST_LATE);
        }
        recorded
    }

    /// The packet arrived after Acks that called it missing: these no longer tell all up to it.
    fn outdate(&mut self, filled: Seq) {
        for ack in self.sent.iter_mut().rev() {
            if ack.knows.before(filled) {
                break;
            }
            ack.knows = filled.sub(1);
        }
    }

    /// Appends what there is to tell to the acknowledgement of `ack` that leaves as packet `seq`, within `room` bytes.
    pub(crate) fn write(&mut self, seq: Seq, ack: Seq, room: usize, out: &mut OptionBuf) {
        let most = cells_in(room);
        let whole = self.state.cells_from(ack, most, &mut self.cells);
        push_cells(&self.cells, out);
        if whole {
            self.partial = 0;
            self.remember(SentAck { seq, knows: ack });
            return;
        }
        self.partial += 1;
        if self.partial >= MAX_PARTIAL && most >= LEAST_KEPT {
            self.partial = 0;
            self.state.bound(u32::try_from(most).unwrap_or(u32::MAX));
        }
    }

    fn remember(&mut self, ack: SentAck) {
        if self.sent.len() >= MAX_SENT {
            // Thin out; the peer acknowledges another one soon.
            let mut keep = false;
            self.sent.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.sent.push_back(ack);
    }

    /// Forgets a little of how late packets come, whenever as many as that have come since.
    fn fade(&mut self) {
        let Some(newest) = self.state.newest() else { return };
        if newest.diff(self.faded).unsigned_abs() >= self.late {
            self.faded = newest;
            self.late -= self.late.div_ceil(LATE_FADES);
        }
    }

    /// RFC 4340 section 11.4.2: what an Ack that arrived told need not be told again.
    pub(crate) fn on_ack_of_ack(&mut self, feedback: &Feedback<'_>) {
        let seqs = self.sent.iter().map(|sent| sent.seq);
        if let Some(at) = feedback.newest_received(seqs)
            && let Some(knows) = self.sent.get(at).map(|sent| sent.knows)
        {
            let late = self.late * LATE_ROOM;
            let kept = self.state.newest().map_or(knows, |newest| newest.sub(late));
            self.state.trim(if kept.before(knows) { kept } else { knows });
            self.fade();
            self.sent.drain(..at);
        }
    }
}
