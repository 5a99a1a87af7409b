//! What a receiver counts.

use crate::perf::message::{self, ClockId};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use units::{Duration, Time};

/// Counts of a span of time.
pub(crate) struct Span {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// One-way latency, microseconds.
    latency: Option<Histogram<u64>>,
}

impl Span {
    fn new() -> Span {
        // Three digits, from a microsecond to a minute.
        Span { messages: 0, bytes: 0, latency: Histogram::new_with_bounds(1, 60_000_000, 3).ok() }
    }

    fn add(&mut self, bytes: usize, latency: Option<Duration>) {
        self.messages += 1;
        self.bytes += bytes as u64;
        if let (Some(histogram), Some(latency)) = (&mut self.latency, latency) {
            histogram.saturating_record(latency.as_micros() as u64);
        }
    }

    /// Percentiles of the latency; `None` without a common clock.
    pub(crate) fn latency(&self) -> Option<Latency> {
        let ms = |us: u64| us as f64 / 1e3;
        let histogram = self.latency.as_ref().filter(|h| !h.is_empty())?;
        Some(Latency {
            p50: ms(histogram.value_at_quantile(0.5)),
            p99: ms(histogram.value_at_quantile(0.99)),
            max: ms(histogram.max()),
        })
    }
}

/// One-way latency, ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

/// Counts messages by their numbers.
pub(crate) struct Meter {
    clock: ClockId,
    pub(crate) total: Span,
    /// Since [`Meter::lap`].
    pub(crate) span: Span,
    /// How long from the first message on nothing is counted.
    pub(crate) omit: Duration,
    began: Option<Time>,
    /// Numbers from here on are counted.
    base: u64,
    /// Numbers seen so far are below this.
    next: u64,
    /// Transit of the newest message, nanoseconds but for the clocks' difference, and its smoothed variation (RFC 3550 section 6.4.1).
    transit: Option<i64>,
    jitter: f64,
    /// Came after a message with a larger number (RFC 4737 section 3.3).
    pub(crate) reordered: u64,
    /// Too short to have a number.
    pub(crate) malformed: u64,
    pub(crate) first: Option<Time>,
    pub(crate) last: Option<Time>,
}

impl Meter {
    pub(crate) fn new(clock: ClockId) -> Meter {
        Meter {
            clock,
            total: Span::new(),
            span: Span::new(),
            omit: Duration::ZERO,
            began: None,
            base: 0,
            next: 0,
            transit: None,
            jitter: 0.0,
            reordered: 0,
            malformed: 0,
            first: None,
            last: None,
        }
    }

    /// A datagram arrived.
    pub(crate) fn on_message(&mut self, now: Time, bytes: &[u8]) {
        let Some((number, stamp)) = message::read(bytes) else {
            self.malformed += 1;
            return;
        };
        let number = u64::from(number);
        let began = *self.began.get_or_insert(now);
        if now.since(began) < self.omit {
            self.next = self.next.max(number + 1);
            self.base = self.next;
            return;
        }
        if number < self.base {
            return;
        }
        if number < self.next {
            self.reordered += 1;
        }
        self.next = self.next.max(number + 1);
        let latency = stamp.and_then(|stamp| stamp.age(self.clock, now));
        if let Some(transit) = stamp.map(|stamp| stamp.transit(now)) {
            let change = self.transit.replace(transit).map_or(0, |before| transit.wrapping_sub(before));
            self.jitter += (change.unsigned_abs() as f64 - self.jitter) / 16.0;
        }
        self.total.add(bytes.len(), latency);
        self.span.add(bytes.len(), latency);
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    /// Variation of the transit time, ms; needs no common clock.
    pub(crate) fn jitter_ms(&self) -> Option<f64> {
        self.transit.map(|_| self.jitter / 1e6)
    }

    /// Numbers that did not come (yet).
    pub(crate) fn lost(&self) -> u64 {
        (self.next - self.base).saturating_sub(self.total.messages)
    }

    /// Starts the next span.
    pub(crate) fn lap(&mut self) -> Span {
        std::mem::replace(&mut self.span, Span::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // 5, 6 and 8 of 5 to 8.
        assert_eq!((meter.total.messages, meter.lost(), meter.reordered), (3, 1, 1));
        assert_eq!(meter.first, Some(Time::from_millis(110)));
    }

    /// RFC 3550 section 6.4.1.
    #[test]
    fn jitter_is_the_variation_of_the_transit() {
        let clock = ClockId::here();
        let mut meter = Meter::new(clock);
        assert_eq!(meter.jitter_ms(), None);
        for (number, at) in (0..).zip([50, 60, 86]) {
            let sent = Time::from_millis(u64::from(number) * 10);
            meter.on_message(Time::from_millis(at), &message::write(number, 50, clock, sent));
        }
        // Transits of 50, 50 and 66 ms.
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
}
