use super::buffer::Hole;
use super::give_up::{Rule, Tracks};
use mpdccp_units::Duration;

/// The rule with a fixed time: every hole may last equally long.
#[derive(Debug)]
pub(super) struct ActiveFixed {
    pub(super) timeout: Duration,
    /// Whether to give up holes that are proven lost.
    pub(super) proven: bool,
}

impl Rule for ActiveFixed {
    fn trusts_proofs(&self) -> bool {
        self.proven
    }

    fn waits_for_repairs(&self) -> bool {
        false
    }

    fn wait_for(&self, _tracks: &Tracks, _hole: Hole) -> Duration {
        self.timeout
    }

    fn longest(&self, _tracks: &Tracks) -> Duration {
        self.timeout
    }
}
