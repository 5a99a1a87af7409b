//! Paths that would add little rate but delay everything, because their delays are long and their rates low
//! compared with the others.
//!
//! In-order delivery takes as long as the longest delay among the paths in use and, after a loss on that
//! path, until the retransmission arrives. Such a path may raise the rate of a TCP flow in the tunnel by a
//! tenth, but makes the flow's round trips several times longer. The flow then grows more slowly than without
//! that path.

use super::scheduler::cost;
use crate::{PathId, PathRow};
use alloc::vec::Vec;
use dccp_proto::Gate;
use mpdccp_units::{Duration, Rate, Time};

/// The state of each path, and whether the backlog requires distant paths.
#[derive(Debug, Default)]
pub(super) struct Distant {
    paths: Vec<Known>,
    /// Start of the current standing queue.
    standing: Option<Time>,
    needed: bool,
}

#[derive(Debug)]
struct Known {
    path: PathId,
    up_since: Time,
    /// Time of the last update.
    at: Time,
    /// Total time for which the path could not send (its gate was closed), less a fraction of the time for
    /// which it could.
    limited: Duration,
    /// Time until which the path's gate is known to be closed.
    shut_until: Time,
    distant: bool,
}

/// A path's rate is known once its gate has been closed for more than this many round trips in total. Time
/// with an open gate is subtracted from the total, but only one part in [`OPEN`] of it.
const FOUND: u32 = 6;
/// See [`FOUND`]. While its gate is open, a path is not loaded enough to show its capacity.
const OPEN: u32 = 4;
/// A path is distant if its cost is more than `FARTHER` times that of the cheapest path, and its rate is less
/// than one part in `PART` of the combined rate of all cheaper paths.
const FARTHER: u32 = 2;
const PART: u64 = 8;
/// As in CoDel (RFC 8289 section 4.4), a queue counts as standing if its packets wait for longer than this
/// plus an eighth of a round trip.
const STANDS: Duration = Duration::from_millis(5);
/// If a standing queue lasts both for this many round trips and for this time, the flow is not reacting to
/// congestion signals.
const STAYS: (u32, Duration) = (10, Duration::from_secs(1));
/// Maximum number of paths remembered. If there are more, paths missing from the current rows are forgotten.
const MOST: usize = 64;

impl Distant {
    /// Updates all paths. `oldest` is how long the packet at the head has waited.
    pub(super) fn update(&mut self, now: Time, oldest: Duration, paths: &[PathRow]) {
        // Remember paths missing from `paths`: perhaps their MTU is too small for just this packet.
        let many = self.paths.len() > MOST;
        self.paths.retain(|known| match paths.iter().find(|path| path.id == known.path) {
            Some(path) => path.up_since == known.up_since,
            None => !many,
        });
        let Some(nearest) = paths.iter().min_by_key(|path| cost(path)) else { return };
        let best = cost(nearest);
        for path in paths {
            let n = self.paths.iter().position(|known| known.path == path.id).unwrap_or_else(|| {
                let limited = Duration::ZERO;
                let (id, up_since, shut_until) = (path.id, path.up_since, Time::ZERO);
                self.paths.push(Known { path: id, up_since, at: now, limited, shut_until, distant: false });
                self.paths.len() - 1
            });
            let known = &mut self.paths[n];
            let (before, since) = (known.at, now.since(known.at));
            known.at = now;
            let srtt = path.srtt.unwrap_or_default();
            let shut = known.shut_until.min(now).since(before).min(srtt);
            known.limited = (known.limited + shut).min(srtt * FOUND * 2);
            if !known.distant {
                known.limited = known.limited.saturating_sub((since.min(srtt) - shut) / OPEN);
            }
            known.shut_until = match path.gate {
                Gate::Open { .. } => now,
                Gate::At(until, _) => until,
                Gate::Closed(_) => Time::MAX,
            };
            let far = known.limited > srtt * FOUND && cost(path) > best * FARTHER;
            known.distant = far && {
                let nearer = paths.iter().filter(|near| cost(near) < cost(path));
                path.seen.bps().saturating_mul(PART) < nearer.map(|near| near.seen).sum::<Rate>().bps()
            };
        }
        let rtt = nearest.srtt.unwrap_or_default();
        self.standing = (oldest > STANDS + rtt / 8).then(|| self.standing.unwrap_or(now));
        self.needed = self.standing.is_some_and(|since| now.since(since) > (rtt * STAYS.0).max(STAYS.1));
    }

