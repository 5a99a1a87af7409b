use crate::WindowedMax;
use core::cmp::Reverse;
use mpdccp_units::{Duration, Time};

/// Period of [`RttEstimator::recent_min`]. It is long, because loss-based congestion control rarely drains a
/// queue.
const RECENT: Duration = Duration::from_secs(120);

/// Number of samples per round beyond which the weight of each sample is not reduced further.
const MAX_SAMPLES: u32 = 1000;

/// Round-trip time estimator (RFC 6298; bounds of RFC 4341 section 5.1 for DCCP).
#[derive(Clone, Debug, Default)]
pub struct RttEstimator {
    latest: Option<Duration>,
    srtt: Duration,
    rttvar: Duration,
    min: Option<(Duration, Time)>,
    max: Option<(Duration, Time)>,
    recent_min: WindowedMax<Option<Reverse<Duration>>>,
    updated: Time,
}

impl RttEstimator {
    /// Timeout before the first sample. RFC 6298 section 2.1 allows 1 s. Linux DCCP uses 3 s.
    pub const INITIAL_RTO: Duration = Duration::from_secs(1);
    /// Lower bound of the timeout.
    pub const MIN_RTO: Duration = Duration::from_millis(200);
    /// Upper bound of the timeout.
    pub const MAX_RTO: Duration = Duration::from_secs(64);

    /// Adds one sample.
    pub fn update(&mut self, now: Time, rtt: Duration) {
        self.update_one_of(now, rtt, 1);
    }

    /// Adds one of `samples` samples of the same round, which together have the weight that RFC 6298 gives to
    /// one sample (RFC 7323 appendix G).
    pub fn update_one_of(&mut self, now: Time, rtt: Duration, samples: u32) {
        let samples = samples.clamp(1, MAX_SAMPLES);
        if self.latest.is_none() {
            self.srtt = rtt;
            self.rttvar = rtt / 2;
        } else {
            let err = self.srtt.abs_diff(rtt);
            self.rttvar = (self.rttvar * (4 * samples - 1) + err) / (4 * samples);
            self.srtt = (self.srtt * (8 * samples - 1) + rtt) / (8 * samples);
        }
        self.latest = Some(rtt);
        self.updated = now;
        if self.min.is_none_or(|(m, _)| rtt <= m) {
            self.min = Some((rtt, now));
        }
        if self.max.is_none_or(|(m, _)| rtt >= m) {
            self.max = Some((rtt, now));
        }
        self.recent_min.update(RECENT.as_nanos() as u64, now.as_nanos(), Some(Reverse(rtt)));
    }

    /// Returns the newest sample.
    pub fn latest(&self) -> Option<Duration> {
        self.latest
    }

    /// Returns the smoothed RTT.
    pub fn srtt(&self) -> Option<Duration> {
        self.latest.map(|_| self.srtt)
    }

    /// Returns the mean deviation.
    pub fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// Returns the smallest sample of the connection and its time.
    pub fn min(&self) -> Option<(Duration, Time)> {
        self.min
    }

    /// Returns the smallest sample of the last two minutes before the newest sample. Unlike
    /// [`min`](Self::min), it rises when the route becomes longer.
    pub fn recent_min(&self) -> Option<Duration> {
        self.recent_min.get().map(|Reverse(min)| min)
    }

    /// Returns the largest sample of the connection and its time.
    pub fn max(&self) -> Option<(Duration, Time)> {
        self.max
    }

    /// Returns when the newest sample was taken.
    pub fn updated(&self) -> Time {
        self.updated
    }

    /// Returns the retransmission timeout without back-off (RFC 6298 section 2).
    pub fn rto(&self) -> Duration {
        match self.latest {
            None => Self::INITIAL_RTO,
            Some(_) => (self.srtt + self.rttvar * 4).clamp(Self::MIN_RTO, Self::MAX_RTO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recent_minimum_follows_a_longer_route_and_falls_at_once() {
        let (mut rtt, ms) = (RttEstimator::default(), Duration::from_millis);
        assert_eq!(rtt.recent_min(), None);
        for second in 0..=180 {
            let now = Time::from_millis(second * 1000);
            rtt.update(now, ms(if second < 30 { 30 } else { 120 }));
            let recent = if second < 30 + 120 { 30 } else { 120 };
            assert_eq!((rtt.recent_min(), rtt.min().unwrap().0), (Some(ms(recent)), ms(30)), "{second} s");
        }
        rtt.update(Time::from_millis(181_000), ms(40));
        assert_eq!(rtt.recent_min(), Some(ms(40)));
    }
}
