//! When a reduction is taken back, as Linux does it: by duplicates (RFC 3708) and by timestamps (RFC 3522).

/// Of one reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// What was acknowledged when it came.
    marker: u64,
    /// Retransmissions since then that no duplicate was reported of; none if nothing was sent again yet.
    again: Option<u64>,
    /// The first of them.
    first_again: Option<u64>,
}

impl Undo {
    /// All before `acked` is acknowledged, and `repairing` segments sent again are in flight.
    pub(super) fn new(acked: u64, repairing: u64) -> Undo {
        Undo { marker: acked, again: (repairing > 0).then_some(repairing), first_again: None }
    }

    /// A segment leaves again as transmission `no`.
    pub(super) fn on_resent(&mut self, no: u64) {
        self.again = Some(self.again.unwrap_or(0) + 1);
        self.first_again.get_or_insert(no);
    }

    /// The receiver got twice what ends at `end`.
    pub(super) fn on_duplicate(&mut self, end: u64) {
        if end > self.marker {
            self.again = self.again.map(|again| again.saturating_sub(1));
        }
    }

    /// All that was sent again had arrived before.
    pub(super) fn all_duplicate(&self) -> bool {
        self.again == Some(0)
    }

    /// What moved the cumulative point, and echoes transmission `echo`, left before anything was sent again.
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
