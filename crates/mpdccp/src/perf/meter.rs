//! Counts the messages that a receiver gets.

use crate::perf::message::{self, ClockId, NUMBERS};
use hdrhistogram::Histogram;
use mpdccp_units::{Duration, Time};
use serde::{Deserialize, Serialize};

/// Counts over a time span.
pub(crate) struct Span {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// One-way latency in microseconds.
    latency: Option<Histogram<u64>>,
    /// Transit times of the forward and the reverse direction, taken from echoes with an arrival time.
    forward: Transits,
    reverse: Transits,
}

/// Transit times of one direction. Each transit time includes the offset between the two clocks. The offset
/// cancels out when the smallest transit time is subtracted.
#[derive(Clone, Copy, Default)]
struct Transits {
    count: u64,
    /// Sum of the differences from the first transit time, in nanoseconds.
    sum: i128,
    first: i64,
    least: i64,
    most: i64,
}

impl Transits {
    fn add(&mut self, transit: i64) {
        if self.count == 0 {
            (self.first, self.least, self.most) = (transit, transit, transit);
        }
        self.count += 1;
        self.sum += i128::from(transit) - i128::from(self.first);
        (self.least, self.most) = (self.least.min(transit), self.most.max(transit));
    }

    fn above_least(&self) -> Option<AboveLeast> {
        let ms = |ns: f64| ns / 1e6;
        let to_first = self.first.abs_diff(self.least) as f64;
        (self.count > 0).then(|| AboveLeast {
            mean: ms(self.sum as f64 / self.count as f64 + to_first),
            max: ms(self.most.abs_diff(self.least) as f64),
        })
    }
}

impl Default for Span {
    fn default() -> Span {
        // Store the latency with three significant digits, from a microsecond to a minute.
        let latency = Histogram::new_with_bounds(1, 60_000_000, 3).ok();
        Span { messages: 0, bytes: 0, latency, forward: Transits::default(), reverse: Transits::default() }
    }
}

impl Span {
    fn add(&mut self, bytes: usize, latency: Option<Duration>) {
        self.messages += 1;
        self.bytes += bytes as u64;
        if let (Some(histogram), Some(latency)) = (&mut self.latency, latency) {
            histogram.saturating_record(latency.as_micros() as u64);
        }
    }

    /// Returns latency percentiles, or `None` if no latency was measured, for example because the two ends
    /// have no common clock.
    pub(crate) fn latency(&self) -> Option<Latency> {
        let ms = |us: u64| us as f64 / 1e3;
        let histogram = self.latency.as_ref().filter(|h| !h.is_empty())?;
        Some(Latency {
            p50: ms(histogram.value_at_quantile(0.5)),
            p99: ms(histogram.value_at_quantile(0.99)),
            max: ms(histogram.max()),
        })
    }

    /// Returns the one-way latency, estimated from echoes.
    pub(crate) fn one_way(&self) -> OneWay {
        let half = |all: Latency| Latency { p50: all.p50 / 2.0, p99: all.p99 / 2.0, max: all.max / 2.0 };
        OneWay {
            estimate: self.latency().map(half),
            forward: self.forward.above_least(),
            reverse: self.reverse.above_least(),
        }
    }
}

/// One-way latency in ms between machines whose clocks differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OneWay {
    /// Estimate: half the round trip.
    pub(crate) estimate: Option<Latency>,
    /// Excess over the smallest transit time in the forward direction.
    pub(crate) forward: Option<AboveLeast>,
    /// Excess over the smallest transit time in the reverse direction.
    pub(crate) reverse: Option<AboveLeast>,
}

/// How far the latency exceeds its smallest value, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AboveLeast {
    pub(crate) mean: f64,
    pub(crate) max: f64,
}

/// Latency in ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

/// Counts received messages by their numbers.
#[derive(Default)]
pub(crate) struct Meter {
    clock: ClockId,
    /// Whether the messages are echoes.
    pub(crate) echo: bool,
    pub(crate) total: Span,
    /// Counts since the last call of [`Meter::lap`].
    pub(crate) span: Span,
    /// Time after the first message during which messages count only in the reports of intervals.
    pub(crate) omit: Duration,
    /// When the first message arrived.
    pub(crate) began: Option<Time>,
    /// Smallest message number that is counted.
    base: u64,
    /// Largest message number so far, plus one.
    next: u64,
    /// Transit time of the newest message in nanoseconds, including the clock offset.
    transit: Option<i64>,
    /// Smoothed variation of the transit time in nanoseconds (RFC 3550 section 6.4.1).
    jitter: f64,
    /// Number of messages that arrived after a message with a larger number (RFC 4737 section 3.3).
    pub(crate) reordered: u64,
    /// Number of messages that are too short to hold a message number.
    pub(crate) malformed: u64,
    pub(crate) first: Option<Time>,
    pub(crate) last: Option<Time>,
    /// Length of the first message in bytes.
    pub(crate) first_len: u64,
}

