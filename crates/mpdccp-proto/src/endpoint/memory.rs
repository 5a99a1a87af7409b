//! Limits the bytes in the queues and reordering buffers of all sessions. Once the limit is reached, a
//! session that holds more than an equal share accepts nothing more, while other sessions can still use their
//! share. The shares add up to at most the limit, so the total never exceeds twice the limit, and no session
//! is starved.

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

    /// Returns whether one of `sessions` sessions may hold `more` bytes if it already holds `own`.
    pub(super) fn allows(&self, own: u64, more: u64, sessions: usize) -> bool {
        self.held + more <= self.most || own + more <= self.most / (sessions as u64).max(1)
    }

    /// Updates a session's bytes from `before` to `now`.
    pub(super) fn change(&mut self, before: &mut u64, now: u64) {
        self.held = self.held - core::mem::replace(before, now) + now;
    }
}
