//! Tests whether a more expensive path increases throughput, by using it while the cheaper ones are full.
//!
//! A flow that keeps no queue, such as BBR in the tunnel, never builds the backlog for which a more expensive
//! path would be used. It sends at the rate that it measured on the cheaper paths. From time to time it
//! probes for more during one round trip, but sees no gain if that round trip takes longer than usual. The
//! more expensive path is therefore given a steady share for some rounds, and stays in use if throughput
//! increases.

use crate::{PathId, PathRow};
use alloc::vec::Vec;
use mpdccp_units::{Duration, Rate, Time};

/// Tests one path at a time.
#[derive(Debug, Default)]
pub(super) struct Extra {
    state: State,
    /// Time of the last check, and number of bytes sent on each path since then.
    since: Time,
    sent: Vec<(PathId, u64)>,
    /// Throughput in the period that ended with the last check.
    through: Rate,
    /// Pause after the next failed trial.
    pause: Option<Duration>,
    /// The flow with the most bytes, and its lead over the other flows (Boyer-Moore majority vote). A trial
    /// uses only packets of this flow.
    heavy: (u32, u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// No trial starts before this time.
    Resting(Time),
    /// The path on trial, when the trial began, and the throughput before it.
    Trying(PathId, Time, Rate),
    /// The additional path in use, and whether it increased throughput at the last check.
    Helping(PathId, bool),
}

impl Default for State {
    fn default() -> State {
        State::Resting(Time::ZERO)
    }
}

/// Interval between checks in round trips of the cheapest path, and the lower and upper limits of the
/// interval.
const ROUNDS: u32 = 10;
const LOOK: (Duration, Duration) = (Duration::from_millis(400), Duration::from_millis(1000));
/// A path is full if it carries data at this fraction of its capacity. The rest goes to headers and to the
/// probing of the flow's congestion control.
const FULL: f64 = 0.88;
/// A trial lasts this many checks. It succeeds if throughput rises above `MORE` times its earlier value, and
/// ends at once if throughput falls below `LESS` times that value.
const LOOKS: u32 = 4;
const MORE: f64 = 1.05;
const LESS: f64 = 0.9;
/// One byte in this many goes to the path on trial. A path that already carries more needs no trial.
const SHARE: u64 = 10;
/// Largest extra cost of a path that is tried, as a multiple of the minimum RTT of the cheapest path. If the
/// difference were larger, flows would not keep enough data in flight.
const MAX_EXCESS: f64 = 1.5;
/// Highest loss of a path that may be tried.
const MOST_LOSS: f32 = 0.005;
/// A queue is standing if round trips are longer than the sum of the minimum RTT, one part in `STANDS` of it,
/// and `JITTER` mean deviations of packet delays.
const STANDS: u32 = 16;
const JITTER: u32 = 2;
/// First and longest pause after a failed trial.
const PAUSE: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(64));

impl Extra {
    /// Returns whether the path may be used as if it cost little more than the cheapest path.
    pub(super) fn counts(&self, id: PathId) -> bool {
        matches!(self.state, State::Trying(path, ..) | State::Helping(path, _) if path == id)
    }

    /// Returns the path on trial if it should get a packet of this flow regardless of the backlog.
    pub(super) fn due(&self, flow: u32) -> Option<PathId> {
        let State::Trying(path, ..) = self.state else { return None };
        (flow == self.heavy.0 && self.sent_on(path) * SHARE < self.total()).then_some(path)
    }

    pub(super) fn on_sent(&mut self, path: PathId, flow: u32, bytes: usize) {
        let bytes = bytes as u64;
        match self.sent.iter_mut().find(|(id, _)| *id == path) {
            Some((_, sent)) => *sent += bytes,
            None => self.sent.push((path, bytes)),
        }
        // The majority vote counts bytes (Boyer and Moore).
        let (heavy, votes) = &mut self.heavy;
        if *heavy == flow {
            *votes += bytes;
        } else if let Some(left) = votes.checked_sub(bytes) {
            *votes = left;
        } else {
            (*heavy, *votes) = (flow, bytes);
        }
    }

    /// Returns whether a check is due. The interval depends on the round-trip time of the cheapest path.
    pub(super) fn is_time(&self, now: Time, rtt: Duration) -> bool {
        now.since(self.since) >= (rtt * ROUNDS).clamp(LOOK.0, LOOK.1)
    }

