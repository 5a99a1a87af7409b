//! Ending a connection (RFC 4340 section 8.3).

use super::outbox::{Control, OutReset, Outbox};
use super::timers::{Backoff, FOUR_MSL, TWO_MSL, Timers};
use super::*;
use dccp_wire::ResetCode;

impl Connection {
    /// Closes gracefully (RFC 4340 section 8.3). Sends Close, or CloseReq if this end is the server and
    /// `timewait_at_peer` is set. Before the handshake is complete, sends a Reset.
    pub fn close(&mut self, now: Time, timewait_at_peer: bool) {
        match self.state {
            State::Request | State::Respond => {
                self.send_reset(Reset { code: ResetCode::Aborted, data: [0; 3] });
                self.finish(CloseReason::Local);
            }
            State::PartOpen | State::Open => {
                let close_req = self.is_server && timewait_at_peer;
                self.begin_close(now, CloseReason::Local, close_req);
            }
            State::CloseReq | State::Closing | State::TimeWait | State::Closed => {}
        }
    }

    /// Sends a Reset and drops the state of the connection.
    pub fn abort(&mut self, code: ResetCode) {
        if !matches!(self.state, State::TimeWait | State::Closed) {
            self.fail(Reset { code, data: [0; 3] });
        }
    }

    /// Like [`abort`](Self::abort), but with a reason text for the peer, at most 255 bytes in UTF-8
    /// (RFC 4340 section 5.6, Error Text).
    pub fn abort_with(&mut self, code: ResetCode, text: &str) {
        self.error_text = text.into();
        self.abort(code);
    }

    /// Enters CLOSING or CLOSEREQ.
    pub(super) fn begin_close(&mut self, now: Time, reason: CloseReason, close_req: bool) {
        self.enter(if close_req { State::CloseReq } else { State::Closing });
        self.closing = Some(reason);
        self.outbox = Outbox {
            control: Some(if close_req { Control::CloseReq } else { Control::Close }),
            ..Outbox::default()
        };
        // RFC 4340 section 8.3: retry after two round-trip times, and double the interval up to 64 s. The RFC
        // does not say when to give up; this implementation does so after 4MSL.
        self.timers = Timers {
            retransmit: Some(Backoff::new(now, self.rtt() * 2)),
            give_up: Some(now + FOUR_MSL),
            feature: None,
        };
    }

    /// Step 13 of RFC 4340 section 8.5: the server asks the client to close.
    pub(super) fn on_close_req(&mut self, now: Time) {
        match self.state {
            State::Closing => self.outbox.control = Some(Control::Close),
            State::CloseReq | State::TimeWait | State::Closed => {}
            _ => self.begin_close(now, CloseReason::Peer, false),
        }
    }

    /// Step 14 of RFC 4340 section 8.5: the peer closes. Our Reset ends the connection.
    pub(super) fn on_close(&mut self) {
        self.send_reset(Reset { code: ResetCode::Closed, data: [0; 3] });
        self.finish(self.closing.unwrap_or(CloseReason::Peer));
    }

    /// Step 9 of RFC 4340 section 8.5: a valid Reset arrived. This end enters TIMEWAIT, except after a Packet
    /// Error: its sender is in REQUEST, and section 7.5.6 lets it start again on the same ports at once.
    pub(super) fn on_reset(&mut self, now: Time, reset: Reset) {
        let reason = match (reset.code, self.closing) {
            // Reset Code "No Connection" means that the peer has already dropped its state, and that its
            // earlier Reset was lost.
            (ResetCode::Closed | ResetCode::NoConnection, Some(reason)) => reason,
            (code, _) => CloseReason::Reset(code),
        };
        if reset.code == ResetCode::PacketError {
            return self.finish(reason);
        }
        self.end(State::TimeWait, reason);
        self.timers.give_up = Some(now + TWO_MSL);
    }

    /// Queues a Reset of this connection.
    pub(super) fn send_reset(&mut self, reset: Reset) {
        // RFC 4340 section 8.1.1: in REQUEST there is nothing to acknowledge, and GSR is still zero, so the
        // Acknowledgement Number of this Reset is zero too.
        self.outbox.reset = Some(OutReset { reset, seq: None, ack: self.numbers.gsr });
    }

    /// Enters CLOSED. In this state only a pending Reset is still sent.
    pub(super) fn finish(&mut self, reason: CloseReason) {
        self.end(State::Closed, reason);
    }

    fn end(&mut self, state: State, reason: CloseReason) {
        if matches!(self.state, State::TimeWait | State::Closed) {
            return;
        }
        self.enter(state);
        self.timers = Timers::default();
        self.outbox = Outbox { reset: self.outbox.reset.take(), ..Outbox::default() };
        self.events.push_back(Event::Closed(reason));
    }
}
