//! Active reordering: decides when a hole is given up. `adaptive.rs` and `active_fixed.rs` determine how long
//! to wait.

use super::buffer::{Buffer, Hole, Place, Put};
use super::newest::NewestOfFlow;
use super::track::Track;
use super::{Arrival, Back, ReorderStats, Reorderer};
use crate::PathId;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use dccp_wire::Seq;
use mpdccp_units::{Duration, Time};

/// For this long after a duplicate, the receiver assumes that the peer sends copies on several paths. For
/// this long after data without MP_SEQ, it assumes that the packets lost by a path carried such data.
const AMBIGUOUS: Duration = Duration::from_secs(10);
/// Held packets are delivered every `TICK`, in bursts of `BURST` packets or an eighth of the backlog,
/// whichever is larger.
const BURST: usize = 32;
const TICK: Duration = Duration::from_millis(1);
/// Maximum number of paths remembered. If there are more, paths that are down are forgotten.
const MAX_TRACKS: usize = 32;

/// State of each path.
pub(super) type Tracks = BTreeMap<PathId, Track>;

/// A rule that says how long a hole may last. Each rule has its own file.
pub(super) trait Rule: Send + core::fmt::Debug {
    /// Returns whether a hole is given up as soon as it is proven lost.
    fn trusts_proofs(&self) -> bool;
    /// Returns whether the rule waits for repairs, that is, never gives up a packet that a repair may still
    /// deliver.
    fn waits_for_repairs(&self) -> bool;
    /// Returns the lag that the rule learns from a packet that arrived `late` after its hole was detected, or
    /// `None` if the rule does not learn.
    fn worth(&self, _late: Duration) -> Option<Duration> {
        None
    }
    /// Returns how long `hole` may last unless it is proven lost.
    fn wait_for(&self, tracks: &Tracks, hole: Hole) -> Duration;
    /// Returns the longest time that any hole may currently last.
    fn longest(&self, tracks: &Tracks) -> Duration;
}

/// Returns the paths that may still deliver packets of `hole`.
pub(super) fn candidates(tracks: &Tracks, hole: Hole) -> impl Iterator<Item = &Track> {
    let past = move |t: &Track| t.floor(hole.first).is_some_and(|floor| floor >= hole.end);
    tracks.values().filter(move |t| t.up && !past(t))
}

/// Holds packets behind a hole until the hole is filled, proven lost, or times out. Each hole has its own
/// timer.
#[derive(Debug)]
pub(super) struct Active {
    rule: Box<dyn Rule>,
    /// How long a repair may take. No hole is given up before this time.
    repair: Duration,
    buffer: Buffer,
    tracks: Tracks,
    /// Time at which the last duplicate, or the last data without MP_SEQ, arrived.
    ambiguous: Option<Time>,
    newest: NewestOfFlow,
    /// Number of ready packets that may be delivered now, and the time at which that number was last updated.
    /// Each arrival adds one, so packets that arrive in order never wait, however many arrive between two
    /// calls of [`pop`](Reorderer::pop).
    allowed: usize,
    counted: Time,
    stats: ReorderStats,
}

/// The next step for the hole at the head.
enum Verdict {
    Lost,
    Until(Time),
}

impl Active {
    pub(super) fn new(rule: impl Rule + 'static) -> Active {
        Active {
            rule: Box::new(rule),
            repair: Duration::ZERO,
            buffer: Buffer::new(),
            tracks: Tracks::new(),
            ambiguous: None,
            newest: NewestOfFlow::default(),
            allowed: BURST - 1,
            counted: Time::ZERO,
            stats: ReorderStats::default(),
        }
    }

    fn track(&mut self, path: PathId) -> &mut Track {
        if self.tracks.len() >= MAX_TRACKS && !self.tracks.contains_key(&path) {
            self.tracks.retain(|_, t| t.up);
        }
        self.tracks.entry(path).or_default()
    }

    /// Learns the lag of `path` from a packet that arrived on it after being missing since `missed`.
    fn learn(&mut self, now: Time, path: PathId, missed: Time) {
        if let Some(worth) = self.rule.worth(now.since(missed)) {
            self.track(path).late.add(now, worth);
        }
    }

    /// Finds the exact distance to the flow's previous packet if the peer has [rounded](Back::write) it.
    /// Distances above 127 are rounded, such as those of a call during a download. With a rounded distance, a
    /// packet also waits for other flows on slower paths. The newest packet received of the flow is the
    /// previous one if two conditions hold. First, the peer would round its distance to `back`. Second, no
    /// packet of the flow is missing between it and the rounded distance: either no packet at all is missing
    /// there, or the flow never sends two packets so close to each other.
    fn refine(&mut self, flow: u32, position: u64, back: Back) -> Back {
        let (Back::Exactly(told) | Back::Beyond(told)) = back;
        let Some(newest) = self.newest.replace(flow, position, told) else { return back };
        let distance = position - newest.position;
        let alone = || {
            newest.least > distance - told || !self.buffer.has_hole(newest.position + 1, position - told + 1)
        };
        if Back::read(Back::write(distance)) == Some(back) && alone() {
            Back::Exactly(distance)
        } else {
            back
        }
    }

    fn judge(&mut self, now: Time, hole: Hole) -> Verdict {
        let repaired = hole.seen + self.repair;
        if self.rule.trusts_proofs() && (self.is_passed(hole) || self.is_alone_in_a_gap(now, hole)) {
            return if repaired <= now { Verdict::Lost } else { Verdict::Until(repaired) };
        }
        Verdict::Until(repaired.max(hole.seen + self.rule.wait_for(&self.tracks, hole)))
    }

