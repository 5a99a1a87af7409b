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

    /// RFC 4340 section 11.4.2: what an Ack that arrived told need not be told again.
    pub(crate) fn on_ack_of_ack(&mut self, feedback: &Feedback<'_>) {
        let seqs = self.sent.iter().map(|sent| sent.seq);
        if let Some(at) = feedback.newest_received(seqs)
            && let Some(knows) = self.sent.get(at).map(|sent| sent.knows)
        {
            self.state.trim(knows);
            self.sent.drain(..at);
        }
    }
}
