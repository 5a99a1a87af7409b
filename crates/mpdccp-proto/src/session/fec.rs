//! Forward error correction: after every so many packets of a policy rule follows their FEC packet (XOR), if possible on another path. One of
//! them that is lost is made again from the others at once, without a round trip.

use crate::{FecStats, PathId};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use dccp_wire::Seq;
use mpdccp_units::{Duration, Time};

/// Most packets that one FEC packet is for.
pub(crate) const MOST: u8 = 16;
/// Bytes of an FEC packet beside the longest packet's: how far back each of them is; a length, what is said of the flow, and a check.
pub(super) const HEADER: usize = 7;
pub(super) const OFFSET: usize = 2;
/// Bytes by which the option that says what it is, rounded up, is longer than those of data.
pub(super) const OPTION: usize = 8;
/// An FEC packet that finds no path for so long is of no use any more.
pub(super) const OLD: Duration = Duration::from_millis(100);
/// Most FEC packets that wait for a path, and that wait for one more packet of theirs.
pub(super) const MOST_WAITING: usize = 64;
/// What is kept of what arrived, to make others from it; from the first FEC packet on until none has come for so long.
pub(super) const MOST_KEPT: usize = 512;
pub(super) const KEPT_FOR: Duration = Duration::from_secs(10);

/// Packets that left since the last FEC packet.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) members: Vec<(Seq, PathId)>,
    /// Of each: length, what is said of the flow, a check, and the bytes.
    pub(super) xor: Vec<u8>,
}

/// An FEC packet on its way out.
#[derive(Debug)]
pub(super) struct FecPacket {
    pub(super) class: usize,
    /// Number of the newest of its packets.
    pub(super) newest: Seq,
    pub(super) count: u8,
    pub(super) payload: Vec<u8>,
    /// Where its packets left.
    pub(super) paths: Vec<PathId>,
    pub(super) at: Time,
}

/// An FEC packet that arrived and lacks more than one packet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) members: Vec<u64>,
    pub(super) xor: Vec<u8>,
}

/// What a session knows of FEC packets.
#[derive(Debug, Default)]
pub(super) struct Fec {
    /// The peer makes use of them.
    pub(super) on: bool,
    pub(super) waiting: VecDeque<FecPacket>,
    pub(super) kept_until: Time,
    pub(super) kept: BTreeMap<u64, (u8, Vec<u8>)>,
    pub(super) order: VecDeque<u64>,
    pub(super) pending: VecDeque<Pending>,
    pub(super) stats: FecStats,
}

/// Adds a packet to the sum; a second time takes it out again.
pub(super) fn add(xor: &mut Vec<u8>, seq: u64, back: u8, data: &[u8]) {
    let ([high, low], [a, b, c, d]) = ((data.len() as u16).to_be_bytes(), check(seq, back, data));
    xor.resize(xor.len().max(HEADER + data.len()), 0);
    for (sum, byte) in xor.iter_mut().zip([high, low, back, a, b, c, d].iter().chain(data)) {
        *sum ^= byte;
    }
}

/// Tells a packet that was made from the right ones. Of a checksum that is linear, as CRCs are, the sum would fit whatever was added up;
/// this is FNV-1a.
pub(super) fn check(seq: u64, back: u8, data: &[u8]) -> [u8; 4] {
    let bytes = seq.to_be_bytes().into_iter().chain([back]).chain(data.iter().copied());
    bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)).to_be_bytes()
}

impl Fec {
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn stats(&self) -> FecStats {
        let held = self.kept.len() + self.pending.len() + self.waiting.len();
        FecStats { held: held as u64, ..self.stats }
    }

    /// Keeps what arrived, while there are FEC packets.
    pub(super) fn keep(&mut self, now: Time, seq: Seq, back: u8, data: &[u8]) {
        if now >= self.kept_until {
            if !self.order.is_empty() || !self.pending.is_empty() {
                self.kept.clear();
                self.order.clear();
                self.pending.clear();
            }
            return;
        }
        if self.kept.insert(seq.value(), (back, data.to_vec())).is_none() {
            self.order.push_back(seq.value());
        }
        if self.order.len() > MOST_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.kept.remove(&oldest);
        }
    }

    /// The one packet that an FEC packet lacks, if the others are here: its number, what it says of its flow, and its bytes. `None` also if
    /// a bit changed on the way in what it would be made from, or where numbers say that others belong to it.
    pub(super) fn solve(&self, packet: &Pending) -> Option<(u64, u8, Vec<u8>)> {
        let lost = *packet.members.iter().find(|seq| !self.kept.contains_key(seq))?;
        let mut xor = packet.xor.clone();
        for (seq, (back, data)) in packet.members.iter().filter_map(|seq| self.kept.get_key_value(seq)) {
            add(&mut xor, *seq, *back, data);
        }
        let [high, low, back, a, b, c, d, data @ ..] = &xor[..] else { return None };
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let data = data.get(..len).filter(|data| !data.is_empty())?;
        (check(lost, *back, data) == [*a, *b, *c, *d]).then(|| (lost, *back, data.to_vec()))
    }

    /// How many of its packets are not here.
    pub(super) fn lacks(&self, packet: &Pending) -> usize {
        packet.members.iter().filter(|seq| !self.kept.contains_key(seq)).count()
    }
}