    fn is_passed(&self, hole: Hole) -> bool {
        self.tracks.values().any(|t| t.up) && candidates(&self.tracks, hole).next().is_none()
    }

    fn is_alone_in_a_gap(&self, now: Time, hole: Hole) -> bool {
        let ambiguous = self.ambiguous.is_some_and(|t| now.since(t) < AMBIGUOUS);
        let mut gaps = self.tracks.values().flat_map(|t| t.lost_around(hole.first));
        !ambiguous && gaps.any(|(above, below)| self.buffer.only_missing(hole.first, above, below))
    }

    /// Gives up holes that are proven lost or have lasted too long.
    fn release(&mut self, now: Time) {
        for track in self.tracks.values_mut() {
            track.on_time(now);
        }
        while let Some(hole) = self.buffer.head() {
            match self.judge(now, hole) {
                Verdict::Lost => self.stats.proven += 1,
                Verdict::Until(t) if t <= now => self.stats.timeouts += 1,
                Verdict::Until(_) => break,
            }
            self.buffer.skip_hole(now);
        }
    }
}

impl Reorderer for Active {
    fn push(&mut self, now: Time, arrival: Arrival, data: Vec<u8>) {
        let (position, place) = self.buffer.place(now, arrival.mp_seq);
        let track = self.track(arrival.path);
        if !track.up {
            track.restart();
        }
        // Packets that were restored by FEC or retransmitted do not show how far their path lags.
        let shows_lag = arrival
            .path_seq
            .is_some_and(|path_seq| !track.on_packet(now, path_seq, arrival.ndp, Some(position)));
        match place {
            Place::New => {}
            Place::Missing(since) if shows_lag => self.learn(now, arrival.path, since),
            Place::Missing(_) => {}
            Place::Taken => {
                self.stats.duplicates += 1;
                self.ambiguous = Some(now);
                return self.release(now);
            }
        }
        let back = arrival.back.map(|back| self.refine(arrival.flow, position, back));
        let behind = self.buffer.is_behind_a_hole(position);
        if behind && back.is_some_and(|back| self.buffer.follows(position, back)) {
            self.buffer.jump(position, now, data);
            self.buffer.release_early(now, position);
        } else {
            match self.buffer.put(now, position, data) {
                Put::Late => self.stats.late += 1,
                Put::InOrder => {}
                Put::Held => self.stats.held += 1,
            }
        }
        self.allowed = self.allowed.saturating_add(1);
        self.release(now);
        while self.buffer.is_full() {
            self.stats.overflows += 1;
            self.buffer.skip_hole(now);
        }
        self.stats.occupancy_max = self.stats.occupancy_max.max(self.buffer.occupancy().0);
    }

    fn on_other(&mut self, now: Time, path: PathId, path_seq: Seq, ndp: Option<u64>, data: bool) {
        if data {
            self.ambiguous = Some(now);
        }
        if let Some(track) = self.tracks.get_mut(&path).filter(|t| t.up) {
            track.on_packet(now, path_seq, ndp, None);
            self.release(now);
        }
    }

    fn waits_for_repairs(&self) -> bool {
        self.rule.waits_for_repairs()
    }

    fn on_repair(&mut self, wait: Duration) {
        if self.waits_for_repairs() {
            self.repair = wait;
        }
    }

    fn restart(&mut self, now: Time) {
        self.buffer.restart(now);
        self.newest = NewestOfFlow::default();
        self.tracks.values_mut().for_each(Track::forget);
    }

    fn occupancy_bytes(&self) -> u64 {
        self.buffer.occupancy().1
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        if self.allowed == 0 {
            return None;
        }
        let data = self.buffer.pop();
        // While packets are held, arrivals must not accumulate; otherwise the held packets would be released
        // in one large burst.
        self.allowed = if data.is_some() { self.allowed - 1 } else { self.allowed.min(BURST - 1) };
        data
    }

    fn on_path(&mut self, path: PathId, rtt: Option<Duration>, up: bool) {
        let track = self.track(path);
        track.rtt = rtt.or(track.rtt);
        match (track.up, up) {
            (false, true) => track.restart(),
            _ => track.up = up,
        }
    }

    fn next_timeout(&self) -> Option<Time> {
        let pause = (self.buffer.ready() > 0).then(|| self.counted + TICK);
        let Some(hole) = self.buffer.head() else { return pause };
        let ends = hole.seen + self.rule.wait_for(&self.tracks, hole);
        let settles = candidates(&self.tracks, hole).filter_map(Track::settles_at).min();
        let settles = settles.filter(|_| self.rule.trusts_proofs());
        let gives_up = settles.map_or(ends, |t| t.min(ends)).max(hole.seen + self.repair);
        pause.into_iter().chain([gives_up]).min()
    }

    fn on_timeout(&mut self, now: Time) {
        self.release(now);
        if now.since(self.counted) >= TICK {
            // The application's socket buffers only a few hundred packets, so held packets are delivered over
            // some milliseconds instead of all at once.
            self.allowed = if now == Time::MAX { usize::MAX } else { (self.buffer.ready() / 8).max(BURST) };
            self.counted = now;
        }
    }

    fn stats(&self) -> ReorderStats {
        let (occupancy, occupancy_bytes) = self.buffer.occupancy();
        ReorderStats {
            in_order: self.buffer.in_order,
            jumped: self.buffer.jumped,
            held_for: self.buffer.held_for,
            occupancy,
            occupancy_bytes,
            wait: self.rule.longest(&self.tracks),
            ..self.stats
        }
    }
}

#[cfg(test)]
#[path = "active_tests.rs"]
mod tests;
