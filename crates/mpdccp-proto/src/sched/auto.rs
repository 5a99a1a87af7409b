use super::distant::Distant;
use super::extra::Extra;
use super::scheduler::{Pick, Scheduler, cost};
use super::trial::Trials;
use crate::{PathId, PathRow, PktInfo, QueueView};
use alloc::vec::Vec;
use mpdccp_units::{Duration, Rate, Time};

/// The automatic choice: earliest delivery in order.
///
/// The cost of a path is its delivery time plus the cost of its losses. A packet goes to the cheapest open
/// path, or waits for a cheaper one. A more expensive path is used only while the backlog keeps the cheaper
/// paths busy for at least the difference in cost. This has three effects: the cheap path never runs idle
/// while the receiver waits for the expensive one; a burst that the cheap path can serve in time stays on it;
/// and a lossy path carries only the traffic that the others cannot.
///
/// A flow with few queued packets stays on the cheapest path, however many packets other flows have queued.
/// The cheapest path keeps that role until another is clearly cheaper.
///
/// Some paths are left out. A path that keeps going up and down is left out for increasing times
/// ([`Trials`]). A path that adds little rate but delays everything is used only if there is a standing
/// backlog ([`Distant`]). While the cheap paths are full, a more expensive path is tried for a while
/// ([`Extra`]); without this trial, a flow that keeps no queue would never discover more capacity.
#[derive(Debug, Default)]
pub(super) struct Auto {
    /// The largest recent difference in cost between the cheapest path and any other path worth using.
    spread: Duration,
    /// Until this time, a more expensive path counts as in use, and needs less backlog to stay in use.
    helping_until: Option<Time>,
    /// The cheapest path. It stays the same until another is clearly cheaper.
    first: Option<PathId>,
    trials: Trials,
    distant: Distant,
    extra: Extra,
    /// The flow of the last packet.
    flow: u32,
    /// See [`Scheduler::head_start`].
    head_start: u64,
    /// For each path that may be used, its cost and its index among the rows. Kept to reuse the allocation.
    used: Vec<(Duration, usize)>,
}

/// A path whose cost exceeds that of the cheapest path by more than this carries no datagrams. It would help
/// only if the cheaper paths took this long to clear their queue, which is too long for datagrams.
const MOST_SPREAD: Duration = Duration::from_millis(150);
/// A more expensive path that is in use stays in use until the backlog is one part in `KEEP` below the
/// threshold.
const KEEP: u32 = 4;
/// A flow counts as small if its queued bytes, times this number, are less than the backlog.
const SMALL: u64 = 8;
/// A path is clearly cheaper than another if its cost is lower by one part in `CLEARLY` and by at least
/// `CLEARLY_LEAST`.
const CLEARLY: u32 = 8;
const CLEARLY_LEAST: Duration = Duration::from_millis(2);

impl Scheduler for Auto {
    fn pick(&mut self, now: Time, pkt: &PktInfo, queue: &QueueView, paths: &[PathRow]) -> Pick {
        self.head_start = 0;
        match paths {
            [] => return Pick::Wait(None),
            [path] => return self.pick_only(now, pkt, path),
            _ => {}
        }
        self.trials.update(paths);
        self.distant.update(now, queue.oldest, paths);
        let mut used = core::mem::take(&mut self.used);
        used.clear();
        used.extend(paths.iter().enumerate().map(|(n, path)| (cost(path), n)));
        self.leave_out(now, queue.streams, paths, &mut used);
        let pick = self.pick_of(now, pkt, queue, paths, &used);
        self.used = used;
        pick
    }

    fn on_sent(&mut self, _now: Time, path: PathId, bytes: usize) {
        self.extra.on_sent(path, self.flow, bytes);
    }

    fn head_start(&self) -> u64 {
        self.head_start
    }

    fn standing_queue(&self) -> Duration {
        self.spread
    }
}

impl Auto {
    /// Returns the same result as [`pick_of`](Self::pick_of) for a single path.
    fn pick_only(&mut self, now: Time, pkt: &PktInfo, path: &PathRow) -> Pick {
        (self.spread, self.first, self.flow) = (Duration::ZERO, Some(path.id), pkt.flow);
        if self.extra.is_time(now, path.srtt.unwrap_or_default()) {
            self.extra.look(now, &[(cost(path), path)]);
        }
        if path.is_open() { Pick::One(path.id) } else { Pick::Wait(None) }
    }

