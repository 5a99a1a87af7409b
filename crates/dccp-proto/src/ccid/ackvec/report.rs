use super::ack_vector_state::{AckVectorState, Recorded, cells_in, push_cells};
use crate::ccid::Feedback;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use dccp_wire::ack_vector::State;
use dccp_wire::{OptionBuf, Seq};

/// Maximum number of our own acknowledgements that are remembered.
const MAX_SENT: usize = 1024;
/// After this many consecutive incomplete acknowledgements, the omitted state is dropped, because it would
/// not fit into the next one either.
const MAX_PARTIAL: u32 = 3;
/// The state of the newest `LATE_ROOM` × `late` packets is kept, even if the peer knows it.
const LATE_ROOM: u64 = 2;
/// `late` decays: each step subtracts `late` divided by this number, rounded up.
const LATE_FADES: u64 = 32;
/// Largest lateness taken into account.
const MOST_LATE: u64 = 1 << 16;
/// Number of cells that always fit into a pure Ack.
const LEAST_KEPT: usize = 32;

/// An acknowledgement sent by this end. It reported the whole state.
#[derive(Clone, Copy, Debug)]
struct SentAck {
    seq: Seq,
    /// If this acknowledgement arrives, the peer knows the state up to this packet.
    knows: Seq,
}

/// State of the Ack Vectors to send: which packets arrived, and which part of this the peer knows.
#[derive(Debug, Default)]
pub(crate) struct AckVectorReport {
    state: AckVectorState,
    /// The acknowledgements sent, oldest first.
    sent: VecDeque<SentAck>,
    partial: u32,
    cells: Vec<u8>,
    /// How many numbers a late packet was behind the newest: the recent maximum, which decays. It determines
    /// how much state is kept ([`LATE_ROOM`]), because the arrival of a late packet can only be reported
    /// while its state is kept.
    late: u64,
    /// Newest packet when `late` last decayed.
    faded: Seq,
}

impl AckVectorReport {
    /// Returns the newest packet.
    pub(crate) fn newest(&self) -> Option<Seq> {
        self.state.newest()
    }

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

    /// Packet `filled` arrived after some Acks had reported it as missing. The reports in these Acks are
    /// final only up to the packet before it.
    fn outdate(&mut self, filled: Seq) {
        for ack in self.sent.iter_mut().rev() {
            if ack.knows.before(filled) {
                break;
            }
            ack.knows = filled.sub(1);
        }
    }

    /// Appends the state, within `room` bytes, to the acknowledgement of packet `ack`, which is sent as
    /// packet `seq`.
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
            // Drop every other entry. The peer will soon acknowledge one of the Acks that remain.
            let mut keep = false;
            self.sent.retain(|_| {
                keep = !keep;
                keep
            });
        }
        self.sent.push_back(ack);
    }

    /// Decays `late`, at most once for every `late` new packets.
    fn fade(&mut self) {
        let Some(newest) = self.state.newest() else { return };
        if newest.diff(self.faded).unsigned_abs() >= self.late {
            self.faded = newest;
            self.late -= self.late.div_ceil(LATE_FADES);
        }
    }

    /// RFC 4340 section 11.4.2: state reported by an Ack that arrived need not be repeated.
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
