//! Timing of the periodic checks of this host and the paths, for changes without an event.

use mpdccp_units::{Duration, Time};

/// Interval between checks, unless the owner wants a shorter one.
const WATCH: Duration = Duration::from_secs(1);
/// Shortest interval between checks when the host reports change after change.
const PAUSE: Duration = Duration::from_millis(20);

/// Time of the next check.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) at: Time,
    /// Time of the last check, and the interval.
    last: Time,
    every: Duration,
    /// Something about this host changed since then.
    changed: bool,
}

impl Watch {
    pub(crate) fn new(now: Time, every: Option<Duration>) -> Watch {
        Watch { at: now, last: now, every: every.unwrap_or(WATCH).min(WATCH), changed: false }
    }

    /// Something about this host changed.
    pub(crate) fn on_change(&mut self, now: Time) {
        self.changed = true;
        self.at = now.max(self.last + PAUSE);
    }

    /// Whether a check is due, and if so, whether something changed since the last one.
    pub(crate) fn is_due(&mut self, now: Time) -> Option<bool> {
        if self.at > now {
            return None;
        }
        (self.at, self.last) = (now + self.every, now);
        Some(std::mem::take(&mut self.changed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_after_change_is_looked_at_with_pauses() {
        let now = Time::from_millis(1_000);
        let mut watch = Watch::new(now, None);
        assert_eq!((watch.is_due(now), watch.is_due(now)), (Some(false), None));
        watch.on_change(now);
        assert_eq!((watch.at, watch.is_due(now)), (now + PAUSE, None));
        assert_eq!((watch.is_due(now + PAUSE), watch.at), (Some(true), now + PAUSE + WATCH));
    }
}
