//! Models the receiving half of a connection: received data, delayed acknowledgements, SACK and DSACK blocks.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use mpdccp_units::Time;

use super::loss_detector::Rule;
use super::segment::{Ack, Data, milliseconds};
use super::timers::after;
use super::window::Window;

/// Longest delay of an acknowledgement that waits for a second segment, as in Linux.
const DELAY: Duration = Duration::from_millis(40);
/// Number of acknowledgements that leave immediately at the start, after a pause and after a duplicate. This
/// speeds up the sender's slow start (`TCP_MAX_QUICKACKS`).
const QUICK: u32 = 16;
/// Number of acknowledgements that leave immediately after a congestion mark, because the sender's window may
/// become very small.
const QUICK_AFTER_MARK: u32 = 2;
/// Pause, in addition to the round-trip time, after which the sender is assumed to have timed out.
const PAUSE: Duration = Duration::from_millis(200);
/// When data arrives out of order, the first `DUPLICATES` duplicate acknowledgements leave immediately. As in
/// Linux, further ones are delayed and combined, at most `MOST_GATHERED` of them, for `GATHER` or a twentieth
/// of the round-trip time, whichever is shorter. The timer fires up to `GATHER_SLACK` later.
const DUPLICATES: u32 = 3;
const MOST_GATHERED: u32 = 44;
const GATHER: Duration = Duration::from_millis(1);
const GATHER_SLACK: Duration = Duration::from_micros(100);
/// Number of SACK blocks that fit into a TCP header with timestamps (RFC 2018 section 3), and number of
/// blocks that Linux remembers (`TCP_NUM_SACKS`).
const MAX_BLOCKS: usize = 3;
const REMEMBERED: usize = 4;
/// Number of blocks that are sure to fit into a delayed acknowledgement (`TCP_SACK_BLOCKS_EXPECTED`).
const SURE_BLOCKS: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Receiver {
    flow: u16,
    /// End of the data that has arrived without a hole.
    next: u64,
    /// Ranges of data received after a hole, as the end of each range by its start. Adjacent ranges are
    /// merged.
    ahead: BTreeMap<u64, u64>,
    /// A position in each of the ranges that changed most recently, newest first.
    recent: VecDeque<u64>,
    /// Number of duplicate acknowledgements combined into the delayed one (`compressed_ack`).
    gathered: u32,
    /// Acknowledgements that left when the data that arrived next could not be added to them.
    early: VecDeque<Ack>,
    /// Duplicate data to be reported by DSACK in the next acknowledgement.
    duplicate: Option<(u64, u64)>,
    /// Number of segments not yet acknowledged that arrived in order, and when an acknowledgement is due.
    waiting: u32,
    due: Option<Time>,
    now_due: bool,
    /// TS.Recent and Last.ACK.sent of RFC 7323 section 4.3. `echo` is the number of the transmission that had
    /// this timestamp, and `recent_ms` is the timestamp.
    echo: u64,
    recent_ms: u32,
    last_ack: u64,
    /// Whether to protect against wrapped sequence numbers (RFC 7323 section 5). QUIC has no such protection.
    protects: bool,
    /// Number of further acknowledgements that leave immediately (`icsk_ack.quick`).
    quick: u32,
    last_data: Option<Time>,
    window: Window,
    /// End of the data that the application has read, or `None` if it reads all data immediately.
    read: Option<u64>,
    /// Right edge of the window in the last acknowledgement.
    allowed: u64,
    /// Whether a congestion mark has arrived but the sender has not confirmed it yet.
    ece: bool,
    /// Number of acknowledgements sent, and number of immediate duplicate acknowledgements since data last
    /// arrived in order.
    acks: u32,
    duplicates: u32,
}

impl Receiver {
    pub(crate) fn new(flow: u16, rule: Rule) -> Receiver {
        Receiver { flow, protects: rule == Rule::Rack, ..Receiver::default() }
    }

    /// Returns the end of the data that the application can read.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Makes the application read only when [`read`](Self::read) is called.
    pub(crate) fn wait_for_reads(&mut self) {
        self.read = Some(self.next);
    }

    /// Returns the number of bytes that the application can read now.
    pub(crate) fn readable(&self) -> u64 {
        self.next - self.read.unwrap_or(self.next)
    }

