//! Forward error correction: after every so many packets of a steering rule follows their parity (XOR), if possible on another path. One of
//! them that is lost is made again from the others at once, without a round trip.

use super::Session;
use super::private::Private;
use super::repair::Copy;
use crate::reorder::{Arrival, Back};
use crate::steer::OVERFLOW;
use crate::{Counter, FecStats, Health, PathId, PathRow, PktInfo, Wake};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use dccp_proto::{Gate, Received, Sink};
use dccp_wire::{Opt, Seq};
use units::{Duration, Time};

/// Most packets that one parity is for.
pub(crate) const MOST: u8 = 16;
/// Bytes of a parity beside the longest packet's: how far back each of them is; a length, what is said of the flow, and a check.
const HEADER: usize = 7;
const OFFSET: usize = 2;
/// Bytes by which the option that says what it is, rounded up, is longer than those of data.
const OPTION: usize = 8;
/// A parity that finds no path for so long is of no use any more.
const OLD: Duration = Duration::from_millis(100);
/// Most parities that wait for a path, and that wait for one more packet of theirs.
const MOST_WAITING: usize = 64;
/// What is kept of what arrived, to make others from it; from the first parity on until none has come for so long.
const MOST_KEPT: usize = 512;
const KEPT_FOR: Duration = Duration::from_secs(10);

/// Packets that left since the last parity.
#[derive(Debug, Default)]
pub(super) struct Block {
    members: Vec<(Seq, PathId)>,
    /// Of each: length, what is said of the flow, a check, and the bytes.
    xor: Vec<u8>,
}

/// A parity on its way out.
#[derive(Debug)]
struct Parity {
    lane: usize,
    /// Number of the newest of its packets.
    newest: Seq,
    count: u8,
    payload: Vec<u8>,
    /// Where its packets left.
    paths: Vec<PathId>,
    at: Time,
}

/// A parity that arrived and lacks more than one packet.
#[derive(Debug)]
struct Pending {
    members: Vec<u64>,
    xor: Vec<u8>,
}

/// What a session knows of parities.
#[derive(Debug, Default)]
pub(super) struct Fec {
    /// The peer makes use of them.
    pub(super) on: bool,
    waiting: VecDeque<Parity>,
    kept_until: Time,
    kept: BTreeMap<u64, (u8, Vec<u8>)>,
    order: VecDeque<u64>,
    pending: VecDeque<Pending>,
    stats: FecStats,
}

/// Adds a packet to the sum; a second time takes it out again.
fn add(xor: &mut Vec<u8>, seq: u64, back: u8, data: &[u8]) {
    let ([high, low], [a, b, c, d]) = ((data.len() as u16).to_be_bytes(), check(seq, back, data));
    xor.resize(xor.len().max(HEADER + data.len()), 0);
    for (sum, byte) in xor.iter_mut().zip([high, low, back, a, b, c, d].iter().chain(data)) {
        *sum ^= byte;
    }
}