    /// Returns whether the path is left out.
    pub(super) fn leaves_out(&self, path: &PathRow) -> bool {
        !self.needed && self.paths.iter().any(|known| known.path == path.id && known.distant)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;
    use dccp_proto::Why;

    /// Simulates a 10 Mbit/s path with a 10 ms round trip next to `far`, whose gate is closed for nine of
    /// every ten milliseconds. `waits` gives the queueing time at each millisecond, in ms. Returns whether
    /// `far` is left out at each millisecond.
    fn left_out(far: PathRow, waits: impl Fn(u64) -> u64) -> Vec<bool> {
        left_out_while(far, |ms| ms % 10 > 0, waits)
    }

    fn left_out_while(far: PathRow, shut: impl Fn(u64) -> bool, waits: impl Fn(u64) -> u64) -> Vec<bool> {
        let (mut distant, mut paths) = (Distant::default(), [row(0, 3, 10), far]);
        let look = |ms| {
            paths[1].gate = match shut(ms) {
                true => Gate::Closed(Why::Window),
                false => Gate::Open { burst: 1500 },
            };
            distant.update(Time::from_millis(ms), Duration::from_millis(waits(ms)), &paths);
            assert!(!distant.leaves_out(&paths[0]));
            distant.leaves_out(&paths[1])
        };
        (0..4_000).map(look).collect()
    }

    fn far(mbps: u64, rtt: u64) -> PathRow {
        PathRow { seen: Rate::from_bps(mbps * 1_000_000), ..row(1, 3, rtt) }
    }

    #[test]
    fn a_path_is_distant_if_it_is_far_and_slow_and_that_is_known() {
        let never = |far| !left_out(far, |_| 0).contains(&true);
        assert!(never(far(2, 100)), "a path with enough rate is not distant");
        assert!(never(far(1, 20)), "a path with a short round trip is not distant");
        let held_back = left_out_while(far(1, 100), |ms| ms % 10 == 0, |_| 0);
        assert!(!held_back.contains(&true), "a path whose gate is mostly open has not shown its rate");
        let looks = left_out(far(1, 100), |_| 0);
        assert!(!looks[..600].contains(&true), "the rate is known only after six round trips");
        assert!(!looks[720..].contains(&false));
        let near_but_lossy = PathRow { loss: 0.01, ..far(1, 10) };
        assert!(left_out(near_but_lossy, |_| 0).contains(&true), "a lossy path delays as much as a far one");
    }

    #[test]
    fn a_path_that_is_too_narrow_for_some_packets_is_judged_all_the_same() {
        let (mut distant, near) = (Distant::default(), row(0, 3, 10));
        let far = PathRow { gate: Gate::Closed(Why::Window), ..far(1, 100) };
        for ms in 0..2_000 {
            let both = [near.clone(), far.clone()];
            let offer = if ms % 2 == 0 { &both[..] } else { &both[..1] };
            distant.update(Time::from_millis(ms), Duration::ZERO, offer);
        }
        assert!(distant.leaves_out(&far));
    }

    #[test]
    fn a_distant_path_helps_while_the_queue_stays() {
        let looks = left_out(far(1, 100), |ms| if (1_000..3_000).contains(&ms) { 20 } else { 2 });
        assert!(!looks[1_000..2_000].contains(&false));
        assert!(!looks[2_010..3_000].contains(&true));
        assert!(!looks[3_000..].contains(&false));
        let saw = left_out(far(1, 100), |ms| ms % 500);
        assert!(!saw[720..].contains(&false), "a queue that drains sometimes is not standing");
    }
}
