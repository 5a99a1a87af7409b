//! Detects losses, by one of two rules.

use core::time::Duration;

use dccp_cc::RttEstimator;
use mpdccp_units::Time;

/// Number of later segments that must have arrived before a segment counts as lost (RFC 5681 section 3.2,
/// RFC 9002 section 6.1.1).
const THRESHOLD: u64 = 3;
/// Number of recoveries after which the reordering window shrinks again (RFC 8985 section 6.2).
const PERSIST: u32 = 16;

/// Rule by which losses are detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rule {
    /// RACK (RFC 8985) detects losses by time, with a reordering window that adapts to the path.
    #[default]
    Rack,
    /// QUIC's default (RFC 9002 section 6.1): a packet is lost after three later packets or 9/8 of a
    /// round-trip time, regardless of reordering. If the packet arrives after all, the reduction stays,
    /// because RFC 9002 has no undo.
    Three,
}

/// Cause of a window reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A segment was lost, but data after it arrived.
    Hole,
    Timeout,
    /// A congestion mark arrived.
    Mark,
}

/// Verdict on a segment in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Lost,
    /// The segment is lost if it does not arrive before this time.
    Wait(Time),
    Open,
}

#[derive(Debug, Default)]
pub(crate) struct Detector {
    rule: Rule,
    /// Number, send time and round-trip time of the newest transmission known to have arrived.
    newest: Option<(u64, Time, Duration)>,
    reordered: bool,
    /// Whether a segment was overtaken by more segments than the threshold allows.
    far: bool,
    /// Reordering window, as a number of quarters of the minimum round-trip time.
    quarters: u32,
    persist: u32,
    /// Number of a transmission. Only duplicates of later transmissions enlarge the reordering window again.
    grown: u64,
}

impl Detector {
    pub(crate) fn new(rule: Rule) -> Detector {
        Detector { rule, quarters: 1, ..Detector::default() }
    }

    /// Returns whether the rule undoes a reduction whose losses prove spurious.
    pub(crate) fn undoes(&self) -> bool {
        self.rule == Rule::Rack
    }

    /// Returns the number of the newest transmission that has arrived.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest.map(|n| n.0)
    }

    /// Handles the arrival of transmission `no`, which is a retransmission if `again` is set.
    pub(crate) fn on_arrived(&mut self, now: Time, no: u64, sent_at: Time, again: bool, rtt: &RttEstimator) {
        let took = now.since(sent_at);
        // The acknowledgement is probably for an earlier transmission (RFC 8985 section 6.2 step 2).
        if again && rtt.min().is_some_and(|(min, _)| took < min) {
            return;
        }
        if self.newest.is_none_or(|(n, ..)| no > n) {
            self.newest = Some((no, sent_at, took));
        }
    }

    /// Handles reordering: a segment that was never retransmitted arrived after one that was `distance`
    /// segments ahead of it.
    pub(crate) fn on_reordered(&mut self, distance: u64) {
        self.reordered = true;
        self.far |= distance > THRESHOLD;
    }

    /// Returns whether the congestion window grows when segments arrive after a hole. QUIC's always does;
    /// Linux's does so only once reordering has exceeded the threshold (`tcp_may_raise_cwnd`).
    pub(crate) fn grows_after_holes(&self) -> bool {
        self.rule == Rule::Three || self.far
    }

    /// Handles a report that the receiver got a segment twice. `next` is the number that the next
    /// transmission will have.
    pub(crate) fn on_duplicate(&mut self, next: u64) {
        if self.newest().is_some_and(|n| n >= self.grown) {
            self.grown = next;
            self.quarters = self.quarters.saturating_add(1);
            self.persist = PERSIST;
        }
    }

    /// Handles the start of a recovery.
    pub(crate) fn on_recovery(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// Decides whether transmission `no` is lost; earlier transmissions must already have been decided.
    /// `certain` means that enough segments arrived after a hole, or that a recovery is in progress.
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
            // Until reordering is seen, there is no reordering window (RFC 8985 section 6.2 step 4).
            Rule::Rack if !self.reordered && certain => sent_at + took,
            Rule::Rack => {
                let min = rtt.min().map_or(took, |m| m.0);
                sent_at + took + (min.saturating_mul(self.quarters) / 4).min(srtt)
            }
        };
        if due <= now { Verdict::Lost } else { Verdict::Wait(due) }
    }

    /// Returns the number of segments that must arrive after a hole before the hole counts as a loss.
    pub(crate) fn threshold() -> u64 {
        THRESHOLD
    }
}
