//! Decides when to check this host and the paths. The checks are periodic, because some changes cause no
//! event.

use mpdccp_units::{Duration, Time};

/// Interval between checks, unless the owner requests a shorter interval.
const WATCH: Duration = Duration::from_secs(1);
/// Shortest interval between checks, for a host that reports many changes.
const PAUSE: Duration = Duration::from_millis(20);

/// Decides when the next check is due.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) at: Time,
    /// Time of the last check, and the interval between checks.
    last: Time,
    every: Duration,
    /// Whether anything on this host has changed since the last check.
    changed: bool,
}

impl Watch {
    pub(crate) fn new(now: Time, every: Option<Duration>) -> Watch {
        Watch { at: now, last: now, every: every.unwrap_or(WATCH).min(WATCH), changed: false }
    }

    /// Handles a change on this host. On a client, schedules a check soon. On a server, the periodic check is
    /// soon enough: after a change, it looks at the paths of all clients, and each route that the server sets
    /// for a client is a change, too.
    pub(crate) fn on_change(&mut self, now: Time, is_client: bool) {
        self.changed = true;
        if is_client {
            self.at = now.max(self.last + PAUSE);
        }
    }

    /// Returns `None` if no check is due. Otherwise returns whether this host has changed since the last
    /// check.
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
        watch.on_change(now, true);
        assert_eq!((watch.at, watch.is_due(now)), (now + PAUSE, None));
        assert_eq!((watch.is_due(now + PAUSE), watch.at), (Some(true), now + PAUSE + WATCH));
        watch.on_change(now + PAUSE, false);
        assert_eq!(watch.is_due(now + PAUSE * 2), None, "a server");
        assert_eq!(watch.is_due(now + PAUSE + WATCH), Some(true));
    }
}
