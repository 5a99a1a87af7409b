use crate::{PathId, PathRow, PktInfo, QueueView};
use alloc::vec::Vec;
use mpdccp_units::{Duration, Time};

/// A scheduler's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// Send on this path, whose gate must be open.
    One(PathId),
    /// Send a copy on each of these paths, with the same MP_SEQ.
    Several(Vec<PathId>),
    /// Keep the packet queued, until this time at the latest. With `None`, keep it until something changes.
    Wait(Option<Time>),
    /// Drop the packet.
    Drop,
}

/// Chooses paths.
pub trait Scheduler: Send + core::fmt::Debug {
    /// Picks paths for the packet at the head of the queue. `paths` are the paths that the priorities allow
    /// for it. All of them are up and have a large enough MTU.
    fn pick(&mut self, now: Time, pkt: &PktInfo, queue: &QueueView, paths: &[PathRow]) -> Pick;
    /// The packet was sent on this path.
    fn on_sent(&mut self, now: Time, path: PathId, bytes: usize) {
        let _ = (now, path, bytes);
    }
    /// Returns a minimum burst for a stream, after [`pick`](Self::pick) has chosen a distant path for it: the
    /// bytes that the nearer paths deliver in the time by which the distant path is slower. For a shorter
    /// burst, the distant path would only cause delay.
    fn head_start(&self) -> u64 {
        0
    }
    /// Returns the standing queue that the scheduler needs to use all paths.
    fn standing_queue(&self) -> Duration {
        Duration::ZERO
    }
}

/// Cost of a lost packet, in seconds: its sender has to retransmit it and slows down.
const COST_OF_LOSS: f64 = 2.0;
/// In-order delivery takes as long as the latest of many packets. This delay is estimated as the mean delay
/// plus this many mean deviations.
const SPREAD: u32 = 3;

/// Returns the cost of a packet on a path: the time until in-order delivery, plus the expected cost of its
/// loss.
pub(super) fn cost(path: &PathRow) -> Duration {
    let lost = if path.loss > 0.0 {
        Duration::from_secs_f64(f64::from(path.loss) * COST_OF_LOSS)
    } else {
        Duration::ZERO
    };
    path.one_way() + path.late.deviation * SPREAD + lost
}

/// Returns the paths that can take a packet now.
pub(super) fn open(paths: &[PathRow]) -> impl Iterator<Item = &PathRow> {
    paths.iter().filter(|path| path.is_open())
}

/// Picks the first open path in the order of `key`. Waits if none is open.
pub(super) fn first_open<K: Ord>(paths: &[PathRow], key: impl Fn(&PathRow) -> K) -> Pick {
    open(paths).min_by_key(|path| (key(path), path.id)).map_or(Pick::Wait(None), |path| Pick::One(path.id))
}

/// Returns whether `path` would serve the backlog later than `other`. Waiting for less than the extra delay
/// of `other` does not count as congestion. Waiting on a path that was idle does not count either, because
/// its rate is out of date.
pub(super) fn congested(now: Time, path: &PathRow, queue: &QueueView, other: &PathRow) -> bool {
    if path.is_open() {
        return false;
    }
    let cold = if path.app_limited { path.srtt.unwrap_or_default() } else { Duration::ZERO };
    path.drained(now, queue.bytes).max(queue.oldest) > other.one_way().saturating_sub(path.one_way()) + cold
}
