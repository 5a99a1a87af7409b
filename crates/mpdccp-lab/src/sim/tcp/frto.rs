//! F-RTO (RFC 5682, SACK version): distinguishes spurious timeouts from real ones before more than the first
//! segment is retransmitted.

/// State since a timeout.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frto {
    /// Step 2b: the first acknowledgement advanced, and new data is sent.
    probing: bool,
}

/// Verdict on the timeout after an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// Data assumed lost arrived.
    Spurious,
    Real,
    Open,
}

impl Frto {
    /// Whether new data is sent before data assumed lost.
    pub(super) fn probing(self) -> bool {
        self.probing
    }

    /// `original`: a segment that was not retransmitted arrived; `advanced`: the cumulative acknowledgement
    /// advanced.
    pub(super) fn on_ack(&mut self, original: bool, advanced: bool) -> Judged {
        if original {
            Judged::Spurious
        } else if advanced && !self.probing {
            self.probing = true;
            Judged::Open
        } else {
            Judged::Real
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
        assert_eq!(begun.clone().on_ack(false, false), Judged::Real);
        let mut moved = begun;
        assert_eq!(moved.on_ack(false, true), Judged::Open);
        assert!(moved.probing() && !begun.probing());
        assert_eq!(moved.clone().on_ack(true, true), Judged::Spurious);
        assert_eq!(moved.on_ack(false, true), Judged::Real);
    }
}
