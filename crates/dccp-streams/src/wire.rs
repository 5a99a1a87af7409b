//! Encoding of packets and frames, as specified in docs/streams.md.

use crate::Reason;
use core::ops::Range;

/// First nibble of every packet. IP packets have 4 or 6 there.
const MARKER: u8 = 0x20;
const NUMBERED: u8 = 1;
const ACK_NOW: u8 = 2;

const ACK: u8 = 0;
const RESET: u8 = 1;
const STOP: u8 = 2;
const STREAM_WINDOW: u8 = 3;
const SESSION_WINDOW: u8 = 4;
const STREAMS: u8 = 5;
const BLOCKED: u8 = 6;
const DATA: u8 = 0x10;
const FIN: u8 = 1;
const LENGTH: u8 = 2;
/// Frames of types from here to 0x7f have a length, so that receivers can skip those they do not know.
const EXTENSION: u8 = 0x40;
/// The extension frame that carries a DSCP, always the first frame of its packet.
const DSCP: u8 = 0x40;

/// Length of the longest frame other than ACK and DATA, in bytes.
pub(crate) const MAX_CONTROL: usize = 1 + 8 + 3 + 8;
/// Length of the longest header of a packet with a number, in bytes.
pub(crate) const MAX_PACKET_HEADER: usize = 1 + 8 + 8;
/// Maximum number of ranges in an acknowledgement.
const MAX_NAMED: u64 = 512;
const MAX_VARINT: u64 = (1 << 62) - 1;

/// Returns whether a datagram's payload is a packet of the stream layer, judging by its first four bits.
pub fn is_stream_packet(payload: &[u8]) -> bool {
    payload.first().is_some_and(|first| first & 0xf0 == MARKER)
}

/// Returns the DSCP that a packet requests, or `None` if it is not a packet of the stream layer.
pub fn dscp(packet: &[u8]) -> Option<u8> {
    let (_, frames) = header(packet)?;
    match frames {
        [DSCP, 1, dscp, ..] => Some(*dscp & 63),
        _ => Some(0),
    }
}

/// Header before the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The sender's identifier of the path, and the packet's number on that path. Packets that contain only
    /// acknowledgements have no number.
    pub(crate) number: Option<(u64, u64)>,
    /// Whether the packet requests an immediate acknowledgement.
    pub(crate) ack_now: bool,
}

/// A part of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    Ack(Ack<'a>),
    /// The sender will send nothing more on this stream, on which it has sent `size` bytes.
    Reset {
        id: u64,
        reason: Reason,
        size: u64,
    },
    Stop {
        id: u64,
        reason: Reason,
    },
    StreamWindow {
        id: u64,
        limit: u64,
    },
    SessionWindow(u64),
    /// Total number of streams that the peer may open.
    Streams(u64),
    /// The stream has sent everything up to this limit and has more to send.
    Blocked {
        id: u64,
        limit: u64,
    },
    Data {
        id: u64,
        offset: u64,
        bytes: &'a [u8],
        fin: bool,
    },
    Extension,
}

/// Received packet numbers of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ack<'a> {
    pub(crate) path: u64,
    pub(crate) largest: u64,
    /// Time between the arrival of `largest` and this acknowledgement, in microseconds.
    pub(crate) delay: u64,
    more: u64,
    bytes: &'a [u8],
}

impl Ack<'_> {
    /// Returns the ranges in descending order, up to the first invalid byte.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let mut bytes = self.bytes;
        let mut end = Some(self.largest + 1);
        let mut left = self.more + 1;
        core::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let start = end?.checked_sub(varint(&mut bytes)?)?.checked_sub(1)?;
            let range = start..end?;
            // Consecutive ranges are separated by a gap of at least one number.
            end = match left {
                0 => None,
                _ => start.checked_sub(varint(&mut bytes)?).and_then(|e| e.checked_sub(1)),
            };
            Some(range)
        })
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let len = 1 << (first >> 6);
    let (head, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(head[1..].iter().fold(u64::from(first & 0x3f), |n, byte| n << 8 | u64::from(*byte)))
}

