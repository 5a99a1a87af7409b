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
/// Linux, further ones are delayed and combined, for `GATHER` or a twentieth of the round-trip time,
/// whichever is shorter.
const DUPLICATES: u32 = 3;
const GATHER: Duration = Duration::from_millis(1);
/// Number of SACK blocks that fit into a TCP header with timestamps (RFC 2018 section 3).
const MAX_BLOCKS: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct Receiver {
    flow: u16,
    /// End of the data that has arrived without a hole.
    next: u64,
    /// Ranges of data received after a hole, as the end of each range by its start. Adjacent ranges are
    /// merged.
    ahead: BTreeMap<u64, u64>,
    /// Positions of recent arrivals, newest first.
    recent: VecDeque<u64>,
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
        self.now_due |= bytes > 0 && self.free() >= 2 * self.allowed.saturating_sub(self.next);
    }

    /// Returns the number of bytes that the sender may send beyond the cumulative acknowledgement.
    fn free(&self) -> u64 {
        self.window.size().saturating_sub(self.readable())
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
        if end <= self.next {
            self.duplicate = Some((start, end));
            self.quick = self.quick.max(QUICK);
        } else if self.block_at(start).is_some_and(|(_, e)| end <= e) {
            self.duplicate = Some((start, end));
        } else if start <= self.next {
            self.next = end;
            while let Some(first) = self.ahead.first_entry().filter(|e| *e.key() <= self.next) {
                self.next = self.next.max(first.remove());
            }
        } else {
            self.insert(start, end);
            self.recent.retain(|at| *at != start);
            self.recent.push_front(start);
            self.recent.truncate(4 * MAX_BLOCKS);
        }
        if self.window.on_data(now, data.echo, self.read.unwrap_or(self.next)) {
            self.quick |= 1;
        }
        if self.next > before {
            self.waiting += 1;
            self.duplicates = 0;
        }
        self.schedule(now, data, hole);
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
        if !now_due && ahead && self.duplicates < DUPLICATES {
            self.duplicates += 1;
            now_due = true;
        }
        self.now_due |= now_due;
        let gather = self.window.rtt().map_or(GATHER, |rtt| (rtt / 20).min(GATHER));
        let due = if ahead { now + gather } else { after(now, DELAY) };
        self.due = Some(self.due.map_or(due, |at| at.min(due)));
    }

    /// Returns when an acknowledgement is due.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        if self.now_due { Some(Time::ZERO) } else { self.due }
    }

    /// Returns the acknowledgement that is due, if any.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Ack> {
        if self.next_timeout().is_none_or(|t| t > now) {
            return None;
        }
        (self.due, self.now_due, self.waiting) = (None, false, 0);
        self.acks = self.acks.wrapping_add(1);
        self.quick = self.quick.saturating_sub(1);
        self.last_ack = self.next;
        self.allowed = self.next + self.free();
        self.window.on_ack_sent(now, self.acks);
        let duplicate = self.duplicate.take();
        let mut blocks: Vec<(u64, u64)> = duplicate.into_iter().collect();
        self.recent.retain(|at| *at >= self.next);
        for at in &self.recent {
            if let Some(block) = self.block_at(*at)
                && !blocks.contains(&block)
                && blocks.len() < MAX_BLOCKS
            {
                blocks.push(block);
            }
        }
        Some(Ack {
            flow: self.flow,
            upto: self.next,
            no: self.acks,
            echo: self.echo,
            window: self.free(),
            sent_ms: milliseconds(now),
            ece: self.ece,
            dsack: duplicate.is_some(),
            blocks,
        })
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
mod tests {
    use super::*;

    fn data(n: u64) -> Data {
        Data { flow: 0, start: n * 1000, len: 1000, no: n, echo: 0, sent_ms: 0, ecn: 0, cwr: false }
    }

