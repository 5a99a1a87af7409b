//! Limits the bytes in the queues and reordering buffers of all sessions. When the limit is reached, a
//! session that holds more than an equal share of it accepts nothing more. Other sessions can still use their
//! share. All shares together do not exceed the limit, so the total is at most twice the limit, and no
//! session is starved.

/// Default limit, bytes of packets.
const MOST: u64 = 256 << 20;

/// The limit for all sessions, and the bytes that they hold now.
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

    /// Returns whether one of `sessions` sessions, which holds `own` bytes, may hold `more`.
    pub(super) fn allows(&self, own: u64, more: u64, sessions: usize) -> bool {
        self.held + more <= self.most || own + more <= self.most / (sessions as u64).max(1)
    }

    /// Updates a session's bytes from `before` to `now`.
    pub(super) fn change(&mut self, before: &mut u64, now: u64) {
        self.held = self.held - core::mem::replace(before, now) + now;
    }
}
