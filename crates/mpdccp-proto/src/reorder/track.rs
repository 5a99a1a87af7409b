use super::buffer::ORIGIN;
use super::recent::RecentMax;
use alloc::collections::VecDeque;
use dccp_wire::Seq;
use mpdccp_units::{Duration, Time};

/// Maximum number of gaps remembered per path.
const MAX_GAPS: usize = 1_024;
/// On a path that does not reorder, a gap counts as lost after this many later packets.
const TOLERANCE: u64 = 3;
/// Upper limit on the number of later packets, for paths that reorder. It is below `MAX_GAPS`, so that a gap
/// is settled before it is forgotten.
const MAX_TOLERANCE: u64 = 512;
/// Minimum time after which a gap counts as lost, if the RTT is unknown. If the RTT is known, the minimum is
/// a quarter of it.
const TOLERANCE_TIME: Duration = Duration::from_millis(10);
/// The sender caps NDP Count at this value, so the value means "at least this many".
const CUT_NDP: u64 = 255;

/// Missing path numbers, from `first` up to but not including `end`.
#[derive(Clone, Copy, Debug)]
struct Gap {
    first: u64,
    end: u64,
    /// Positions of the data directly before and after the gap on this path. The missing data lies between
    /// them.
    above: Option<u64>,
    below: Option<u64>,
    /// Whether at least one of the missing packets certainly carried data. The others may have carried data
    /// too.
    data: bool,
    seen: Time,
    /// [`Track::count`] when the gap was seen.
    count: u64,
}

/// The packets that one path has delivered, and those that it may still deliver.
#[derive(Debug, Default)]
pub(super) struct Track {
    pub(super) up: bool,
    pub(super) rtt: Option<Duration>,
    /// Newest path number, unwrapped.
    top: Option<(Seq, u64)>,
    /// Number of packets that were the newest on arrival.
    count: u64,
    /// Position of the newest data.
    newest: Option<u64>,
    /// Time at which the newest data arrived.
    newest_at: Time,
    /// The gaps, ordered by path number.
    gaps: VecDeque<Gap>,
    /// The first `settled` gaps are lost.
    settled: usize,
    /// Recent extent of the path's reordering, as a number of later packets and as a time.
    extent: RecentMax<u64>,
    delay: RecentMax<Duration>,
    /// How long packets had been missing when they arrived on this path.
    pub(super) late: RecentMax<Duration>,
}

impl Track {
    pub(super) fn new() -> Track {
        Track { up: true, ..Track::default() }
    }

    /// Restarts the path numbers, because the path has a new connection or is back after a silence.
    pub(super) fn restart(&mut self) {
        self.up = true;
        self.top = None;
        self.gaps.clear();
        self.settled = 0;
    }

    /// Forgets everything except the path's state and RTT, because positions start again.
    pub(super) fn forget(&mut self) {
        *self = Track { up: self.up, rtt: self.rtt, ..Track::new() };
    }

    /// A packet arrived, either with data for `position` or without. Returns whether the data is a
    /// retransmission, that is, whether the path had already delivered a later position.
    pub(super) fn on_packet(&mut self, now: Time, seq: Seq, ndp: Option<u64>, position: Option<u64>) -> bool {
        let (newest, top) = *self.top.get_or_insert((seq, ORIGIN));
        let n = top.wrapping_add_signed(seq.diff(newest));
        if n < top {
            self.fill(now, n, position);
            return false;
        }
        if n > top {
            self.top = Some((seq, n));
            self.count += 1;
            if n > top + 1 {
                self.open(Gap {
                    first: top + 1,
                    end: n,
                    above: self.newest,
                    below: None,
                    data: false,
                    seen: now,
                    count: self.count - 1,
                });
            }
        }
        if let Some(ndp) = ndp {
            self.explain(n, ndp);
        }
        if position > self.newest {
            for gap in self.gaps.iter_mut().rev().take_while(|g| g.below.is_none()) {
                gap.below = position;
            }
            (self.newest, self.newest_at) = (position, now);
        }
        position.is_some() && position < self.newest
    }

