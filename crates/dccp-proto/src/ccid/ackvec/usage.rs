use units::{Duration, Time};

/// Whether this path, rather than the application, held sending back lately.
///
/// The session calls a path application-limited whenever its queue is empty. That alone misleads: with Cheapest Pipe First the
/// queue is empty because the other path took what this one had no room for. So a path is not application-limited for a round
/// after its window was full or its pacer was what a packet waited for.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    limited_at: Option<Time>,
}

impl Usage {
    /// The window was full until now.
    pub(crate) fn on_window_full(&mut self, now: Time) {
        self.limited_at = Some(now);
    }

    /// A packet leaves that the pacer had permitted at `release`; the one before it left at `before`.
    ///
    /// It was waited for if it leaves soon after its release, measured against how long the pacer held sending up. A flow below
    /// four fifths of the pacing rate comes later than that; one that overflows to another path comes at any moment between,
    /// so that some packet of a round comes soon.
    pub(crate) fn on_paced(&mut self, now: Time, release: Time, before: Time) {
        let held = release.since(before);
        if !held.is_zero() && now.since(release) <= held / 4 {
            self.limited_at = Some(now);
        }
    }

    /// Limited by the path within the last `round`.
    pub(crate) fn limited_within(&self, now: Time, round: Duration) -> bool {
        self.limited_at.is_some_and(|at| now.since(at) <= round)
    }
}
