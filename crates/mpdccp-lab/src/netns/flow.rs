//! A flow while it runs: who sends, who receives, and what both have seen.

use std::sync::atomic::{AtomicBool, AtomicU64};

use mpdccp_units::Time;

use super::world::Namespace;
use crate::LabError;
use crate::record::{FlowRecord, ReceivedPacket, SentPacket, TcpCounters, TraceRow};

/// Counters that others watch while a flow runs.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// The receiver shall end.
    pub(super) stop: AtomicBool,
    /// Bytes received so far, counted as in [`SentPacket::bytes`].
    pub(super) bytes: AtomicU64,
    /// Latency of the last packet.
    pub(super) latency_ns: AtomicU64,
    /// Packets that the sender's queue has dropped so far, for sources that adapt; told about once a second.
    pub(super) dropped: AtomicU64,
}

/// What a sender has seen.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// As in [`FlowRecord::sent`].
    pub(super) packets: Vec<SentPacket>,
    /// What came back, if the server sends everything back.
    pub(super) echoed: Vec<ReceivedPacket>,
    /// As in [`FlowRecord::lateness_ns`].
    pub(super) late_ns: Vec<u32>,
    /// As in [`FlowRecord::dropped_at_sender`].
    pub(super) dropped: Option<u64>,
    /// When it was told to end.
    pub(super) until: Time,
    /// As in [`FlowRecord::stream_bytes`], where the sender knows.
    pub(super) stream_bytes: Option<u64>,
    /// As in [`FlowRecord::tcp`].
    pub(super) tcp: Option<TcpCounters>,
    /// As in [`crate::RunRecord::trace`], if the sender is a DCCP connection itself.
    pub(super) trace: Vec<TraceRow>,
}

/// A flow whose receiver runs.
pub(super) trait Flow: Send + Sync {
    /// For those who watch.
    fn counters(&self) -> &Counters;

    /// Sends from inside `client`, on the calling thread, until `to` or until `over` says so.
    fn send(&self, client: &Namespace, from: Time, to: Time, over: &AtomicBool) -> Result<Sent, LabError>;

    /// Stops the receiver and puts everything together.
    fn finish(self: Box<Self>, sent: Sent) -> Result<FlowRecord, LabError>;
}