    /// Returns a receiver that has already received the initial segments, which it acknowledges immediately.
    fn receiver() -> Receiver {
        let mut r = Receiver::new(0, Rule::Rack);
        for n in 0..u64::from(QUICK) {
            r.on_data(Time::ZERO, &data(n));
            assert_eq!(r.poll(Time::ZERO).map(|a| a.upto), Some((n + 1) * 1000));
        }
        r
    }

    #[test]
    fn one_of_two_or_after_40_ms() {
        let mut r = receiver();
        r.on_data(Time::ZERO, &data(16));
        assert_eq!(r.poll(Time::from_millis(39)), None);
        assert_eq!(r.next_timeout(), Some(Time::from_millis(40)));
        assert_eq!(r.poll(Time::from_millis(40)).map(|a| a.upto), Some(17_000));
        r.on_data(Time::ZERO, &data(17));
        r.on_data(Time::ZERO, &data(18));
        assert_eq!(r.poll(Time::ZERO).map(|a| a.upto), Some(19_000));
        assert_eq!(r.poll(Time::MAX), None);
    }

    #[test]
    fn data_sent_before_a_retransmission_that_filled_a_hole_is_discarded() {
        for (rule, end) in [(Rule::Rack, 18_000), (Rule::Three, 19_000)] {
            let at = |n, sent_ms| Data { sent_ms, ..data(n) };
            let mut r = Receiver::new(0, rule);
            for (n, sent_ms) in [(1, 10), (0, 50)] {
                r.on_data(Time::ZERO, &at(n, sent_ms));
                r.poll(Time::ZERO);
            }
            for n in 2..18 {
                r.on_data(Time::ZERO, &at(n, 50));
                r.poll(Time::ZERO);
            }
            // A duplicate below the left edge of the window is no measure of age.
            r.on_data(Time::ZERO, &at(3, 90));
            r.poll(Time::ZERO);
            r.on_data(Time::ZERO, &at(18, 48));
            assert_eq!(r.poll(Time::ZERO).map(|a| a.upto), Some(end), "{rule:?}");
            r.on_data(Time::ZERO, &at(18, 49));
            assert_eq!(r.next(), 19_000, "an age of 1 ms is tolerated");
        }
    }

    #[test]
    fn only_data_in_order_ends_a_pause() {
        let mut r = receiver();
        let ms = Time::from_millis;
        r.on_data(ms(300), &data(20));
        r.poll(ms(300));
        assert_eq!(r.quick, 0);
        r.on_data(ms(301), &data(16));
        assert_eq!(r.quick, QUICK);
    }

    #[test]
    fn blocks_are_joined_and_the_newest_comes_first() {
        let mut r = receiver();
        let blocks = |r: &mut Receiver, n| {
            r.on_data(Time::ZERO, &data(n));
            r.poll(Time::from_millis(1)).map(|a| (a.upto / 1000, a.blocks)).unwrap()
        };
        assert_eq!(blocks(&mut r, 20), (16, vec![(20_000, 21_000)]));
        assert_eq!(blocks(&mut r, 18), (16, vec![(18_000, 19_000), (20_000, 21_000)]));
        assert_eq!(blocks(&mut r, 19), (16, vec![(18_000, 21_000)]));
        assert_eq!(blocks(&mut r, 30), (16, vec![(30_000, 31_000), (18_000, 21_000)]));
        assert_eq!(blocks(&mut r, 16), (17, vec![(30_000, 31_000), (18_000, 21_000)]));
        assert_eq!(blocks(&mut r, 17), (21, vec![(30_000, 31_000)]));
    }

    #[test]
    fn beyond_three_duplicates_they_are_gathered_for_a_millisecond() {
        let mut r = receiver();
        let ms = Time::from_millis;
        for n in 20..23 {
            r.on_data(ms(0), &data(n));
            assert!(r.poll(ms(0)).is_some(), "{n}");
        }
        r.on_data(ms(10), &data(23));
        r.on_data(ms(10), &data(24));
        assert_eq!((r.poll(ms(10)), r.next_timeout()), (None, Some(ms(11))));
        assert_eq!(r.poll(ms(11)).unwrap().blocks, [(20_000, 25_000)]);
        // A filled hole is acknowledged immediately, and the count of duplicates restarts.
        r.on_data(ms(12), &data(16));
        assert_eq!(r.poll(ms(12)).unwrap().upto, 17_000);
        r.on_data(ms(12), &data(25));
        assert!(r.poll(ms(12)).is_some());
    }