    /// Makes the application read `bytes`.
    pub(crate) fn read(&mut self, bytes: u64) {
        let Some(read) = &mut self.read else { return };
        *read += bytes;
        // Tell the sender immediately that the window has doubled, as `tcp_cleanup_rbuf` does.
        let open = self.allowed.saturating_sub(self.next);
        self.now_due |= bytes > 0 && self.free() >= (2 * open).max(1);
    }

    /// Gives the receive buffer a fixed size instead of autotuning (`SO_RCVBUF`).
    pub(crate) fn limit_buffer(&mut self, bytes: u32) {
        self.window.fix(bytes.into());
    }

    /// Returns the number of bytes that the sender may send beyond the cumulative acknowledgement. What was
    /// allowed once stays allowed.
    fn free(&self) -> u64 {
        let allowed = self.allowed.saturating_sub(self.next);
        self.window.size().saturating_sub(self.readable()).max(allowed)
    }

    pub(crate) fn on_data(&mut self, now: Time, data: &Data) {
        let (start, end) = (data.start, data.start + u64::from(data.len));
        // An age of 1 ms is tolerated (`TCP_PAWS_WINDOW`).
        if self.protects && data.sent_ms + 1 < self.recent_ms {
            return self.refuse(start, end);
        }
        // Echo only the timestamp of a segment at the left edge of the window, so that the measured
        // round-trip time includes delayed acknowledgements (RFC 7323 section 4.3).
        if start <= self.last_ack && end >= self.last_ack {
            self.echo = self.echo.max(data.no);
            self.recent_ms = self.recent_ms.max(data.sent_ms);
        }
        self.note_mark(data);
        if start <= self.next && end > self.next {
            self.note_pause(now);
        }
        let before = self.next;
        let hole = !self.ahead.is_empty();
        // Linux forgets a duplicate whose report is still delayed when the next segment arrives
        // (`tcp_data_queue`).
        self.duplicate = self.duplicate.filter(|_| self.now_due);
        let mut answered = false;
        if end <= self.next {
            self.duplicate = Some((start, end));
            self.quick = self.quick.max(QUICK);
        } else if start <= self.next {
            self.next = end;
            while let Some(first) = self.ahead.first_entry().filter(|e| *e.key() <= self.next) {
                self.next = self.next.max(first.remove());
            }
            self.recent.retain(|at| *at >= self.next);
        } else {
            if self.block_at(start).is_some_and(|(_, e)| end <= e) {
                self.duplicate = Some((start, end));
            }
            answered = self.flush(now, start, end);
            self.insert(start, end);
            self.renew(start);
        }
        if self.window.on_data(now, data.echo, self.read.unwrap_or(self.next)) {
            self.quick |= 1;
        }
        if self.next > before {
            self.waiting += 1;
            self.duplicates = 0;
        }
        if !answered {
            self.schedule(now, data, hole);
        }
    }

    /// Sends the delayed acknowledgement before data at `start..end` is added, unless the data belongs to one
    /// of the newest blocks. Otherwise a new block could displace one that was not reported yet. As in Linux,
    /// the data itself then causes no acknowledgement (`tcp_sack_new_ofo_skb`). Returns whether it was sent.
    fn flush(&mut self, now: Time, start: u64, end: u64) -> bool {
        let extended = self.blocks().take(SURE_BLOCKS).any(|(s, e)| start <= e && s <= end);
        let flushes = self.gathered > 0 && !extended && self.recent.len() >= SURE_BLOCKS;
        if flushes {
            let ack = self.acknowledge(now);
            self.early.push_back(ack);
        }
        flushes
    }

    /// Makes the range that contains `start` the most recent.
    fn renew(&mut self, start: u64) {
        if let Some((first, end)) = self.block_at(start) {
            self.recent.retain(|at| !(first..end).contains(at));
            self.recent.push_front(start);
            self.recent.truncate(REMEMBERED);
        }
    }

    /// Discards a segment that is older than one at the left edge of the window, and acknowledges immediately
    /// (RFC 7323 section 5). If a retransmission fills a hole, this discards segments sent before the
    /// retransmission that arrive after it, although they are needed.
    fn refuse(&mut self, start: u64, end: u64) {
        if start < self.next {
            self.duplicate = Some((start, end.min(self.next)));
            self.quick = self.quick.max(QUICK);
        }
        self.now_due = true;
    }

