//! The timers of a connection, and how long each runs.

use mpdccp_units::{Duration, Time};

/// Maximum segment lifetime, 2 minutes (RFC 4340 section 7.3).
const MSL: Duration = Duration::from_secs(120);
/// How long TIMEWAIT lasts (RFC 4340 section 8.3).
pub(super) const TWO_MSL: Duration = MSL.saturating_mul(2);
/// When RESPOND and PARTOPEN give up (RFC 4340 sections 8.1.3 and 8.1.5); and, by our choice, closing.
pub(super) const FOUR_MSL: Duration = MSL.saturating_mul(4);
/// Slowest repetition of anything (RFC 4340 sections 6.6.3, 8.1.1 and 8.3).
const MAX_INTERVAL: Duration = Duration::from_secs(64);

/// The shortest interval: where the round-trip time is microseconds, a busy peer takes longer, and answers copies of a Close with
/// Resets of their own.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// A repetition with exponential back-off.
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

    /// If it has come: true, and the next one takes twice as long.
    pub(super) fn fires(&mut self, now: Time) -> bool {
        let due = now >= self.at;
        if due {
            self.back_off(now);
        }
        due
    }

    /// Twice as long from now on.
    pub(super) fn back_off(&mut self, now: Time) {
        self.interval = (self.interval * 2).min(MAX_INTERVAL);
        self.at = now + self.interval;
    }

    /// Starts the current interval again.
    pub(super) fn restart(&mut self, now: Time) {
        self.at = now + self.interval;
    }
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Request, the Acks of PARTOPEN, Close or CloseReq, as the state has it.
    pub(super) retransmit: Option<Backoff>,
    /// End of RESPOND, PARTOPEN, CLOSEREQ, CLOSING or TIMEWAIT.
    pub(super) give_up: Option<Time>,
    /// Changes without an answer, after the handshake.
    pub(super) feature: Option<Backoff>,
}
