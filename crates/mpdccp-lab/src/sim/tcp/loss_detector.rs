//! Detects losses, by one of two rules.

use core::time::Duration;

use dccp_cc::RttEstimator;
use mpdccp_units::Time;

/// Number of later segments that must have arrived before a segment counts as lost (RFC 5681 section 3.2,
/// RFC 9002 section 6.1.1).
const THRESHOLD: u64 = 3;
/// Largest reordering window, in quarters of the minimum round-trip time.
const MOST_QUARTERS: u32 = 255;
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
    /// because RFC 9002 has no undo. When a packet that was sent after the reduction has arrived, the
    /// recovery ends, and a further reduction is possible. Probe timeouts do not reduce the window.
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
    /// Number of the newest transmission known to have arrived.
    newest: Option<u64>,
    /// Round-trip time of the transmission whose arrival was learned last.
    took: Duration,
    /// Whether to look for losses at the next acknowledgement.
    due: bool,
    reordered: bool,
    /// Whether a duplicate was reported and the reordering window was not adapted since (`dsack_seen`).
    duplicate: bool,
    /// Whether a segment was overtaken by more than [`THRESHOLD`] segments.
    far: bool,
    /// Reordering window, as a number of quarters of the minimum round-trip time.
    quarters: u32,
    persist: u32,
    /// Number of a transmission. The reordering window can grow again only after this or a later transmission
    /// has arrived.
    grown: u64,
}

impl Detector {
    pub(crate) fn new(rule: Rule) -> Detector {
        Detector { rule, quarters: 1, ..Detector::default() }
    }

    /// Returns whether the sender recovers from losses as QUIC does.
    pub(crate) fn is_quic(&self) -> bool {
        self.rule == Rule::Three
    }

