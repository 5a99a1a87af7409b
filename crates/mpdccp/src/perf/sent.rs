//! A sender's counts at one point in time.

use mpdccp_proto::PathState;
use mpdccp_units::Duration;

/// A sender's counts since the start of the test.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent {
    /// Messages dropped from the queue.
    pub(crate) dropped: u64,
    /// Messages that have left the queue.
    pub(crate) left: u64,
    /// Messages that congestion control declared lost.
    pub(crate) lost: u64,
    /// Bytes by which the last message is shorter than the others.
    pub(crate) short: u64,
    /// Counts of each current path.
    pub(crate) paths: Vec<PathSent>,
}

/// Counts of a path.
#[derive(Clone, Debug)]
pub(crate) struct PathSent {
    pub(crate) id: u32,
    pub(crate) state: PathState,
    /// Data packets that were sent.
    pub(crate) left: u64,
    pub(crate) lost: u64,
    pub(crate) rtt: Option<Duration>,
    /// Congestion window, bytes.
    pub(crate) cwnd: u64,
    pub(crate) phase: &'static str,
    /// Largest IP packet, bytes.
    pub(crate) mtu: u16,
}
