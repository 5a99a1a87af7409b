//! The receiving half of a stream.

use crate::Reason;
use crate::chunks::{Chunks, Pool};
use crate::config::MAX_HEADER;
use crate::ranges::RangeSet;
use crate::window::Window;
use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

/// Number of gaps that every window allows. A window above 64 KiB allows one gap per KiB.
const MIN_GAPS: u64 = 64;
/// Size of a header's length field, in bytes.
const LENGTH: u64 = 2;

/// Reason why a frame is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The peer violated the protocol.
    Violation,
    /// The stream has too many gaps. The frame can be accepted when it is retransmitted later.
    TooManyGaps,
}

/// The header, which precedes the bytes in each direction.
#[derive(Debug, Default)]
enum Header {
    #[default]
    Missing,
    /// The header is longer than allowed, or longer than the whole stream.
    Invalid,
    Here(Box<[u8]>),
}

#[derive(Debug, Default)]
pub(crate) struct RecvHalf {
    chunks: Chunks,
    /// End of the contiguous data.
    contiguous: u64,
    /// Data received after a gap.
    beyond: RangeSet,
    /// End of the received data.
    pub(crate) highest: u64,
    /// Size of the stream, if known.
    size: Option<u64>,
    header: Header,
    pub(crate) window: Window,
    /// Whether the application has read the end of the stream.
    pub(crate) end_read: bool,
    /// The reason for the reset, if the peer has reset the stream.
    pub(crate) reset: Option<Reason>,
    /// If this end has stopped reading: the reason, and whether the peer has acknowledged the stop.
    pub(crate) stopped: Option<(Reason, bool)>,
}

impl RecvHalf {
    /// Returns the end of the data that has been read or discarded so far.
    pub(crate) fn read(&self) -> u64 {
        self.chunks.start()
    }

    pub(crate) fn header(&self) -> Option<&[u8]> {
        match &self.header {
            Header::Here(header) => Some(header),
            _ => None,
        }
    }

    pub(crate) fn is_header_invalid(&self) -> bool {
        matches!(self.header, Header::Invalid)
    }

    /// Returns the number of bytes that can be read.
    pub(crate) fn available(&self) -> u64 {
        match self.header {
            Header::Here(_) => self.contiguous - self.read(),
            _ => 0,
        }
    }

    /// Returns whether the application has read everything up to the end.
    pub(crate) fn is_finished(&self) -> bool {
        self.reset.is_none() && self.header().is_some() && self.size == Some(self.read())
    }

    /// Returns whether more data is expected, and this end has not stopped reading.
    pub(crate) fn wants_more(&self) -> bool {
        self.size.is_none() && self.stopped.is_none()
    }

    /// Returns whether nothing more is expected from the peer.
    pub(crate) fn is_done(&self) -> bool {
        match self.stopped {
            _ if self.reset.is_some() => self.available() == 0,
            Some(_) => self.size.is_some(),
            None => self.end_read,
        }
    }

    fn set_size(&mut self, size: u64) -> Result<(), Refused> {
        if self.size.is_some_and(|known| known != size) || size < self.highest {
            return Err(Refused::Violation);
        }
        self.size = Some(size);
        Ok(())
    }

    /// Handles received bytes. `credit` is the limit across all streams. Returns the increase in the highest
    /// offset, and the number of new bytes.
    pub(crate) fn on_data(
        &mut self,
        pool: &mut Pool,
        offset: u64,
        bytes: &[u8],
        fin: bool,
        credit: u64,
    ) -> Result<(u64, u64), Refused> {
        let end = offset + bytes.len() as u64;
        let rise = end.saturating_sub(self.highest);
        if end > self.window.limit() || rise > credit || self.size.is_some_and(|size| end > size) {
            return Err(Refused::Violation);
        }
        let gaps = MIN_GAPS.max(self.window.size() >> 10);
        if offset > self.contiguous && self.beyond.len() as u64 >= gaps {
            return Err(Refused::TooManyGaps);
        }
        if fin {
            self.set_size(end)?;
        }
        self.highest = self.highest.max(end);
        let known = self.contiguous.saturating_sub(offset).min(bytes.len() as u64);
        let mut new = 0;
        if self.stopped.is_some() {
            self.contiguous = self.highest;
            self.chunks.release(pool, self.highest, true);
        } else if self.reset.is_none() {
            let fresh = &bytes[known as usize..];
            self.chunks.store(pool, offset + known, fresh);
            new = self.arrived(offset + known..end);
            self.take_header(pool);
        }
        Ok((rise, new))
    }

