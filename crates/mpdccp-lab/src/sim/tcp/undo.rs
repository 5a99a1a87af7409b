//! Undo of spurious reductions as in Linux: by duplicates (RFC 3708) and by timestamps (RFC 3522).

/// Undo state of one reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// Acknowledged data at the reduction.
    marker: u64,
    /// Number of retransmissions since the reduction for which no duplicate was reported; `None`
    /// before the first retransmission.
    again: Option<u64>,
    /// The first retransmission.
    first_again: Option<u64>,
}

impl Undo {
    /// All data before `acked` is acknowledged, and `repairing` retransmitted segments are in flight.
    pub(super) fn new(acked: u64, repairing: u64) -> Undo {
        Undo { marker: acked, again: (repairing > 0).then_some(repairing), first_again: None }
    }

    /// A segment is retransmitted as transmission `no`.
    pub(super) fn on_resent(&mut self, no: u64) {
        self.again = Some(self.again.unwrap_or(0) + 1);
        self.first_again.get_or_insert(no);
    }

    /// The receiver reported a duplicate that ends at `end`.
    pub(super) fn on_duplicate(&mut self, end: u64) {
        if end > self.marker {
            self.again = self.again.map(|again| again.saturating_sub(1));
        }
    }

    /// Whether every retransmission was a duplicate.
    pub(super) fn all_duplicate(&self) -> bool {
        self.again == Some(0)
    }

    /// Whether the segment that advanced the cumulative acknowledgement, and echoes transmission `echo`, was
    /// sent before any retransmission.
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
        assert!(!undo.all_duplicate(), "nothing was sent again");
        (7..9).for_each(|no| undo.on_resent(no));
        undo.on_duplicate(1_000);
        undo.on_duplicate(3_000);
        assert!(!undo.all_duplicate(), "the first was from before the reduction");
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
