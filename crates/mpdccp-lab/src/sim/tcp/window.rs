//! Models the receive window and its autotuning, as in Linux. With autotuning, the window never shrinks, and
//! its limit is at least twice the most data that the application has read in a round-trip time.

use core::time::Duration;
use std::collections::VecDeque;

use mpdccp_units::Time;

use super::segment::MSS;

/// Initial window in bytes, which is half of the default receive buffer (`tcp_rmem`).
const INITIAL: u64 = 65_535;
/// Maximum window in bytes: half of the largest receive buffer, 6 MB (`tcp_rmem`). The other half is for
/// overhead (`tcp_adv_win_scale`).
const MOST: u64 = 3 << 20;
/// Number of acknowledgements whose send times are kept because they may still be echoed.
const REMEMBERED: usize = 4096;

#[derive(Debug)]
pub(super) struct Window {
    size: u64,
    /// Size up to which arriving data enlarges the window (`window_clamp`).
    limit: u64,
    /// Whether the application has fixed the size of the buffer.
    fixed: bool,
    /// Most bytes that the application has read in a round-trip time so far.
    best: u64,
    /// Start of the current round, and the number of bytes read by that time.
    round: (Time, u64),
    rtt: Option<Duration>,
    sent: VecDeque<(u32, Time)>,
    /// Latest echoed timestamp, ms.
    echoed_ms: Option<u64>,
}

impl Default for Window {
    fn default() -> Window {
        // The first ten segments, the sender's initial window, must not make the receive window grow.
        let best = 10 * MSS;
        Window {
            size: INITIAL,
            limit: INITIAL,
            fixed: false,
            best,
            round: (Time::ZERO, 0),
            rtt: None,
            sent: VecDeque::new(),
            echoed_ms: None,
        }
    }
}

impl Window {
    /// Returns the number of bytes that the sender may send beyond the cumulative acknowledgement.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Fixes the limit, which turns off autotuning.
    pub(super) fn fix(&mut self, limit: u64) {
        (self.fixed, self.limit, self.size) = (true, limit, self.size.min(limit));
    }

    /// Returns the receiver's round-trip time.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Handles the sending of acknowledgement `no`.
    pub(super) fn on_ack_sent(&mut self, now: Time, no: u32) {
        self.sent.push_back((no, now));
        if self.sent.len() > REMEMBERED {
            self.sent.pop_front();
        }
    }

    /// Handles a segment that echoes acknowledgement `echo`. All data before `read` has been read. Returns
    /// whether the window has grown.
    pub(super) fn on_data(&mut self, now: Time, echo: u32, read: u64) -> bool {
        // Each segment makes room for two segments (`tcp_grow_window`). The limit changes when the
        // application reads this segment, so a raised limit applies from the next segment on.
        let grown = (self.size + 2 * MSS).min(self.limit);
        let grows = grown > self.size;
        self.size = grown;
        self.tune(now, echo, read);
        grows
    }

    /// Measures the round-trip time with timestamps in milliseconds, one sample of at least 1 ms for each
    /// timestamp. The estimate is smoothed when it rises, but falls at once (`tcp_rcv_rtt_update`).
    fn measure(&mut self, now: Time, echoed: Time) {
        let [now_ms, echoed_ms] = [now, echoed].map(|time| time.as_nanos() / 1_000_000);
        if self.echoed_ms.replace(echoed_ms) == Some(echoed_ms) {
            return;
        }
        let sample = Duration::from_millis(now_ms.saturating_sub(echoed_ms).max(1));
        self.rtt = Some(self.rtt.map_or(sample, |rtt| sample.min((rtt * 7 + sample) / 8)));
    }

    /// Adapts the limit to the data that the application reads (`tcp_rcv_space_adjust`).
    fn tune(&mut self, now: Time, echo: u32, read: u64) {
        while let Some((no, at)) = self.sent.front().copied().filter(|(no, _)| *no <= echo) {
            self.sent.pop_front();
            if no == echo {
                self.measure(now, at);
            }
        }
        let Some(rtt) = self.rtt else { return };
        if now.since(self.round.0) < rtt {
            return;
        }
        let copied = read - self.round.1;
        if copied > self.best && !self.fixed {
            let twice = 2 * copied + 16 * MSS;
            // Add room in advance, because the sender may double its rate before it learns of the new window.
            let ahead = twice * (copied - self.best) / self.best;
            self.limit = self.limit.max((twice + 2 * ahead).min(MOST));
            self.best = copied;
        }
        self.round = (now, read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_limit_grows_with_what_is_read_in_a_round_trip_and_stays() {
        let mut w = Window::default();
        let ms = Time::from_millis;
        let mut read = 0;
        for (i, segments) in [10, 20, 40, 80, 20].into_iter().enumerate() {
            let begun = 100 * i as u64;
            w.on_ack_sent(ms(begun), i as u32 + 1);
            read += segments * MSS;
            w.on_data(ms(begun + 100), i as u32 + 1, read);
            assert!(w.limit >= 2 * segments * MSS || segments == 80, "{segments}: {}", w.limit);
        }
        // The data per round doubles from 40 to 80 segments. The base window is 2 * 80 + 16 = 176 segments.
        // Because the data has doubled, twice the base window is added.
        assert_eq!(w.limit, 3 * 176 * MSS);
        assert_eq!(w.rtt(), Some(Duration::from_millis(100)));
    }

    #[test]
    fn the_round_trip_time_rises_slowly_falls_at_once_and_counts_each_timestamp_once() {
        let mut w = Window::default();
        let ms = Time::from_millis;
        let mut measure = |echo, sent, now| {
            w.on_ack_sent(ms(sent), echo);
            w.on_data(ms(now), echo, 0);
            w.rtt().map(|rtt| rtt.as_micros())
        };
        assert_eq!(measure(1, 0, 100), Some(100_000));
        assert_eq!(measure(2, 0, 60), Some(100_000));
        assert_eq!(measure(3, 200, 240), Some(40_000));
        assert_eq!(measure(4, 300, 380), Some(45_000));
        assert_eq!(measure(5, 400, 400), Some(1_000));
    }

    #[test]
    fn each_segment_enlarges_the_window_by_two_up_to_the_limit() {
        let mut w = Window::default();
        assert!(!w.on_data(Time::ZERO, 0, 0), "the first window is at its limit");
        w.limit = INITIAL + 3 * MSS;
        let grown = [(); 3].map(|()| (w.on_data(Time::ZERO, 0, 0), (w.size() - INITIAL) / MSS));
        assert_eq!(grown, [(true, 2), (true, 3), (false, 3)]);
    }

    #[test]
    fn a_fixed_buffer_is_not_tuned() {
        let mut w = Window::default();
        w.fix(1 << 16);
        w.on_ack_sent(Time::ZERO, 1);
        w.on_data(Time::from_millis(10), 1, 100 << 20);
        assert_eq!(w.limit, 1 << 16);
        w.fix(10_000);
        assert_eq!(w.size(), 10_000);
    }

    #[test]
    fn never_beyond_half_of_a_buffer_of_6_mb() {
        let mut w = Window::default();
        w.on_ack_sent(Time::ZERO, 1);
        w.on_data(Time::from_millis(10), 1, 100 << 20);
        assert_eq!(2 * w.limit, 6 << 20);
    }
}
