//! Keeps the time of the newest handshake across restarts. A server refuses handshakes that are older than
//! the peer's last one, but the clock of a router without a battery starts in 1970 after power-on. New
//! handshakes then continue from the stored time.

use crate::action::{Actions, StateFile};
use std::time::Duration;

/// A stored time after the year 3000 is ignored, because this program cannot have written it.
const LAST: u64 = 32_503_680_000;

/// Time of a client's newest handshake in seconds since 1970, rounded up.
#[derive(Debug)]
pub(crate) struct Timestamp {
    newest: u64,
}

impl Timestamp {
    /// Loads the file that the last run wrote.
    pub(crate) fn new(saved: Option<&str>) -> Timestamp {
        let known = saved.and_then(|text| serde_json::from_str::<u64>(text).ok());
        Timestamp { newest: known.filter(|newest| *newest < LAST).unwrap_or(0) }
    }

    /// Returns the time for a handshake while the clock shows `wall`. The time is never earlier than that of
    /// an earlier handshake.
    pub(crate) fn time(&self, wall: Duration, out: &mut Actions) -> Duration {
        let newest = Duration::from_secs(self.newest);
        let behind = newest.saturating_sub(wall).as_secs();
        // The stored time is rounded up, so it can be up to one second ahead of a correct clock.
        if behind > 1 {
            out.warn(format!(
                "the clock is {behind} s behind the last handshake, so new handshakes use the time of that one; \
                 check the clock"
            ));
        }
        wall.max(newest)
    }

    /// Saves the time of a handshake if this is the newest handshake.
    pub(crate) fn remember(&mut self, handshake: Duration, out: &mut Actions) {
        let used = handshake.as_secs() + 1;
        if used > self.newest {
            self.newest = used;
            out.save(StateFile::Timestamp, &used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;

    #[test]
    fn time_goes_on_from_the_last_handshake() {
        let mut out = Actions::default();
        let mut first = Timestamp::new(None);
        first.remember(Duration::from_millis(99_500), &mut out);
        first.remember(Duration::from_millis(99_900), &mut out);
        assert_eq!(out.waiting, [Action::Save(StateFile::Timestamp, "100".into())], "once a second");
        let [early, late] = [5, 1_000].map(Duration::from_secs);
        let known = Timestamp::new(Some("100"));
        assert_eq!(known.time(early, &mut out), Duration::from_secs(100));
        assert_eq!(known.time(late, &mut out), late);
        assert_eq!(Timestamp::new(Some("99999999999999")).newest, 0);
    }
}
