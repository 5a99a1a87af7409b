//! Forward error correction. Every few packets of a policy rule are followed by an FEC packet with their XOR,
//! on another path if possible. If one of these packets is lost, the receiver restores it from the others at
//! once, without a round trip.

use crate::{FecStats, PathId};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use dccp_wire::Seq;
use mpdccp_units::{Duration, Time};

/// Maximum number of packets that one FEC packet protects.
pub(crate) const MOST: u8 = 16;
/// Number of bytes by which an FEC packet is longer than the longest packet it protects: length, flow
/// information and check value, plus an offset for each protected packet.
pub(super) const HEADER: usize = 7;
pub(super) const OFFSET: usize = 2;
/// Number of bytes, rounded up, by which an FEC packet's options are longer than a data packet's. The
/// additional bytes are the option that marks FEC packets.
pub(super) const OPTION: usize = 8;
/// An FEC packet that found no path for this long is dropped.
pub(super) const OLD: Duration = Duration::from_millis(100);
/// Maximum number of FEC packets waiting for a path, and of received FEC packets waiting for the packets that
/// they protect.
pub(super) const MOST_WAITING: usize = 64;
/// Number of received packets that are kept in order to restore others. Keeping starts with the first FEC
/// packet, and stops once no FEC packet has arrived for `KEPT_FOR`.
pub(super) const MOST_KEPT: usize = 512;
pub(super) const KEPT_FOR: Duration = Duration::from_secs(10);

/// Packets sent since the last FEC packet.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) members: Vec<(Seq, PathId)>,
    /// XOR over all packets of the block, covering their lengths, flow information, check values and
    /// payloads.
    pub(super) xor: Vec<u8>,
}

/// An FEC packet to be sent.
#[derive(Debug)]
pub(super) struct FecPacket {
    pub(super) class: usize,
    /// MP_SEQ of the newest protected packet.
    pub(super) newest: Seq,
    pub(super) count: u8,
    pub(super) payload: Vec<u8>,
    /// Paths of the protected packets.
    pub(super) paths: Vec<PathId>,
    pub(super) at: Time,
}

/// A received FEC packet that protects more than one missing packet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) members: Vec<u64>,
    pub(super) xor: Vec<u8>,
}

/// FEC state of a session.
#[derive(Debug, Default)]
pub(super) struct Fec {
    /// Whether the peer restores packets from FEC packets.
    pub(super) on: bool,
    pub(super) waiting: VecDeque<FecPacket>,
    pub(super) kept_until: Time,
    pub(super) kept: BTreeMap<u64, (u8, Vec<u8>)>,
    pub(super) order: VecDeque<u64>,
    pub(super) pending: VecDeque<Pending>,
    pub(super) stats: FecStats,
}

/// Adds a packet to the XOR. Adding the same packet again removes it.
pub(super) fn add(xor: &mut Vec<u8>, seq: u64, back: u8, data: &[u8]) {
    let ([high, low], [a, b, c, d]) = ((data.len() as u16).to_be_bytes(), check(seq, back, data));
    xor.resize(xor.len().max(HEADER + data.len()), 0);
    for (sum, byte) in xor.iter_mut().zip([high, low, back, a, b, c, d].iter().chain(data)) {
        *sum ^= byte;
    }
}

/// Returns a check value that shows whether a packet was restored correctly. It uses FNV-1a, because a linear
/// checksum such as a CRC would match any XOR of packets.
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

    /// Keeps a received packet, if FEC packets have arrived recently.
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

    /// Removes and returns the waiting FEC packet that protects packet `seq`, which has arrived, if at most
    /// one of its packets is still missing. Senders protect a packet only once, so only one FEC packet is
    /// looked at. Otherwise, each packet of a hostile peer could cost as much as dozens.
    pub(super) fn take_ripe(&mut self, seq: Seq) -> Option<Pending> {
        let n = self.pending.iter().position(|packet| packet.members.contains(&seq.value()))?;
        (self.lacks(&self.pending[n]) <= 1).then(|| self.pending.remove(n)).flatten()
    }

    /// If exactly one of the packets that an FEC packet protects is missing, returns its restored number,
    /// flow information, and bytes. Returns `None` if more are missing, if a bit was corrupted in transit, if
    /// the numbers do not match, or if the XOR is shorter than a protected packet. Otherwise, short FEC
    /// packets of a hostile peer would cost as much as long ones.
    pub(super) fn solve(&self, packet: &Pending) -> Option<(u64, u8, Vec<u8>)> {
        let lost = *packet.members.iter().find(|seq| !self.kept.contains_key(seq))?;
        let mut xor = packet.xor.clone();
        for (seq, (back, data)) in packet.members.iter().filter_map(|seq| self.kept.get_key_value(seq)) {
            if HEADER + data.len() > packet.xor.len() {
                return None;
            }
            add(&mut xor, *seq, *back, data);
        }
        let [high, low, back, a, b, c, d, data @ ..] = &xor[..] else { return None };
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let data = data.get(..len).filter(|data| !data.is_empty())?;
        (check(lost, *back, data) == [*a, *b, *c, *d]).then(|| (lost, *back, data.to_vec()))
    }

    /// Returns the number of protected packets that are missing.
    pub(super) fn lacks(&self, packet: &Pending) -> usize {
        packet.members.iter().filter(|seq| !self.kept.contains_key(seq)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn keeping(kept: &[(u64, &[u8])]) -> Fec {
        let mut fec = Fec { kept_until: Time::MAX, ..Fec::default() };
        kept.iter().for_each(|(seq, data)| fec.keep(Time::ZERO, Seq::new(*seq), 0, data));
        fec
    }

    #[test]
    fn an_fec_packet_shorter_than_the_packets_it_protects_restores_nothing() {
        let (long, lost) = ([7u8; 1_000], b"lost");
        let fec = keeping(&[(1, &long), (2, &long)]);
        let mut xor = Vec::new();
        add(&mut xor, 1, 0, &long);
        add(&mut xor, 2, 0, &long);
        add(&mut xor, 3, 0, lost);
        let mut packet = Pending { members: vec![1, 2, 3], xor };
        assert_eq!(fec.solve(&packet), Some((3, 0, lost.to_vec())));
        // The two long packets are equal, so the rest of their XOR is zero.
        packet.xor.truncate(HEADER + lost.len());
        assert_eq!(fec.solve(&packet), None);
    }

    #[test]
    fn a_packet_that_arrives_concerns_one_fec_packet() {
        let mut fec = keeping(&[(1, b"a"), (2, b"b")]);
        let all = [vec![5, 6], vec![1, 3, 4], vec![1, 2, 3]];
        fec.pending.extend(all.map(|members| Pending { members, xor: vec![0; HEADER + 1] }));
        assert!(fec.take_ripe(Seq::new(1)).is_none(), "its first FEC packet lacks two packets");
        fec.keep(Time::ZERO, Seq::new(3), 0, b"c");
        let ripe = fec.take_ripe(Seq::new(3)).map(|packet| packet.members);
        assert_eq!((ripe, fec.pending.len()), (Some(vec![1, 3, 4]), 2));
    }
}
