//! Linux's detection of policers. A policer passes the same rate however fast the sender is, and drops the
//! rest. Linux calls this rate the long-term bandwidth. The detection divides time into intervals of 4 to 16
//! rounds. If two intervals in a row have many losses and nearly the same delivery rate, this rate is the
//! policer's. The draft does not detect policers.

use crate::Amount;
use mpdccp_units::{Duration, Time};

/// Minimum number of rounds in an interval.
const LEAST: u32 = 4;
/// An interval with more rounds than this is abandoned.
const MOST: u32 = 16;
/// Minimum ratio of lost packets to delivered packets in an interval.
const LOST: f64 = 50.0 / 256.0;
/// An interval shorter than this gives no rate.
const SHORTEST: Duration = Duration::from_millis(1);
/// The rates of two intervals agree if they differ at most by this share of the first rate.
const NEAR: f64 = 1.0 / 8.0;
/// Two rates also agree if they differ at most by this many bytes per second.
const NEAR_BYTES: f64 = 4_000.0 / 8.0;
/// Number of rounds of ProbeBW for which a detected rate is used.
const USED: u32 = 48;

/// Counters of the connection.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// Time of the latest delivery.
    at: Time,
    delivered: Amount,
    /// Number of lost packets.
    lost: u64,
}

/// Input of the detection, from an acknowledgement with a rate sample or from a timeout.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    /// Whether packets were lost.
    pub(super) lost: bool,
    pub(super) round_end: bool,
    pub(super) app_limited: bool,
    /// Whether the controller is in ProbeBW.
    pub(super) probe_bw: bool,
}

/// The detection's state.
#[derive(Clone, Debug, Default)]
pub(super) struct LongTerm {
    counted: Counted,
    /// Counters at the start of the running interval.
    start: Option<Counted>,
    /// Number of rounds in the current interval or, while a detected rate is in use, since its use began.
    rounds: u32,
    /// The detected rate while it is in use; otherwise the rate of the previous interval. Bytes per second.
    rate: f64,
    used: bool,
}

impl LongTerm {
    /// Returns the policer's rate in bytes per second, if there is one.
    pub(super) fn rate(&self) -> Option<f64> {
        self.used.then_some(self.rate)
    }

    /// Forgets the rates and waits for the next loss.
    pub(super) fn restart(&mut self) {
        *self = LongTerm { counted: self.counted, ..LongTerm::default() };
    }

    /// Counts lost packets. `total` is the number since the start of the connection.
    pub(super) fn on_lost(&mut self, total: u64) {
        self.counted.lost = total;
    }

    /// Counts deliveries. `total` is the amount since the start of the connection.
    pub(super) fn on_delivered(&mut self, now: Time, total: Amount) {
        (self.counted.at, self.counted.delivered) = (now, total);
    }

    /// Looks for a policer. Returns true when a detected rate expires, after [`USED`] rounds.
    pub(super) fn look(&mut self, look: Look) -> bool {
        if self.used {
            self.rounds += u32::from(look.round_end && look.probe_bw);
            let over = self.rounds >= USED;
            if over {
                self.restart();
            }
            return over;
        }
        if look.app_limited {
            self.restart();
            return false;
        }
        if self.start.is_none() && look.lost {
            self.begin();
        }
        let Some(start) = self.start else { return false };
        self.rounds += u32::from(look.round_end);
        if self.rounds > MOST {
            self.restart();
        } else if self.rounds >= LEAST && look.lost {
            self.end(&start);
        }
        false
    }

    fn begin(&mut self) {
        (self.start, self.rounds) = (Some(self.counted), 0);
    }

