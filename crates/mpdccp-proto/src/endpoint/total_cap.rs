//! Rate limit for all sessions together. Sessions share it by deficit round robin (Shreedhar and Varghese),
//! so that a busy session does not starve others.

use crate::SessionId;
use crate::session::Cap;
use alloc::collections::VecDeque;
use mpdccp_units::{Rate, Time};

/// Number of bytes per turn. If a packet is larger, the excess is charged to the following turns.
const TURN: i64 = 1500;

/// The limit, and the waiting sessions, each with its deficit from earlier turns (zero or negative).
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

    /// Returns the session whose turn it is, and the number of bytes that it may send. Returns `None` while
    /// the limit is exhausted.
    pub(super) fn turn(&mut self, now: Time) -> Option<(SessionId, i64)> {
        if self.cap.shut(now).is_some() {
            return None;
        }
        self.waiting.pop_front().map(|(id, rest)| (id, rest + TURN))
    }

    pub(super) fn on_sent(&mut self, now: Time, bytes: i64) {
        self.cap.on_sent(now, u64::try_from(bytes).unwrap_or(0));
    }

    /// Returns the time of the next turn.
    pub(super) fn next(&self) -> Option<Time> {
        self.waiting.front().map(|_| self.cap.shut(Time::ZERO).unwrap_or(Time::ZERO))
    }
}
