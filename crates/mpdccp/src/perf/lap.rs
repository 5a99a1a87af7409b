//! A transfer's counts at one moment, and between two.

use crate::perf::meter::Span;
use mpdccp_proto::PathState;
use mpdccp_units::Duration;

/// A sending side at one moment; counts from the beginning on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    /// Dropped in the queue.
    pub(crate) dropped: u64,
    /// Left the queue.
    pub(crate) left: u64,
    /// Declared lost.
    pub(crate) lost: u64,
    /// Each path there is now.
    pub(crate) paths: Vec<PathSent>,
}

/// The same for one path.
#[derive(Clone, Debug)]
pub(crate) struct PathSent {
    pub(crate) id: u32,
    pub(crate) state: PathState,
    /// Data packets that left.
    pub(crate) left: u64,
    pub(crate) lost: u64,
    pub(crate) rtt: Option<Duration>,
    /// Window, bytes.
    pub(crate) cwnd: u64,
    pub(crate) phase: &'static str,
}

/// What happened since the last report.
pub(crate) struct Lap {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) size: usize,
    pub(crate) sent: Option<(Sent, Sent)>,
    pub(crate) received: Option<Span>,
    /// Missing from the beginning on.
    pub(crate) lost: u64,
    pub(crate) jitter_ms: Option<f64>,
    /// What is received are echoes.
    pub(crate) echo: bool,
    /// Left out of the summary.
    pub(crate) omitted: bool,
}
