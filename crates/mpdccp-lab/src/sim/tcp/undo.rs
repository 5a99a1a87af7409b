//! Detects spurious window reductions, which can be undone. As in Linux, duplicates (RFC 3708) and timestamps
//! (RFC 3522) reveal them.

/// The state needed to undo one window reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// End of the data that was acknowledged at the reduction.
    marker: u64,
    /// Number of retransmissions since the reduction that the receiver has not reported as duplicates. `None`
    /// before the first retransmission.
    again: Option<u64>,
}

impl Undo {
    /// Starts the state at a reduction, when all data before `acked` is acknowledged, and `repeated`
    /// retransmissions and probes that repeat data are outstanding.
    pub(super) fn new(acked: u64, repeated: u64) -> Undo {
        Undo { marker: acked, again: (repeated > 0).then_some(repeated) }
    }

    /// Handles a retransmission.
    pub(super) fn on_resent(&mut self) {
        self.again = Some(self.again.unwrap_or(0) + 1);
    }

    /// Handles a duplicate, reported by the receiver, that ends at `end`.
    pub(super) fn on_duplicate(&mut self, end: u64) {
        if end > self.marker {
            self.again = self.again.map(|again| again.saturating_sub(1));
        }
    }

    /// Returns whether the receiver reported every retransmission as a duplicate.
    pub(super) fn all_duplicate(&self) -> bool {
        self.again == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_of_all_that_was_sent_again() {
        let mut undo = Undo::new(1_000, 0);
        undo.on_duplicate(3_000);
        assert!(!undo.all_duplicate(), "nothing was retransmitted");
        (0..2).for_each(|_| undo.on_resent());
        undo.on_duplicate(1_000);
        undo.on_duplicate(3_000);
        assert!(!undo.all_duplicate(), "the first duplicate was sent before the reduction");
        undo.on_duplicate(5_000);
        assert!(undo.all_duplicate());
    }
}
