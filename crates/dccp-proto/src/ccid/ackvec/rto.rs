use dccp_cc::RttEstimator;
use mpdccp_units::{Duration, Time};

/// Default round-trip time before the first sample (RFC 4340 section 3.4).
pub(super) const DEFAULT_RTT: Duration = Duration::from_millis(200);

/// The retransmission timer. DCCP retransmits no data: when the timer expires, all packets in flight count as
/// lost (RFC 4341 section 5, RFC 6298 section 5).
#[derive(Debug, Default)]
pub(crate) struct RtoTimer {
    since: Option<Time>,
    /// Number of consecutive timeouts. Each doubles the timeout (RFC 6298 section 5.5).
    backoff: u32,
    /// Number of probes sent since the timer started.
    probes: u32,
    /// Longest time for which the peer recently held an acknowledgement (Elapsed Time). The value decays. RTT
    /// samples exclude this time, so the timeout must add it.
    held: Duration,
}

/// Limits of the time for which a peer is assumed to wait for Ack Ratio packets before it acknowledges fewer.
/// The assumed wait is a quarter of a round trip within these limits.
const LEAST_HELD: Duration = Duration::from_millis(2);
const MOST_HELD: Duration = Duration::from_millis(200);
/// Longest Elapsed Time that counts.
const MAX_HELD: Duration = Duration::from_secs(1);
/// Clock granularity of both ends (RFC 6298 section 2, G).
const GRANULARITY: Duration = Duration::from_millis(10);

impl RtoTimer {
    /// Starts the timer if it is not running.
    pub(crate) fn start(&mut self, now: Time) {
        self.since.get_or_insert(now);
    }

    /// New data was acknowledged, so the timer restarts without back-off. No acknowledgement is ambiguous,
    /// because no data is retransmitted.
    pub(crate) fn restart(&mut self, now: Time, in_flight: bool) {
        self.since = in_flight.then_some(now);
        self.backoff = 0;
        self.probes = 0;
    }

    /// The peer reported that it held an acknowledgement for `elapsed`.
    pub(crate) fn on_held(&mut self, elapsed: Duration) {
        self.held = self.held.max(elapsed.min(MAX_HELD));
    }

    pub(crate) fn on_round(&mut self) {
        self.held -= self.held / 16;
    }

    /// Returns the time that an acknowledgement may take in addition to the round-trip time.
    fn allowance(&self, rtt: &RttEstimator) -> Duration {
        rtt.srtt().map_or(Duration::ZERO, |srtt| {
            self.held.max((srtt / 4).clamp(LEAST_HELD, MOST_HELD)) + GRANULARITY
        })
    }

    /// Returns when the timer was started, if it runs.
    pub(crate) fn since(&self) -> Option<Time> {
        self.since
    }

    /// Nothing is in flight any more.
    pub(crate) fn stop(&mut self) {
        self.since = None;
        self.probes = 0;
    }

    /// Returns whether the timer has expired since new data was last acknowledged.
    pub(crate) fn has_expired(&self) -> bool {
        self.backoff > 0
    }

    pub(crate) fn on_timeout(&mut self) {
        self.since = None;
        self.backoff = self.backoff.saturating_add(1);
        self.probes = 0;
    }

    /// A probe is about to leave.
    pub(crate) fn on_probe(&mut self) {
        self.probes += 1;
    }

    /// Returns when to ask the peer for an acknowledgement: two round-trip times after the timer started, as
    /// in TCP's tail loss probe (RFC 8985 section 7.2). Each further probe waits twice as long. Returns
    /// `None` if the timer itself would fire before the answer arrives.
    pub(crate) fn probe_due(&self, rtt: &RttEstimator) -> Option<Time> {
        let srtt = rtt.srtt()?;
        let wait = (srtt * 2 + self.allowance(rtt)).saturating_mul(1 << self.backoff.min(10));
        let waits = (2u32 << self.probes.min(20)) - 1;
        let due = self.since? + wait.saturating_mul(waits);
        self.due(rtt).filter(|&timeout| due + srtt < timeout).map(|_| due)
    }

    /// Returns when the timer fires, if it runs.
    pub(crate) fn due(&self, rtt: &RttEstimator) -> Option<Time> {
        self.since.map(|since| since + self.timeout(rtt))
    }

    /// Returns the timeout in force.
    pub(crate) fn timeout(&self, rtt: &RttEstimator) -> Duration {
        // 2^10 times the minimum timeout already exceeds the maximum timeout, so more doublings are not
        // needed.
        let timeout = rtt.rto() + self.allowance(rtt);
        timeout.saturating_mul(1 << self.backoff.min(10)).min(RttEstimator::MAX_RTO)
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

    #[test]
    fn waits_for_as_long_as_the_peer_holds_acknowledgements() {
        let mut rtt = RttEstimator::default();
        for _ in 0..100 {
            rtt.update(Time::ZERO, Duration::from_millis(200));
        }
        let mut timer = RtoTimer::default();
        let quiet = timer.timeout(&rtt);
        // The receiver may wait for a quarter of a round trip, as the receivers of this stack do.
        assert!(quiet > rtt.rto() + Duration::from_millis(50), "{quiet:?}");
        timer.on_held(Duration::from_millis(150));
        assert_eq!(timer.timeout(&rtt), quiet + Duration::from_millis(100));
        for _ in 0..100 {
            timer.on_round();
        }
        assert_eq!(timer.timeout(&rtt), quiet);
    }

    #[test]
    fn probes_back_off_and_end_at_the_timeout() {
        let mut rtt = RttEstimator::default();
        let mut timer = RtoTimer::default();
        timer.start(Time::ZERO);
        assert_eq!(timer.probe_due(&rtt), None);
        for _ in 0..100 {
            rtt.update(Time::ZERO, Duration::from_millis(4));
        }
        // The first probe leaves after 20 ms: two round trips, the assumed wait of the peer, and the
        // granularity of the clocks.
        let due: alloc::vec::Vec<_> = core::iter::from_fn(|| {
            let due = timer.probe_due(&rtt)?;
            timer.on_probe();
            Some(due.since(Time::ZERO).as_millis())
        })
        .collect();
        assert_eq!(due, [20, 60, 140]);
        assert_eq!(timer.due(&rtt), Some(Time::from_millis(212)));
        // An acknowledgement starts a new series of probes.
        timer.restart(Time::from_millis(150), true);
        assert_eq!(timer.probe_due(&rtt), Some(Time::from_millis(170)));
        // The intervals of the probes double with the timeout.
        timer.on_timeout();
        timer.start(Time::from_millis(400));
        assert_eq!(timer.probe_due(&rtt), Some(Time::from_millis(440)));
    }
}