    /// Ends the interval that began with `start`, unless its losses are too few.
    fn end(&mut self, start: &Counted) {
        let lasted = self.counted.at.since(start.at);
        let delivered = self.counted.delivered.minus(start.delivered);
        let lost = self.counted.lost.saturating_sub(start.lost) as f64;
        if lost < LOST * delivered.packets as f64 || lasted < SHORTEST {
            return;
        }
        let rate = delivered.bytes as f64 / lasted.as_secs_f64();
        if self.rate > 0.0 && (rate - self.rate).abs() <= (NEAR * self.rate).max(NEAR_BYTES) {
            (self.rate, self.used, self.rounds) = ((self.rate + rate) / 2.0, true, 0);
        } else {
            self.rate = rate;
            self.begin();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSS: Look = Look { lost: true, round_end: true, app_limited: false, probe_bw: true };
    const NO_LOSS: Look = Look { lost: false, ..LOSS };

    /// A path that has just lost its first packets.
    struct Path {
        policers: LongTerm,
        ms: u64,
        delivered: Amount,
        lost: u64,
    }

    impl Path {
        fn new() -> Path {
            let mut path = Path::unused();
            path.round(1_000, 1, LOSS);
            path
        }

        fn unused() -> Path {
            Path { policers: LongTerm::default(), ms: 0, delivered: Amount::default(), lost: 0 }
        }

        /// A round of 100 ms that delivers 256 packets of `size` bytes and loses `lost` packets.
        fn round(&mut self, size: u64, lost: u64, look: Look) -> bool {
            self.ms += 100;
            self.delivered = self.delivered.and(Amount { packets: 256, bytes: 256 * size });
            self.lost += lost;
            self.policers.on_lost(self.lost);
            self.policers.on_delivered(Time::from_millis(self.ms), self.delivered);
            self.policers.look(look)
        }

        /// Adds `n` rounds with enough losses, of which only the last can end an interval. Returns the
        /// detected rate, expressed as a packet size.
        fn rounds(&mut self, n: u64, size: u64) -> Option<f64> {
            for _ in 1..n {
                self.round(size, 50, NO_LOSS);
            }
            self.round(size, 50, LOSS);
            self.detected()
        }

        fn detected(&self) -> Option<f64> {
            self.policers.rate().map(|rate| rate / 2_560.0)
        }
    }

    #[test]
    fn two_intervals_whose_rates_differ_by_an_eighth_are_a_policer() {
        for (second, detected) in
            [(800, Some(800.0)), (900, Some(850.0)), (700, Some(750.0)), (901, None), (699, None)]
        {
            let mut path = Path::new();
            assert_eq!(path.rounds(4, 800), None);
            assert_eq!(path.rounds(4, second), detected, "{second}");
        }
    }

    #[test]
    fn low_rates_may_differ_by_4_kbit_per_second() {
        for (first, second, detected) in [(1_000, 1_500, true), (1_000, 1_501, false), (400, 400, true)] {
            let mut policers = LongTerm::default();
            policers.look(LOSS);
            for (second, bytes) in [(1, first), (2, first + second)] {
                assert_eq!(policers.rate(), None);
                policers.on_lost(second);
                policers.on_delivered(Time::from_millis(1_000 * second), Amount { packets: second, bytes });
                (0..4).for_each(|_| assert!(!policers.look(LOSS)));
            }
            assert_eq!(policers.rate().is_some(), detected, "{first} {second}");
        }
    }

    #[test]
    fn only_successive_intervals_are_compared() {
        let mut path = Path::new();
        assert_eq!([800, 400, 800, 800].map(|size| path.rounds(4, size)), [None, None, None, Some(800.0)]);
    }

    #[test]
    fn the_first_interval_begins_with_a_loss() {
        let mut path = Path::unused();
        (0..4).for_each(|_| assert!(!path.round(8_000, 0, NO_LOSS)));
        path.round(8_000, 50, LOSS);
        assert_eq!([path.rounds(4, 800), path.rounds(4, 800)], [None, Some(800.0)]);
    }

    #[test]
    fn an_interval_has_4_to_16_rounds_and_ends_with_a_loss() {
        for (rounds, detected) in [(3, None), (4, Some(800.0)), (16, Some(800.0)), (17, None)] {
            let mut path = Path::new();
            path.rounds(4, 800);
            assert_eq!(path.rounds(rounds, 800), detected, "{rounds}");
        }
        let mut path = Path::new();
        path.rounds(4, 800);
        (0..16).for_each(|_| assert!(!path.round(800, 50, NO_LOSS)));
        assert_eq!(path.detected(), None);
        // Once an interval has been abandoned, a detection needs two more intervals.
        path.round(800, 50, NO_LOSS);
        path.round(800, 50, LOSS);
        assert_eq!([path.rounds(4, 800), path.rounds(4, 800)], [None, Some(800.0)]);
    }

    #[test]
    fn parts_of_rounds_are_no_rounds() {
        let mut path = Path::new();
        (0..20).for_each(|_| assert!(!path.round(800, 50, Look { round_end: false, ..LOSS })));
        assert_eq!(path.detected(), None);
    }

    #[test]
    fn an_interval_loses_at_least_50_packets_per_256_delivered() {
        for (lost, detected) in [(50, Some(800.0)), (49, None)] {
            let mut path = Path::new();
            path.rounds(4, 800);
            (0..3).for_each(|_| assert!(!path.round(800, 50, NO_LOSS)));
            path.round(800, lost, LOSS);
            assert_eq!(path.detected(), detected, "{lost}");
        }
    }

    #[test]
    fn an_interval_without_duration_has_no_rate() {
        let mut path = Path::new();
        path.delivered = path.delivered.plus(800);
        path.policers.on_delivered(Time::from_millis(path.ms), path.delivered);
        path.lost += 1;
        path.policers.on_lost(path.lost);
        (0..4).for_each(|_| assert!(!path.policers.look(LOSS)));
        assert_eq!(path.rounds(4, 800), None);
    }

    #[test]
    fn application_limited_samples_and_undone_reductions_restart_the_search() {
        let limited = |path: &mut Path| path.policers.look(Look { app_limited: true, ..NO_LOSS });
        let undone = |path: &mut Path| {
            path.policers.restart();
            false
        };
        for restart in [limited as fn(&mut Path) -> bool, undone] {
            let mut path = Path::new();
            path.rounds(4, 3_000);
            path.rounds(4, 800);
            restart(&mut path);
            path.policers.look(LOSS);
            assert_eq!([path.rounds(4, 800), path.rounds(4, 800)], [None, Some(800.0)]);
        }
    }

    #[test]
    fn a_rate_is_used_for_48_rounds_of_probe_bw() {
        let mut path = Path::new();
        path.rounds(4, 800);
        path.rounds(4, 800);
        // Rounds outside ProbeBW, and acknowledgements that end no round, do not count.
        (0..50).for_each(|_| assert!(!path.round(800, 0, Look { probe_bw: false, ..LOSS })));
        (0..50).for_each(|_| assert!(!path.round(800, 0, Look { round_end: false, ..LOSS })));
        // An application-limited sample does not end the use of the rate.
        (1..48).for_each(|_| assert!(!path.round(800, 0, Look { app_limited: true, ..LOSS })));
        assert_eq!(path.detected(), Some(800.0));
        assert!(path.round(800, 0, NO_LOSS));
        assert_eq!(path.detected(), None);
        path.round(800, 50, LOSS);
        assert_eq!([path.rounds(4, 800), path.rounds(4, 800)], [None, Some(800.0)]);
    }
}
