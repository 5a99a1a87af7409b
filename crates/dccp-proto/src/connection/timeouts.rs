//! The timers of a connection and their handlers.

use super::outbox::Control;
use super::pmtu::Pmtu;
use super::timers::Backoff;
use super::*;
use crate::ccid::AckDue;
use dccp_wire::ResetCode;

impl Connection {
    /// Returns when to call [`handle_timeout`](Self::handle_timeout), and which timer expires then.
    pub fn poll_timeout(&self) -> Option<(Time, Timer)> {
        let (retransmit, give_up) = match self.state {
            State::Request => (Timer::RequestRetransmit, Timer::RequestRetransmit),
            State::Respond => (Timer::RespondExpire, Timer::RespondExpire),
            State::PartOpen | State::Open => (Timer::PartOpenRetransmit, Timer::PartOpenRetransmit),
            State::CloseReq | State::Closing => (Timer::CloseRetransmit, Timer::CloseRetransmit),
            State::TimeWait | State::Closed => (Timer::TimeWait, Timer::TimeWait),
        };
        let halves = self.halves.as_ref().filter(|_| matches!(self.state, State::PartOpen | State::Open));
        let ack = halves.and_then(|h| match h.rx.ack_due(Time::ZERO) {
            AckDue::At(at) => Some((at, Timer::AckDelay)),
            AckDue::No | AckDue::Now => None,
        });
        [
            self.timers.retransmit.map(|b| (b.at, retransmit)),
            self.timers.give_up.map(|at| (at, give_up)),
            self.timers.feature.map(|b| (b.at, Timer::FeatureRetransmit)),
            halves.and_then(|h| h.tx.next_timeout()).map(|at| (at, Timer::Sender)),
            ack,
            self.pmtu
                .as_ref()
                .filter(|_| self.state == State::Open)
                .and_then(|p| p.next_timeout())
                .map(|at| (at, Timer::MtuProbe)),
        ]
        .into_iter()
        .flatten()
        .min_by_key(|(at, _)| *at)
    }

    /// Handles an expired timer. Calling this too early has no effect. Acks that are due leave with the next
    /// `poll_transmit`.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.timers.give_up.is_some_and(|at| now >= at) {
            self.timers.give_up = None;
            self.expire();
        }
        if self.timers.retransmit.as_mut().is_some_and(|b| b.fires(now)) {
            self.retransmit();
        }
        if self.timers.feature.as_mut().is_some_and(|b| b.fires(now)) {
            self.features.resend();
        }
        let running = matches!(self.state, State::PartOpen | State::Open);
        if let Some(halves) = self.halves.as_mut().filter(|_| running)
            && halves.tx.next_timeout().is_some_and(|at| now >= at)
        {
            halves.tx.on_timeout(now);
            self.ecn.on_timeout(&halves.tx.view());
        }
        self.watch_mtu(now);
        self.serve_sender();
        self.arm_feature_timer(now);
    }

    /// Sets the MTU to the discovered path MTU.
    pub(super) fn watch_mtu(&mut self, now: Time) {
        if self.state != State::Open || !self.cfg.probe_mtu {
            return;
        }
        let pmtu = self.pmtu.get_or_insert_with(|| Pmtu::new(now, self.cfg.mtu));
        if let Some(halves) = &self.halves {
            pmtu.on_loss(now, halves.tx.view().lost.packets);
        }
        pmtu.on_timeout(now, self.numbers.gar);
        let mtu = pmtu.mtu();
        if mtu != self.cfg.mtu {
            self.use_mtu(mtu);
        }
    }

    pub(super) fn retransmit(&mut self) {
        match self.state {
            // The first Request is not a retransmission.
            State::Request if self.requests_sent > u32::from(self.cfg.request_retries) => self.expire(),
            State::Request => self.outbox.control = Some(Control::Request),
            State::PartOpen => {
                self.outbox.ack = true;
                // RFC 4340 section 8.1.5: a SyncAck ends PARTOPEN. Every peer answers a Sync, but not every
                // peer answers an Ack. Without the Sync, a client whose datagrams are too large for a DataAck
                // would stay in PARTOPEN until it gives up. With multipath, the server must answer the Ack
                // (RFC 9897 section 3.3), so no Sync is needed.
                self.outbox.ask = !self.is_multipath();
            }
            State::CloseReq => self.outbox.control = Some(Control::CloseReq),
            State::Closing => self.outbox.control = Some(Control::Close),
            State::Respond | State::Open | State::TimeWait | State::Closed => {}
        }
    }

    fn expire(&mut self) {
        match self.state {
            // RFC 4340 sections 8.1.1, 8.1.3 and 8.1.5: the Reset lets the peer remove its state.
            State::Request | State::Respond | State::PartOpen => {
                self.send_reset(Reset { code: ResetCode::Aborted, data: [0; 3] });
                self.finish(CloseReason::TimedOut);
            }
            State::CloseReq | State::Closing => self.finish(CloseReason::TimedOut),
            State::TimeWait => self.enter(State::Closed),
            State::Open | State::Closed => {}
        }
    }

    /// After the handshake, Changes have their own timer (RFC 4340 section 6.6.3).
    pub(super) fn arm_feature_timer(&mut self, now: Time) {
        if self.state != State::Open || !self.features.is_changing() {
            self.timers.feature = None;
        } else if self.timers.feature.is_none() {
            // The RFC requires at least a round-trip time. Wait twice as long, because the peer may delay its
            // answer.
            self.timers.feature = Some(Backoff::new(now, self.rtt() * 2));
        }
    }
}
