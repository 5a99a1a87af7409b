//! Leaves out unstable paths for a while, because a path that keeps going up and down does more harm than
//! good.

use crate::{PathId, PathRow};
use alloc::vec::Vec;
use mpdccp_units::{Duration, Time};

/// History of each path.
#[derive(Debug, Default)]
pub(super) struct Trials(Vec<Trial>);

#[derive(Debug)]
struct Trial {
    path: PathId,
    /// Time at which the path last came up.
    up_since: Time,
    /// The path is left out until this time.
    until: Time,
    /// Duration of the next pause.
    pause: Duration,
}

/// First and longest pauses. The pause doubles if the path comes up again less than `SOON` pauses after it
/// last came up. Rare, short outages do not lengthen the pause, because such a path is still useful.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(32));
const SOON: u32 = 5;
/// Once a path has been in use for this long, its next pause is the shortest one again.
const FORGIVEN: Duration = Duration::from_secs(30);
/// Maximum number of paths remembered. If there are more, paths that are gone are forgotten.
const MOST: usize = 64;

impl Trials {
    /// Updates all paths.
    pub(super) fn update(&mut self, paths: &[PathRow]) {
        if self.0.len() > MOST {
            self.0.retain(|trial| paths.iter().any(|path| path.id == trial.path));
        }
        for &PathRow { id: path, up_since, .. } in paths {
            let Some(trial) = self.0.iter_mut().find(|trial| trial.path == path) else {
                self.0.push(Trial { path, up_since, until: Time::ZERO, pause: PAUSE.0 });
                continue;
            };
            if up_since > trial.up_since {
                let before = core::mem::replace(&mut trial.up_since, up_since);
                if up_since.since(trial.until) > FORGIVEN {
                    trial.pause = PAUSE.0;
                } else if trial.until > Time::ZERO && up_since.since(before) < trial.pause * SOON {
                    trial.pause = (trial.pause * 2).min(PAUSE.1);
                }
                trial.until = up_since + trial.pause;
            }
        }
    }

    /// Returns whether the path may be used.
    pub(super) fn permit(&self, now: Time, path: &PathRow) -> bool {
        self.0.iter().all(|trial| trial.path != path.id || trial.until <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    #[test]
    fn a_path_that_comes_and_goes_waits_longer_each_time() {
        let mut trials = Trials::default();
        // Returns the time between a path's return and its use.
        let mut back = |at: u64| {
            let up_since = Time::from_millis(at);
            let path = PathRow { up_since, ..row(1, 3, 10) };
            let used = |ms: &u64| {
                let now = up_since + Duration::from_millis(*ms);
                trials.update(core::slice::from_ref(&path));
                trials.permit(now, &path)
            };
            (0..60_000).find(used).unwrap()
        };
        assert_eq!([1_000, 2_000, 3_000, 4_000].map(&mut back), [0, 500, 1_000, 2_000]);
        assert_eq!(back(100_000), 500, "the pause must start over after a long time");
        assert_eq!(
            [103_000, 106_000, 200_000].map(&mut back),
            [500; 3],
            "rare outages must not lengthen the pause"
        );
        for n in 0..20 {
            assert!(back(300_000 + n * 1_000) <= 32_000);
        }
        assert_eq!(back(321_000), 32_000);
    }

    #[test]
    fn the_pause_begins_when_the_path_comes_up_and_not_with_the_next_packet() {
        let mut trials = Trials::default();
        let up_at = |second: u64| PathRow { up_since: Time::from_millis(second * 1_000), ..row(1, 3, 10) };
        trials.update(&[up_at(1)]);
        // The path came up again at 2 s, and nothing was sent until 3 s.
        trials.update(&[up_at(2)]);
        assert!(!trials.permit(Time::from_millis(2_499), &up_at(2)));
        assert!(trials.permit(Time::from_millis(3_000), &up_at(2)));
    }
}
