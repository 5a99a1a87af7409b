use mpdccp_units::{Duration, Time};

/// Determines whether this path, rather than the application, has recently limited sending.
///
/// The session calls a path application-limited when the session's queue is empty. With the scheduler
/// Cheapest Pipe First, this can be wrong, because another path may have taken the packets that this path's
/// gate did not admit. A path is therefore not application-limited for a round after its window was full or a
/// packet found its gate closed. However, pacing also makes the second packet of a small burst wait, so a
/// closed gate counts only if the path sends at least half of its pacing rate, or if packets waited for at
/// least half of the time. The second condition is needed for a driver that wakes late and therefore sends
/// less. In the draft variant, a closed gate counts only if a packet took another path.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    full_at: Option<Time>,
    blocked_at: Option<Time>,
    passed_over_at: Option<Time>,
    held_back_since: Option<Time>,
    waiting_since: Option<Time>,
    /// Total time for which packets waited for the gate. The wait that began at `waiting_since` is not
    /// included yet.
    waited: Duration,
    /// Starts of the previous and of the current measurement of `waited`, each with the value of `waited` at
    /// that time.
    marks: [(Time, Duration); 2],
}

impl Usage {
    /// The window was full until now.
    pub(crate) fn on_full_window(&mut self, now: Time) {
        self.full_at = Some(now);
    }

    /// A packet was blocked. If `elsewhere`, it was sent on another path. Otherwise it is waiting.
    pub(crate) fn on_blocked(&mut self, now: Time, elsewhere: bool) {
        self.blocked_at = Some(now);
        if elsewhere {
            self.passed_over_at = Some(now);
        } else {
            self.waiting_since.get_or_insert(now);
        }
    }

    /// No packet waits any more.
    pub(crate) fn on_empty_queue(&mut self, now: Time) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += now.since(since);
        }
    }

    /// Data is waiting and this path's gate is open, but the scheduler has not given the path any packet.
    pub(crate) fn on_held_back(&mut self, now: Time) {
        self.held_back_since.get_or_insert(now);
    }

    /// A packet is sent. Returns for how long the gate was open and data was waiting while the scheduler gave
    /// this path no packet.
    pub(crate) fn on_sent(&mut self, now: Time) -> Duration {
        self.on_empty_queue(now);
        self.held_back_since.take().map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Returns whether the window was full within the last `round`.
    pub(crate) fn full_within(&self, now: Time, round: Duration) -> bool {
        self.full_at.is_some_and(|at| now.since(at) <= round)
    }

    /// Returns whether a packet was blocked within the last `round`.
    pub(crate) fn blocked_within(&self, now: Time, round: Duration) -> bool {
        self.blocked_at.is_some_and(|at| now.since(at) <= round)
    }

    /// Returns whether packets waited for at least half of the time in a period that includes the last
    /// `round`.
    pub(crate) fn waited_within(&mut self, now: Time, round: Duration) -> bool {
        if self.waiting_since.is_some() {
            self.on_empty_queue(now);
            self.waiting_since = Some(now);
        }
        if now.since(self.marks[1].0) >= round {
            self.marks = [self.marks[1], (now, self.waited)];
        }
        let (since, waited) = self.marks[0];
        2 * self.waited.saturating_sub(waited) >= now.since(since)
    }

    /// Returns whether a packet was sent on another path within the last `round` because this path's gate was
    /// closed.
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
