//! What a channel receives: bytes put in order, and acknowledgements.

use super::frame::{Ack, Frame, MAX_STRETCHES};
use super::ranges::Ranges;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Frames acknowledged together at most, and how long the first of them waits; less if something is missing. Congestion control governs
/// acknowledgements as any datagram: more of them would queue up and come late.
const TOGETHER: u32 = 64;
const WAIT: Duration = Duration::from_millis(5);
const SHORT_WAIT: Duration = Duration::from_millis(1);
/// Pieces out of order that are kept; a sender of whole datagrams needs far fewer.
const MAX_PIECES: usize = 1 << 14;

#[derive(Debug)]
pub(super) struct Receiver {
    /// In order, not yet read.
    ready: VecDeque<u8>,
    /// Offset after `ready`.
    next: u64,
    /// Beyond `next`: stretches, and the pieces they are made of by offset; pieces may overlap.
    beyond: Ranges,
    pieces: BTreeMap<u64, Vec<u8>>,
    length: Option<u64>,
    most: usize,
    /// The room last told.
    told: u64,
    /// Frames to acknowledge, since when, and one at once.
    waiting: u32,
    since: Option<Instant>,
    at_once: bool,
    duplicates: u32,
}

impl Receiver {
    pub(super) fn new(most: usize) -> Receiver {
        Receiver {
            ready: VecDeque::new(),
            next: 0,
            beyond: Ranges::default(),
            pieces: BTreeMap::new(),
            length: None,
            most,
            told: most as u64,
            waiting: 0,
            since: None,
            at_once: false,
            duplicates: 0,
        }
    }

    fn room(&self) -> u64 {
        self.next + (self.most - self.ready.len().min(self.most)) as u64
    }

    /// Data arrived. What there is no room for, and what contradicts the end, is ignored.
    pub(super) fn on_data(&mut self, now: Instant, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        self.note(now);
        if end > self.room() || self.length.is_some_and(|length| end > length) {
            return;
        }
        if offset > self.next {
            self.at_once = true;
            if self.pieces.len() < MAX_PIECES && self.beyond.insert(offset..end) > 0 {
                let longer = |old: &Vec<u8>| old.len() >= bytes.len();
                if !self.pieces.get(&offset).is_some_and(longer) {
                    self.pieces.insert(offset, bytes.to_vec());
                }
            } else {
                self.duplicates = self.duplicates.wrapping_add(1);
            }
            return;
        }
        if end <= self.next {
            // Its acknowledgement was lost, or it was not.
            (self.at_once, self.duplicates) = (true, self.duplicates.wrapping_add(1));
            return;
        }
        self.append(offset, bytes);
        while let Some(piece) = self.pieces.first_entry().filter(|piece| *piece.key() <= self.next) {
            let (offset, bytes) = piece.remove_entry();
            self.append(offset, &bytes);
        }
        self.beyond.remove(0..self.next);
    }

    fn append(&mut self, offset: u64, bytes: &[u8]) {
        let known = usize::try_from(self.next - offset).unwrap_or(usize::MAX);
        if let Some(new) = bytes.get(known..) {
            self.ready.extend(new);
            self.next += new.len() as u64;
        }
    }

    /// The end was told.
    pub(super) fn on_end(&mut self, now: Instant, length: u64) {
        self.note(now);
        self.at_once = true;
        if length >= self.next && self.beyond.iter().all(|range| range.end <= length) {
            self.length.get_or_insert(length);
        }
    }

    fn note(&mut self, now: Instant) {
        self.waiting += 1;
        self.since.get_or_insert(now);
    }

    /// Takes out at most `most` bytes.
    pub(super) fn read(&mut self, now: Instant, most: usize) -> Vec<u8> {
        let taken = self.ready.drain(..most.min(self.ready.len())).collect();
        // The sender may be waiting for room.
        if self.room() - self.told >= self.most as u64 / 4 {
            self.repeat_ack(now);
        }
        taken
    }

    /// Bytes to read.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The first bytes to read.
    pub(super) fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        bytes.iter_mut().zip(0..).try_for_each(|(byte, i)| {
            *byte = *self.ready.get(i)?;
            Some(())
        })?;
        Some(bytes)
    }

    /// Everything was received, up to the end, if not read.
    pub(super) fn is_whole(&self) -> bool {
        self.length == Some(self.next)
    }

    /// When an acknowledgement is due.
    pub(super) fn ack_due(&self) -> Option<Instant> {
        let since = self.since?;
        Some(match (self.waiting >= TOGETHER, self.at_once) {
            (true, _) => since,
            (false, true) => since + SHORT_WAIT,
            (false, false) => since + WAIT,
        })
    }

    /// One is to be sent again although nothing arrived.
    pub(super) fn repeat_ack(&mut self, now: Instant) {
        self.note(now);
        self.at_once = true;
    }

    /// The acknowledgement to send now.
    pub(super) fn ack(&mut self) -> Vec<u8> {
        (self.waiting, self.since, self.at_once) = (0, None, false);
        self.told = self.room();
        let next = self.next + u64::from(self.is_whole());
        let beyond = self.beyond.iter().take(MAX_STRETCHES).collect();
        let (room, duplicates) = (self.told, self.duplicates);
        Frame::Ack(Ack { next, room, duplicates, beyond }).encode()
    }

    #[cfg(test)]
    pub(super) fn pieces(&self) -> usize {
        self.pieces.len() + self.beyond.len()
    }
}
