//! Delay of acknowledgements on the return path, derived from the receiver's Timestamps.
//!
//! The clocks of the two ends differ by an unknown offset, so only the delay beyond its minimum is known. The
//! clocks may also run at different rates, but this matters little: 100 ppm are a millisecond in ten seconds.

use mpdccp_units::{Duration, Time};

/// Half of the time for which a minimum counts. The whole time equals BBR's RTpropFilterLen
/// (draft-cardwell-iccrg-bbr-congestion-control-00 section 4.1.2.2).
const SPAN: Duration = Duration::from_secs(5);
/// Unit of Timestamps (RFC 4340 section 13.1).
const TICK: Duration = Duration::from_micros(10);

/// The return path of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct ReturnPath {
    /// Delay of the first acknowledgement, in wrapping ticks, including the offset of the clocks.
    reference: Option<u32>,
    /// Minimum delays of this span and of the previous one, in ticks relative to the reference.
    least: [Option<i32>; 2],
    since: Time,
    delay: Duration,
}

impl ReturnPath {
    /// An acknowledgement arrived at `now` that the peer sent at `sent`, in ticks of the peer's clock.
    /// Returns its delay beyond the minimum. For an acknowledgement without a Timestamp, for example a
    /// DataAck, returns the previous delay.
    pub(super) fn on_ack(&mut self, now: Time, sent: Option<u32>) -> Duration {
        let Some(sent) = sent else { return self.delay };
        let delay = ticks(now).wrapping_sub(sent);
        // After a jump of the peer's clock, delays are wrong for up to two spans. The caller limits them.
        let delay = delay.wrapping_sub(*self.reference.get_or_insert(delay)) as i32;
        if now.since(self.since) > SPAN {
            (self.since, self.least) = (now, [None, self.least[0]]);
        }
        self.least[0] = Some(self.least[0].map_or(delay, |least| least.min(delay)));
        let least = self.least.into_iter().flatten().min().unwrap_or(delay);
        self.delay = TICK.saturating_mul(delay.abs_diff(least));
        self.delay
    }
}

/// Returns the time in ticks, wrapping.
fn ticks(at: Time) -> u32 {
    (at.as_nanos() / 10_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the measured delays of acknowledgements that are sent every 100 ms and whose real delays are
    /// `delays`, in ms. The peer's clock is ahead by `ahead` ticks and runs fast by `ppm`.
    fn shown(ahead: u32, ppm: i64, delays: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut path = ReturnPath::default();
        let sample = |(i, delay): (usize, u64)| {
            let left = i as u64 * 100_000;
            let sent = ((left as i64 + left as i64 * ppm / 1_000_000) / 10) as u32;
            let now = Time::from_nanos(left * 1_000 + delay * 1_000_000);
            path.on_ack(now, Some(sent.wrapping_add(ahead))).as_millis() as u64
        };
        delays.enumerate().map(sample).collect()
    }

    #[test]
    fn the_minimum_is_no_delay_whatever_the_clocks_say() {
        for ahead in [0, 5_000, u32::MAX - 3, 1 << 31] {
            assert_eq!(shown(ahead, 0, [20, 50, 10, 40, 11].into_iter()), [0, 30, 0, 30, 1], "{ahead}");
        }
    }

    #[test]
    fn a_clock_that_runs_differently_changes_it_by_a_millisecond() {
        for ppm in [-100, 100] {
            let seen = shown(0, ppm, (0..600).map(|i| 10 + i % 2 * 40));
            let wrong = seen.iter().zip(0..).map(|(seen, i)| seen.abs_diff(i % 2 * 40)).max();
            assert!(wrong <= Some(2), "{ppm}: {wrong:?}");
        }
    }

    #[test]
    fn a_longer_return_path_becomes_the_minimum() {
        let seen = shown(0, 0, (0..400).map(|i| if i < 100 { 10 } else { 60 }));
        assert_eq!((seen[150], seen[399]), (50, 0));
    }

    #[test]
    fn without_a_timestamp_the_newest_delay_counts() {
        let mut path = ReturnPath::default();
        path.on_ack(Time::from_millis(10), Some(0));
        assert_eq!(path.on_ack(Time::from_millis(60), Some(1_000)), Duration::from_millis(40));
        assert_eq!(path.on_ack(Time::from_millis(61), None), Duration::from_millis(40));
    }
}