    /// Returns the number of the newest transmission known to have arrived.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.newest
    }

    /// Returns whether the rule undoes a reduction whose losses prove spurious.
    pub(crate) fn undoes(&self) -> bool {
        self.rule == Rule::Rack
    }

    /// Handles the arrival of transmission `no`, which is a retransmission if `again` is set.
    pub(crate) fn on_arrived(&mut self, now: Time, no: u64, sent_at: Time, again: bool, rtt: &RttEstimator) {
        let took = now.since(sent_at);
        // If the time is below the minimum round-trip time, the acknowledgement is probably for an earlier
        // transmission (RFC 8985 section 6.2 step 2).
        if again && rtt.min().is_some_and(|(min, _)| took < min) {
            return;
        }
        // As in Linux, an overtaken segment that arrives also sets the round-trip time. Other segments that
        // are equally late therefore do not count as lost.
        (self.took, self.due) = (took, true);
        self.newest = self.newest.max(Some(no));
    }

    /// Returns whether a segment was sent within the last round-trip time, so that no answer can be expected.
    /// QUIC makes no such distinction.
    pub(crate) fn is_recent(&self, now: Time, sent_at: Time) -> bool {
        self.rule == Rule::Rack && now < sent_at + self.took
    }

    /// Makes the next [`take_due`](Self::take_due) return true.
    pub(crate) fn set_due(&mut self) {
        self.due = true;
    }

    /// Returns whether to look for losses now. As in Linux, an acknowledgement that reports no arrival
    /// declares nothing lost (`tcp_rack_mark_lost`).
    pub(crate) fn take_due(&mut self) -> bool {
        core::mem::take(&mut self.due)
    }

    /// Handles reordering: a segment that was never retransmitted arrived after one that was `distance`
    /// segments ahead of it.
    pub(crate) fn on_reordered(&mut self, distance: u64) {
        self.reordered = true;
        self.far |= distance > THRESHOLD;
    }

    /// Returns whether the congestion window grows when segments arrive after a hole. It always grows in
    /// QUIC. In Linux, it grows only after reordering has exceeded the threshold (`tcp_may_raise_cwnd`).
    pub(crate) fn grows_after_holes(&self) -> bool {
        self.rule == Rule::Three || self.far
    }

    /// Handles a report that the receiver got a segment twice. It counts only if reordering was seen before.
    pub(crate) fn on_duplicate(&mut self) {
        self.duplicate |= self.reordered;
    }

    /// Enlarges the reordering window if a duplicate was reported, at most once per round trip. `newest` is
    /// the newest transmission that an acknowledgement reports. Without one, the window waits for the next
    /// acknowledgement. `next` is the number that the next transmission will have
    /// (`tcp_rack_update_reo_wnd`).
    pub(crate) fn adapt(&mut self, newest: Option<u64>, next: u64) {
        let Some(newest) = newest else { return };
        if core::mem::take(&mut self.duplicate) && newest >= self.grown {
            self.grown = next;
            self.quarters = self.quarters.saturating_add(1).min(MOST_QUARTERS);
            self.persist = PERSIST;
        }
    }

    /// Handles the undo of a reduction because the receiver reported every retransmission as a duplicate. The
    /// reordering window then stays for one more recovery (`tcp_try_undo_dsack`).
    pub(crate) fn on_duplicates_only(&mut self) {
        self.persist = (self.persist + 1).min(PERSIST);
    }

    /// Handles the end of a recovery whose reduction was not undone.
    pub(crate) fn on_repaired(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// Decides whether transmission `no` is lost. Call this for earlier transmissions first. `certain` means
    /// that enough segments arrived after a hole, or that a recovery is in progress.
    pub(crate) fn judge(
        &self,
        now: Time,
        no: u64,
        sent_at: Time,
        rtt: &RttEstimator,
        srtt: Option<Duration>,
        certain: bool,
    ) -> Verdict {
        let (Some(newest), took) = (self.newest.filter(|newest| no < *newest), self.took) else {
            return Verdict::Open;
        };
        let srtt = srtt.unwrap_or(took);
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

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn rtt() -> RttEstimator {
        let mut rtt = RttEstimator::default();
        rtt.update(ms(0), Duration::from_millis(8));
        rtt
    }

    #[test]
    fn a_late_arrival_shows_how_late_others_may_be() {
        let (rtt, mut d) = (rtt(), Detector::new(Rule::Rack));
        d.on_arrived(ms(100), 5, ms(90), false, &rtt);
        assert_eq!(d.judge(ms(100), 3, ms(85), &rtt, rtt.srtt(), true), Verdict::Lost);
        d.on_arrived(ms(100), 2, ms(80), false, &rtt);
        assert_eq!(d.judge(ms(100), 3, ms(85), &rtt, rtt.srtt(), true), Verdict::Wait(ms(105)));
        assert!(d.take_due() && !d.take_due());
    }

    #[test]
    fn duplicates_enlarge_the_window_for_sixteen_repaired_recoveries_if_reordering_was_seen() {
        let (rtt, mut d) = (rtt(), Detector::new(Rule::Rack));
        d.on_arrived(ms(100), 5, ms(90), false, &rtt);
        d.on_duplicate();
        d.adapt(Some(5), 9);
        assert_eq!(d.quarters, 1);
        d.on_reordered(1);
        d.on_duplicate();
        d.adapt(None, 9);
        assert_eq!(d.quarters, 1, "nothing arrived");
        d.adapt(Some(6), 9);
        assert_eq!(d.quarters, 2);
        d.on_duplicate();
        d.adapt(Some(8), 10);
        d.adapt(Some(9), 10);
        assert_eq!(d.quarters, 2, "once per round trip");
        let large = (0..20).take_while(|_| {
            d.on_repaired();
            d.quarters == 2
        });
        assert_eq!(large.count(), 15);
    }

    #[test]
    fn an_undo_because_of_duplicates_keeps_the_window_for_one_more_recovery() {
        let (rtt, mut d) = (rtt(), Detector::new(Rule::Rack));
        d.on_arrived(ms(100), 5, ms(90), false, &rtt);
        d.on_reordered(1);
        d.on_duplicate();
        d.adapt(Some(5), 9);
        (1..PERSIST).for_each(|_| d.on_repaired());
        d.on_duplicates_only();
        d.on_repaired();
        assert_eq!(d.quarters, 2);
        d.on_repaired();
        assert_eq!(d.quarters, 1);
    }
}