    /// Checks the paths, which are sorted by cost, cheapest first.
    pub(super) fn look(&mut self, now: Time, paths: &[(Duration, &PathRow)]) {
        let took = now.since(self.since);
        let through = Rate::from_bytes_per(self.total(), took);
        let grows = through.bps() as f64 > self.through.bps() as f64 * MORE;
        // A flow that has only just begun to fill the paths may still grow without another path.
        let may_grow = matches!(self.state, State::Resting(_)) && grows;
        let carries = |path: &PathRow| if !may_grow && is_full(path) { path.seen } else { path.rate };
        let cheaper =
            |at: usize| paths[..at].iter().map(|(_, path)| carries(path)).sum::<Rate>().bps() as f64;
        let found = |id| paths.iter().position(|(_, path)| path.id == id).filter(|at| *at > 0);
        let rate = through.bps() as f64;
        self.state = match self.state {
            State::Resting(until) if now < until => self.state,
            State::Resting(_) => {
                let idle = |at: &usize| self.sent_on(paths[*at].1.id) * SHARE < self.total();
                let next = (1..paths.len()).find(idle).filter(|at| is_worth_a_trial(paths, *at));
                match next {
                    Some(at) if rate >= cheaper(at) * FULL => State::Trying(paths[at].1.id, now, through),
                    _ => State::Resting(now),
                }
            }
            State::Trying(path, since, before) => match found(path) {
                None => State::Resting(now),
                Some(at) if rate > cheaper(at) && rate > before.bps() as f64 * MORE => {
                    self.pause = None;
                    State::Helping(path, true)
                }
                Some(_) if rate < before.bps() as f64 * LESS || now.since(since) >= took * LOOKS => {
                    let pause = self.pause.unwrap_or(PAUSE.0);
                    self.pause = Some((pause * 2).min(PAUSE.1));
                    State::Resting(now + pause)
                }
                Some(_) => self.state,
            },
            State::Helping(path, did) => match found(path).map(|at| rate > cheaper(at)) {
                Some(does) if does || did => State::Helping(path, does),
                _ => State::Resting(now),
            },
        };
        (self.since, self.through) = (now, through);
        self.sent.clear();
    }

    fn total(&self) -> u64 {
        self.sent.iter().map(|(_, sent)| sent).sum()
    }

    fn sent_on(&self, path: PathId) -> u64 {
        self.sent.iter().find(|(id, _)| *id == path).map_or(0, |(_, sent)| *sent)
    }
}

/// Returns whether the path is full. An application-limited path may be faster than observed, but not if it
/// has a standing queue: in that case, a flow in the tunnel sends at the path's full rate without filling the
/// session's queue.
fn is_full(path: &PathRow) -> bool {
    let longer = path.srtt.zip(path.min_rtt).map(|(srtt, min)| srtt.saturating_sub(min + min / STANDS));
    longer.is_some_and(|longer| longer > path.late.deviation * JITTER)
}

/// Returns whether the path at index `at` has few losses and costs little more than the first path. The queue
/// of the first path does not count, because it does not bring other paths closer.
fn is_worth_a_trial(paths: &[(Duration, &PathRow)], at: usize) -> bool {
    let ((_, first), (cost, path)) = (paths[0], paths[at]);
    let near = first.min_rtt.map(|rtt| rtt / 2 + rtt.mul_f64(MAX_EXCESS));
    path.loss <= MOST_LOSS && near.is_some_and(|near| cost <= near)
}

#[cfg(test)]
mod tests {
    use super::super::tests::row;
    use super::*;
    use dccp_proto::ccid::Late;

    const FAST: PathId = PathId(0);
    const SLOW: PathId = PathId(1);

    /// A 10 Mbit/s path with a one-way delay of 10 ms, next to a path whose cost is `more_ms` higher.
    struct World {
        extra: Extra,
        now: Time,
        rows: Vec<PathRow>,
    }

    impl World {
        fn new(more_ms: u64) -> World {
            let rows = alloc::vec![row(0, 3, 20), row(1, 3, 20 + more_ms * 2)];
            World { extra: Extra::default(), now: Time::ZERO, rows }
        }

        /// Lets both paths send at these rates, in Mbit/s, for a second, and then checks them.
        fn second(&mut self, fast: f64, slow: f64) -> &Extra {
            for (path, rate) in [(FAST, fast), (SLOW, slow)] {
                self.extra.on_sent(path, 7, (rate * 125_000.0) as usize);
            }
            self.now += Duration::from_secs(1);
            let paths: Vec<_> = self.rows.iter().map(|row| (row.one_way(), row)).collect();
            self.extra.look(self.now, &paths);
            &self.extra
        }
    }

