//! A bound on what all sessions send together. They have it by turns (deficit round robin, after Shreedhar and Varghese), so that one
//! that has much to send does not keep others from theirs.

use crate::SessionId;
use crate::session::Cap;
use alloc::collections::VecDeque;
use mpdccp_units::{Rate, Time};

/// Bytes of a turn; what a packet takes beyond them is missing from the next ones.
const TURN: i64 = 1500;

/// The bound, and who waits for a turn with how many bytes of earlier ones; it is less than nothing.
#[derive(Debug, Default)]
pub(super) struct TotalCap {
    cap: Cap,
    waiting: VecDeque<(SessionId, i64)>,
}

impl TotalCap {
    pub(super) fn set(&mut self, rate: Option<Rate>) {
        self.cap.set(rate);
    }

    pub(super) fn is_set(&self) -> bool {
        self.cap.is_set()
    }

    pub(super) fn wait(&mut self, id: SessionId, rest: i64) {
        self.waiting.push_back((id, rest.min(0)));
    }

    /// Whose turn it is, with how many bytes; nobody's while what left is to be paid for.
    pub(super) fn turn(&mut self, now: Time) -> Option<(SessionId, i64)> {
        if self.cap.shut(now).is_some() {
            return None;
        }
        self.waiting.pop_front().map(|(id, rest)| (id, rest + TURN))
    }

    pub(super) fn on_sent(&mut self, now: Time, bytes: i64) {
        self.cap.on_sent(now, u64::try_from(bytes).unwrap_or(0));
    }

    /// When the next turn is.
    pub(super) fn next(&self) -> Option<Time> {
        self.waiting.front().map(|_| self.cap.shut(Time::ZERO).unwrap_or(Time::ZERO))
    }
}