    #[test]
    fn an_application_that_does_not_read_closes_the_window_and_opens_it_by_reading() {
        let mut r = receiver();
        r.wait_for_reads();
        let size = r.window.size();
        let acknowledge = |r: &mut Receiver, n| {
            r.on_data(Time::ZERO, &data(n));
            r.poll(Time::from_millis(40)).unwrap().window
        };
        let full = 16 + size / 1_000;
        let last = (16..full).map(|n| acknowledge(&mut r, n)).last();
        assert_eq!((last, r.readable()), (Some(size % 1_000), full * 1_000 - 16_000));
        r.read(100);
        assert_eq!(r.poll(Time::from_millis(80)), None, "the window has not doubled");
        r.read(10_000);
        assert_eq!(r.poll(Time::from_millis(80)).unwrap().window, size % 1_000 + 10_100);
    }

    #[test]
    fn a_duplicate_is_reported_once_and_first() {
        let mut r = receiver();
        r.on_data(Time::ZERO, &data(20));
        r.poll(Time::ZERO);
        for n in [3, 20] {
            r.on_data(Time::ZERO, &data(n));
            let ack = r.poll(Time::ZERO).unwrap();
            assert!(ack.dsack);
            assert_eq!(ack.blocks[0], (n * 1000, (n + 1) * 1000));
        }
        r.on_data(Time::ZERO, &data(21));
        assert!(!r.poll(Time::from_millis(1)).unwrap().dsack);
    }

    /// Returns how many single segments from `n` on are acknowledged immediately, if one arrives per
    /// millisecond from `begin` on.
    fn quick(r: &mut Receiver, n: u64, begin: u64) -> usize {
        let arrives = |i: &u64| {
            let now = Time::from_millis(begin + i);
            r.on_data(now, &data(n + i));
            r.poll(now).is_some()
        };
        (0..100).take_while(arrives).count()
    }

    #[test]
    fn each_segment_is_acknowledged_after_a_pause_and_after_a_duplicate() {
        let mut r = receiver();
        assert_eq!(quick(&mut r, 16, 199), 0);
        assert_eq!(quick(&mut r, 17, 400), 16);
        r.on_data(Time::from_millis(420), &data(0));
        assert!(r.poll(Time::from_millis(420)).unwrap().dsack);
        assert_eq!(quick(&mut r, 34, 421), 15);
    }

    #[test]
    fn each_segment_is_acknowledged_while_the_window_grows() {
        let mut r = receiver();
        let (size, ms) = (r.window.size(), Time::from_millis);
        // The application reads 30 segments in a round-trip time, so the window may grow from 45 to 76
        // segments or more. Each segment makes room for two.
        r.window.on_ack_sent(ms(0), 100);
        r.window.on_data(ms(50), 100, 0);
        r.window.on_ack_sent(ms(50), 101);
        r.window.on_data(ms(100), 101, 30_000);
        let growing = quick(&mut r, 16, 100);
        assert!(growing > 10, "{growing}");
        assert!(r.window.size() > size + 2_000 * (growing as u64 - 2), "{}", r.window.size());
    }

    #[test]
    fn a_mark_and_its_confirmation_are_acknowledged_immediately() {
        let mut r = receiver();
        let mut arrives = |n, ecn, cwr| {
            r.on_data(Time::ZERO, &Data { ecn, cwr, ..data(n) });
            r.poll(Time::ZERO).is_some()
        };
        assert!(!arrives(16, 0, false) && arrives(17, 0, false) && !arrives(18, 0, false));
        assert!(arrives(19, 3, false) && arrives(20, 3, false), "two acknowledgements after the first mark");
        assert!(!arrives(21, 3, false) && arrives(22, 0, true));
    }
}
