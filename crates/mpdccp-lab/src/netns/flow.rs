//! A flow while it runs: who sends, who receives, and what both have seen.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64};

use units::Time;

use super::direct::Dccp;
use super::tap::Count;
use super::tcp::{Bulk, Paced};
use super::udp::Udp;
use super::world::Namespace;
use crate::record::{FlowRecord, ReceivedPacket, SentPacket, TcpCounters, TraceRow};
use crate::scenario::{FlowKind, FlowSpec, Mode, SourceSpec};
use crate::{LabError, Plan};

/// Counters that others watch while a flow runs.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// The receiver shall end.
    pub(super) stop: AtomicBool,
    /// Bytes received so far, counted as in [`SentPacket::bytes`].
    pub(super) bytes: AtomicU64,
    /// Bytes that the receiving application has read from a TCP connection.
    pub(super) read: AtomicU64,
    /// Latency of the last packet.
    pub(super) latency_ns: AtomicU64,
}

/// What a sender has seen.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// As in [`FlowRecord::sent`].
    pub(super) packets: Vec<SentPacket>,
    /// What came back, if the server sends everything back.
    pub(super) echoed: Vec<ReceivedPacket>,
    /// As in [`FlowRecord::dropped_at_sender`].
    pub(super) dropped: Option<u64>,
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

/// Has TCP in `namespace` ask for ECN and grant it; by default Linux only grants it.
fn use_ecn(namespace: &Namespace) -> Result<(), LabError> {
    let switch = "/proc/sys/net/ipv4/tcp_ecn";
    namespace
        .inside(|| std::fs::write(switch, "1").map_err(|e| LabError::failed(format!("writing {switch}"), e)))
}

/// Starts the receiver of flow `index`, which will send to `to`.
pub(super) fn start(
    plan: &Plan<'_>,
    index: u16,
    spec: &FlowSpec,
    client: &Namespace,
    server: &Namespace,
    to: SocketAddr,
) -> Result<Box<dyn Flow>, LabError> {
    if spec.ecn {
        [client, server].into_iter().try_for_each(use_ecn)?;
    }
    match (plan.scenario.mode, spec.kind, &plan.contender.tcp) {
        (Mode::Tunnel, FlowKind::Udp, _) => Ok(Box::new(Udp::start(spec, index, server, to)?)),
        (mode, FlowKind::Tcp, _) => {
            let count = if mode == Mode::Direct { Count::Payload } else { Count::Packets };
            let cc = spec.cc.as_deref().unwrap_or_default();
            Ok(Box::new(Bulk::start(spec, cc, client, server, to, count)?))
        }
        (Mode::Direct, FlowKind::Udp, Some(cc)) if spec.source == Some(SourceSpec::Bulk {}) => {
            Ok(Box::new(Bulk::start(spec, cc.as_ref(), client, server, to, Count::Payload)?))
        }
        (Mode::Direct, FlowKind::Udp, Some(cc)) => {
            Ok(Box::new(Paced::start(spec, index, cc.as_ref(), server, to)?))
        }
        (Mode::Direct, FlowKind::Udp, None) if plan.contender.udp => {
            Ok(Box::new(Udp::start(spec, index, server, to)?))
        }
        (Mode::Direct, FlowKind::Udp, None) => Ok(Box::new(Dccp::start(plan, spec, index, server, to)?)),
    }
}