impl Meter {
    pub(crate) fn new(clock: ClockId) -> Meter {
        Meter { clock, ..Meter::default() }
    }

    /// Counts a received message.
    pub(crate) fn on_message(&mut self, now: Time, bytes: &[u8]) {
        let Some((number, stamp)) = message::read(bytes) else {
            self.malformed += 1;
            return;
        };
        let number = nearest(number, self.next);
        let latency = stamp.and_then(|stamp| stamp.age(self.clock, now));
        let began = *self.began.get_or_insert(now);
        if now.since(began) < self.omit {
            self.next = self.next.max(number + 1);
            self.base = self.next;
            // Only the results exclude this message, not the report of the interval.
            self.span.add(bytes.len(), latency);
            return;
        }
        if number < self.base {
            return;
        }
        if number < self.next {
            self.reordered += 1;
        }
        self.next = self.next.max(number + 1);
        if let Some(transit) = stamp.map(|stamp| stamp.transit(now)) {
            let change = self.transit.replace(transit).map_or(0, |before| transit.wrapping_sub(before));
            self.jitter += (change.unsigned_abs() as f64 - self.jitter) / 16.0;
        }
        for span in [&mut self.total, &mut self.span] {
            span.add(bytes.len(), latency);
            if let (true, Some(stamp), Some(arrival)) = (self.echo, stamp, message::arrival(bytes)) {
                span.forward.add(stamp.transit(arrival));
                span.reverse.add(now.as_nanos().wrapping_sub(arrival.as_nanos()) as i64);
            }
        }
        if self.first.is_none() {
            (self.first, self.first_len) = (Some(now), bytes.len() as u64);
        }
        self.last = Some(now);
    }

    /// Returns the transit time variation in ms. It requires no common clock.
    pub(crate) fn jitter_ms(&self) -> Option<f64> {
        self.transit.map(|_| self.jitter / 1e6)
    }

    /// Returns the number of missing messages.
    pub(crate) fn lost(&self) -> u64 {
        (self.next - self.base).saturating_sub(self.total.messages)
    }

    /// Returns the counts of this span and starts the next one.
    pub(crate) fn lap(&mut self) -> Span {
        std::mem::take(&mut self.span)
    }
}

