use super::buffer::ORIGIN;
use super::recent::RecentMax;
use alloc::collections::VecDeque;
use dccp_wire::Seq;
use mpdccp_units::{Duration, Time};

/// Most gaps remembered a path.
const MAX_GAPS: usize = 1_024;
/// Later packets after which a gap counts as lost on a path that does not reorder.
const TOLERANCE: u64 = 3;
/// Most later packets waited for. Fewer than `MAX_GAPS`, so that what is forgotten has been settled.
const MAX_TOLERANCE: u64 = 512;
/// In time, while the RTT is not known; else a quarter of it.
const TOLERANCE_TIME: Duration = Duration::from_millis(10);
/// A longer NDP Count may have been cut down to this by the sender, and says "at least".
const CUT_NDP: u64 = 255;

/// Path numbers that did not arrive yet: from `first`, and before `end`.
#[derive(Clone, Copy, Debug)]
struct Gap {
    first: u64,
    end: u64,
    /// Positions of the data before and behind it on this path: what is missing lies between.
    above: Option<u64>,
    below: Option<u64>,
    /// One of the missing packets carried data for sure; of the others that is not known.
    data: bool,
    seen: Time,
    /// [`Track::count`] then.
    count: u64,
}

/// What one path delivered, and what it can still deliver.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) up: bool,
    pub(super) rtt: Option<Duration>,
    /// Newest path number, and where it stands: path numbers wrap, these do not.
    top: Option<(Seq, u64)>,
    /// Packets that were the newest when they came.
    count: u64,
    /// Position of the newest data.
    newest: Option<u64>,
    /// When that came.
    newest_at: Time,
    /// In order.
    gaps: VecDeque<Gap>,
    /// So many of them, the first ones, are lost.
    settled: usize,
    /// How far the path reordered of late, in later packets and in time.
    extent: RecentMax<u64>,
    delay: RecentMax<Duration>,
    /// How long packets of this path had been missing when they came.
    pub(super) late: RecentMax<Duration>,
}

impl Track {
    pub(super) fn new() -> Track {
        Track {
            up: true,
            rtt: None,
            top: None,
            count: 0,
            newest: None,
            newest_at: Time::ZERO,
            gaps: VecDeque::new(),
            settled: 0,
            extent: RecentMax::new(),
            delay: RecentMax::new(),
            late: RecentMax::new(),
        }
    }

    /// Numbers start anew: the path has a new connection, or is back after a silence.
    pub(super) fn restart(&mut self) {
        self.up = true;
        self.top = None;
        self.gaps.clear();
        self.settled = 0;
    }

    /// Positions start anew.
    pub(super) fn forget(&mut self) {
        *self = Track { up: self.up, rtt: self.rtt, ..Track::new() };
    }

    /// A packet arrived, with data for `position`, or without.
    pub(super) fn on_packet(&mut self, now: Time, seq: Seq, ndp: Option<u64>, position: Option<u64>) {
        let (newest, top) = *self.top.get_or_insert((seq, ORIGIN));
        let n = top.wrapping_add_signed(seq.diff(newest));
        if n < top {
            return self.fill(now, n, position);
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
    }

    /// Whether it brought data within `age` before `now`, or after.
    pub(super) fn brought_data_within(&self, age: Duration, now: Time) -> bool {
        self.newest.is_some() && now.since(self.newest_at) <= age
    }

    /// Whether nothing is missing on it that may still come.
    pub(super) fn is_in_order(&self) -> bool {
        self.settled == self.gaps.len()
    }

    fn open(&mut self, gap: Gap) {
        if self.gaps.len() == MAX_GAPS {
            self.gaps.pop_front();
            self.settled = self.settled.saturating_sub(1);
        }
        self.gaps.push_back(gap);
    }

    /// The `ndp` packets before number `n` carried no data, and the one before those did (RFC 4340 section 7.7).
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

    /// Number `n` came after later ones: the path reorders.
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

    /// Time passed: forgets old measurements and looks which gaps are lost by now.
    pub(super) fn on_time(&mut self, now: Time) {
        self.extent.forget(now);
        self.delay.forget(now);
        self.late.forget(now);
        let (packets, time) = (self.tolerance(), self.tolerance_time());
        let lost = |g: &&Gap| self.count - g.count >= packets || now.since(g.seen) >= time;
        self.settled += self.gaps.iter().skip(self.settled).take_while(lost).count();
    }

    /// When time alone settles the first gap that is not.
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

    /// The path cannot deliver anything before this position any more, as far as `next` and what follows are concerned.
    pub(super) fn floor(&self, next: u64) -> Option<u64> {
        let open = self.gaps.iter().skip(self.settled).find(|g| g.below.is_none_or(|b| b > next));
        open.map_or(self.newest, |g| g.above)
    }

    /// Between which positions a gap lies that is lost, held data and may have held `position`.
    pub(super) fn lost_around(&self, position: u64) -> impl Iterator<Item = (u64, u64)> {
        let older = self.gaps.partition_point(|g| g.above.is_none_or(|a| a < position));
        let gaps = self.gaps.iter().take(older.min(self.settled)).rev();
        gaps.take_while(move |g| g.below.is_none_or(|b| b > position))
            .filter_map(|g| Some((g.above?, g.below.filter(|_| g.data)?)))
    }
}
