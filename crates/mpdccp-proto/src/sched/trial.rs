//! Which paths are left out for a while: a path that adds much delay for little rate, or comes and goes, hurts more than it helps.

use crate::{PathId, PathRow};
use alloc::vec::Vec;
use units::{Duration, Rate, Time};

/// What became of each path that was tried.
#[derive(Debug, Default)]
pub(super) struct Trials(Vec<Trial>);

#[derive(Debug)]
struct Trial {
    path: PathId,
    /// When it last came up.
    up_since: Time,
    /// Since when it has been in use.
    since: Time,
    /// Left out until then.
    until: Time,
    /// For how long, if it is left out again.
    pause: Duration,
}

/// A path that as much as doubles the rate may add this much delay, others in proportion.
const WORTH: Duration = Duration::from_millis(200);
/// Round trips after which a path's rate is known.
const ROUNDS: u32 = 8;
/// How long a path is left out the first time, and at most; doubled each time.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(32));
/// Paths remembered; beyond, those that are gone are forgotten.
const MOST: usize = 64;
/// A path that was good for this long begins anew.
const FORGIVEN: Duration = Duration::from_secs(30);

impl Trial {
    fn leave_out(&mut self, now: Time) {
        if now.since(self.until) > FORGIVEN {
            self.pause = PAUSE.0;
        }
        self.until = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE.1);
    }
}

impl Trials {
    /// Looks at all paths; `cost` is what each takes to deliver.
    pub(super) fn update(&mut self, now: Time, paths: &[PathRow], cost: fn(&PathRow) -> Duration) {
        if self.0.len() > MOST {
            self.0.retain(|trial| paths.iter().any(|path| path.id == trial.path));
        }
        for path in paths {
            let poor = self.is_poor(now, path, paths, cost);
            let Some(trial) = self.0.iter_mut().find(|trial| trial.path == path.id) else {
                let (path, up_since) = (path.id, path.up_since);
                self.0.push(Trial { path, up_since, since: now, until: Time::ZERO, pause: PAUSE.0 });
                continue;
            };
            let is_back = path.up_since > trial.up_since;
            trial.up_since = path.up_since;
            if path.idle || now < trial.until {
                trial.since = now;
            }
            let known = now.since(trial.since) >= path.srtt.unwrap_or_default() * ROUNDS;
            if is_back || (known && !path.app_limited && poor) {
                trial.leave_out(now);
            }
        }
    }

    /// Whether the path is to be used.
    pub(super) fn permit(&self, now: Time, path: &PathRow) -> bool {
        self.0.iter().all(|trial| trial.path != path.id || trial.until <= now)
    }

    /// It adds more delay than its rate is worth beside those that are cheaper.
    fn is_poor(&self, now: Time, path: &PathRow, paths: &[PathRow], cost: fn(&PathRow) -> Duration) -> bool {
        let mine = cost(path);
        let cheaper = || paths.iter().filter(|other| cost(other) < mine && self.permit(now, other));
        let Some(least) = cheaper().map(cost).min() else { return false };
        let rate = cheaper().fold(Rate::ZERO, |sum, other| Rate::from_bps(sum.bps() + other.rate.bps()));
        let share = (path.rate.bps() as f64 / rate.bps().max(1) as f64).min(1.0);
        mine - least > Duration::from_secs_f64(WORTH.as_secs_f64() * share)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;

    fn cost(path: &PathRow) -> Duration {
        path.one_way()
    }

    fn update(trials: &mut Trials, ms: u64, paths: &[PathRow]) -> Vec<u32> {
        let now = Time::from_millis(ms);
        trials.update(now, paths, cost);
        paths.iter().filter(|path| trials.permit(now, path)).map(|path| path.id.0).collect()
    }

    #[test]
    fn delay_must_be_worth_its_rate() {
        let with = |mbps| PathRow { rate: Rate::from_mbps(mbps), ..row(1, 3, 110) };
        for (mbps, used) in [(10.0, true), (2.6, true), (2.4, false), (0.1, false)] {
            let paths = [row(0, 3, 10), with(mbps)];
            let mut trials = Trials::default();
            assert_eq!(update(&mut trials, 0, &paths), [0, 1], "tried");
            assert_eq!(update(&mut trials, 800, &paths), [0, 1], "not known yet");
            assert_eq!(update(&mut trials, 900, &paths).len() == 2, used, "{mbps} Mbit/s for 50 ms");
        }
        let paths = [row(0, 3, 10), PathRow { app_limited: true, ..with(0.1) }];
        let mut trials = Trials::default();
        assert!((0..10_000).step_by(100).all(|ms| update(&mut trials, ms, &paths).len() == 2), "unknown");
    }

    #[test]
    fn who_disappoints_is_tried_ever_more_rarely_and_forgiven() {
        let paths = [row(0, 3, 10), PathRow { rate: Rate::from_mbps(0.1), ..row(1, 3, 110) }];
        let mut trials = Trials::default();
        let used = (0..100_000).filter(|ms| update(&mut trials, *ms, &paths).len() == 2).count();
        assert!((6 * 880..12 * 880).contains(&used), "{used} ms: eight round trips each time");
        let mut good = paths.clone();
        good[1].rate = Rate::from_mbps(10.0);
        for ms in (100_000..170_000).step_by(100) {
            update(&mut trials, ms, &good);
        }
        update(&mut trials, 170_000, &paths);
        assert_eq!(update(&mut trials, 170_400, &paths), [0]);
        assert_eq!(update(&mut trials, 170_600, &paths), [0, 1], "as the first time");
    }

    #[test]
    fn who_comes_and_goes_is_used_ever_later() {
        let mut trials = Trials::default();
        let mut delays = Vec::new();
        for n in 0..4u64 {
            let back = 1_000 + n * 10_000;
            update(&mut trials, back - 900, &[row(0, 3, 10)]);
            let up = Time::from_millis(back);
            let paths = [row(0, 3, 10), PathRow { up_since: up, ..row(1, 3, 10) }];
            delays.push((0..10_000).find(|ms| update(&mut trials, back + ms, &paths).len() == 2).unwrap());
        }
        assert_eq!(delays, [0, 500, 1_000, 2_000]);
    }
}