    /// Removes unstable and distant paths from `used`, unless no path would remain. Streams also use distant
    /// paths, because there a distant path delays only the stream's own long bursts.
    fn leave_out(&self, now: Time, streams: bool, paths: &[PathRow], used: &mut Vec<(Duration, usize)>) {
        let permitted = |n: usize| self.trials.permit(now, &paths[n]);
        if used.iter().any(|(_, n)| permitted(*n)) {
            used.retain(|(_, n)| permitted(*n));
        }
        let near = |n: usize| streams || !self.distant.leaves_out(&paths[n]);
        if used.iter().any(|(_, n)| near(*n)) {
            used.retain(|(_, n)| near(*n));
        }
    }

    /// Picks one of `used`, which holds each path's cost and its index in `paths`.
    fn pick_of(
        &mut self,
        now: Time,
        pkt: &PktInfo,
        queue: &QueueView,
        paths: &[PathRow],
        used: &[(Duration, usize)],
    ) -> Pick {
        let used = || used.iter().map(|(cost, n)| (*cost, &paths[*n]));
        let Some(best) = used().map(|(cost, _)| cost).min() else { return Pick::Wait(None) };
        let worth = used().map(|(cost, _)| cost).filter(|cost| *cost <= best + MOST_SPREAD);
        self.spread = worth.max().map_or(Duration::ZERO, |most| most - best);
        let clearly = best + (best / CLEARLY).max(CLEARLY_LEAST);
        let kept = used().find(|(_, path)| Some(path.id) == self.first).filter(|(cost, _)| *cost <= clearly);
        let Some((_, settled)) = kept.or_else(|| used().min_by_key(|(cost, path)| (*cost, path.id))) else {
            return Pick::Wait(None);
        };
        self.first = Some(settled.id);
        let order = |(cost, path): &(Duration, &PathRow)| (path.id != settled.id, *cost, path.id);
        self.flow = pkt.flow;
        if self.extra.is_time(now, settled.srtt.unwrap_or_default()) {
            let mut all: Vec<_> = used().collect();
            all.sort_by_key(order);
            self.extra.look(now, &all);
        }
        let due = self.extra.due(pkt.flow);
        if let Some((_, path)) = used().find(|(_, path)| Some(path.id) == due && path.is_open()) {
            return Pick::One(path.id);
        }
        let open = used().filter(|(_, path)| path.is_open());
        let Some(found) = open.min_by_key(order) else { return Pick::Wait(None) };
        let free = found.1;
        let cheaper = || used().filter(|path| order(path) < order(&found));
        let Some((least_cost, first)) = cheaper().min_by_key(order) else { return Pick::One(free.id) };
        // All cheaper paths serve the backlog together, starting when the first of them opens.
        let rate: Rate = cheaper().map(|(_, path)| path.rate).sum();
        let backlog = queue.bytes.min(queue.flow_bytes.saturating_mul(SMALL));
        let opens = cheaper().map(|(_, path)| path.wait(now)).min().unwrap_or_default();
        // If the oldest packet has already waited longer than the computed time, the paths need at least the
        // time that it has waited.
        let busy = (opens + rate.time_for(backlog)).max(queue.oldest);
        let mut excess = found.0.saturating_sub(least_cost).max(CLEARLY_LEAST);
        if excess > MOST_SPREAD && !queue.streams {
            return Pick::Wait(None);
        }
        if self.extra.counts(free.id) {
            excess = CLEARLY_LEAST;
        } else if first.app_limited {
            // The rate of a path that was idle is out of date until data has taken a round trip.
            excess += first.srtt.unwrap_or_default();
        }
        let helping = self.helping_until.is_some_and(|until| now < until);
        let least = match helping {
            // A long burst of a stream is itself proof that the backlog lasts.
            true if queue.streams => Duration::ZERO,
            true => excess - excess / KEEP,
            false => excess,
        };
        if busy < least {
            return Pick::Wait(None);
        }
        self.helping_until = Some(now + free.srtt.unwrap_or_default() * 2);
        let seen: Rate = cheaper().map(|(_, path)| path.seen).sum();
        self.head_start = if found.0 > clearly { seen.bytes_in(found.0 - best) } else { 0 };
        Pick::One(free.id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{closed, pick, row};
    use super::*;
    use dccp_proto::ccid::Late;

    /// Returns a path of 10 Mbit/s with a round trip of 10 ms whose window is full. It sends 1,250 bytes per
    /// millisecond.
    fn full() -> PathRow {
        closed(0, 3)
    }

    fn auto(backlog: u64, paths: &[PathRow]) -> Pick {
        pick(&mut Auto::default(), backlog, paths)
    }

    #[test]
    fn a_more_expensive_path_helps_only_while_the_backlog_keeps_the_cheaper_busy() {
        let slow = row(1, 3, 50); // 20 ms more expensive
        assert_eq!(auto(90_000, &[row(0, 3, 10), slow.clone()]), Pick::One(PathId(0)), "open");
        assert_eq!(auto(20_000, &[full(), slow.clone()]), Pick::Wait(None), "16 ms");
        assert_eq!(auto(26_000, &[full(), slow.clone()]), Pick::One(PathId(1)), "21 ms");
        let mut scheduler = Auto::default();
        assert_eq!(pick(&mut scheduler, 26_000, &[full(), slow.clone()]), Pick::One(PathId(1)));
        assert_eq!(pick(&mut scheduler, 20_000, &[full(), slow.clone()]), Pick::One(PathId(1)), "kept");
        assert_eq!(pick(&mut scheduler, 10_000, &[full(), slow]), Pick::Wait(None));
        assert_eq!(scheduler.standing_queue(), Duration::from_millis(20));
    }

    #[test]
    fn paths_without_any_delay_are_as_fast_as_a_rate_can_say() {
        let fast = |id| PathRow { rate: Rate::MAX, seen: Rate::MAX, ..closed(id, 3) };
        assert_eq!(auto(1 << 20, &[fast(0), fast(1), row(2, 3, 50)]), Pick::Wait(None));
    }

    #[test]
    fn streams_use_any_distance_once_their_backlog_lasts_that_long() {
        let (mut scheduler, paths) = (Auto::default(), [full(), row(1, 3, 810)]); // 400 ms more expensive
        let mut at = |streams, oldest| {
            let oldest = Duration::from_millis(oldest);
            let queue =
                QueueView { bytes: 50_000, flow_bytes: 50_000, oldest, streams, ..QueueView::default() };
            let pick = scheduler.pick(Time::ZERO, &PktInfo::default(), &queue, &paths);
            (pick, scheduler.head_start())
        };
        assert_eq!(at(false, 5_000), (Pick::Wait(None), 0));
        assert_eq!(at(true, 399), (Pick::Wait(None), 0));
        assert_eq!(
            at(true, 401),
            (Pick::One(PathId(1)), 500_000),
            "the head start is 400 ms at the near path's rate"
        );
        assert_eq!(at(true, 0), (Pick::One(PathId(1)), 500_000), "the distant path must stay in use");
        assert_eq!(pick(&mut scheduler, 50_000, &[row(0, 3, 10), row(1, 3, 810)]), Pick::One(PathId(0)));
        assert_eq!(scheduler.head_start(), 0);
    }

    #[test]
    fn equal_paths_share_all_but_the_least() {
        assert_eq!(auto(3_000, &[full(), row(1, 3, 10)]), Pick::One(PathId(1)));
        assert_eq!(auto(1_000, &[full(), row(1, 3, 10)]), Pick::Wait(None));
    }

    #[test]
    fn the_first_path_stays_until_another_is_clearly_cheaper() {
        let mut scheduler = Auto::default();
        let mut first = |a, b| pick(&mut scheduler, 1_000, &[row(0, 3, a), row(1, 3, b)]);
        assert_eq!(first(40, 42), Pick::One(PathId(0)));
        assert_eq!(first(42, 40), Pick::One(PathId(0)), "noise");
        assert_eq!(first(50, 40), Pick::One(PathId(1)));
        assert_eq!(first(40, 42), Pick::One(PathId(1)));
    }

    #[test]
    fn a_full_path_without_a_queue_has_the_next_one_tried() {
        let mut scheduler = Auto::default();
        let paths = [row(0, 3, 20), row(1, 3, 60)];
        let mut on_slow = [0; 2];
        for ms in 0..1_500u64 {
            let now = Time::from_millis(ms);
            let (pkt, queue) = (PktInfo { flow: 7, ..PktInfo::default() }, QueueView::default());
            let Pick::One(path) = scheduler.pick(now, &pkt, &queue, &paths) else { panic!() };
            scheduler.on_sent(now, path, 1_250); // 10 Mbit/s
            on_slow[usize::from(ms >= 400)] += u32::from(path == PathId(1));
        }
        assert_eq!(on_slow[0], 0, "no trial may start before the first check");
        assert!(
            (80..130).contains(&on_slow[1]),
            "a tenth of 1100 packets must go to the slow path: {}",
            on_slow[1]
        );
    }

    #[test]
    fn a_path_that_comes_and_goes_is_left_out_unless_it_is_alone() {
        let mut scheduler = Auto::default();
        let mut at = |ms, up_since, alone: bool| {
            let path = PathRow { up_since: Time::from_millis(up_since), ..row(1, 3, 10) };
            let paths = [row(0, 3, 40), path];
            let paths = if alone { &paths[1..] } else { &paths };
            scheduler.pick(Time::from_millis(ms), &PktInfo::default(), &QueueView::default(), paths)
        };
        assert_eq!(at(0, 0, false), Pick::One(PathId(1)));
        assert_eq!(at(1_000, 1_000, false), Pick::One(PathId(0)));
        assert_eq!(
            at(1_001, 1_000, true),
            Pick::One(PathId(1)),
            "a path on trial is used if it is the only one"
        );
        assert_eq!(at(1_500, 1_000, false), Pick::One(PathId(1)));
    }

    /// The shortcut for a single path leaves the same state as a comparison of all paths.
    #[test]
    fn a_path_alone_is_picked_as_among_several() {
        let queue = QueueView { packets: 9, bytes: 9_000, ..QueueView::default() };
        let (mut short, mut long) = (Auto::default(), Auto::default());
        let both = [row(0, 3, 20), row(1, 3, 60)];
        for ms in 0..3_000u64 {
            let (now, pkt) = (Time::from_millis(ms), PktInfo { flow: 7, ..PktInfo::default() });
            let alone = [if ms % 3 == 0 { full() } else { both[0].clone() }];
            let paths = if (1_000..2_000).contains(&ms) { &alone[..] } else { &both[..] };
            let picked = short.pick(now, &pkt, &queue, paths);
            let compared = match paths {
                [_] => {
                    let mut used: Vec<_> =
                        paths.iter().enumerate().map(|(n, path)| (cost(path), n)).collect();
                    long.leave_out(now, false, paths, &mut used);
                    long.pick_of(now, &pkt, &queue, paths, &used)
                }
                _ => long.pick(now, &pkt, &queue, paths),
            };
            assert_eq!(picked, compared, "{ms} ms");
            if let Pick::One(path) = picked {
                short.on_sent(now, path, 1_250);
                long.on_sent(now, path, 1_250);
            }
            short.used.clear();
            long.used.clear();
            assert_eq!(alloc::format!("{short:?}"), alloc::format!("{long:?}"), "{ms} ms");
        }
    }

    #[test]
    fn loss_is_a_cost_and_too_dear_paths_are_left_out() {
        let lossy = PathRow { loss: 0.3, ..row(1, 3, 5) };
        assert_eq!(
            auto(1_000, &[row(0, 3, 40), lossy.clone()]),
            Pick::One(PathId(0)),
            "a slower path without losses must be preferred"
        );
        assert_eq!(auto(1 << 20, &[full(), lossy]), Pick::Wait(None), "600 ms");
        let slightly = PathRow { loss: 0.01, ..row(1, 3, 10) };
        assert_eq!(auto(20_000, &[full(), slightly.clone()]), Pick::Wait(None), "20 ms");
        assert_eq!(auto(26_000, &[full(), slightly]), Pick::One(PathId(1)));
        assert_eq!(auto(1 << 20, &[full(), row(1, 3, 400)]), Pick::Wait(None));
        let mut scheduler = Auto::default();
        pick(&mut scheduler, 1, &[full(), row(1, 3, 400)]);
        assert_eq!(scheduler.standing_queue(), Duration::ZERO);
    }

    #[test]
    fn a_far_and_slow_path_helps_only_against_a_standing_queue() {
        let mut scheduler = Auto::default();
        let mut at = |ms, oldest, streams| {
            let oldest = Duration::from_millis(oldest);
            let queue = QueueView { packets: 100, bytes: 100_000, oldest, flow_bytes: 100_000, streams };
            let paths = [full(), far(ms)];
            let pick = scheduler.pick(Time::from_millis(ms), &PktInfo::default(), &queue, &paths);
            (pick, scheduler.standing_queue())
        };
        assert_eq!(
            at(0, 0, false),
            (Pick::One(PathId(1)), Duration::from_millis(45)),
            "a new path must find its rate"
        );
        (1..800).for_each(|ms| drop(at(ms, 0, false)));
        assert_eq!(at(800, 0, false), (Pick::Wait(None), Duration::ZERO));
        assert_eq!(at(810, 50, true).0, Pick::One(PathId(1)), "streams");
        (811..1_820).for_each(|ms| drop(at(ms, 80, false)));
        assert_eq!(at(1_820, 80, false), (Pick::One(PathId(1)), Duration::from_millis(45)));
    }

    /// Returns a distant path whose gate is open for one millisecond in ten.
    fn far(ms: u64) -> PathRow {
        let gate = if ms.is_multiple_of(10) { row(1, 3, 1).gate } else { closed(1, 3).gate };
        PathRow { seen: Rate::from_bps(1_000_000), gate, ..row(1, 3, 100) }
    }

    #[test]
    fn a_far_and_slow_path_is_used_while_the_near_path_is_on_trial() {
        let queue = QueueView { packets: 100, bytes: 100_000, ..QueueView::default() };
        let mut scheduler = Auto::default();
        let mut at = |ms, near: &PathRow| {
            scheduler.pick(Time::from_millis(ms), &PktInfo::default(), &queue, &[near.clone(), far(ms)])
        };
        (0..800).for_each(|ms| drop(at(ms, &row(0, 3, 10))));
        assert_eq!(at(800, &full()), Pick::Wait(None));
        let back = |since| PathRow { up_since: Time::from_millis(since), ..row(0, 3, 10) };
        (1_000..1_050).for_each(|ms| drop(at(ms, &back(1_000))));
        (2_000..2_050).for_each(|ms| drop(at(ms, &back(2_000))));
        assert_eq!(at(2_060, &back(2_000)), Pick::One(PathId(1)));
    }

    #[test]
    fn a_path_whose_packets_overtake_each_other_is_as_far_as_its_latest_packets() {
        let late = |mean, deviation| Late {
            mean: Duration::from_millis(mean),
            deviation: Duration::from_millis(deviation),
        };
        let jittery = PathRow { late: late(20, 0), ..row(0, 3, 10) };
        assert_eq!(auto(1_000, &[jittery, row(1, 3, 40)]), Pick::One(PathId(1)), "costs of 25 and 20 ms");
        let jittery = PathRow { late: late(10, 4), ..row(0, 3, 10) };
        assert_eq!(auto(1_000, &[jittery, row(1, 3, 40)]), Pick::One(PathId(1)), "costs of 27 and 20 ms");
        let jittery = PathRow { late: late(5, 2), ..row(0, 3, 10) };
        assert_eq!(auto(1_000, &[jittery, row(1, 3, 40)]), Pick::One(PathId(0)), "costs of 16 and 20 ms");
    }

    #[test]
    fn a_small_flow_stays_on_the_cheapest_path() {
        let paths = [full(), row(1, 3, 50)];
        let queue = QueueView { packets: 200, bytes: 200_000, flow_bytes: 100, ..QueueView::default() };
        let mut scheduler = Auto::default();
        assert_eq!(scheduler.pick(Time::ZERO, &PktInfo::default(), &queue, &paths), Pick::Wait(None));
        let bulk = QueueView { flow_bytes: 150_000, ..queue };
        assert_eq!(scheduler.pick(Time::ZERO, &PktInfo::default(), &bulk, &paths), Pick::One(PathId(1)));
    }

    #[test]
    fn a_burst_does_not_spill_from_a_path_that_was_idle() {
        let idle = PathRow { app_limited: true, ..full() };
        assert_eq!(
            auto(10_000, &[idle.clone(), row(1, 3, 10)]),
            Pick::Wait(None),
            "the wait of 8 ms is shorter than a round trip"
        );
        assert_eq!(auto(16_000, &[idle, row(1, 3, 10)]), Pick::One(PathId(1)));
    }
}
