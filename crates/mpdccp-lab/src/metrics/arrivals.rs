//! Prepares the input for the application metrics: a flow's packets, without duplicates and with times in
//! seconds and milliseconds.

use std::collections::HashSet;

use crate::record::{FlowRecord, RunRecord};

use super::seconds;

/// A packet delivered for the first time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Delivery {
    /// Sequence number.
    pub(super) seq: u64,
    /// Seconds since t = 0.
    pub(super) at: f64,
    /// Time from sending to delivery in milliseconds, or `None` if the send time is unknown.
    pub(super) latency_ms: Option<f64>,
    /// Size, counted like the flow's `bytes`.
    pub(super) bytes: u32,
}

/// Returns the first delivery of each packet, in order of time.
pub(super) fn arrivals(run: &RunRecord, flow: &FlowRecord) -> Vec<Delivery> {
    let mut seen = HashSet::new();
    let first = flow.received.iter().filter(|p| seen.insert(p.seq));
    first
        .map(|p| Delivery {
            seq: p.seq,
            at: seconds(run, p.at),
            latency_ms: usize::try_from(p.seq)
                .ok()
                .and_then(|i| flow.sent.get(i))
                .map(|sent| p.at.since(sent.at).as_secs_f64() * 1e3),
            bytes: p.bytes,
        })
        .collect()
}

/// Returns test deliveries, one per second, with these latencies in milliseconds.
#[cfg(test)]
pub(super) fn with_latencies(ms: &[f64]) -> Vec<Delivery> {
    let one = |(i, ms): (usize, &f64)| Delivery {
        seq: i as u64,
        at: i as f64 + ms / 1e3,
        latency_ms: Some(*ms),
        bytes: 1000,
    };
    ms.iter().enumerate().map(one).collect()
}

/// Returns test deliveries at these times in seconds, with these sizes.
#[cfg(test)]
pub(super) fn at_times(all: &[(f64, u32)]) -> Vec<Delivery> {
    let one = |(i, (at, bytes)): (usize, &(f64, u32))| Delivery {
        seq: i as u64,
        at: *at,
        latency_ms: None,
        bytes: *bytes,
    };
    all.iter().enumerate().map(one).collect()
}
