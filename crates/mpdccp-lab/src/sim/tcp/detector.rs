//! When a segment is lost.

use core::time::Duration;

use dccp_cc::RttEstimator;
use mpdccp_units::Time;

/// Later segments that must have arrived (RFC 5681 section 3.2, RFC 9002 section 6.1.1).
const THRESHOLD: u64 = 3;
/// Losses in so many rounds in a row after which the window shrinks again (RFC 8985 section 6.2).
const PERSIST: u32 = 16;

/// By which rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rule {
    /// RACK (RFC 8985): by time, with a window that adapts to reordering.
    #[default]
    Rack,
    /// As QUIC does by default (RFC 9002 section 6.1): three later packets, or 9/8 of a round-trip time, whatever the reordering seen.
    /// A window reduced for a packet that arrives after all stays reduced: RFC 9002 has no undo.
    Three,
}

/// The state of a segment in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Lost,
    /// If it does not arrive until then.
    Wait(Time),
    Open,
}

#[derive(Debug, Default)]
pub(crate) struct Detector {
    rule: Rule,
    /// Newest transmission that arrived: number, when it left, how long it took.
    newest: Option<(u64, Time, Duration)>,
    reordered: bool,
    /// Quarters of the minimum round-trip time.
    quarters: u32,
    persist: u32,
    /// The window grows again for duplicates after this transmission.
    grown: u64,
}

impl Detector {
    pub(crate) fn new(rule: Rule) -> Detector {
        Detector { rule, quarters: 1, ..Detector::default() }
    }

    /// Whether a reduction is taken back once its losses prove to be none.
    pub(crate) fn undoes(&self) -> bool {
        self.rule == Rule::Rack
    }

    /// Number of the newest transmission that arrived.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest.map(|n| n.0)
    }

    /// Transmission `no` arrived. `again`: the segment had been sent before.
    pub(crate) fn on_arrived(&mut self, now: Time, no: u64, sent_at: Time, again: bool, rtt: &RttEstimator) {
        let took = now.since(sent_at);
        // RFC 8985 section 6.2 step 2: more likely the answer to an earlier transmission.
        if again && rtt.min().is_some_and(|(min, _)| took < min) {
            return;
        }
        if self.newest.is_none_or(|(n, ..)| no > n) {
            self.newest = Some((no, sent_at, took));
        }
    }

    /// A segment never sent again arrived after one sent later.
    pub(crate) fn on_reordered(&mut self) {
        self.reordered = true;
    }

    /// The receiver got a segment twice; `next` is the next transmission's number.
    pub(crate) fn on_duplicate(&mut self, next: u64) {
        if self.newest().is_some_and(|n| n >= self.grown) {
            self.grown = next;
            self.quarters = self.quarters.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// Recovery begins.
    pub(crate) fn on_recovery(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// Judges transmission `no`. Those sent before it are judged before. `certain`: enough arrived beyond a hole, or recovery is under way.
    pub(crate) fn judge(
        &self,
        now: Time,
        no: u64,
        sent_at: Time,
        rtt: &RttEstimator,
        certain: bool,
    ) -> Verdict {
        let Some((newest, _, took)) = self.newest.filter(|(newest, ..)| no < *newest) else {
            return Verdict::Open;
        };
        let srtt = rtt.srtt().unwrap_or(took);
        let due = match self.rule {
            Rule::Three if no + THRESHOLD <= newest => return Verdict::Lost,
            Rule::Three => sent_at + srtt.max(rtt.latest().unwrap_or(took)) * 9 / 8,
            // RFC 8985 section 6.2 step 4: no window while no reordering was seen.
            Rule::Rack if !self.reordered && certain => sent_at + took,
            Rule::Rack => {
                let min = rtt.min().map_or(took, |m| m.0);
                sent_at + took + (min.saturating_mul(self.quarters) / 4).min(srtt)
            }
        };
        if due <= now { Verdict::Lost } else { Verdict::Wait(due) }
    }

    /// Segments beyond a hole that make it a loss.
    pub(crate) fn threshold() -> u64 {
        THRESHOLD
    }
}