    /// Raises the number of acknowledgements that leave immediately if data in order arrives after a pause
    /// (`tcp_event_data_recv`).
    fn note_pause(&mut self, now: Time) {
        let pause = PAUSE + self.window.rtt().unwrap_or_default();
        if self.last_data.is_none_or(|at| now.since(at) > pause) {
            self.quick = self.quick.max(QUICK);
        }
        self.last_data = Some(now);
    }

    /// Notes whether data arrives with a congestion mark. If so, raises the number of acknowledgements that
    /// leave immediately (`tcp_ecn_check_ce`).
    fn note_mark(&mut self, data: &Data) {
        let confirmed = self.ece && !data.cwr;
        if data.marked() && !confirmed {
            self.quick = self.quick.max(QUICK_AFTER_MARK);
        }
        self.ece = confirmed || data.marked();
    }

    /// Decides when to acknowledge `data` (`__tcp_ack_snd_check`). `hole` says whether the received data had
    /// a hole just before `data` arrived.
    fn schedule(&mut self, now: Time, data: &Data, hole: bool) {
        let ahead = !self.ahead.is_empty();
        // Acknowledge immediately if more than one segment is unacknowledged, or if the data fills the last
        // hole (RFC 5681 section 4.2).
        let more = self.waiting >= 2 || self.next > self.last_ack + u64::from(data.len);
        let mut now_due = more || hole && !ahead || data.cwr || self.quick > 0;
        if !now_due && ahead {
            now_due = self.gathered >= MOST_GATHERED || self.duplicates < DUPLICATES;
            if now_due { self.duplicates += 1 } else { self.gathered += 1 }
        }
        self.now_due |= now_due;
        let gather = self.window.rtt().map_or(GATHER, |rtt| (rtt / 20).min(GATHER)) + GATHER_SLACK;
        let due = if ahead { now + gather } else { after(now, DELAY) };
        self.due = Some(self.due.map_or(due, |at| at.min(due)));
    }

    /// Returns when an acknowledgement is due.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        if self.now_due || !self.early.is_empty() { Some(Time::ZERO) } else { self.due }
    }

    /// Returns the acknowledgement that is due, if any.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Ack> {
        let due = self.now_due || self.due.is_some_and(|at| at <= now);
        self.early.pop_front().or_else(|| due.then(|| self.acknowledge(now)))
    }

    fn acknowledge(&mut self, now: Time) -> Ack {
        (self.due, self.now_due, self.waiting, self.gathered) = (None, false, 0, 0);
        self.acks = self.acks.wrapping_add(1);
        self.quick = self.quick.saturating_sub(1);
        self.last_ack = self.next;
        self.allowed = self.next + self.free();
        self.window.on_ack_sent(now, self.acks);
        let duplicate = self.duplicate.take();
        let blocks = duplicate.into_iter().chain(self.blocks()).take(MAX_BLOCKS).collect();
        Ack {
            flow: self.flow,
            upto: self.next,
            no: self.acks,
            echo: self.echo,
            window: self.free(),
            sent_ms: milliseconds(now),
            ece: self.ece,
            dsack: duplicate.is_some(),
            blocks,
        }
    }

    /// Returns the ranges that an acknowledgement may report, newest first.
    fn blocks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.recent.iter().filter_map(|at| self.block_at(*at))
    }

    /// Returns the received range that contains `at`.
    fn block_at(&self, at: u64) -> Option<(u64, u64)> {
        self.ahead.range(..=at).next_back().map(|(s, e)| (*s, *e)).filter(|(_, e)| *e > at)
    }

    fn insert(&mut self, mut start: u64, mut end: u64) {
        if let Some((s, e)) = self.ahead.range(..=start).next_back().map(|(s, e)| (*s, *e))
            && e >= start
        {
            (start, end) = (s, end.max(e));
        }
        while let Some((s, e)) = self.ahead.range(start..=end).next().map(|(s, e)| (*s, *e)) {
            self.ahead.remove(&s);
            end = end.max(e);
        }
        self.ahead.insert(start, end);
    }
}

#[cfg(test)]
mod tests;
