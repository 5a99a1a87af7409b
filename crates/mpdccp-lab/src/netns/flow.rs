//! The common interface of running flows: sender, receiver, and their records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use linkem_net::{Urgency, hurry};
use mpdccp_units::Time;

use super::namespaces::Namespace;
use crate::LabError;
use crate::record::{FlowRecord, ReceivedPacket, SentPacket, TcpCounters, TraceRow};

/// Counters of a running flow, read by other threads.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Set to stop the receiver.
    pub(super) stop: AtomicBool,
    /// Bytes received so far, counted like [`SentPacket::bytes`].
    pub(super) bytes: AtomicU64,
    /// Latency of the last packet received.
    pub(super) latency_ns: AtomicU64,
    /// Packets dropped so far by the sender's queue. Adaptive sources need this number, which the lab updates
    /// about once per second.
    pub(super) dropped: AtomicU64,
}

/// A receiver running on its own thread. Dropping the value stops the thread.
pub(super) struct Receiver<T = ReceivedPacket> {
    pub(super) counters: Arc<Counters>,
    name: &'static str,
    /// The thread, or `None` once joined.
    thread: Option<JoinHandle<Vec<T>>>,
}

impl<T: Send + 'static> Receiver<T> {
    /// Runs `receive`, which ends when [`Counters::stop`] is set.
    pub(super) fn start(
        name: &'static str,
        receive: impl FnOnce(&Counters) -> Vec<T> + Send + 'static,
    ) -> Result<Receiver<T>, LabError> {
        let counters = Arc::new(Counters::default());
        let shared = counters.clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            hurry(Urgency::Traffic);
            receive(&shared)
        });
        let thread = thread.map_err(|e| LabError::failed(format!("cannot start the {name}"), e))?;
        Ok(Receiver { counters, name, thread: Some(thread) })
    }

    /// Stops the receiver and returns its record.
    pub(super) fn finish(mut self) -> Result<Vec<T>, LabError> {
        self.stop().ok_or_else(|| LabError::Failed(format!("the {} panicked", self.name)))
    }
}

impl<T> Receiver<T> {
    fn stop(&mut self) -> Option<Vec<T>> {
        self.counters.stop.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Record of a sender.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// See [`FlowRecord::sent`].
    pub(super) packets: Vec<SentPacket>,
    /// Packets that came back from the server, if it echoes.
    pub(super) echoed: Vec<ReceivedPacket>,
    /// See [`FlowRecord::lateness_ns`].
    pub(super) late_ns: Vec<u32>,
    /// See [`FlowRecord::dropped_at_sender`].
    pub(super) dropped: Option<u64>,
    /// Planned end of sending.
    pub(super) until: Time,
    /// See [`FlowRecord::stream_bytes`]; set if the sender knows the value.
    pub(super) stream_bytes: Option<u64>,
    /// See [`FlowRecord::tcp`].
    pub(super) tcp: Option<TcpCounters>,
    /// See [`FlowRecord::streams`].
    pub(super) streams: Option<u64>,
    /// See [`crate::RunRecord::trace`]; empty unless the sender is a plain DCCP connection.
    pub(super) trace: Vec<TraceRow>,
}

impl Sent {
    /// Returns the record of a flow. The packets that came back from the server are those received.
    pub(super) fn record(self, name: &str, kind: &str) -> FlowRecord {
        FlowRecord {
            name: name.to_owned(),
            kind: kind.to_owned(),
            sent: self.packets,
            received: self.echoed,
            lateness_ns: self.late_ns,
            stream_bytes: self.stream_bytes,
            tcp: self.tcp,
            streams: self.streams,
            ..FlowRecord::default()
        }
    }
}

/// A flow with a running receiver.
pub(super) trait Flow: Send + Sync {
    /// Returns the counters for the live view.
    fn counters(&self) -> &Counters;

    /// Sends from inside `client` between `from` and `to`, on the calling thread, and stops early when `over`
    /// is set.
    fn send(&self, client: &Namespace, from: Time, to: Time, over: &AtomicBool) -> Result<Sent, LabError>;

    /// Stops the receiver and combines both records.
    fn finish(self: Box<Self>, sent: Sent) -> Result<FlowRecord, LabError>;
}
