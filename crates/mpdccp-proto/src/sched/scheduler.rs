use crate::{PathId, PathRow, PktInfo, QueueView};
use alloc::vec::Vec;
use mpdccp_units::{Duration, Time};

/// A scheduler's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// This path; its gate must be open.
    One(PathId),
    /// A copy on each of these, with the same MP_SEQ.
    Several(Vec<PathId>),
    /// Keep it queued, at the latest until this time (`None`: until something changes).
    Wait(Option<Time>),
    /// Give the packet up.
    Drop,
}

/// Chooses paths.
pub trait Scheduler: Send + core::fmt::Debug {
    /// Picks for the packet at the head of the queue, from the paths that priorities allow it; each is up and wide enough.
    fn pick(&mut self, now: Time, pkt: &PktInfo, queue: &QueueView, paths: &[PathRow]) -> Pick;
    /// The packet left on this path.
    fn on_sent(&mut self, now: Time, path: PathId, bytes: usize) {
        let _ = (now, path, bytes);
    }
    /// The standing queue it needs to make use of the paths it has.
    fn standing_queue(&self) -> Duration {
        Duration::ZERO
    }
}

/// What a lost packet costs whoever sends it again, and slows down.
const COST_OF_LOSS: f64 = 2.0;
/// What is put in order takes as long as the latest of many packets: so many mean deviations more than the mean.
const SPREAD: u32 = 3;

/// What a packet costs on a path: how long it takes to be delivered in order, and what its loss would add.
pub(super) fn cost(path: &PathRow) -> Duration {
    let lost = if path.loss > 0.0 {
        Duration::from_secs_f64(f64::from(path.loss) * COST_OF_LOSS)
    } else {
        Duration::ZERO
    };
    path.one_way() + path.late.deviation * SPREAD + lost
}

/// The paths that can take a packet now.
pub(super) fn open(paths: &[PathRow]) -> impl Iterator<Item = &PathRow> {
    paths.iter().filter(|path| path.is_open())
}

/// Of the paths that can take a packet now, the first by `key`; waits if there is none.
pub(super) fn first_open<K: Ord>(paths: &[PathRow], key: impl Fn(&PathRow) -> K) -> Pick {
    open(paths).min_by_key(|path| (key(path), path.id)).map_or(Pick::Wait(None), |path| Pick::One(path.id))
}

/// Whether `path` cannot serve the backlog as soon as `other` would. A wait shorter than what `other` takes longer is no congestion, and
/// neither is one that a path asks for only because it was idle: it does not know yet how fast it can go.
pub(super) fn congested(now: Time, path: &PathRow, queue: &QueueView, other: &PathRow) -> bool {
    if path.is_open() {
        return false;
    }
    let cold = if path.app_limited { path.srtt.unwrap_or_default() } else { Duration::ZERO };
    path.drained(now, queue.bytes).max(queue.oldest) > other.one_way().saturating_sub(path.one_way()) + cold
}
