//! What a channel sends: bytes kept until they are acknowledged, and retransmitted if they get lost.

use super::frame::{Ack, DATA_HEADER, Frame};
use super::ranges::Ranges;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A frame that left so much before one that arrived is lost: a share of the round-trip time, more after every frame that was not lost
/// after all, as RFC 8985 has it for TCP.
const REORDERING: u32 = 8;
const MAX_REORDERING: u32 = 16;
/// Before there is a round-trip time.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
const MIN_TIMEOUT: Duration = Duration::from_millis(50);
const MAX_TIMEOUT: Duration = Duration::from_secs(8);

/// A frame that left.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    start: u64,
    end: u64,
    /// Not for the first time: what arrived may be an earlier copy.
    again: bool,
}

#[derive(Debug)]
pub(super) struct Sender {
    /// What is not acknowledged in one piece with the beginning; its first byte has this offset.
    buffer: VecDeque<u8>,
    base: u64,
    /// Never sent from here on.
    fresh: u64,
    /// Of all that was written, once no more will be.
    length: Option<u64>,
    /// Acknowledged beyond `base`.
    acked: Ranges,
    lost: Ranges,
    /// Under way, in the order in which they left.
    sent: VecDeque<Sent>,
    /// The receiver has room up to here.
    room: u64,
    rtt: Option<(Duration, Duration)>,
    /// Eighths of the round-trip time, more as frames prove late instead of lost.
    patience: u32,
    /// Timeouts in a row.
    timeouts: u32,
    heard: Option<Instant>,
    /// What came twice, as told last.
    duplicates: u32,
    most: usize,
    pub(super) resent: u64,
}

impl Sender {
    pub(super) fn new(most: usize) -> Sender {
        Sender {
            buffer: VecDeque::new(),
            base: 0,
            fresh: 0,
            length: None,
            acked: Ranges::default(),
            lost: Ranges::default(),
            sent: VecDeque::new(),
            room: most as u64,
            rtt: None,
            patience: 1,
            timeouts: 0,
            heard: None,
            duplicates: 0,
            most,
            resent: 0,
        }
    }

    fn written(&self) -> u64 {
        self.length.unwrap_or(self.base + self.buffer.len() as u64)
    }

    /// One past everything to acknowledge; the end counts as a byte.
    fn goal(&self) -> u64 {
        self.written() + u64::from(self.is_ended())
    }

