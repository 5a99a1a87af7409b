use alloc::vec::Vec;
use core::fmt;

use mpdccp_units::{Duration, Rate};

/// Number of bytes represented by one line of a trace.
pub(crate) const OPPORTUNITY: u32 = 1_500;

/// A recorded rate in Mahimahi's format. Each line is an opportunity: a time, in whole milliseconds, at which
/// 1,500 bytes may be sent. Several packets may share an opportunity, and a packet may need several of them.
/// Unused opportunities are lost. After its last line, the trace repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Times of the opportunities. The list is not empty; its times never decrease and are at most the
    /// period.
    at: Vec<Duration>,
    /// Time after which the trace repeats; never zero.
    period: Duration,
}

/// Error in a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// Line number, counted from one.
    pub line: usize,
    /// Description of the error.
    pub problem: &'static str,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate trace, line {}: {}", self.line, self.problem)
    }
}

impl core::error::Error for TraceError {}

impl Trace {
    /// Parses a trace file, skipping blank lines.
    ///
    /// # Errors
    /// The error names the first line that is not a whole number of milliseconds or is earlier than the line
    /// before it. If the trace has a duration of zero, the error names the last line.
    pub fn parse(text: &str) -> Result<Trace, TraceError> {
        let mut at: Vec<Duration> = Vec::new();
        let mut lines = 0;
        for (i, line) in text.lines().enumerate() {
            lines = i + 1;
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let problem = |problem| TraceError { line: lines, problem };
            // A 32-bit number of milliseconds fits into the emulator's clock, which counts nanoseconds.
            let ms: u32 = line.parse().map_err(|_| problem("expected a whole number of milliseconds"))?;
            let time = Duration::from_millis(ms.into());
            if at.last().is_some_and(|last| *last > time) {
                return Err(problem("the time is before that of the previous line"));
            }
            at.push(time);
        }
        match at.last() {
            Some(last) if !last.is_zero() => Ok(Trace { period: *last, at }),
            _ => Err(TraceError {
                line: lines,
                problem: "the trace is empty or ends at 0 ms; its last line must be above 0",
            }),
        }
    }

    /// Returns the duration after which the trace repeats.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Returns the same trace, but starting `by` later in its period.
    #[must_use]
    pub fn later_by(&self, by: Duration) -> Trace {
        let by = Duration::from_nanos((by.as_nanos() % self.period.as_nanos()) as u64);
        let moved = |at: &Duration| at.checked_sub(by).filter(|at| !at.is_zero() || by.is_zero());
        let mut at: Vec<Duration> =
            self.at.iter().map(|at| moved(at).unwrap_or_else(|| *at + self.period - by)).collect();
        at.sort();
        Trace { at, period: self.period }
    }

    /// Returns the trace's mean rate.
    pub fn mean_rate(&self) -> Rate {
        Rate::from_bytes_per(self.at.len() as u64 * u64::from(OPPORTUNITY), self.period())
    }

    /// Returns the number of opportunities after `from` and until `to`, both measured from the start of the
    /// first period.
    pub fn opportunities(&self, from: Duration, to: Duration) -> u64 {
        let until = |time: Duration| self.first_from(time.saturating_add(Duration::from_nanos(1)));
        until(to).saturating_sub(until(from))
    }

    /// Returns the time of opportunity `number`, measured from the start of the first period. Numbers
    /// continue from one period to the next.
    pub(crate) fn time(&self, number: u64) -> Duration {
        let len = self.at.len() as u64;
        let rounds = u32::try_from(number / len).unwrap_or(u32::MAX);
        self.period().saturating_mul(rounds).saturating_add(self.at[(number % len) as usize])
    }

    /// Returns the number of the first opportunity at or after `time`.
    pub(crate) fn first_from(&self, time: Duration) -> u64 {
        // A time at which one period ends and the next starts belongs to the first of them.
        let period = self.period().as_nanos();
        let rounds = time.as_nanos().saturating_sub(1) / period;
        let within = time.as_nanos() - rounds * period;
        rounds as u64 * self.at.len() as u64 + self.at.partition_point(|at| at.as_nanos() < within) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn wraps() {
        let trace = Trace::parse("0\n3\n3\n10\n").unwrap();
        let times: Vec<u64> = (0..9).map(|n| trace.time(n).as_millis() as u64).collect();
        assert_eq!(times, [0, 3, 3, 10, 10, 13, 13, 20, 20]);
        assert_eq!(trace.mean_rate(), Rate::from_mbps(4.8));
    }

    #[test]
    fn can_begin_within() {
        let trace = Trace::parse("0\n3\n3\n10\n").unwrap();
        let times = |by| (0..8).map(|n| trace.later_by(ms(by)).time(n).as_millis()).collect::<Vec<_>>();
        assert_eq!(times(0), [0, 3, 3, 10, 10, 13, 13, 20]);
        assert_eq!(times(1), [2, 2, 9, 9, 12, 12, 19, 19]);
        assert_eq!(times(3), [7, 7, 10, 10, 17, 17, 20, 20]);
        assert_eq!(times(14), [6, 6, 9, 9, 16, 16, 19, 19]);
        assert_eq!(trace.later_by(ms(4)).mean_rate(), trace.mean_rate());
    }

    #[test]
    fn finds_the_first() {
        let trace = Trace::parse("0\n3\n3\n10\n").unwrap();
        for (time, number) in [(0, 0), (1, 1), (3, 1), (4, 3), (10, 3), (11, 5), (13, 5), (20, 7), (21, 9)] {
            assert_eq!(trace.first_from(ms(time)), number, "at {time} ms");
        }
    }

    #[test]
    fn counts_between_times() {
        let trace = Trace::parse("0\n3\n3\n10\n").unwrap();
        let counts = (0..13).map(|from| trace.opportunities(ms(from), ms(from + 1))).collect::<Vec<_>>();
        assert_eq!(counts, [0, 0, 2, 0, 0, 0, 0, 0, 0, 2, 0, 0, 2]);
    }

    #[test]
    fn errors_name_the_line() {
        let line = |text| Trace::parse(text).unwrap_err().line;
        assert_eq!(line("1\n2\nx\n"), 3);
        assert_eq!(line("1\n-2\n"), 2);
        assert_eq!(line("1\n\n7\n5\n9\n"), 4);
        assert_eq!(line("0\n0\n"), 2);
        assert_eq!(line(""), 0);
        assert_eq!(line("99999999999\n"), 1);
    }
}
