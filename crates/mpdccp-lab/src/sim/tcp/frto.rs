//! F-RTO (RFC 5682, the SACK-enhanced version): tells a spurious timeout from a real one before anything but the first segment is sent again.

/// Under way since a timeout.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frto {
    /// Step 2b: the first acknowledgement moved on, and new data leaves.
    probing: bool,
}

/// What an acknowledgement says about the timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// What was taken for lost arrived.
    Spurious,
    Real,
    Open,
}

impl Frto {
    /// Whether new data leaves before what seems lost.
    pub(super) fn probing(self) -> bool {
        self.probing
    }

    /// `original`: a segment that was not sent again arrived; `advanced`: the cumulative point moved.
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
    fn what_was_not_sent_again_arrives_or_nothing_does() {
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
