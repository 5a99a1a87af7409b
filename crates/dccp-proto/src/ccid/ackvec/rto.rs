use dccp_cc::RttEstimator;
use units::{Duration, Time};

/// Stands in for the round-trip time until there is one (RFC 4340 section 3.4).
pub(super) const DEFAULT_RTT: Duration = Duration::from_millis(200);

/// The retransmission timer: it resends nothing here, but declares all in flight lost (RFC 4341 section 5, RFC 6298 section 5).
#[derive(Debug, Default)]
pub(crate) struct RtoTimer {
    since: Option<Time>,
    /// Timeouts in a row; each doubles the next (RFC 6298 section 5.5).
    backoff: u32,
}

impl RtoTimer {
    /// Starts if it is not running.
    pub(crate) fn start(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// New data was acknowledged: start anew, without back-off (nothing is resent, so no acknowledgement is ambiguous).
    pub(crate) fn restart(&mut self, now: Time, in_flight: bool) {
        self.since = in_flight.then_some(now);
        self.backoff = 0;
    }

    /// Since when it runs, if it does.
    pub(crate) fn since(&self) -> Option<Time> {
        self.since
    }

    /// Nothing is in flight any more.
    pub(crate) fn stop(&mut self) {
        self.since = None;
    }

    /// It fired.
    pub(crate) fn on_timeout(&mut self) {
        self.since = None;
        self.backoff = self.backoff.saturating_add(1);
    }

    /// When it fires, if it runs.
    pub(crate) fn due(&self, rtt: &RttEstimator) -> Option<Time> {
        self.since.map(|since| since + self.timeout(rtt))
    }

    /// The timeout in force.
    pub(crate) fn timeout(&self, rtt: &RttEstimator) -> Duration {
        // 2^10 times the least timeout is beyond the upper bound.
        rtt.rto().saturating_mul(1 << self.backoff.min(10)).min(RttEstimator::MAX_RTO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backs_off_to_the_bound() {
        let rtt = RttEstimator::default();
        let mut timer = RtoTimer::default();
        let timeouts: alloc::vec::Vec<u64> = (0..9)
            .map(|_| {
                timer.start(Time::ZERO);
                let due = timer.due(&rtt).unwrap();
                timer.on_timeout();
                due.since(Time::ZERO).as_secs()
            })
            .collect();
        assert_eq!(timeouts, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        assert_eq!(timer.due(&rtt), None);
        timer.restart(Time::from_millis(7), true);
        assert_eq!(timer.due(&rtt), Some(Time::from_millis(1007)));
        timer.start(Time::from_millis(500));
        assert_eq!(timer.due(&rtt), Some(Time::from_millis(1007)));
        timer.stop();
        assert_eq!(timer.due(&rtt), None);
    }
}
