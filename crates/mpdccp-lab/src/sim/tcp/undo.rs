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
    /// Number of the first retransmission after the reduction.
    first_again: Option<u64>,
}

impl Undo {
    /// Starts the state at a reduction, when all data before `acked` is acknowledged and `repairing`
    /// retransmitted segments are in flight.
    pub(super) fn new(acked: u64, repairing: u64) -> Undo {
        Undo { marker: acked, again: (repairing > 0).then_some(repairing), first_again: None }
    }

    /// Handles a retransmission with the number `no`.
    pub(super) fn on_resent(&mut self, no: u64) {
        self.again = Some(self.again.unwrap_or(0) + 1);
        self.first_again.get_or_insert(no);
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

    /// Returns whether the transmission `echo`, which advanced the cumulative acknowledgement, was sent
    /// before all retransmissions.
    pub(super) fn delayed(&self, echo: u64) -> bool {
        self.first_again.is_none_or(|first| echo < first)
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
        (7..9).for_each(|no| undo.on_resent(no));
        undo.on_duplicate(1_000);
        undo.on_duplicate(3_000);
        assert!(!undo.all_duplicate(), "the first duplicate was sent before the reduction");
        undo.on_duplicate(5_000);
        assert!(undo.all_duplicate());
    }

    #[test]
    fn an_echo_from_before_the_first_retransmission() {
        let mut undo = Undo::new(0, 1);
        assert!(undo.delayed(9));
        undo.on_resent(7);
        undo.on_resent(9);
        assert!(undo.delayed(6) && !undo.delayed(7));
    }
}
