//! A bound on what waits in the queues of all sessions together, and on what their peers have them hold back. Where it is met, those that hold
//! more than an equal part get nothing more, and the others still fill theirs: so all of them together hold twice as much at most, and none is starved by another.

/// Bytes of packets, unless told otherwise.
const MOST: u64 = 256 << 20;

/// The bound, and what there is.
#[derive(Debug)]
pub(super) struct Memory {
    most: u64,
    held: u64,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory { most: MOST, held: 0 }
    }
}

impl Memory {
    pub(super) fn bound(&mut self, most: u64) {
        self.most = most;
    }

    /// Whether one of so many sessions, which holds `own` bytes, may hold so many more.
    pub(super) fn allows(&self, own: u64, more: u64, sessions: usize) -> bool {
        self.held + more <= self.most || own + more <= self.most / (sessions as u64).max(1)
    }

    /// A session held `before`, and holds `now`.
    pub(super) fn change(&mut self, before: &mut u64, now: u64) {
        self.held = self.held - core::mem::replace(before, now) + now;
    }
}
