//! Common interface of running flows: sender, receiver, and their records.

use std::sync::atomic::{AtomicBool, AtomicU64};

use mpdccp_units::Time;

use super::world::Namespace;
use crate::LabError;
use crate::record::{FlowRecord, ReceivedPacket, SentPacket, TcpCounters, TraceRow};

/// Counters of a running flow that other threads read.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Set to stop the receiver.
    pub(super) stop: AtomicBool,
    /// Bytes received so far, counted like [`SentPacket::bytes`].
    pub(super) bytes: AtomicU64,
    /// Latency of the last packet received.
    pub(super) latency_ns: AtomicU64,
    /// Packets dropped by the sender's queue so far, which adaptive sources need. Updated about once per
    /// second.
    pub(super) dropped: AtomicU64,
}

/// Record of a sender.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// See [`FlowRecord::sent`].
    pub(super) packets: Vec<SentPacket>,
    /// Packets that the server returned, if it echoes.
    pub(super) echoed: Vec<ReceivedPacket>,
    /// See [`FlowRecord::lateness_ns`].
    pub(super) late_ns: Vec<u32>,
    /// See [`FlowRecord::dropped_at_sender`].
    pub(super) dropped: Option<u64>,
    /// Planned end of sending.
    pub(super) until: Time,
    /// See [`FlowRecord::stream_bytes`], if the sender knows it.
    pub(super) stream_bytes: Option<u64>,
    /// See [`FlowRecord::tcp`].
    pub(super) tcp: Option<TcpCounters>,
    /// See [`FlowRecord::streams`].
    pub(super) streams: Option<u64>,
    /// See [`crate::RunRecord::trace`]; empty unless the sender is a plain DCCP connection.
    pub(super) trace: Vec<TraceRow>,
}

/// A flow with a running receiver.
pub(super) trait Flow: Send + Sync {
    /// Counters for the live view.
    fn counters(&self) -> &Counters;

    /// Sends from inside `client` between `from` and `to`, on the calling thread, and stops early when `over`
    /// is set.
    fn send(&self, client: &Namespace, from: Time, to: Time, over: &AtomicBool) -> Result<Sent, LabError>;

    /// Stops the receiver and combines both records.
    fn finish(self: Box<Self>, sent: Sent) -> Result<FlowRecord, LabError>;
}
