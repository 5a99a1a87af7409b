use mpdccp_units::{Duration, Time};

/// Determines whether the sender was data-limited during the whole interval of a report
/// (RFC 5348 section 8.2.1). It stores two times at which the sender was not data-limited: one within the
/// interval of the next report, and a later one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NotLimited {
    first: Option<Time>,
    second: Option<Time>,
    /// Time at which the newest reported packet was sent.
    reported: Time,
    /// Time at which that report arrived.
    report_at: Time,
}

impl NotLimited {
    /// The sender has just sent everything that the rate permits.
    pub(super) fn note(&mut self, now: Time) {
        if self.first.is_none_or(|at| at <= self.reported) {
            self.first = Some(now);
        } else if self.second.is_none_or(|at| at <= self.report_at) {
            self.second = Some(now);
        }
    }

    /// A report arrived. The newest packet that it covers was sent at `sent`. Returns true if the sender was
    /// data-limited during the whole interval of the report.
    pub(super) fn on_report(&mut self, now: Time, sent: Time, rtt: Duration) -> bool {
        let covered = |at: Option<Time>| at.is_some_and(|at| sent - rtt < at && at <= sent);
        // RFC 5348 section 8.2.1: the interval is not data-limited if there was a time within the report's
        // round trip at which the sender was not data-limited.
        let limited = !covered(self.first) && !covered(self.second);
        self.reported = sent;
        self.report_at = now;
        // RFC 5348 section 8.2.1: keep the later time for the next report.
        if self.first.is_none_or(|at| at <= sent) && self.second.is_some_and(|at| at > sent) {
            self.first = self.second;
        }
        limited
    }

    /// Returns whether there has been a time since `since` at which the sender was not data-limited.
    pub(super) fn since(&self, since: Time) -> bool {
        self.first.max(self.second).is_some_and(|at| at >= since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn one_moment_of_full_use_is_enough() {
        let mut n = NotLimited::default();
        assert!(n.on_report(ms(1_100), ms(1_000), RTT), "nothing was sent");
        n.note(ms(1_050));
        assert!(!n.on_report(ms(1_200), ms(1_100), RTT));
        assert!(n.on_report(ms(1_300), ms(1_200), RTT));
    }

    #[test]
    fn later_moments_do_not_displace_one_that_is_not_reported() {
        let mut n = NotLimited::default();
        n.on_report(ms(1_100), ms(1_000), RTT);
        n.note(ms(1_010));
        n.note(ms(1_150));
        assert!(!n.on_report(ms(1_200), ms(1_100), RTT));
        n.note(ms(1_210));
        n.note(ms(1_220));
        assert!(!n.on_report(ms(1_300), ms(1_200), RTT), "the report covers 1,150 ms");
    }

    #[test]
    fn a_moment_after_the_covered_time_is_kept_for_the_next_report() {
        let mut n = NotLimited::default();
        n.on_report(ms(1_100), ms(1_000), RTT);
        n.note(ms(1_010));
        n.note(ms(1_150));
        assert!(!n.on_report(ms(1_200), ms(1_100), RTT));
        assert!(!n.on_report(ms(1_300), ms(1_200), RTT));
        assert!(n.on_report(ms(1_400), ms(1_300), RTT));
        assert!(n.since(ms(1_150)) && !n.since(ms(1_151)));
    }
}
