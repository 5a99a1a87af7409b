//! The end of a session: MP_CLOSE, MP_FAST_CLOSE, or no path left (RFC 9897 sections 3.2.3, 3.2.11 and 3.5).

use super::subflow::{Stage, Subflow};
use super::{Reason, Role, Session, SessionEvent, encode};
use crate::SessionState;
use crate::{Counter, Wake};
use dccp_proto::{Connection, Extra, State};
use dccp_wire::{MpOption, PacketType, ResetCode};
use mpdccp_units::{Duration, Time};

/// How long to wait for the answers to this end's Close, or for the peer's Close on the other subflows.
const CLOSE_WAIT: Duration = Duration::from_secs(3);

/// A session with open streams survives for at least this long with no path up.
const STREAMS_SURVIVE: Duration = Duration::from_secs(15 * 60);

impl Session {
    /// Closes cleanly. If `timewait_at_peer` is set and this end is the server, the client holds TIMEWAIT.
    pub(crate) fn close(&mut self, now: Time, timewait_at_peer: bool) {
        match self.state {
            SessionState::Connecting => {
                self.abort_at_both_ends("");
                self.finish(Reason::ClosedBeforeOpen);
            }
            SessionState::Open => {
                self.begin_closing(now, Reason::Closed);
                self.close_all(now, timewait_at_peer);
                self.check_end(now);
            }
            SessionState::Closing | SessionState::Closed => {}
        }
    }

    /// Ends the session at once. `text` tells the peer the reason, and may be empty.
    pub(crate) fn abort(&mut self, text: &str) {
        if self.state == SessionState::Closed {
            return;
        }
        self.abort_at_both_ends(text);
        self.finish(Reason::Aborted);
    }

    fn connections(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.paths.iter_mut().filter_map(|p| p.conn.as_mut())
    }

    fn abort_all(&mut self, code: ResetCode) {
        self.connections().for_each(|conn| conn.abort(code));
    }

    /// Resets all subflows, and ends the session at the peer too.
    fn abort_at_both_ends(&mut self, text: &str) {
        (0..self.paths.len()).for_each(|i| self.abort_with_key(i, text));
    }

    /// Resets a subflow. The Reset ends the peer's session too, because it carries the peer's key
    /// (RFC 9897 section 3.2.3). The server's session may be open once the client has accepted the Response,
    /// even if the server's Ack has not arrived.
    pub(super) fn abort_with_key(&mut self, i: usize, text: &str) {
        let path = &mut self.paths[i];
        let answered = self.role == Role::Client && path.stage == Stage::Proven;
        let fast = self.multipath && (answered || self.state != SessionState::Connecting);
        let Some(conn) = &mut path.conn else { return };
        if matches!(conn.state(), State::Closed | State::TimeWait) {
            return;
        }
        let mut code = ResetCode::Aborted;
        if fast {
            code = ResetCode::AbruptMpTermination;
            conn.set_extra(Extra::Reset, encode(&[MpOption::FastClose(self.keys.remote())]).as_bytes());
        }
        conn.abort_with(code, text);
    }

    fn drop_queue(&mut self) {
        if let Some(carried) = self.streams.take() {
            self.unread = Some(carried);
        }
        self.drop_datagrams();
    }

    /// Drops the datagrams in the send queue.
    pub(super) fn drop_datagrams(&mut self) {
        self.repair.clear();
        let dropped = self.classes.clear();
        if dropped > 0 {
            *self.counters.entry(Counter::DroppedAtClose).or_insert(0) += dropped;
        }
    }

    fn begin_closing(&mut self, now: Time, reason: Reason) {
        self.state = SessionState::Closing;
        self.close_reason = reason;
        self.close_at = now + CLOSE_WAIT;
        self.pending.clear();
        self.drop_queue();
        let unproven = |p: &Subflow| {
            p.conn.as_ref().is_some_and(|conn| p.is_half_open() || conn.state() == State::Request)
        };
        // RFC 9897 section 3.2.11: from now on, joins are ignored. Two kinds of joins therefore end at once:
        // the peer's joins that have not proved knowledge of the key, and this end's joins that have not been
        // answered.
        while let Some(i) = self.paths.iter().position(unproven) {
            self.give_up(now, i, reason);
        }
    }