    fn arrived(&mut self, range: Range<u64>) -> u64 {
        if range.start > self.contiguous || range.is_empty() {
            return self.beyond.insert(range);
        }
        let mut new = range.end - range.start;
        self.contiguous = range.end;
        while let Some(known) = self.beyond.first().filter(|known| known.start <= self.contiguous) {
            new -= known.end.min(range.end).saturating_sub(known.start);
            self.contiguous = self.contiguous.max(known.end);
            self.beyond.pop_first();
        }
        new
    }

    fn take_header(&mut self, pool: &mut Pool) {
        if !matches!(self.header, Header::Missing) {
            return;
        }
        let whole = self.size == Some(self.contiguous);
        if self.contiguous < LENGTH {
            if whole {
                self.header = Header::Invalid;
            }
            return;
        }
        let mut length = [0; LENGTH as usize];
        self.chunks.copy(0..LENGTH, &mut length);
        let length = u64::from(u16::from_be_bytes(length));
        if length > MAX_HEADER as u64 {
            self.header = Header::Invalid;
        } else if self.contiguous >= LENGTH + length {
            let mut header = vec![0; length as usize];
            self.chunks.copy(LENGTH..LENGTH + length, &mut header);
            self.header = Header::Here(header.into());
            self.consume(pool, LENGTH + length);
        } else if whole {
            self.header = Header::Invalid;
        }
    }

    /// Returns the next readable bytes, as far as they are contiguous in memory.
    pub(crate) fn peek(&self) -> &[u8] {
        match self.available() {
            0 => &[],
            len => self.chunks.piece(self.read()..self.read() + len),
        }
    }

    pub(crate) fn consume(&mut self, pool: &mut Pool, len: u64) {
        let end = self.read() + len;
        self.chunks.release(pool, end, end == self.highest);
    }

    /// Handles the peer's reset of the stream after `size` bytes. Returns the increase in the highest offset.
    pub(crate) fn on_reset(
        &mut self,
        pool: &mut Pool,
        reason: Reason,
        size: u64,
        credit: u64,
    ) -> Result<u64, Refused> {
        let rise = size.saturating_sub(self.highest);
        if rise > credit || size > self.window.limit() {
            return Err(Refused::Violation);
        }
        let ended = self.size.is_some();
        self.set_size(size)?;
        self.highest = size;
        let whole = self.contiguous == size;
        // If the end of the stream and everything before it have arrived, a reset has no effect. The size in
        // a reset does not count as the end of the stream.
        if !(ended && whole) {
            self.reset = Some(reason);
        }
        // As with TCP in Linux, data that has arrived before the reset can still be read.
        if !whole || self.header().is_none() {
            self.discard(pool);
        }
        Ok(rise)
    }

