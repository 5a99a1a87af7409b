//! Detection of subflows that share a bottleneck.
//!
//! RFC 8382 compares delay summaries from receivers. Here the sender has all the data it needs, because a
//! subflow's round-trip times show the queue of its bottleneck: if two subflows share a bottleneck, their
//! round-trip times rise and fall together. The comparison uses changes from one bin to the next, because
//! every queue has slow trends that prove nothing. Each change is divided by the path's typical change and
//! then limited, so that a single large change does not decide the result.

use alloc::vec::Vec;
use mpdccp_units::{Duration, Time};

/// Round-trip times are averaged over bins of this length.
const BIN: Duration = Duration::from_millis(100);
/// Weight of a new bin. With this weight, the result reflects roughly the last four seconds.
const WEIGHT: f64 = 1.0 / 40.0;
/// Number of bins needed for a result.
const ENOUGH: u32 = 40;
/// Above this correlation, two subflows start to count as sharing a bottleneck.
const JOIN: f64 = 0.5;
/// Below this correlation, two subflows stop counting as sharing a bottleneck.
const LEAVE: f64 = 0.2;
/// Lower limit for the typical change, seconds. Changes are measured in units of the typical change.
const LEAST_CHANGE: f64 = 0.000_3;
/// Upper limit for a change, in units of the typical change.
const MOST_UNITS: f64 = 2.0;

/// Measurements of one subflow.
#[derive(Debug)]
struct Course {
    id: u32,
    /// Sum of the RTTs in the running bin (s), and number of RTTs.
    rtts: (f64, u32),
    /// Mean RTT of the previous bin.
    last: Option<f64>,
    /// Square of the typical change of the RTT from one bin to the next.
    usual: f64,
    /// Mean change, in units of the typical change.
    trend: f64,
    /// Change in the last bin, in units of the typical change.
    change: Option<f64>,
}

impl Course {
    fn end_bin(&mut self) {
        let (sum, n) = core::mem::take(&mut self.rtts);
        let mean = (n > 0).then(|| sum / f64::from(n));
        let change = mean.zip(self.last).map(|(now, last)| now - last);
        self.last = mean;
        self.change = change.map(|change| {
            let unit = libm::sqrt(self.usual).max(LEAST_CHANGE);
            let most = MOST_UNITS * unit;
            let bounded = change.clamp(-most, most);
            self.usual += (bounded * bounded - self.usual) * WEIGHT;
            let units = (change / unit).clamp(-MOST_UNITS, MOST_UNITS);
            self.trend += (units - self.trend) * WEIGHT;
            units - self.trend
        });
    }
}

/// Comparison of two subflows.
#[derive(Debug)]
struct Pair {
    ids: (u32, u32),
    bins: u32,
    /// Mean products of the two subflows' changes: one in the same bin, and two in neighbouring bins, which
    /// matter because one path may be longer than the other.
    together: [f64; 3],
    before: (f64, f64),
    shared: bool,
}

impl Pair {
    fn end_bin(&mut self, a: &Course, b: &Course) {
        let (Some(x), Some(y)) = (a.change, b.change) else { return };
        let products = [x * y, x * self.before.1, self.before.0 * y];
        self.before = (x, y);
        for (mean, product) in self.together.iter_mut().zip(products) {
            *mean += (product - *mean) * WEIGHT;
        }
        self.bins = self.bins.saturating_add(1);
        let likeness = self.together.into_iter().fold(0.0, f64::max);
        self.shared = self.bins >= ENOUGH && likeness > if self.shared { LEAVE } else { JOIN };
    }
}

/// All subflows of a session.
#[derive(Debug, Default)]
pub(super) struct Detector {
    courses: Vec<Course>,
    pairs: Vec<Pair>,
    begin: Option<Time>,
}

impl Detector {
    pub(super) fn add(&mut self, id: u32) {
        let pairs = self.courses.iter().map(|other| Pair {
            ids: (other.id, id),
            bins: 0,
            together: [0.0; 3],
            before: (0.0, 0.0),
            shared: false,
        });
        self.pairs.extend(pairs);
        self.courses.push(Course { id, rtts: (0.0, 0), last: None, usual: 0.0, trend: 0.0, change: None });
    }

    pub(super) fn forget(&mut self, id: u32) {
        self.courses.retain(|c| c.id != id);
        self.pairs.retain(|p| p.ids.0 != id && p.ids.1 != id);
    }

    pub(super) fn on_rtt(&mut self, id: u32, rtt: Duration) {
        if let Some(course) = self.courses.iter_mut().find(|c| c.id == id) {
            course.rtts = (course.rtts.0 + rtt.as_secs_f64(), course.rtts.1 + 1);
        }
    }

    /// Ends the bin if it is due, and returns its length.
    pub(super) fn end_bin(&mut self, now: Time) -> Option<Duration> {
        let begin = *self.begin.get_or_insert(now);
        let length = now.since(begin);
        if length < BIN {
            return None;
        }
        self.begin = Some(now);
        self.courses.iter_mut().for_each(Course::end_bin);
        for pair in &mut self.pairs {
            let find = |id| self.courses.iter().find(|c| c.id == id);
            if let (Some(a), Some(b)) = (find(pair.ids.0), find(pair.ids.1)) {
                pair.end_bin(a, b);
            }
        }
        Some(length)
    }

    /// Returns the lowest identifier among the subflows that share a bottleneck with subflow `id`, directly
    /// or through other subflows. It serves as the identifier of this set of subflows.
    pub(super) fn set(&self, id: u32) -> u32 {
        let mut members: Vec<u32> = [id].into();
        let mut at = 0;
        while let Some(&member) = members.get(at) {
            for pair in self.pairs.iter().filter(|p| p.shared) {
                for (one, other) in [pair.ids, (pair.ids.1, pair.ids.0)] {
                    if one == member && !members.contains(&other) {
                        members.push(other);
                    }
                }
            }
            at += 1;
        }
        members.into_iter().min().unwrap_or(id)
    }
}