/// Returns the length of an encoded number, bytes.
pub(crate) fn varint_len(n: u64) -> usize {
    match n {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

fn reason(bytes: &mut &[u8]) -> Option<Reason> {
    let (reason, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(Reason::from_bytes(*reason))
}

/// Reads the header, and returns it along with the bytes of the frames.
pub(crate) fn header(mut bytes: &[u8]) -> Option<(Header, &[u8])> {
    let first = *bytes.split_off_first()?;
    if first & !(NUMBERED | ACK_NOW) != MARKER {
        return None;
    }
    let number = match first & NUMBERED {
        0 => None,
        _ => Some((varint(&mut bytes)?, varint(&mut bytes)?)),
    };
    Some((Header { number, ack_now: first & ACK_NOW != 0 }, bytes))
}

/// Reads the next frame. Returns `None` if the bytes are invalid.
pub(crate) fn frame<'a>(bytes: &mut &'a [u8]) -> Option<Frame<'a>> {
    let kind = *bytes.split_off_first()?;
    Some(match kind {
        ACK => ack(bytes)?,
        RESET => Frame::Reset { id: varint(bytes)?, reason: reason(bytes)?, size: varint(bytes)? },
        STOP => Frame::Stop { id: varint(bytes)?, reason: reason(bytes)? },
        STREAM_WINDOW => Frame::StreamWindow { id: varint(bytes)?, limit: varint(bytes)? },
        SESSION_WINDOW => Frame::SessionWindow(varint(bytes)?),
        STREAMS => Frame::Streams(varint(bytes)?),
        BLOCKED => Frame::Blocked { id: varint(bytes)?, limit: varint(bytes)? },
        DATA..=0x13 => {
            let (id, offset) = (varint(bytes)?, varint(bytes)?);
            let len = if kind & LENGTH == 0 { bytes.len() } else { varint(bytes)?.try_into().ok()? };
            let data = bytes.split_off(..len)?;
            if offset + data.len() as u64 > MAX_VARINT {
                return None;
            }
            Frame::Data { id, offset, bytes: data, fin: kind & FIN != 0 }
        }
        EXTENSION..=0x7f => {
            let len = varint(bytes)?.try_into().ok()?;
            bytes.split_off(..len)?;
            Frame::Extension
        }
        _ => return None,
    })
}

fn ack<'a>(bytes: &mut &'a [u8]) -> Option<Frame<'a>> {
    let (path, largest, delay, more) = (varint(bytes)?, varint(bytes)?, varint(bytes)?, varint(bytes)?);
    let all = *bytes;
    let mut end = largest + 1;
    // Each range consumes bytes, so the loop ends when there are none left.
    for n in 0..=more {
        let start = end.checked_sub(varint(bytes)? + 1)?;
        if n < more {
            end = start.checked_sub(varint(bytes)? + 1)?;
        }
    }
    Some(Frame::Ack(Ack { path, largest, delay, more, bytes: &all[..all.len() - bytes.len()] }))
}