    /// Returns whether the newest data on the path arrived no longer than `age` before `now`, or after `now`.
    pub(super) fn brought_data_within(&self, age: Duration, now: Time) -> bool {
        self.newest.is_some() && now.since(self.newest_at) <= age
    }

    fn open(&mut self, gap: Gap) {
        if self.gaps.len() == MAX_GAPS {
            self.gaps.pop_front();
            self.settled = self.settled.saturating_sub(1);
        }
        self.gaps.push_back(gap);
    }

    /// Records that the `ndp` packets before number `n` carried no data, and that the packet before them
    /// carried data (RFC 4340 section 7.7).
    fn explain(&mut self, n: u64, ndp: u64) {
        let end = n.saturating_sub(ndp);
        while let Some(gap) = self.gaps.back_mut().filter(|g| g.end >= end) {
            if gap.first < end {
                gap.end = end;
                gap.data |= ndp < CUT_NDP;
                break;
            }
            self.gaps.pop_back();
        }
        self.settled = self.settled.min(self.gaps.len());
    }

    /// Number `n` arrived after later numbers, so the path reorders.
    fn fill(&mut self, now: Time, n: u64, position: Option<u64>) {
        let i = self.gaps.partition_point(|g| g.end <= n);
        let Some(gap) = self.gaps.get(i).copied().filter(|g| g.first <= n) else { return };
        self.extent.add(now, self.count - gap.count);
        self.delay.add(now, now.since(gap.seen));
        let left = Gap { end: n, below: position.or(gap.below), data: false, ..gap };
        let right = Gap { first: n + 1, above: position.or(gap.above), ..gap };
        let was_settled = i < self.settled;
        self.gaps.remove(i);
        self.settled -= usize::from(was_settled);
        for piece in [right, left].into_iter().filter(|g| g.first < g.end) {
            self.gaps.insert(i, piece);
            self.settled += usize::from(was_settled);
        }
        while self.gaps.len() > MAX_GAPS {
            self.gaps.pop_front();
            self.settled = self.settled.saturating_sub(1);
        }
    }

    /// Forgets old measurements, and settles gaps that now count as lost.
    pub(super) fn on_time(&mut self, now: Time) {
        self.extent.forget(now);
        self.delay.forget(now);
        self.late.forget(now);
        let (packets, time) = (self.tolerance(), self.tolerance_time());
        let lost = |g: &&Gap| self.count - g.count >= packets || now.since(g.seen) >= time;
        self.settled += self.gaps.iter().skip(self.settled).take_while(lost).count();
    }

    /// Returns when the first unsettled gap becomes settled, if no more packets arrive.
    pub(super) fn settles_at(&self) -> Option<Time> {
        self.gaps.get(self.settled).map(|g| g.seen + self.tolerance_time())
    }

    fn tolerance(&self) -> u64 {
        let extent = self.extent.get().map_or(0, |n| n + n / 4 + 1);
        extent.clamp(TOLERANCE, MAX_TOLERANCE)
    }

    fn tolerance_time(&self) -> Duration {
        let delay = self.delay.get().map_or(Duration::ZERO, |d| d + d / 4);
        delay.max(self.rtt.map_or(TOLERANCE_TIME, |rtt| rtt / 4))
    }

    /// Returns the position up to which this path can no longer fill any hole at or after `next`.
    pub(super) fn floor(&self, next: u64) -> Option<u64> {
        let open = self.gaps.iter().skip(self.settled).find(|g| g.below.is_none_or(|b| b > next));
        open.map_or(self.newest, |g| g.above)
    }

    /// For each lost gap that held data and may have held `position`, returns the positions of the data
    /// before and after the gap.
    pub(super) fn lost_around(&self, position: u64) -> impl Iterator<Item = (u64, u64)> {
        let older = self.gaps.partition_point(|g| g.above.is_none_or(|a| a < position));
        let gaps = self.gaps.iter().take(older.min(self.settled)).rev();
        gaps.take_while(move |g| g.below.is_none_or(|b| b > position))
            .filter_map(|g| Some((g.above?, g.below.filter(|_| g.data)?)))
    }
}