/// Returns how many messages were sent before a message with this number, given that the numbers start again
/// after [`NUMBERS`] messages and that about `next` messages have been sent.
fn nearest(number: u32, next: u64) -> u64 {
    let ahead = (u64::from(number) + NUMBERS - next % NUMBERS) % NUMBERS;
    let later = next + ahead;
    if ahead < NUMBERS / 2 { later } else { later.checked_sub(NUMBERS).unwrap_or(later) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_count_although_their_numbers_start_again() {
        let clock = ClockId::here();
        let mut meter = Meter::new(clock);
        (meter.base, meter.next) = (NUMBERS - 2, NUMBERS - 2);
        // Message `NUMBERS + 1`, which has the number 1, is missing.
        for number in [u32::MAX - 2, 0, u32::MAX - 1, 2] {
            meter.on_message(Time::ZERO, &message::write(number, 100, clock, Time::ZERO));
        }
        assert_eq!((meter.total.messages, meter.lost(), meter.reordered), (4, 1, 1));
        assert_eq!(meter.next, NUMBERS + 3);
    }

    #[test]
    fn counts_losses_and_late_comers() {
        let clock = ClockId::here();
        let mut meter = Meter::new(clock);
        for (at, number) in [(1, 0), (2, 1), (3, 4), (4, 2)] {
            let message = message::write(number, 100, clock, Time::ZERO);
            meter.on_message(Time::from_millis(at), &message);
        }
        meter.on_message(Time::from_millis(5), &[1]);
        assert_eq!((meter.total.messages, meter.total.bytes), (4, 400));
        assert_eq!((meter.lost(), meter.reordered, meter.malformed), (1, 1, 1));
        assert_eq!(meter.first, Some(Time::from_millis(1)));
        assert_eq!(meter.last, Some(Time::from_millis(4)));
        assert_eq!(meter.lap().messages, 4);
        assert_eq!(meter.lap().messages, 0);
        assert_eq!(meter.total.messages, 4);
    }

    #[test]
    fn leaves_out_the_beginning() {
        let clock = ClockId::here();
        let mut meter = Meter::new(clock);
        meter.omit = Duration::from_millis(10);
        for (at, number) in [(100, 0), (105, 3), (109, 4), (110, 6), (111, 5), (112, 2), (113, 8)] {
            meter.on_message(Time::from_millis(at), &message::write(number, 50, clock, Time::ZERO));
        }
        // Messages 5, 6 and 8 have arrived; 7 is missing.
        assert_eq!((meter.total.messages, meter.lost(), meter.reordered), (3, 1, 1));
        assert_eq!(meter.first, Some(Time::from_millis(110)));
        assert_eq!(meter.lap().messages, 6, "intervals have the omitted messages, too");
    }

    /// Checks the formula of RFC 3550 section 6.4.1.
    #[test]
    fn jitter_is_the_variation_of_the_transit() {
        let clock = ClockId::here();
        let mut meter = Meter::new(clock);
        assert_eq!(meter.jitter_ms(), None);
        for (number, at) in (0..).zip([50, 60, 86]) {
            let sent = Time::from_millis(u64::from(number) * 10);
            meter.on_message(Time::from_millis(at), &message::write(number, 50, clock, sent));
        }
        // The three transits take 50, 50 and 66 ms.
        assert_eq!(meter.jitter_ms(), Some(1.0));
    }

    #[test]
    fn latency_needs_a_common_clock() {
        let clock = ClockId::here();
        let mut meter = Meter::new(clock);
        meter.on_message(Time::from_millis(3), &[0, 0, 0, 0]);
        assert_eq!(meter.total.latency(), None);
        meter.on_message(Time::from_millis(3), &message::write(1, 16, clock, Time::from_millis(1)));
        let latency = meter.total.latency().unwrap();
        assert!((1.9..2.1).contains(&latency.p50) && latency.max >= latency.p50, "{latency:?}");
    }

    #[test]
    fn echoes_tell_of_each_way_what_it_took_above_its_least() {
        let clock = ClockId::here();
        // The server's clock is far ahead or far behind.
        for server in [3_600_000, 0] {
            let mut meter = Meter::new(clock);
            meter.echo = true;
            let mut rounds = Vec::new();
            for (number, there, back) in [(0, 20, 10), (1, 10, 12), (2, 30, 11), (3, 12, 19)] {
                let sent = 1_000_000 * u64::from(server == 0) + 100 * u64::from(number);
                let mut message = message::write(number, 24, clock, Time::from_millis(sent));
                let arrival = 100 * u64::from(number) + server + there;
                message::note_arrival(&mut message, Time::from_millis(arrival));
                meter.on_message(Time::from_millis(sent + there + back), &message);
                rounds.push(there + back);
            }
            assert_eq!(rounds, [30, 22, 41, 31]);
            let OneWay { estimate, forward, reverse } = meter.total.one_way();
            let estimate = estimate.unwrap();
            assert!(
                (14.9..15.1).contains(&estimate.p50) && (20.4..20.6).contains(&estimate.max),
                "{estimate:?}"
            );
            assert_eq!(forward, Some(AboveLeast { mean: 8.0, max: 20.0 }));
            assert_eq!(reverse, Some(AboveLeast { mean: 3.0, max: 9.0 }));
            assert_eq!(meter.lap().one_way().forward, forward);
            assert_eq!(meter.lap().one_way().forward, None);
        }
    }

    #[test]
    fn echoes_without_the_servers_time_tell_of_the_round_trip_alone() {
        let clock = ClockId::here();
        let mut meter = Meter::new(clock);
        meter.echo = true;
        meter.on_message(Time::from_millis(8), &message::write(0, 24, clock, Time::ZERO));
        let OneWay { estimate, forward, reverse } = meter.total.one_way();
        assert!((3.9..4.1).contains(&estimate.unwrap().p50));
        assert_eq!((forward, reverse), (None, None));
    }
}
