//! Implements F-RTO (RFC 5682, SACK version). After retransmitting only the first segment, it detects whether
//! the timeout was spurious.

/// State of F-RTO since a timeout.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frto {
    /// Whether step 2b of RFC 5682 is in progress: the first acknowledgement advanced, so new data is being
    /// sent.
    probing: bool,
}

/// Conclusion from an acknowledgement about the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// Data that was assumed lost has arrived.
    Spurious,
    Real,
    Open,
}

impl Frto {
    /// Returns whether to send new data before data that is assumed lost.
    pub(super) fn probing(self) -> bool {
        self.probing
    }

    /// Handles an acknowledgement. `original` means that the acknowledgement reports a segment that was never
    /// retransmitted. `advanced` means that the cumulative acknowledgement advanced. As in Linux, a duplicate
    /// acknowledgement before the first advance proves nothing (`tcp_process_loss`).
    pub(super) fn on_ack(&mut self, original: bool, advanced: bool) -> Judged {
        if original {
            Judged::Spurious
        } else if self.probing {
            Judged::Real
        } else {
            self.probing = advanced;
            Judged::Open
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_spurious_if_an_original_arrives() {
        let begun = Frto::default();
        assert_eq!(begun.clone().on_ack(true, true), Judged::Spurious);
        let mut moved = begun;
        assert_eq!(moved.on_ack(false, false), Judged::Open);
        assert!(!moved.probing());
        assert_eq!(moved.on_ack(false, true), Judged::Open);
        assert!(moved.probing() && !begun.probing());
        assert_eq!(moved.clone().on_ack(true, true), Judged::Spurious);
        assert_eq!(moved.on_ack(false, true), Judged::Real);
    }
}