/// Tells a packet that was made from the right ones. Of a checksum that is linear, as CRCs are, the sum would fit whatever was added up;
/// this is FNV-1a.
fn check(seq: u64, back: u8, data: &[u8]) -> [u8; 4] {
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

    /// Keeps what arrived, while there are parities.
    fn keep(&mut self, now: Time, seq: Seq, back: u8, data: &[u8]) {
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

    /// The one packet that a parity lacks, if the others are here: its number, what it says of its flow, and its bytes. `None` also if
    /// a bit changed on the way in what it would be made from, or where numbers say that others belong to it.
    fn solve(&self, parity: &Pending) -> Option<(u64, u8, Vec<u8>)> {
        let lost = *parity.members.iter().find(|seq| !self.kept.contains_key(seq))?;
        let mut xor = parity.xor.clone();
        for (seq, (back, data)) in parity.members.iter().filter_map(|seq| self.kept.get_key_value(seq)) {
            add(&mut xor, *seq, *back, data);
        }
        let [high, low, back, a, b, c, d, data @ ..] = &xor[..] else { return None };
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let data = data.get(..len).filter(|data| !data.is_empty())?;
        (check(lost, *back, data) == [*a, *b, *c, *d]).then(|| (lost, *back, data.to_vec()))
    }

    /// How many of its packets are not here.
    fn lacks(&self, parity: &Pending) -> usize {
        parity.members.iter().filter(|seq| !self.kept.contains_key(seq)).count()
    }
}

impl Session {
    /// A packet left, for the first time and on one path: its rule may want it protected.
    pub(super) fn protect(&mut self, now: Time, lane: usize, path: PathId, copy: &Copy) {
        let Some(most) = self.lanes.rule(lane).and_then(|rule| rule.fec).filter(|_| self.fec.on) else {
            return;
        };
        let fits = |len: usize| {
            let size = HEADER + OPTION + OFFSET * usize::from(most) + len;
            self.rows.iter().any(|row| row.max_payload >= size)
        };
        if !fits(copy.packet.data.len()) {
            self.fec.stats.too_large += 1;
            return;
        }
        let block = &mut self.lanes.all[lane].block;
        block.members.push((copy.mp_seq, path));
        add(&mut block.xor, copy.mp_seq.value(), copy.back, &copy.packet.data);
        if block.members.len() < usize::from(most) {
            return;
        }
        let Block { members, xor } = core::mem::take(block);
        let offset = |(seq, _): &(Seq, PathId)| u16::try_from(copy.mp_seq.diff(*seq)).ok();
        let Some(offsets) = members.iter().map(offset).collect::<Option<Vec<u16>>>() else { return };
        let mut payload: Vec<u8> = offsets.iter().flat_map(|n| n.to_be_bytes()).collect();
        payload.extend(xor);
        let paths = members.iter().map(|(_, path)| *path).collect();
        if self.fec.waiting.len() == MOST_WAITING {
            self.fec.waiting.pop_front();
            self.fec.stats.dropped += 1;
        }
        let count = members.len() as u8;
        self.fec.waiting.push_back(Parity { lane, newest: copy.mp_seq, count, payload, paths, at: now });
    }

    /// Sends the parities that find a path: of those that their rule allows the one that carried least of their packets.
    pub(super) fn send_parities(&mut self, now: Time, sink: &mut dyn Sink) {
        while let Some(parity) = self.fec.waiting.pop_front() {
            if now.since(parity.at) > OLD || parity.lane >= self.lanes.all.len() {
                self.fec.stats.dropped += 1;
                continue;
            }
            let info = PktInfo { len: parity.payload.len() + OPTION, ..PktInfo::default() };
            let allowed =
                self.lanes.rule(parity.lane).is_some_and(|r| r.rows(&info, &self.rows, &mut self.steered));
            // What its packets took is worth least, but paths that priorities keep for other cases are not for it.
            let fits = |row: &&PathRow| allowed && row.health == Health::Up && info.len <= row.max_payload;
            let usable = || self.steered.iter().filter(fits).filter(|row| row.prio > OVERFLOW);
            let carried = |id: PathId| parity.paths.iter().filter(|path| **path == id).count();
            let open = usable().filter(|row| row.is_open());
            let path = open.min_by_key(|row| (carried(row.id), row.one_way(), row.id));
            let Some(path) = path.map(|row| row.id) else {
                let gates = usable().filter_map(|row| match row.gate {
                    Gate::At(at, _) => Some(at),
                    _ => None,
                });
                let gate = gates.min();
                self.fec.waiting.push_front(parity);
                return self.wake_at(gate, Wake::Gate);
            };
            let Some(i) = self.index(path) else { continue };
            self.options.clear();
            // It is no data of the session: without MP_SEQ nobody takes it for that, whatever happens to its option on the way.
            Private::Parity(parity.newest, parity.count).with(|option| self.options.push(&Opt::Mp(option)));
            self.paths[i].transmit(now, self.options.as_bytes(), &parity.payload, sink);
            self.cap.on_sent(now, parity.payload.len() as u64);
            self.rows[i] = self.paths[i].row(now, self.options_len());
            self.fec.stats.sent += 1;
        }
    }

    /// A parity arrived.
    pub(super) fn on_parity(
        &mut self,
        now: Time,
        i: usize,
        newest: Seq,
        count: u8,
        data: &[u8],
        received: &Received<'_>,
    ) {
        // It takes its place among the packets of its path, and has none in the session.
        self.reorderer.on_other(now, self.paths[i].id, received.seq, received.ndp);
        self.fec.stats.received += 1;
        let offsets = usize::from(count) * OFFSET;
        let Some((offsets, xor)) = data.split_at_checked(offsets).filter(|_| (1..=MOST).contains(&count))
        else {
            return self.count(Counter::ParityMalformed);
        };
        let before = |b: &[u8]| newest.sub(u16::from_be_bytes([b[0], b[1]]).into()).value();
        let members = offsets.chunks_exact(OFFSET).map(before).collect();
        self.fec.kept_until = now + KEPT_FOR;
        if self.fec.pending.len() == MOST_WAITING {
            self.fec.pending.pop_front();
        }
        self.fec.pending.push_back(Pending { members, xor: xor.to_vec() });
        self.restore(now, self.paths[i].id);
    }

    /// A packet with data arrived: others may be made from it.
    pub(super) fn follow_parity(&mut self, now: Time, path: PathId, seq: Seq, back: u8, data: &[u8]) {
        self.fec.keep(now, seq, back, data);
        if self.fec.pending.is_empty() {
            return;
        }
        let concerned = self.fec.pending.iter().any(|parity| parity.members.contains(&seq.value()));
        if concerned {
            self.restore(now, path);
        }
    }

    /// Makes what can be made from what is here.
    fn restore(&mut self, now: Time, path: PathId) {
        let mut n = 0;
        while n < self.fec.pending.len() {
            let lacks = self.fec.lacks(&self.fec.pending[n]);
            if lacks > 1 {
                n += 1;
                continue;
            }
            let solved = self.fec.solve(&self.fec.pending[n]);
            self.fec.pending.remove(n);
            let Some((lost, back, data)) = solved else {
                if lacks == 1 {
                    self.count(Counter::ParityWrong);
                }
                continue;
            };
            let mp_seq = Seq::new(lost);
            self.fec.stats.restored += 1;
            self.fec.keep(now, mp_seq, back, &data);
            let flow = PktInfo::of_ip(&data, self.flow_key).flow;
            let back = Back::read(back).filter(|_| self.order_flows);
            let arrival = Arrival { mp_seq, path, path_seq: None, ndp: None, flow, back };
            self.reorderer.push(now, arrival, data);
            // What was made may be what an earlier parity lacked.
            n = 0;
        }
    }
}
