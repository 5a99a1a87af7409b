use units::{Duration, Time};

/// Whether this path, rather than the application, held sending back lately.
///
/// The session calls a path application-limited whenever its queue is empty. That alone misleads: with Cheapest Pipe First the
/// queue is empty because the other path took what this one had no room for. So a path is not application-limited for a round
/// after its window was full or a packet found its gate shut.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    limited_at: Option<Time>,
}

impl Usage {
    /// The window was full until now, or a packet was to be sent and could not.
    pub(crate) fn on_limited(&mut self, now: Time) {
        self.limited_at = Some(now);
    }

    /// Limited by the path within the last `round`.
    pub(crate) fn limited_within(&self, now: Time, round: Duration) -> bool {
        self.limited_at.is_some_and(|at| now.since(at) <= round)
    }
}

/// How many round-trip times are measured in a round.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    now: u32,
    last: u32,
}

impl Samples {
    /// Counts one more, the first of its round or not, and says how many to a round.
    pub(crate) fn per_round(&mut self, first: bool) -> u32 {
        if first {
            self.last = self.now;
            self.now = 0;
        }
        self.now = self.now.saturating_add(1);
        self.now.max(self.last)
    }
}
