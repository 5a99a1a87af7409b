//! Coupling of the subflows of one session. Where subflows share a bottleneck, they take the share of a
//! single flow between them (RFC 6356 section 2).
//!
//! The owner of the subflows passes each subflow's measurements to a [`Coupling`] and gives each controller
//! its [`Part`]. `bottleneck.rs` detects which subflows share a bottleneck. A subflow that shares no
//! bottleneck is not limited.

mod balia;
mod bottleneck;
mod part;

use alloc::vec::Vec;
use bottleneck::Detector;
use mpdccp_units::{Duration, Time};
pub use part::Part;

/// Weight of a new bin in the smoothed rate of a subflow.
const RATE_WEIGHT: f64 = 0.1;
/// Minimum rate used in the computation, bytes per second. It ensures that an idle subflow gets a share, so
/// that it can grow again.
const LEAST_RATE: f64 = 1500.0;

/// Current measurements of a subflow.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The newest round-trip time, without acknowledgement delay, and when it was measured.
    pub rtt: Option<(Duration, Time)>,
    /// Amount delivered so far, IP bytes.
    pub delivered: u64,
    /// Whether the subflow is in ProbeRTT.
    pub probing_rtt: bool,
}

#[derive(Debug)]
struct Subflow {
    id: u32,
    seen: Seen,
    /// Amount delivered until the end of the last 100 ms bin.
    delivered: u64,
    /// Smoothed rate, bytes per second.
    rate: f64,
    part: Part,
}

/// The subflows of one session.
#[derive(Debug, Default)]
pub struct Coupling {
    subflows: Vec<Subflow>,
    detector: Detector,
}

impl Coupling {
    /// Adds measurements of subflow `id`. Returns true if the [`Part`] of any subflow changed.
    pub fn on_seen(&mut self, now: Time, id: u32, seen: &Seen) -> bool {
        let known = self.subflows.iter().position(|s| s.id == id);
        let at = known.unwrap_or_else(|| {
            let part = Part::ALONE;
            self.subflows.push(Subflow { id, seen: *seen, delivered: seen.delivered, rate: 0.0, part });
            self.detector.add(id);
            self.subflows.len() - 1
        });
        let before = self.subflows[at].seen;
        self.subflows[at].seen = *seen;
        if let Some((rtt, _)) = seen.rtt.filter(|rtt| before.rtt != Some(*rtt)) {
            self.detector.on_rtt(id, rtt);
        }
        let bin = self.detector.end_bin(now);
        for s in &mut self.subflows {
            let Some(bin) = bin else { break };
            let rate = s.seen.delivered.saturating_sub(s.delivered) as f64 / bin.as_secs_f64();
            s.delivered = s.seen.delivered;
            s.rate += (rate - s.rate) * RATE_WEIGHT;
        }
        (bin.is_some() || before.probing_rtt != seen.probing_rtt) && self.set_parts()
    }

    /// Removes a subflow. Returns true if the [`Part`] of any subflow changed.
    pub fn forget(&mut self, id: u32) -> bool {
        self.subflows.retain(|s| s.id != id);
        self.detector.forget(id);
        self.set_parts()
    }

    /// Returns the [`Part`] of subflow `id`.
    pub fn part(&self, id: u32) -> Part {
        self.subflows.iter().find(|s| s.id == id).map_or(Part::ALONE, |s| s.part)
    }

    /// Returns whether these two subflows share a bottleneck.
    pub fn share(&self, a: u32, b: u32) -> bool {
        a == b || self.detector.set(a) == self.detector.set(b)
    }

    fn set_parts(&mut self) -> bool {
        let mut changed = false;
        for i in 0..self.subflows.len() {
            let id = self.subflows[i].id;
            let others = || self.subflows.iter().filter(|s| s.id != id && self.share(s.id, id));
            let rates: Vec<f64> = others().map(|s| s.rate.max(LEAST_RATE)).collect();
            let part = if rates.is_empty() {
                Part::ALONE
            } else {
                let probe_rtt = others().any(|s| s.seen.probing_rtt);
                Part { probe_rtt, ..balia::part(self.subflows[i].rate.max(LEAST_RATE), &rates) }
            };
            changed |= core::mem::replace(&mut self.subflows[i].part, part) != part;
        }
        changed
    }
}
