//! The sending half of a stream.

use crate::Reason;
use crate::chunks::{Chunks, Pool};
use crate::config::INITIAL_WINDOW;
use crate::ranges::RangeSet;
use core::ops::Range;

/// Stream data for one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) range: Range<u64>,
    pub(crate) fin: bool,
    /// Whether the piece is a retransmission.
    pub(crate) repair: bool,
}

/// While the session's window is scarce, a stream may send its window divided by this number, and then as
/// much as the peer reads. The peer raises a limit when it has read a sixteenth of the window, so the stream
/// cannot stall.
const SCARCE: u64 = 16;

/// How much a stream may send, in addition to the stream's own limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    /// Maximum number of new bytes.
    pub(crate) bytes: u64,
    /// Whether less than half of the window is left, because the peer does not read all streams.
    pub(crate) scarce: bool,
}

impl Credit {
    pub(crate) const UNLIMITED: Credit = Credit { bytes: u64::MAX, scarce: false };

    pub(crate) fn new(bytes: u64, window: u64) -> Credit {
        Credit { bytes, scarce: bytes < window / 2 }
    }

    /// Returns the same credit with a limit of `room` bytes.
    pub(crate) fn within(self, room: u64) -> Credit {
        Credit { bytes: self.bytes.min(room), ..self }
    }
}

/// Whether the end of the stream was written, sent and acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fin {
    /// The application may write more.
    #[default]
    Open,
    /// The end of the stream must be sent or retransmitted.
    Waiting,
    Sent,
    Acked,
}

#[derive(Debug, Default)]
pub(crate) struct SendHalf {
    /// Written data that has not been acknowledged, starting where the contiguous acknowledged data ends.
    pub(crate) chunks: Chunks,
    /// End of the written data.
    pub(crate) written: u64,
    /// End of the data that has been sent at least once.
    pub(crate) sent: u64,
    acked: RangeSet,
    /// Data that was sent but lost, and must be retransmitted.
    lost: RangeSet,
    pub(crate) limit: u64,
    /// End of the data that may be sent while the session's window is [scarce](Credit::scarce).
    modest: u64,
    /// The limit for which the last BLOCKED frame was sent.
    told_blocked: Option<u64>,
    fin: Fin,
    /// If the stream has been reset: the reason, and whether the peer has acknowledged the reset.
    pub(crate) reset: Option<(Reason, bool)>,
}

impl SendHalf {
    pub(crate) fn new() -> SendHalf {
        SendHalf { limit: INITIAL_WINDOW, modest: INITIAL_WINDOW / SCARCE, ..SendHalf::default() }
    }

    /// Returns the number of bytes that have been sent, and are kept until they are acknowledged.
    pub(crate) fn in_flight(&self) -> u64 {
        self.sent - self.chunks.start()
    }

    /// Returns the number of bytes that have not been sent yet.
    pub(crate) fn unsent(&self) -> u64 {
        self.written - self.sent
    }

