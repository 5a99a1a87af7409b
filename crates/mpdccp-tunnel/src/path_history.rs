//! Remembers the history of paths for the log. When a path fails, one log line names the cause and the
//! paths that take over. When the path is up again, one line says how long the outage lasted.

use mpdccp_proto::{PathId, PathState, PathStatus, SessionStatus};
use mpdccp_units::{Duration, Time};
use std::collections::BTreeMap;

/// Maximum number of paths and errors to remember per peer. The limit is needed because a server's paths get
/// new addresses each time its clients move.
const MOST: usize = 64;

/// A path's state, and when the path entered it.
#[derive(Clone, Copy, Debug)]
struct History {
    since: Time,
    /// Whether the path failed at that time and has not been up since.
    failed: bool,
}

/// The history of a peer's paths, by name. It spans all sessions with the peer.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    paths: BTreeMap<String, History>,
    /// The system's error for each socket that cannot send.
    errors: BTreeMap<u32, String>,
}

impl Histories {
    /// Records that a path failed. Returns false if the path had already failed.
    pub(crate) fn fail(&mut self, now: Time, path: &str) -> bool {
        if self.paths.get(path).is_some_and(|history| history.failed) {
            return false;
        }
        if self.paths.len() >= MOST {
            self.paths.clear();
        }
        self.paths.insert(path.to_owned(), History { since: now, failed: true });
        true
    }

    /// Stores that a path is up. If it had failed, returns the length of the outage.
    pub(crate) fn recover(&mut self, now: Time, path: &str) -> Option<Duration> {
        let before = self.paths.get(path).copied();
        if self.paths.len() >= MOST {
            self.paths.clear();
        }
        self.paths.insert(path.to_owned(), History { since: now, failed: false });
        before.filter(|history| history.failed).map(|history| now.since(history.since))
    }

    /// Renames a path in the history.
    pub(crate) fn rename(&mut self, before: &str, now: String) {
        if let Some(history) = self.paths.remove(before) {
            self.paths.insert(now, history);
        }
    }

    /// Removes a path that was closed cleanly.
    pub(crate) fn forget(&mut self, path: &str) {
        self.paths.remove(path);
    }

    /// Returns since when a path has been up (if `up`) or down (if not). Returns `None` if the path is in the
    /// other state.
    pub(crate) fn since(&self, path: &str, up: bool) -> Option<Time> {
        self.paths.get(path).filter(|history| history.failed != up).map(|history| history.since)
    }

    /// Stores the error that sending through a socket fails with; `None` if sending works again.
    pub(crate) fn note(&mut self, socket: u32, error: Option<String>) {
        if self.errors.len() >= MOST {
            self.errors.clear();
        }
        match error {
            Some(why) => self.errors.insert(socket, why),
            None => self.errors.remove(&socket),
        };
    }

    /// Returns why a path that was up does not answer, if this end knows the cause.
    pub(crate) fn cause(&self, now: Time, path: &PathStatus) -> String {
        if let Some(why) = self.errors.get(&path.route.socket) {
            return why.clone();
        }
        let (silent, unanswered) = (now.since(path.heard), now.since(path.answered));
        match unanswered > silent * 2 {
            true => {
                let ms = unanswered.as_millis();
                format!(
                    "packets arrive, but the peer acknowledged nothing for {ms} ms; this path works in one direction only"
                )
            }
            false => format!("no answer for {} ms", silent.as_millis()),
        }
    }
}

/// Describes for the log which paths take over a failed path's traffic. `name` returns the name of a path.
pub(crate) fn instead(
    status: Option<&SessionStatus>,
    failed: Option<PathId>,
    name: impl Fn(&PathStatus) -> String,
) -> String {
    let of = |state| {
        let paths = status.into_iter().flat_map(|status| &status.paths);
        let usable = paths.filter(|path| Some(path.id) != failed && path.state == state);
        usable.map(&name).collect::<Vec<_>>()
    };
    let found = Some(of(PathState::Up)).filter(|up| !up.is_empty()).unwrap_or_else(|| of(PathState::Standby));
    match found.is_empty() {
        true => "no other path is up".into(),
        false => format!("traffic moves to {}", found.join(" and ")),
    }
}

/// Formats a duration for the log.
pub(crate) fn length(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_once_and_has_a_length() {
        let (mut histories, now) = (Histories::default(), Time::from_millis(1_000));
        assert!(histories.fail(now, "one") && histories.fail(now, "two"));
        assert!(!histories.fail(now + Duration::from_secs(5), "one"), "the path has failed already");
        assert_eq!(histories.since("one", false), Some(now));
        let back = now + Duration::from_secs(75);
        assert_eq!(histories.recover(back, "one").map(length), Some("1 min 15 s".into()));
        assert_eq!((histories.recover(back, "one"), histories.recover(back, "three")), (None, None));
        assert_eq!((histories.since("one", true), histories.since("one", false)), (Some(back), None));
        (0..1_000).for_each(|n| assert!(histories.fail(now, &n.to_string())));
        (0..1_000).for_each(|n| histories.note(n, Some("no link".into())));
        assert!(histories.paths.len() <= MOST && histories.errors.len() <= MOST, "bounded");
    }

    #[test]
    fn lengths_are_told_in_fitting_units() {
        let of = |ms| length(Duration::from_millis(ms));
        assert_eq!(
            [of(340), of(59_900), of(3_599_000), of(7_260_000)],
            ["0.3 s", "59.9 s", "59 min 59 s", "2 h 1 min"]
        );
    }
}
