use crate::ccid::Outstanding;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use dccp_wire::Seq;
use mpdccp_units::Time;

/// Maximum number of packets remembered.
const MOST: usize = 1 << 16;
/// Number of acknowledged packets to keep, because a loss interval may begin with one of them.
const KEPT: usize = 1024;

/// A sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// Time at which the packet was sent, or [`Time::MAX`] if only an earlier half knows it.
    pub(super) at: Time,
    /// The unwrapped window counter when the packet was sent.
    pub(super) counter: u64,
    /// Bytes on the wire that the packet adds to the data in flight, or 0 without data.
    pub(super) bytes: u32,
}

/// Recently sent packets, by sequence number.
#[derive(Debug)]
pub(super) struct SentLog {
    /// Sequence number of the first entry of `packets`.
    first: Seq,
    packets: VecDeque<Sent>,
    /// Number of acknowledged packets in `packets`.
    acked: usize,
}

impl SentLog {
    pub(super) fn new(first: Seq) -> SentLog {
        SentLog { first, packets: VecDeque::new(), acked: 0 }
    }

    fn next(&self) -> Seq {
        self.first.add(self.packets.len() as u64)
    }

    /// A packet was sent. Sequence numbers never go back. Skipped numbers count as packets without data.
    pub(super) fn push(&mut self, seq: Seq, sent: Sent) {
        let gap = seq.diff(self.next());
        if gap < 0 {
            return;
        }
        if gap > MOST as i64 {
            *self = SentLog::new(seq);
        } else {
            (0..gap).for_each(|_| self.packets.push_back(Sent { at: Time::MAX, bytes: 0, ..sent }));
        }
        self.packets.push_back(sent);
        while self.packets.len() > MOST {
            self.pop();
        }
    }

    fn pop(&mut self) {
        if self.packets.pop_front().is_some() {
            self.first = self.first.next();
            self.acked = self.acked.saturating_sub(1);
        }
    }

    /// Returns the packet `seq`, if it is still in the log.
    pub(super) fn get(&self, seq: Seq) -> Option<&Sent> {
        self.packets.get(usize::try_from(seq.diff(self.first)).ok()?)
    }

    /// All packets up to `seq` have arrived or been lost. Returns the number and the bytes of the data
    /// packets among them that were in flight until now.
    pub(super) fn acknowledge(&mut self, seq: Seq) -> (u64, u64) {
        let upto =
            usize::try_from(seq.diff(self.first).saturating_add(1)).unwrap_or(0).min(self.packets.len());
        let mut left = (0, 0);
        if upto > self.acked {
            for sent in self.packets.range(self.acked..upto).filter(|sent| sent.bytes > 0) {
                left = (left.0 + 1, left.1 + u64::from(sent.bytes));
            }
            self.acked = upto;
        }
        while self.acked > KEPT {
            self.pop();
        }
        left
    }

    /// Returns the data in flight that was sent after `acked`.
    pub(super) fn outstanding(&self, acked: Seq) -> Vec<Outstanding> {
        let numbered = self.packets.iter().enumerate().skip(self.acked);
        let data = numbered.filter(|(_, sent)| sent.bytes > 0);
        data.map(|(i, sent)| Outstanding { seq: self.first.add(i as u64), at: sent.at, bytes: sent.bytes })
            .filter(|packet| packet.seq.after(acked))
            .collect()
    }

    /// Like [`acknowledge`](Self::acknowledge), but for all sent packets.
    pub(super) fn acknowledge_all(&mut self) -> (u64, u64) {
        self.acknowledge(self.next().sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(at: u64, bytes: u32) -> Sent {
        Sent { at: Time::from_millis(at), counter: at, bytes }
    }

    #[test]
    fn counts_what_leaves_the_path_once() {
        let first = Seq::new(Seq::MODULUS - 2);
        let mut log = SentLog::new(first);
        for i in 0..5 {
            log.push(first.add(i), sent(i, if i == 1 { 0 } else { 100 }));
        }
        assert_eq!(log.acknowledge(first.add(2)), (2, 200));
        assert_eq!(log.acknowledge(first), (0, 0));
        assert_eq!(log.get(first.add(3)), Some(&sent(3, 100)));
        assert_eq!(log.get(first.sub(1)), None);
        assert_eq!(log.get(first.add(5)), None);
        assert_eq!(log.acknowledge(first.add(99)), (2, 200));
    }

    #[test]
    fn stays_small() {
        let mut log = SentLog::new(Seq::new(0));
        for i in 0..100_000 {
            log.push(Seq::new(i), sent(i, 1));
        }
        assert_eq!(log.packets.len(), MOST);
        assert_eq!(log.acknowledge_all(), (MOST as u64, MOST as u64));
        assert_eq!(log.packets.len(), KEPT);
        assert_eq!(log.get(Seq::new(99_999)), Some(&sent(99_999, 1)));
        // Sequence numbers skip, jump and repeat.
        log.push(Seq::new(100_002), sent(7, 1));
        assert_eq!(log.get(Seq::new(100_001)), Some(&Sent { at: Time::MAX, ..sent(7, 0) }));
        log.push(Seq::new(100_002), sent(8, 1));
        log.push(Seq::new(1 << 40), sent(9, 1));
        assert_eq!(log.acknowledge_all(), (1, 1));
    }
}
