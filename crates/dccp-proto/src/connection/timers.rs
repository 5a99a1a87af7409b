//! The timers of a connection and their durations.

use mpdccp_units::{Duration, Time};

/// Maximum segment lifetime, 2 minutes (RFC 4340 section 7.3).
const MSL: Duration = Duration::from_secs(120);
/// How long TIMEWAIT lasts (RFC 4340 section 8.3).
pub(super) const TWO_MSL: Duration = MSL.saturating_mul(2);
/// Maximum duration of RESPOND and PARTOPEN (RFC 4340 sections 8.1.3 and 8.1.5). This implementation also
/// uses it for the closing states.
pub(super) const FOUR_MSL: Duration = MSL.saturating_mul(4);
/// Longest retransmission interval (RFC 4340 sections 6.6.3, 8.1.1 and 8.3).
const MAX_INTERVAL: Duration = Duration::from_secs(64);

/// Minimum retransmission interval. If the round trip takes only microseconds, a busy peer needs longer than
/// that to answer, and would then answer each copy of a Close with a Reset.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// A retransmission timer with exponential back-off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    pub(super) at: Time,
    interval: Duration,
}

impl Backoff {
    pub(super) fn new(now: Time, interval: Duration) -> Backoff {
        let interval = interval.max(MIN_INTERVAL);
        Backoff { at: now + interval, interval }
    }

    /// If the timer has expired, doubles its interval and returns true.
    pub(super) fn fires(&mut self, now: Time) -> bool {
        let due = now >= self.at;
        if due {
            self.back_off(now);
        }
        due
    }

    /// Doubles the interval and restarts it.
    pub(super) fn back_off(&mut self, now: Time) {
        self.interval = (self.interval * 2).min(MAX_INTERVAL);
        self.at = now + self.interval;
    }

    /// Restarts the current interval.
    pub(super) fn restart(&mut self, now: Time) {
        self.at = now + self.interval;
    }
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Retransmits the Request, the Acks of PARTOPEN, the Close or the CloseReq, depending on the state.
    pub(super) retransmit: Option<Backoff>,
    /// Time at which RESPOND, PARTOPEN, CLOSEREQ, CLOSING or TIMEWAIT ends.
    pub(super) give_up: Option<Time>,
    /// Repeats Changes that have not been answered by the end of the handshake.
    pub(super) feature: Option<Backoff>,
}