    #[test]
    fn a_path_is_tried_while_the_cheaper_is_full_and_stays_if_it_brings_more() {
        let mut w = World::new(20);
        assert!(!w.second(8.0, 0.0).counts(SLOW), "the fast path is not full");
        let tried = w.second(9.5, 0.0);
        assert!(tried.counts(SLOW) && !tried.counts(FAST));
        assert!(w.second(9.0, 1.0).counts(SLOW), "throughput has not increased yet");
        assert!(w.second(9.0, 3.0).counts(SLOW));
        assert!((0..10).all(|_| w.second(9.0, 3.0).counts(SLOW)), "helps");
        assert!(w.second(9.0, 0.0).counts(SLOW), "one bad check must not end the use");
        assert!(!w.second(9.0, 0.0).counts(SLOW));
    }

    #[test]
    fn a_trial_that_brings_nothing_ends_and_the_next_comes_later() {
        let mut w = World::new(20);
        let mut tried = |seconds: u32| (0..seconds).filter(|_| w.second(9.5, 0.1).counts(SLOW)).count();
        assert_eq!(tried(5), 4);
        assert_eq!((tried(3), tried(4)), (0, 4), "after 4 s");
        assert_eq!((tried(8), tried(4)), (0, 4), "after 8 s");
    }

    #[test]
    fn a_trial_that_costs_something_ends_at_once() {
        let mut w = World::new(20);
        assert!(w.second(9.5, 0.0).counts(SLOW));
        assert!(!w.second(7.0, 1.0).counts(SLOW));
    }

    #[test]
    fn paths_that_are_far_or_lose_or_carry_their_part_are_not_tried() {
        assert!(!World::new(31).second(9.5, 0.0).counts(SLOW), "31 ms exceed 1.5 round trips of 20 ms");
        assert!(!World::new(20).second(9.5, 3.0).counts(SLOW));
        let mut w = World::new(20);
        w.rows[1].loss = 0.01;
        assert!(!w.second(9.5, 0.0).counts(SLOW));
    }

    /// Returns a world with a flow that sends exactly at the path's rate, so that the path never shows its
    /// limit.
    fn limited(srtt_us: u64, deviation_us: u64) -> World {
        let mut w = World::new(20);
        w.rows[0] = PathRow {
            app_limited: true,
            rate: Rate::from_mbps(28.9),
            srtt: Some(Duration::from_micros(srtt_us)),
            late: Late { deviation: Duration::from_micros(deviation_us), ..Late::default() },
            ..w.rows[0].clone()
        };
        w
    }

    #[test]
    fn a_path_on_which_a_queue_stands_is_full_though_the_application_limits_it() {
        let tried = |srtt_us, deviation_us| {
            let mut w = limited(srtt_us, deviation_us);
            assert!(!w.second(9.5, 0.0).counts(SLOW), "the flow may still grow without the slow path");
            w.second(9.5, 0.0).counts(SLOW)
        };
        assert!(tried(22_000, 300));
        assert!(!tried(21_000, 0), "there is no standing queue");
        assert!(!tried(22_000, 400), "the longer round trip may be jitter");
    }

    #[test]
    fn growth_is_success_while_a_path_is_tried() {
        let mut w = limited(22_000, 0);
        w.second(9.5, 0.0);
        assert!(w.second(9.5, 0.0).counts(SLOW));
        for slow in [1.5, 2.5, 3.5, 4.5, 5.5] {
            assert!(w.second(9.5, slow).counts(SLOW));
            assert_eq!(w.extra.state, State::Helping(SLOW, true), "{slow}");
        }
    }

    #[test]
    fn a_trial_gets_a_tenth_of_the_largest_flow() {
        let mut w = World::new(20);
        w.second(9.5, 0.0);
        let (heavy, light) = (7, 8);
        w.extra.on_sent(FAST, heavy, 11_000);
        w.extra.on_sent(FAST, light, 100);
        assert_eq!((w.extra.due(heavy), w.extra.due(light)), (Some(SLOW), None));
        w.extra.on_sent(SLOW, heavy, 1_300);
        assert_eq!(w.extra.due(heavy), None);
    }
}