    /// Discards unread data.
    pub(crate) fn discard(&mut self, pool: &mut Pool) {
        self.beyond.clear();
        self.contiguous = self.highest;
        self.chunks.release(pool, self.highest, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn data(half: &mut RecvHalf, offset: u64, bytes: &[u8], fin: bool) -> Result<(u64, u64), Refused> {
        half.on_data(&mut Pool::default(), offset, bytes, fin, 100_000)
    }

    fn with_header() -> RecvHalf {
        let mut half = RecvHalf::default();
        data(&mut half, 0, &[0, 1, 9], false).unwrap();
        assert_eq!(half.header(), Some(&[9][..]));
        half
    }

    #[test]
    fn late_and_duplicate_data_is_read_once_and_in_order() {
        let mut half = with_header();
        assert_eq!(data(&mut half, 6, b"def", true), Ok((6, 3)));
        assert_eq!(half.available(), 0);
        assert_eq!(data(&mut half, 2, b"\x09abcd", false), Ok((0, 3)));
        assert_eq!(half.peek(), b"abcdef");
        assert!(!half.is_finished());
        half.consume(&mut Pool::default(), 6);
        assert!(half.is_finished());
        assert_eq!(data(&mut half, 3, b"abcdef", true), Ok((0, 0)));
    }

    #[test]
    fn a_header_may_come_in_parts_and_has_a_bound() {
        let mut half = RecvHalf::default();
        for (offset, byte) in [(2, b"x"), (0, b"\0"), (1, b"\x02")] {
            data(&mut half, offset, byte, false).unwrap();
            assert_eq!(half.header(), None);
        }
        data(&mut half, 3, b"yz", false).unwrap();
        assert_eq!((half.header(), half.peek()), (Some(&b"xy"[..]), &b"z"[..]));
        let mut long = RecvHalf::default();
        data(&mut long, 0, &[4, 1], false).unwrap();
        assert!(long.is_header_invalid());
        for bytes in [&[][..], &[0], &[0, 2, 9]] {
            let mut short = RecvHalf::default();
            data(&mut short, 0, bytes, true).unwrap();
            assert!(short.is_header_invalid(), "the stream ended within its header");
        }
    }

    #[test]
    fn windows_and_ends_are_enforced() {
        let mut half = with_header();
        let limit = half.window.limit();
        assert_eq!(data(&mut half, limit, b"x", false), Err(Refused::Violation));
        assert_eq!(
            half.on_data(&mut Pool::default(), 3, b"abc", false, 2),
            Err(Refused::Violation),
            "data beyond the session's window"
        );
        data(&mut half, 3, b"abc", true).unwrap();
        assert_eq!(data(&mut half, 6, b"x", false), Err(Refused::Violation));
        assert_eq!(data(&mut half, 3, b"a", true), Err(Refused::Violation));
    }

    #[test]
    fn gaps_are_bounded_and_the_first_gap_can_always_be_filled() {
        let mut half = with_header();
        let results: Vec<_> = (0..200).map(|n| data(&mut half, 10 + 2 * n, b"x", false)).collect();
        assert_eq!(results.iter().filter(|r| r.is_ok()).count() as u64, MIN_GAPS);
        assert_eq!(results[199], Err(Refused::TooManyGaps));
        assert!(data(&mut half, 3, &[1; 7], false).is_ok());
    }

    #[test]
    fn a_reset_loses_what_was_not_read_unless_all_had_arrived() {
        let mut half = with_header();
        data(&mut half, 3, b"abc", false).unwrap();
        let pool = &mut Pool::default();
        assert_eq!(
            half.on_reset(pool, Reason::Reset, 5, 100),
            Err(Refused::Violation),
            "data beyond the reset's size"
        );
        assert_eq!(half.on_reset(pool, Reason::Reset, 10, 100), Ok(4));
        assert_eq!((half.available(), half.reset, half.is_done()), (0, Some(Reason::Reset), true));
        let mut half = with_header();
        data(&mut half, 3, b"abc", true).unwrap();
        assert_eq!(half.on_reset(pool, Reason::Reset, 6, 100), Ok(0));
        assert_eq!((half.available(), half.reset), (3, None));
        let mut half = with_header();
        data(&mut half, 3, b"abc", false).unwrap();
        for _ in 0..2 {
            half.on_reset(pool, Reason::Reset, 6, 100).unwrap();
            assert_eq!(data(&mut half, 4, b"bc", false), Ok((0, 0)), "a late copy");
            assert_eq!((half.peek(), half.is_done()), (&b"abc"[..], false));
        }
        half.consume(pool, 3);
        assert!(half.is_done() && !half.is_finished(), "a reset counted as the end");
        let mut half = RecvHalf::default();
        data(&mut half, 0, &[0], false).unwrap();
        half.on_reset(pool, Reason::Reset, 1, 100).unwrap();
        assert_eq!((half.read(), half.is_done()), (1, true), "the stream ended within its header");
    }
}