    /// Returns the number of bytes that have not been sent yet, and that the stream's limit allows.
    pub(crate) fn ready(&self) -> u64 {
        match self.reset {
            Some(_) => 0,
            None => self.written.min(self.limit).saturating_sub(self.sent),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.fin == Fin::Open && self.reset.is_none()
    }

    /// Returns whether the peer has received everything written so far.
    pub(crate) fn is_all_acked(&self) -> bool {
        self.chunks.start() == self.written
    }

    /// Returns whether the peer has received everything, including the end of the stream.
    pub(crate) fn is_delivered(&self) -> bool {
        self.fin == Fin::Acked && self.is_all_acked()
    }

    /// Returns whether the peer has received everything written so far, and the end of the stream if there is
    /// one, or whether the stream has been reset.
    pub(crate) fn is_settled(&self) -> bool {
        self.reset.is_some() || self.is_all_acked() && matches!(self.fin, Fin::Open | Fin::Acked)
    }

    /// Returns whether everything has been acknowledged or abandoned, so that nothing is retransmitted.
    pub(crate) fn is_done(&self) -> bool {
        self.reset.map_or(self.is_delivered(), |(_, known)| known)
    }

    pub(crate) fn write(&mut self, pool: &mut Pool, bytes: &[u8]) {
        self.chunks.store(pool, self.written, bytes);
        self.written += bytes.len() as u64;
    }

    pub(crate) fn finish(&mut self) {
        if self.fin == Fin::Open {
            self.fin = Fin::Waiting;
        }
    }

    /// Resets the stream, and returns the number of bytes that had not been sent yet.
    pub(crate) fn reset(&mut self, pool: &mut Pool, reason: Reason) -> u64 {
        let unsent = self.unsent();
        self.reset = Some((reason, false));
        self.written = self.sent;
        self.lost.clear();
        self.acked.clear();
        self.chunks.release(pool, self.sent, true);
        unsent
    }

    /// Handles a limit from the peer, which may be higher than the current one.
    pub(crate) fn on_limit(&mut self, limit: u64) {
        if limit > self.limit {
            let left = limit.saturating_sub(self.sent);
            self.modest = self.sent + (limit - self.limit).max(left / SCARCE);
            self.limit = limit;
        }
    }

    /// Returns the next data to send. `credit` is the limit for new bytes across all streams.
    pub(crate) fn next(&self, credit: Credit) -> Option<Piece> {
        if self.reset.is_some() {
            return None;
        }
        let (range, repair) = match self.lost.first() {
            Some(range) => (range, true),
            None => {
                let limit = if credit.scarce { self.limit.min(self.modest) } else { self.limit };
                let end = self.written.min(limit).min(self.sent.saturating_add(credit.bytes));
                (self.sent..end.max(self.sent), false)
            }
        };
        let fin = self.fin != Fin::Open && range.end == self.written;
        (!range.is_empty() || (fin && self.fin == Fin::Waiting)).then_some(Piece { range, fin, repair })
    }

    /// Returns whether the stream has data that is blocked only by the session's window.
    pub(crate) fn wants_credit(&self) -> bool {
        self.reset.is_none() && self.sent < self.written.min(self.limit)
    }

    /// Returns whether to send a BLOCKED frame because this stream is blocked by the peer's window. Returns
    /// true at most once per limit.
    pub(crate) fn tell_blocked(&mut self) -> bool {
        let blocked = self.reset.is_none() && self.sent == self.limit && self.unsent() > 0;
        let tell = blocked && self.told_blocked != Some(self.limit);
        if tell {
            self.told_blocked = Some(self.limit);
        }
        tell
    }

    /// Handles the loss of a BLOCKED frame.
    pub(crate) fn on_blocked_lost(&mut self) {
        self.told_blocked = None;
    }

    /// Records that this part of the data returned by [`next`](Self::next) is being sent.
    pub(crate) fn on_sent(&mut self, piece: &Piece) {
        if piece.repair {
            self.lost.remove(piece.range.clone());
        } else {
            self.sent = piece.range.end;
        }
        if piece.fin {
            self.fin = Fin::Sent;
        }
    }

    pub(crate) fn on_acked(&mut self, pool: &mut Pool, range: Range<u64>, fin: bool) {
        if self.reset.is_some() {
            return;
        }
        if fin {
            self.fin = Fin::Acked;
        }
        let start = self.chunks.start();
        let range = range.start.max(start)..range.end;
        if range.is_empty() {
            return;
        }
        if !self.lost.is_empty() {
            self.lost.remove(range.clone());
        }
        if range.start > start {
            self.acked.insert(range);
            return;
        }
        let mut end = range.end;
        while let Some(known) = self.acked.first().filter(|known| known.start <= end) {
            end = end.max(known.end);
            self.acked.pop_first();
        }
        self.chunks.release(pool, end, end == self.written);
    }

    pub(crate) fn on_lost(&mut self, range: Range<u64>, fin: bool) {
        if self.reset.is_some() {
            return;
        }
        if fin && self.fin == Fin::Sent {
            self.fin = Fin::Waiting;
        }
        let mut from = range.start.max(self.chunks.start());
        while from < range.end {
            // Data that arrived in another packet need not be retransmitted.
            let known = self.acked.first_within(from..range.end).unwrap_or(range.end..range.end);
            self.lost.insert(from..known.start);
            from = known.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn half(bytes: usize) -> (SendHalf, Pool) {
        let (mut half, mut pool) = (SendHalf::new(), Pool::default());
        half.write(&mut pool, &[7; 10_000][..bytes]);
        (half, pool)
    }

    fn send(half: &mut SendHalf, len: u64) -> Piece {
        let mut piece = half.next(Credit::UNLIMITED).unwrap();
        let end = piece.range.end.min(piece.range.start + len);
        (piece.range.end, piece.fin) = (end, piece.fin && end == piece.range.end);
        half.on_sent(&piece);
        piece
    }

    #[test]
    fn only_what_was_lost_and_is_missing_is_sent_again() {
        let (mut half, mut pool) = half(4_000);
        half.finish();
        let pieces: [Piece; 4] = core::array::from_fn(|_| send(&mut half, 1_000));
        assert!(pieces[3].fin && !pieces[2].fin);
        half.on_acked(&mut pool, 1_000..2_000, false);
        half.on_lost(0..3_000, false);
        assert_eq!(send(&mut half, 9_999), Piece { range: 0..1_000, fin: false, repair: true });
        half.on_acked(&mut pool, 0..1_000, false);
        assert_eq!(half.chunks.start(), 2_000);
        half.on_lost(3_000..4_000, true);
        assert_eq!(send(&mut half, 9_999), Piece { range: 2_000..4_000, fin: true, repair: true });
        assert_eq!(half.next(Credit::UNLIMITED), None);
        half.on_acked(&mut pool, 2_000..4_000, true);
        assert!(half.is_done());
    }

    #[test]
    fn an_end_alone_is_sent_and_repaired() {
        let (mut half, mut pool) = half(10);
        send(&mut half, 10);
        half.on_acked(&mut pool, 0..10, false);
        half.finish();
        let fin = Piece { range: 10..10, fin: true, repair: false };
        assert_eq!(send(&mut half, 0), fin);
        assert_eq!(half.next(Credit::UNLIMITED), None);
        half.on_lost(10..10, true);
        assert_eq!(send(&mut half, 0), fin);
        half.on_acked(&mut pool, 10..10, true);
        assert!(half.is_delivered());
    }

    #[test]
    fn windows_hold_back_new_bytes_only() {
        let (mut half, _) = half(10_000);
        assert_eq!(half.next(Credit::new(100, 0)).unwrap().range, 0..100);
        send(&mut half, 5_000);
        half.on_lost(0..1_000, false);
        assert_eq!(half.next(Credit::new(0, 0)).unwrap().range, 0..1_000);
        send(&mut half, 1_000);
        assert_eq!(half.next(Credit::new(0, 0)), None);
        assert!(half.wants_credit());
    }

    #[test]
    fn a_stream_that_nobody_reads_uses_little_of_a_scarce_window() {
        let (mut half, mut pool) = (SendHalf::new(), Pool::default());
        half.write(&mut pool, &alloc::vec![7; INITIAL_WINDOW as usize]);
        let scarce = Credit::new(20_000, 50_000);
        assert_eq!(half.next(scarce).unwrap().range, 0..4_096);
        assert_eq!(half.next(Credit::new(25_000, 50_000)).unwrap().range, 0..25_000);
        send(&mut half, 4_096);
        assert_eq!(half.next(scarce), None);
        half.on_limit(INITIAL_WINDOW + 5_000);
        assert_eq!(half.next(scarce).unwrap().range, 4_096..9_096);
    }

    #[test]
    fn the_peer_is_told_once_for_each_limit_that_it_holds_back() {
        let (mut half, mut pool) = half(0);
        half.write(&mut pool, &alloc::vec![1; INITIAL_WINDOW as usize + 1]);
        assert!(!half.tell_blocked());
        send(&mut half, u64::MAX / 2);
        assert!(half.tell_blocked() && !half.tell_blocked());
        half.on_blocked_lost();
        assert!(half.tell_blocked());
        half.on_limit(INITIAL_WINDOW + 10);
        assert!(!half.tell_blocked());
    }
}
