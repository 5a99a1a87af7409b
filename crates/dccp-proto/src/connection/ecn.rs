//! Detects whether ECN works on the path. A path may drop ECN-capable packets, clear the field, or mark all
//! packets. In these cases the affected direction stops using ECN (as in RFC 9000 section 13.4.2 and
//! RFC 6679 section 7.4).

use crate::Ecn;
use crate::ccid::TxView;

/// The path is judged after this many data packets. ECN has failed if all of them arrived with the field
/// cleared, or if nearly all were reported as marked.
const ENOUGH: u64 = 64;
/// ECN counts as failed if nothing has been delivered after this many timeouts.
const TIMEOUTS: u64 = 2;

#[derive(Debug, Default)]
pub(super) struct EcnPath {
    /// Number of consecutive data packets of the peer that were not ECN-capable.
    cleared: u64,
    bleached: bool,
    failed: bool,
    /// Numbers of packets delivered and marked, and of timeouts, when the connection began to use this path.
    before: (u64, u64, u64),
}

impl EcnPath {
    /// Starts to judge a new path. `view` has the counts of the connection so far.
    pub(super) fn anew(view: &TxView) -> EcnPath {
        EcnPath { before: (view.delivered.packets, view.ce, view.timeouts), ..EcnPath::default() }
    }

    /// Handles data of the peer. Returns true once, when this end stops expecting marks. This end then tells
    /// the peer that it cannot read ECN bits (RFC 4340 section 12.1), so that the peer relies on losses
    /// alone.
    pub(super) fn on_data(&mut self, ecn: Ecn) -> bool {
        self.cleared = if ecn == Ecn::NotEct { self.cleared + 1 } else { 0 };
        let now = self.cleared >= ENOUGH && !self.bleached;
        self.bleached |= now;
        now
    }

    /// Judges the direction of our packets after an acknowledgement.
    pub(super) fn on_feedback(&mut self, view: &TxView) {
        let delivered = view.delivered.packets.saturating_sub(self.before.0);
        let marked = view.ce.saturating_sub(self.before.1);
        self.failed |= delivered >= ENOUGH && marked >= delivered - delivered / ENOUGH;
    }

    /// Judges the direction of our packets after a timeout.
    pub(super) fn on_timeout(&mut self, view: &TxView) {
        let (delivered, _, timeouts) = self.before;
        self.failed |= view.delivered.packets <= delivered && view.timeouts >= timeouts + TIMEOUTS;
    }

    /// Returns whether to send Acks as ECN-capable. They are ECN-capable if the peer's newest data was,
    /// because the path to the peer then probably supports ECN too, or if the peer has sent no data.
    pub(super) fn acks(&self) -> bool {
        self.cleared == 0
    }

    /// Returns whether our packets must leave without ECN.
    pub(super) fn failed(&self) -> bool {
        self.failed
    }
}