/// Writes a packet into a buffer. The caller must have checked that there is room.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// Creates a writer that leaves `skip` bytes free at the front.
    pub(crate) fn new(buf: &'a mut [u8], skip: usize) -> Writer<'a> {
        Writer { buf, len: skip }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn room(&self) -> usize {
        self.buf.len() - self.len
    }

    fn byte(&mut self, byte: u8) {
        self.buf[self.len] = byte;
        self.len += 1;
    }

    fn varint(&mut self, n: u64) {
        let len = varint_len(n);
        let bytes = (n | u64::from(len.ilog2()) << (8 * len - 2)).to_be_bytes();
        self.buf[self.len..self.len + len].copy_from_slice(&bytes[8 - len..]);
        self.len += len;
    }

    fn reason(&mut self, reason: Reason) {
        reason.to_bytes().into_iter().for_each(|b| self.byte(b));
    }

    /// Writes a frame other than ACK and DATA, of at most [`MAX_CONTROL`] bytes.
    pub(crate) fn control(&mut self, frame: Frame<'_>) {
        match frame {
            Frame::Reset { id, reason, size } => {
                self.byte(RESET);
                self.varint(id);
                self.reason(reason);
                self.varint(size);
            }
            Frame::Stop { id, reason } => {
                self.byte(STOP);
                self.varint(id);
                self.reason(reason);
            }
            Frame::StreamWindow { id, limit } => {
                self.byte(STREAM_WINDOW);
                self.varint(id);
                self.varint(limit);
            }
            Frame::SessionWindow(limit) => {
                self.byte(SESSION_WINDOW);
                self.varint(limit);
            }
            Frame::Streams(limit) => {
                self.byte(STREAMS);
                self.varint(limit);
            }
            Frame::Blocked { id, limit } => {
                self.byte(BLOCKED);
                self.varint(id);
                self.varint(limit);
            }
            Frame::Ack(_) | Frame::Data { .. } | Frame::Extension => {}
        }
    }

    /// Writes the DSCP of the packet. The value 0 needs no frame.
    pub(crate) fn dscp(&mut self, dscp: u8) {
        if dscp > 0 {
            [DSCP, 1, dscp].into_iter().for_each(|byte| self.byte(byte));
        }
    }

    /// Writes as many of the highest ranges as fit, in descending order. Returns false if no range fits.
    pub(crate) fn ack(
        &mut self,
        path: u64,
        delay: u64,
        ranges: impl Iterator<Item = Range<u64>> + Clone,
    ) -> bool {
        let Some(largest) = ranges.clone().next().map(|range| range.end - 1) else { return false };
        let head = 1 + varint_len(path) + varint_len(largest) + varint_len(delay) + 1;
        let (mut room, mut count, mut below) = (self.room().saturating_sub(head), 0, None);
        for range in ranges.clone().take(MAX_NAMED as usize) {
            let gap = below.map_or(0, |below: u64| varint_len(below - range.end - 1));
            // With more than 64 ranges, their count takes a second byte.
            let len = gap + varint_len(range.end - range.start - 1) + usize::from(count == 64);
            if len > room {
                break;
            }
            (room, count, below) = (room - len, count + 1, Some(range.start));
        }
        if count == 0 {
            return false;
        }
        self.byte(ACK);
        [path, largest, delay, count - 1].into_iter().for_each(|n| self.varint(n));
        let mut below = None;
        for range in ranges.take(count as usize) {
            if let Some(below) = below {
                self.varint(below - range.end - 1);
            }
            self.varint(range.end - range.start - 1);
            below = Some(range.start);
        }
        true
    }

    /// Writes the header of a DATA frame, and returns the memory for its bytes. If not `delimited`, the frame
    /// must be the last in the packet.
    pub(crate) fn data(&mut self, id: u64, offset: u64, len: usize, fin: bool, delimited: bool) -> &mut [u8] {
        self.byte(DATA | if fin { FIN } else { 0 } | if delimited { LENGTH } else { 0 });
        self.varint(id);
        self.varint(offset);
        if delimited {
            self.varint(len as u64);
        }
        self.len += len;
        &mut self.buf[self.len - len..self.len]
    }

    /// Writes the header into the bytes that were left free at the front. If the header is shorter than these
    /// bytes, moves the frames forward. Returns the length of the packet.
    pub(crate) fn finish(self, skip: usize, header: Header) -> usize {
        let Writer { buf, len } = self;
        let mut head = Writer::new(buf, 0);
        let numbered = if header.number.is_some() { NUMBERED } else { 0 };
        head.byte(MARKER | numbered | if header.ack_now { ACK_NOW } else { 0 });
        if let Some((path, number)) = header.number {
            head.varint(path);
            head.varint(number);
        }
        let head_len = head.len;
        if head_len < skip {
            buf.copy_within(skip..len, head_len);
        }
        len - (skip - head_len)
    }
}

/// Returns the length of the header of a packet with this number.
pub(crate) fn header_len(path: u64, number: u64) -> usize {
    1 + varint_len(path) + varint_len(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn packet(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut buf = vec![0; 200];
        let skip = header_len(1, 300);
        let mut writer = Writer::new(&mut buf, skip);
        write(&mut writer);
        let len = writer.finish(skip, Header { number: Some((1, 300)), ack_now: true });
        buf.truncate(len);
        buf
    }

    fn frames(mut bytes: &[u8]) -> Vec<Frame<'_>> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            frames.push(frame(&mut bytes).expect("a frame"));
        }
        frames
    }

    #[test]
    fn control_frames_are_the_bytes_of_the_specification() {
        let all = [
            (
                Frame::Reset { id: 4, reason: Reason::Icmp4(3, 1), size: 1_000 },
                &[1, 4, 16, 3, 1, 0x43, 0xe8][..],
            ),
            (Frame::Stop { id: 5, reason: Reason::Refused }, &[2, 5, 2, 0, 0]),
            (Frame::StreamWindow { id: 4, limit: 0x1_0000 }, &[3, 4, 0x80, 1, 0, 0]),
            (Frame::SessionWindow(1 << 30), &[4, 0xc0, 0, 0, 0, 0x40, 0, 0, 0]),
            (Frame::Streams(128), &[5, 0x40, 128]),
            (Frame::Blocked { id: 7, limit: 64 }, &[6, 7, 0x40, 64]),
        ];
        for (control, bytes) in all {
            let packet = packet(|w| w.control(control));
            assert_eq!(packet[..4], [0x23, 1, 0x41, 0x2c]);
            assert_eq!(packet[4..], *bytes);
            assert_eq!(frames(&packet[4..]), [control]);
        }
    }

    #[test]
    fn data_with_and_without_a_length() {
        let packet = packet(|w| {
            w.data(2, 0, 3, false, true).copy_from_slice(b"abc");
            w.data(4, 70, 2, true, false).copy_from_slice(b"de");
        });
        assert_eq!(packet[4..], *b"\x12\x02\x00\x03abc\x11\x04\x40\x46de");
        let (read, bytes) = header(&packet).unwrap();
        assert_eq!(read, Header { number: Some((1, 300)), ack_now: true });
        assert_eq!(
            frames(bytes),
            [
                Frame::Data { id: 2, offset: 0, bytes: b"abc", fin: false },
                Frame::Data { id: 4, offset: 70, bytes: b"de", fin: true },
            ]
        );
    }

    #[test]
    fn an_acknowledgement_names_the_highest_ranges_that_fit() {
        let ranges = [5..8, 9..10, 20..31];
        let descending = || ranges.iter().rev().cloned();
        let whole = packet(|w| assert!(w.ack(3, 1_000, descending())));
        assert_eq!(whole[4..], [0, 3, 30, 0x43, 0xe8, 2, 10, 9, 0, 0, 2]);
        let Frame::Ack(ack) = frames(&whole[4..])[0] else { panic!() };
        assert!(ack.ranges().eq(descending()));
        let mut buf = [0; 10];
        let mut writer = Writer::new(&mut buf, 1);
        assert!(writer.ack(3, 1_000, descending()));
        let len = writer.finish(1, Header { number: None, ack_now: false });
        let Frame::Ack(ack) = frames(&buf[1..len])[0] else { panic!() };
        assert!(ack.ranges().eq(descending().take(2)));
    }

    #[test]
    fn acknowledgements_below_zero_and_unknown_frames_are_refused() {
        for bytes in [
            &[0, 1, 5, 0, 0, 6][..],
            &[0, 1, 5, 0, 1, 0, 5, 0],
            &[0, 1, 5, 0, 200, 0],
            &[0x10, 1],
            &[0x12, 1, 0, 4, 1, 2, 3],
            &[0x30],
            &[0x41, 3, 1, 2],
            &[0x80],
        ] {
            assert_eq!(frame(&mut &bytes[..]), None, "{bytes:?}");
        }
        assert_eq!(frame(&mut &[0x41, 2, 1, 2][..]), Some(Frame::Extension));
        assert_eq!(header(&[0x45, 0]), None);
        assert_eq!(header(&[0x24]), None, "a header with an unknown flag is invalid");
    }

    proptest! {
        #[test]
        fn any_bytes_are_frames_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut rest = &bytes[..];
            while let Some(frame) = frame(&mut rest) {
                if let Frame::Ack(ack) = frame {
                    prop_assert_eq!(ack.ranges().count() as u64, ack.more + 1);
                }
            }
        }

        #[test]
        fn numbers_survive(n in 0u64..=MAX_VARINT, bits in 0u32..62) {
            let n = n >> bits;
            let mut buf = [0; 8];
            let mut writer = Writer::new(&mut buf, 0);
            writer.varint(n);
            prop_assert_eq!(writer.len(), varint_len(n));
            prop_assert_eq!(varint(&mut &buf[..]), Some(n));
        }
    }
}
