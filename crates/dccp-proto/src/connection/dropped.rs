//! Data Dropped (RFC 4340 section 11.7): our reports of data that this end dropped, and the reports from the
//! peer.

use super::types::DropCode;
use crate::ccid::Feedback;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use dccp_wire::{Opt, OptionBuf, Seq, ack_vector};

/// Drop Codes (RFC 4340 section 11.7).
pub(super) const PROTOCOL_CONSTRAINTS: u8 = DropCode::ProtocolConstraints as u8;
const NOT_LISTENING: u8 = DropCode::NotListening as u8;
const RECEIVE_BUFFER: u8 = DropCode::ReceiveBuffer as u8;
#[cfg(test)]
const CORRUPT: u8 = DropCode::Corrupt as u8;

/// Maximum number of dropped packets kept. The oldest are removed first.
const MAX_DROPS: usize = 1024;
/// Maximum number of unacknowledged reports kept.
const MAX_REPORTS: usize = 256;
/// Longest run of packets in a Normal Block, and in a Drop Block.
const MAX_RUN: i64 = 128;
const MAX_DROP_RUN: u8 = 16;

/// A sent report: the sequence number of the packet with the report, and the newest and oldest drop in it.
#[derive(Clone, Copy, Debug)]
struct Report {
    seq: Seq,
    newest: Seq,
    oldest: Seq,
}

/// Drops to report. Each is repeated until the peer acknowledges a report that contains it.
#[derive(Debug, Default)]
pub(super) struct DropReport {
    /// Sequence number and Drop Code of each drop, newest last.
    drops: VecDeque<(Seq, u8)>,
    /// Reports sent, oldest first.
    sent: VecDeque<Report>,
}

impl DropReport {
    /// Records that data of packet `seq` was dropped.
    pub(super) fn note(&mut self, seq: Seq, code: u8) {
        let at = self.drops.iter().rposition(|(s, _)| !s.after(seq)).map_or(0, |i| i + 1);
        if at > 0 && self.drops.get(at - 1).is_some_and(|(s, _)| *s == seq) {
            return;
        }
        self.drops.insert(at, (seq, code));
        if self.drops.len() > MAX_DROPS {
            self.drops.pop_front();
        }
    }

    /// Writes the option on our packet `seq`, which acknowledges `ack`. Writes nothing if there is no drop to
    /// report or if the option does not fit into `room` bytes.
    pub(super) fn write(&mut self, seq: Seq, ack: Seq, room: usize, out: &mut OptionBuf) {
        let Some((newest, _)) = self.drops.back().copied().filter(|(s, _)| !s.after(ack)) else { return };
        let mut blocks = Vec::new();
        let mut cursor = ack;
        let mut oldest = newest;
        for (dropped, code) in self.drops.iter().rev() {
            let mut normal = cursor.diff(*dropped);
            if normal == 0
                && let Some(last) = blocks.last_mut()
                && *last & 0xf0 == 0x80 | code << 4
                && *last & 0x0f < MAX_DROP_RUN - 1
            {
                *last += 1;
                oldest = *dropped;
                cursor = dropped.sub(1);
                continue;
            }
            while normal > 0 && blocks.len() + 2 < room.min(253) {
                blocks.push((normal.min(MAX_RUN) - 1) as u8);
                normal -= MAX_RUN;
            }
            if normal > 0 || blocks.len() + 3 > room.min(253) {
                break;
            }
            blocks.push(0x80 | code << 4);
            oldest = *dropped;
            cursor = dropped.sub(1);
        }
        // Normal Blocks at the end of a report add nothing.
        while blocks.last().is_some_and(|b| b & 0x80 == 0) {
            blocks.pop();
        }
        if !blocks.is_empty() && out.push(&Opt::DataDropped(&blocks)) {
            self.sent.push_back(Report { seq, newest, oldest });
            if self.sent.len() > MAX_REPORTS {
                self.sent.pop_front();
            }
        }
    }

    /// `feedback` is the peer's report of which of our packets it received. A drop remains pending until the
    /// peer has received a packet that reports it.
    pub(super) fn on_ack(&mut self, feedback: &Feedback<'_>) {
        let seqs = self.sent.iter().map(|report| report.seq);
        let Some(at) = feedback.newest_received(seqs) else { return };
        let Some(Report { newest, oldest, .. }) = self.sent.get(at).copied() else { return };
        self.drops.retain(|(s, _)| s.after(newest) || s.before(oldest));
        self.sent.drain(..=at);
    }
}

/// Returns the Drop Code, if any, and the number of packets of each block, newest first.
fn runs(blocks: &[u8]) -> impl Iterator<Item = (Option<u8>, u8)> {
    blocks.iter().map(|b| match b {
        0..=127 => (None, b + 1),
        _ => (Some(b >> 4 & 7), (b & 15) + 1),
    })
}

/// Drops reported by the peer.
#[derive(Debug, Default)]
pub(super) struct PeerDrops {
    /// Whether the peer's application has stopped receiving, so that no data will reach it
    /// (RFC 4340 section 11.7.2, Drop Code 1).
    pub(super) not_listening: bool,
    /// Newest packet known to have been dropped in the peer's receive buffer.
    newest: Option<Seq>,
}

impl PeerDrops {
    /// Reads a report. Returns how many packets it newly reports as dropped in the receive buffer. The peer
    /// repeats reports until this end acknowledges them, so known drops do not count again.
    pub(super) fn learn(&mut self, ack: Seq, blocks: &[u8]) -> u64 {
        let known = self.newest;
        let (mut cursor, mut new) = (ack, 0);
        for (code, packets) in runs(blocks) {
            let oldest = cursor.sub(u64::from(packets) - 1);
            self.not_listening |= code == Some(NOT_LISTENING);
            if code == Some(RECEIVE_BUFFER) {
                let unknown = known.map_or(i64::MAX, |known| cursor.diff(known));
                new += u64::try_from(unknown.min(packets.into())).unwrap_or(0);
                if self.newest.is_none_or(|newest| cursor.after(newest)) {
                    self.newest = Some(cursor);
                }
            }
            cursor = oldest.sub(1);
        }
        new
    }
}

