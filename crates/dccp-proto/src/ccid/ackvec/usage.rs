use mpdccp_units::{Duration, Time};

/// Whether this path, rather than the application, limited sending recently.
///
/// The session calls a path application-limited when the session's queue is empty. With Cheapest Pipe First
/// that is wrong: the queue is empty because the other path took the packets that this path's gate did not
/// admit. After its window was full or a packet found its gate closed, a path is therefore not
/// application-limited for a round, unless it sends less than half of its pacing rate: pacing also makes the
/// second packet of a small burst wait. In the draft variant this holds only after a packet took another path.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    full_at: Option<Time>,
    blocked_at: Option<Time>,
    passed_over_at: Option<Time>,
    held_back_since: Option<Time>,
}

impl Usage {
    /// The window was full until now.
    pub(crate) fn on_full_window(&mut self, now: Time) {
        self.full_at = Some(now);
    }

    /// A packet was blocked. It waits, or was sent on another path if `elsewhere`.
    pub(crate) fn on_blocked(&mut self, now: Time, elsewhere: bool) {
        self.blocked_at = Some(now);
        if elsewhere {
            self.passed_over_at = Some(now);
        }
    }

    /// Data waits and this path's gate is open, but the scheduler gives the path no packet.
    pub(crate) fn on_held_back(&mut self, now: Time) {
        self.held_back_since.get_or_insert(now);
    }

    /// A packet is sent. Returns how long the scheduler had given this path no packet although the gate was open.
    pub(crate) fn on_sent(&mut self, now: Time) -> Duration {
        self.held_back_since.take().map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Whether the window was full within the last `round`.
    pub(crate) fn full_within(&self, now: Time, round: Duration) -> bool {
        self.full_at.is_some_and(|at| now.since(at) <= round)
    }

    /// Whether a packet was blocked within the last `round`.
    pub(crate) fn blocked_within(&self, now: Time, round: Duration) -> bool {
        self.blocked_at.is_some_and(|at| now.since(at) <= round)
    }

    /// Whether a packet was sent on another path within the last `round` because this path's gate was closed.
    pub(crate) fn passed_over_within(&self, now: Time, round: Duration) -> bool {
        self.passed_over_at.is_some_and(|at| now.since(at) <= round)
    }
}

/// Counts RTT samples per round.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    now: u32,
    last: u32,
}

impl Samples {
    /// Counts one sample, which may be the `first` of its round. Returns the number of samples per round.
    pub(crate) fn per_round(&mut self, first: bool) -> u32 {
        if first {
            self.last = self.now;
            self.now = 0;
        }
        self.now = self.now.saturating_add(1);
        self.now.max(self.last)
    }
}
