use alloc::vec::Vec;
use core::fmt;

use units::{Duration, Rate};

/// Bytes that one line of a trace lets through.
pub(crate) const OPPORTUNITY: u32 = 1_500;

/// A recorded rate in Mahimahi's format: each line is a time in whole milliseconds at which 1,500 bytes may leave. Several packets
/// may share an opportunity, a packet may take several, and what nobody waits for is lost. After its last line the trace starts over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Not empty, not decreasing; the last is the period and not zero.
    at: Vec<Duration>,
}

/// What is wrong with a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The line, counted from one.
    pub line: usize,
    /// What is wrong there.
    pub problem: &'static str,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate trace, line {}: {}", self.line, self.problem)
    }
}

impl core::error::Error for TraceError {}

impl Trace {
    /// Reads the text of a trace file. Blank lines are skipped.
    ///
    /// # Errors
    /// Names the first line that is not a whole number of milliseconds or is earlier than the one before, or the last if the trace
    /// has no length.
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
            // Small enough for its nanoseconds to fit the emulator's clock.
            let ms: u32 = line.parse().map_err(|_| problem("not a whole number of milliseconds"))?;
            let time = Duration::from_millis(ms.into());
            if at.last().is_some_and(|last| *last > time) {
                return Err(problem("earlier than the line before"));
            }
            at.push(time);
        }
        if at.last().is_none_or(Duration::is_zero) {
            return Err(TraceError { line: lines, problem: "the trace must end later than it starts" });
        }
        Ok(Trace { at })
    }

    /// After this it starts over.
    pub fn period(&self) -> Duration {
        self.at.last().copied().unwrap_or_default()
    }

    /// Its mean rate.
    pub fn mean_rate(&self) -> Rate {
        Rate::from_bytes_per(self.at.len() as u64 * u64::from(OPPORTUNITY), self.period())
    }

    /// When opportunity `number` comes, from the start of the first round; they are counted through all rounds.
    pub(crate) fn time(&self, number: u64) -> Duration {
        let len = self.at.len() as u64;
        let rounds = u32::try_from(number / len).unwrap_or(u32::MAX);
        self.period().saturating_mul(rounds).saturating_add(self.at[(number % len) as usize])
    }

    /// The number of the first opportunity at or after `time`.
    pub(crate) fn first_from(&self, time: Duration) -> u64 {
        // The end of a round belongs to it, though the next one starts at that moment too.
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
    fn finds_the_first() {
        let trace = Trace::parse("0\n3\n3\n10\n").unwrap();
        for (time, number) in [(0, 0), (1, 1), (3, 1), (4, 3), (10, 3), (11, 5), (13, 5), (20, 7), (21, 9)] {
            assert_eq!(trace.first_from(ms(time)), number, "at {time} ms");
        }
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