/// Returns Ack Vector cells in which packets with dropped data count as ECN-marked. RFC 4340 section 11.7
/// requires this for all congestion control. Drop Codes 0 and 1 do not indicate congestion, and code 2 has
/// its own rule (section 11.7.2). Packets that were not received stay unmarked.
pub(super) fn mark(cells: &[u8], blocks: &[u8]) -> Vec<u8> {
    let mut blocks = runs(blocks).map(|(code, packets)| (code.is_some_and(|c| c > RECEIVE_BUFFER), packets));
    let mut out = Vec::with_capacity(cells.len());
    let mut block = blocks.next();
    for (state, mut packets) in ack_vector::runs(cells) {
        while packets > 0 {
            let (bad, run) = block.unwrap_or((false, packets));
            let run = run.min(packets);
            let state = match state {
                ack_vector::State::Received if bad => ack_vector::State::ReceivedEcnMarked,
                other => other,
            };
            out.push(ack_vector::cell(state, run));
            packets -= run;
            block = match block {
                Some((bad, left)) if left > run => Some((bad, left - run)),
                Some(_) => blocks.next(),
                None => None,
            };
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledge(report: &mut DropReport, seq: u64) {
        report.on_ack(&Feedback::new(Seq::new(seq), &[]));
    }

    fn written(report: &mut DropReport, seq: u64, ack: u64, room: usize) -> Vec<u8> {
        let mut out = OptionBuf::new();
        report.write(Seq::new(seq), Seq::new(ack), room, &mut out);
        out.as_bytes().to_vec()
    }

    #[test]
    fn reports_until_acknowledged() {
        let mut report = DropReport::default();
        assert_eq!(written(&mut report, 1, 100, 100), []);
        report.note(Seq::new(90), CORRUPT);
        report.note(Seq::new(99), PROTOCOL_CONSTRAINTS);
        report.note(Seq::new(90), CORRUPT);
        // On an Ack of packet 100, the option reports: 100 received, 99 dropped, 98 to 91 received, 90
        // dropped.
        let option = [40, 6, 0, 0x80, 7, 0xb0];
        assert_eq!(written(&mut report, 2, 100, 100), option);
        assert_eq!(written(&mut report, 3, 100, 100), option);
        report.note(Seq::new(100), CORRUPT);
        acknowledge(&mut report, 1);
        acknowledge(&mut report, 3);
        assert_eq!(written(&mut report, 4, 100, 100), [40, 3, 0xb0]);
        acknowledge(&mut report, 4);
        assert_eq!(written(&mut report, 5, 100, 100), []);
    }

    #[test]
    fn drops_without_room_in_the_option_are_reported_later() {
        let mut report = DropReport::default();
        for i in 0..600 {
            report.note(Seq::new(1000 + 2 * i), CORRUPT);
        }
        let mut told = 0;
        for seq in 1..10 {
            let option = written(&mut report, seq, 3000, 500);
            let blocks = option.get(2..).unwrap_or_default();
            told += runs(blocks).filter(|(code, _)| code.is_some()).count();
            acknowledge(&mut report, seq);
        }
        assert_eq!(told, 600);
    }

    #[test]
    fn runs_of_drops_take_one_block() {
        let mut report = DropReport::default();
        for i in 80..100 {
            report.note(Seq::new(i), CORRUPT);
        }
        assert_eq!(written(&mut report, 1, 99, 100), [40, 4, 0xbf, 0xb3]);
    }

    #[test]
    fn an_old_report_counts_while_newer_ones_are_under_way() {
        let mut report = DropReport::default();
        report.note(Seq::new(90), CORRUPT);
        for seq in 1..=100 {
            written(&mut report, seq, 100, 100);
        }
        acknowledge(&mut report, 1);
        assert_eq!(written(&mut report, 101, 100, 100), []);
    }

    #[test]
    fn stays_within_its_room() {
        let mut report = DropReport::default();
        for i in 0..100 {
            report.note(Seq::new(i * 300), CORRUPT);
        }
        for room in 0..40 {
            assert!(written(&mut report, 2, 30_000, room).len() <= room);
        }
    }

    #[test]
    fn buffer_drops_count_once() {
        let mut drops = PeerDrops::default();
        // In the RFC's example (section 11.7), packets 99 and 94 to 92 were dropped.
        assert_eq!(drops.learn(Seq::new(100), &[0, 160, 3, 162]), 4);
        assert_eq!(drops.learn(Seq::new(100), &[0, 160, 3, 162]), 0);
        assert_eq!(drops.learn(Seq::new(103), &[0, 163]), 3);
        assert_eq!(drops.learn(Seq::new(104), &[0x90, 0xb0]), 0);
    }

    #[test]
    fn marks_what_the_peer_dropped() {
        // The vector says: 100 received, 99 missing, 98 to 95 received. The report says: 100 delivered, 99 to
        // 97 corrupt, 96 dropped by protocol constraints.
        let marked = mark(&[0, 0xc0, 3], &[0, 0xb2, 0x80]);
        assert_eq!(marked, [0, 0xc0, 0x41, 0, 0]);
        assert_eq!(mark(&[63, 63], &[]), [63, 63]);
        assert_eq!(mark(&[2], &[0xbf]), [0x42]);
    }
}
