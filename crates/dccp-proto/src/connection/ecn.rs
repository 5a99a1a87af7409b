//! Whether ECN works on the path. Packets that say they are ECN-capable may be dropped for it, arrive with the field cleared, or all
//! arrive marked: then both directions do without (as RFC 9000 section 13.4.2 and RFC 6679 section 7.4 have it for their protocols).

use crate::Ecn;
use crate::ccid::TxView;

/// Data packets that must all arrive with the field cleared, or all come back as marked, for the path to be judged.
const ENOUGH: u64 = 64;
/// Timeouts before anything was delivered.
const TIMEOUTS: u64 = 2;

#[derive(Debug, Default)]
pub(super) struct EcnPath {
    /// Data of the peer in a row that was not ECN-capable.
    cleared: u64,
    bleached: bool,
    failed: bool,
}

impl EcnPath {
    /// Data of the peer arrived. True once, if no more marks are to be expected: the peer is told that this end cannot read them
    /// (RFC 4340 section 12.1), and goes by losses.
    pub(super) fn on_data(&mut self, ecn: Ecn) -> bool {
        self.cleared = if ecn == Ecn::NotEct { self.cleared + 1 } else { 0 };
        let now = self.cleared >= ENOUGH && !self.bleached;
        self.bleached |= now;
        now
    }

    /// What is known of our packets after an acknowledgement.
    pub(super) fn on_feedback(&mut self, view: &TxView) {
        let delivered = view.delivered.packets;
        self.failed |= delivered >= ENOUGH && view.ce >= delivered - delivered / ENOUGH;
    }

    /// And after a timer.
    pub(super) fn on_timeout(&mut self, view: &TxView) {
        self.failed |= view.delivered.packets == 0 && view.timeouts >= TIMEOUTS;
    }

    /// The peer's newest data was ECN-capable, or there was none: the way back may be judged alike, so Acks are ECN-capable too.
    pub(super) fn acks(&self) -> bool {
        self.cleared == 0
    }

    /// Our packets leave without ECN.
    pub(super) fn failed(&self) -> bool {
        self.failed
    }
}