    /// Sends Close or CloseReq with MP_CLOSE and the peer's key on every subflow.
    fn close_all(&mut self, now: Time, timewait_at_peer: bool) {
        let option = match self.multipath {
            true => encode(&[MpOption::Close(self.keys.remote())]),
            false => encode(&[]),
        };
        for conn in self.connections() {
            conn.set_extra(Extra::Close, option.as_bytes());
            match conn.state() {
                State::Request | State::Respond => conn.abort(ResetCode::Aborted),
                State::PartOpen | State::Open => conn.close(now, timewait_at_peer),
                // In CLOSING after a CloseReq, the Close has not been sent yet, so it will carry the MP_CLOSE
                // set above.
                State::CloseReq | State::Closing | State::TimeWait | State::Closed => {}
            }
        }
        (0..self.paths.len()).for_each(|i| self.after_input(now, i));
    }

    /// Handles an MP_CLOSE on a Close or CloseReq.
    pub(super) fn on_mp_close(&mut self, now: Time, ptype: PacketType, key: &[u8]) {
        if !self.keys.is_ours(key) {
            // The subflow closes as it does after any Close. The session continues.
            return self.count(Counter::CloseWithWrongKey);
        }
        match (ptype, self.state) {
            // If the server's last Ack of the handshake was lost, the client is still connecting.
            (PacketType::CloseReq, SessionState::Connecting | SessionState::Open) => {
                self.begin_closing(now, Reason::ClosedByPeer);
                self.close_all(now, false);
            }
            (PacketType::Close, SessionState::Connecting) => self.finish(Reason::ClosedByPeer),
            // RFC 9897 section 3.2.11: all subflows are closed, and each answers the peer's Close with Reset
            // code 1. The subflows stay open in order to give this answer. If no Close arrives on a subflow,
            // it is reset after a while.
            (PacketType::Close, SessionState::Open) => self.begin_closing(now, Reason::ClosedByPeer),
            (PacketType::Close | PacketType::CloseReq, _) => {}
            _ => self.count(Counter::CloseOnWrongType),
        }
    }

    /// Handles an MP_FAST_CLOSE on a Reset.
    pub(super) fn on_mp_fast_close(&mut self, code: ResetCode, key: &[u8]) {
        if code != ResetCode::AbruptMpTermination || !self.keys.is_ours(key) {
            return self.count(Counter::FastCloseInvalid);
        }
        // RFC 9897 section 3.2.3: all other subflows are reset with code 13.
        self.abort_all(ResetCode::AbruptMpTermination);
        self.finish(Reason::AbortedByPeer);
    }

    /// Returns how long the session survives with no path up. Its streams may carry TCP connections, and
    /// Linux gives up on a TCP connection only after 15 minutes.
    pub(super) fn survive(&self) -> Duration {
        let open = self.streams.as_ref().is_some_and(|carried| !carried.streams.is_empty());
        if open { self.cfg.survive.max(STREAMS_SURVIVE) } else { self.cfg.survive }
    }

    /// Returns when to call [`Self::check_end`] because the session may have ended.
    pub(super) fn end_timeout(&self) -> Option<(Time, Wake)> {
        match self.state {
            SessionState::Closing => Some((self.close_at, Wake::CloseWait)),
            SessionState::Closed => None,
            _ if self.any_up() => None,
            _ => Some((self.alive + self.survive(), Wake::Survive)),
        }
    }

    /// Ends the session if it has nothing left to wait for.
    pub(super) fn check_end(&mut self, now: Time) {
        match self.state {
            SessionState::Closing => {
                let done = self.paths.iter().all(|p| p.conn.is_none());
                if done || now >= self.close_at {
                    self.abort_all(ResetCode::Closed);
                    self.finish(self.close_reason);
                }
            }
            SessionState::Connecting | SessionState::Open => {
                if !self.any_up() && now >= self.alive + self.survive() {
                    let reason = match self.state {
                        SessionState::Connecting => Reason::NoAnswer,
                        _ => Reason::NoPath,
                    };
                    self.abort_at_both_ends("");
                    self.finish(reason);
                }
            }
            SessionState::Closed => {}
        }
    }

    /// Ends the session. A connection with one last packet to send is kept until that packet is sent.
    pub(super) fn finish(&mut self, reason: Reason) {
        if self.state == SessionState::Closed {
            return;
        }
        let half_open = self.role == Role::Server && self.state == SessionState::Connecting;
        self.state = SessionState::Closed;
        (0..self.paths.len()).for_each(|i| self.retire(i));
        self.drop_queue();
        // Release the packets that are held behind holes.
        self.reorderer.on_timeout(Time::MAX);
        // The owner never learned of a half-open session, so it needs neither the data nor the event.
        match half_open {
            true => self.delivered.clear(),
            false => self.events.push_back(SessionEvent::Closed(reason)),
        }
    }
}