    /// Takes in what there is room for.
    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.most - self.buffer.len().min(self.most));
        self.buffer.extend(&bytes[..taken]);
        taken
    }

    /// Takes all of it in if there is room for anything: none of it is ever left behind.
    pub(super) fn write_whole(&mut self, parts: &[&[u8]]) -> bool {
        let room = self.buffer.len() < self.most;
        if room {
            parts.iter().for_each(|part| self.buffer.extend(*part));
        }
        room
    }

    pub(super) fn end(&mut self) {
        self.length = Some(self.written());
    }

    pub(super) fn is_ended(&self) -> bool {
        self.length.is_some()
    }

    /// All is acknowledged, the end too.
    pub(super) fn is_done(&self) -> bool {
        self.is_ended() && self.base == self.goal()
    }

    /// All bytes are acknowledged; the end perhaps not.
    pub(super) fn has_arrived(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next frame to send, of at most `size` bytes; it counts as sent now.
    pub(super) fn next(&mut self, now: Instant, size: usize) -> Option<Vec<u8>> {
        let most = size.checked_sub(DATA_HEADER).filter(|most| *most > 0)? as u64;
        let written = self.written();
        let lost = self.lost.first();
        let (start, limit) = match &lost {
            Some(lost) => (lost.start, lost.end),
            None if self.fresh < written => {
                // Where there is no room and nothing under way, a byte asks for an acknowledgement, in case that of new room got lost.
                let least = if self.sent.is_empty() { self.fresh + 1 } else { 0 };
                (self.fresh, self.room.max(least))
            }
            None => (self.fresh, self.goal()),
        };
        let end = limit.min(start + most).min(if start < written { written } else { limit });
        if end <= start {
            return None;
        }
        self.lost.remove(start..end);
        self.fresh = self.fresh.max(end);
        self.resent += u64::from(lost.is_some());
        self.sent.push_back(Sent { at: now, start, end, again: lost.is_some() });
        if start >= written {
            return Some(Frame::End { length: written }.encode());
        }
        let from = usize::try_from(start - self.base).ok()?;
        let bytes: Vec<u8> = self.buffer.range(from..from + (end - start) as usize).copied().collect();
        Some(Frame::Data { offset: start, bytes: &bytes }.encode())
    }

    /// An acknowledgement arrived. False if it cannot be one.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack) -> bool {
        let goal = self.goal();
        if ack.next > goal || ack.beyond.iter().any(|range| range.end > goal) {
            return false;
        }
        self.room = self.room.max(ack.room);
        if ack.duplicates != self.duplicates {
            self.duplicates = ack.duplicates;
            self.patience = (self.patience + 1).min(MAX_REORDERING);
        }
        let mut new = ack.next.saturating_sub(self.base);
        for range in &ack.beyond {
            new += self.acked.insert(range.start.max(ack.next)..range.end.max(ack.next));
            self.lost.remove(range.clone());
        }
        self.advance(ack.next.max(self.base));
        if new > 0 {
            (self.timeouts, self.heard) = (0, Some(now));
        }
        // Of what lies beyond, an acknowledgement has room for the lowest stretches only.
        self.detect(now, ack.beyond.last().map_or(self.base, |range| range.end));
        true
    }

    fn advance(&mut self, to: u64) {
        self.lost.remove(0..to);
        let bytes = to.min(self.written()) - self.base.min(self.written());
        self.buffer.drain(..bytes as usize);
        self.base = to;
        self.acked.remove(0..to);
        self.fresh = self.fresh.max(to);
    }

    /// Settles what arrived, and finds what was overtaken by too much, up to where the acknowledgement tells all.
    fn detect(&mut self, now: Instant, told: u64) {
        let rtt = self.rtt.map(|(rtt, _)| rtt);
        let mut newest = None;
        let mut settle = |sent: &Sent| {
            let age = now.saturating_duration_since(sent.at);
            if !sent.again || rtt.is_some_and(|rtt| age >= rtt) {
                newest = newest.max(Some(sent.at));
            }
        };
        if self.acked.is_empty() {
            while let Some(sent) = self.sent.pop_front_if(|sent| sent.end <= self.base) {
                settle(&sent);
            }
        } else {
            let (base, acked) = (self.base, &self.acked);
            self.sent.retain(|sent| {
                let arrived = sent.end <= base || acked.contains(&(sent.start.max(base)..sent.end));
                if arrived {
                    settle(sent);
                }
                !arrived
            });
        }
        let Some(newest) = newest else { return };
        self.measure(now.saturating_duration_since(newest));
        let late = self.rtt.map_or(MIN_TIMEOUT, |(rtt, _)| rtt * self.patience / REORDERING);
        if !self.acked.is_empty() {
            self.lose(|sent| sent.end <= told && newest.saturating_duration_since(sent.at) > late);
        }
    }

    fn lose(&mut self, mut is_lost: impl FnMut(&Sent) -> bool) {
        let (base, acked, lost) = (self.base, &self.acked, &mut self.lost);
        self.sent.retain(|sent| {
            let gone = is_lost(sent);
            if gone {
                let missing = sent.start.max(base)..sent.end.max(base);
                lost.insert(missing.clone());
                acked.overlapping(missing).for_each(|range| lost.remove(range));
            }
            !gone
        });
    }

    fn measure(&mut self, sample: Duration) {
        self.rtt = Some(match self.rtt {
            None => (sample, sample / 2),
            Some((rtt, var)) => ((rtt * 7 + sample) / 8, (var * 3 + rtt.abs_diff(sample)) / 4),
        });
    }

    /// When to call [`on_timeout`](Self::on_timeout).
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let since = self.sent.front()?.at.max(self.heard.unwrap_or(self.sent.front()?.at));
        let timeout = self.rtt.map_or(FIRST_TIMEOUT, |(rtt, var)| rtt + var * 4);
        Some(since + (timeout.max(MIN_TIMEOUT) * 2u32.pow(self.timeouts.min(6))).min(MAX_TIMEOUT))
    }

    /// Nothing came back for long: what is under way goes again.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.next_timeout().is_some_and(|at| at <= now) {
            self.timeouts += 1;
            self.lose(|_| true);
        }
    }
}
