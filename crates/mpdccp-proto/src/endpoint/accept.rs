//! Handles Requests that open or join sessions.

use super::strangers::Question;
use super::{Endpoint, cookie_codec};
use crate::session::{Offer, Refusal, Session, wanted_ci};
use crate::{Counter, SessionId};
use dccp_proto::{Ecn, Ports, Route};
use dccp_wire::{Packet, PacketType, Reset, ResetCode};
use mpdccp_units::{Time, source};
use tracing::Span;

/// Maximum number of half-open sessions per listener. Further Requests are answered without keeping state
/// (RFC 4340 section 8.1.4), so that clients with genuine addresses can still connect during a flood of
/// forged Requests.
const MAX_HALF_OPEN: usize = 64;

impl Endpoint {
    /// Handles a packet that belongs to no connection (RFC 4340 section 8.5 steps 2 and 3).
    pub(super) fn handle_stranger(
        &mut self,
        now: Time,
        route: &Route,
        vouched: Option<u32>,
        (ecn, question): (Ecn, Question),
        packet: &Packet<'_>,
    ) {
        let known = self.listeners.contains_key(&packet.header.dst_port);
        let refusal = match packet.header.ptype {
            PacketType::Reset => Refusal::Ignore(Counter::ResetWithoutConnection),
            // RFC 5596 sections 2.2.2 and 2.2.3: servers ignore a Listen, and so do clients outside REQUEST.
            PacketType::Listen => Refusal::Ignore(Counter::Listen),
            // RFC 4340 section 8.5 step 2: a connection in TIMEWAIT answers with a Reset.
            _ if self.demux.waits(now, route, ports_of(packet)) => {
                refuse(ResetCode::NoConnection, Counter::TimeWait)
            }
            PacketType::Request if known => {
                match self.handle_request(now, route, vouched, question, packet) {
                    Ok(()) => return,
                    Err(refusal) => refusal,
                }
            }
            _ if known && cookie_codec::find(packet).is_some() => {
                match self.handle_cookie(now, route, vouched, (ecn, question), packet) {
                    Ok(()) => return,
                    Err(refusal) => refusal,
                }
            }
            // The client sends its Ack with the cookie first, and then this Sync, so the Ack was lost or is
            // late. A Reset would end the client's attempt. Without an answer, the client repeats the Ack.
            PacketType::Sync if known && cookie_codec::cookie(packet).is_some() => {
                Refusal::Ignore(Counter::SyncBeforeCookie)
            }
            // A raw socket receives all DCCP packets of the host. Packets for other ports may belong to other
            // programs, so ignore them.
            _ if !known && route.remote.port() == 0 => Refusal::Ignore(Counter::NoConnection),
            // RFC 5595 section 3.3.1: no listener is bound to this port.
            PacketType::Request => refuse(ResetCode::ConnectionRefused, Counter::PortNotBound),
            _ => refuse(ResetCode::NoConnection, Counter::NoConnection),
        };
        match refusal {
            Refusal::Ignore(why) => self.stats.count(why),
            Refusal::Reset(reset, why) => {
                self.stats.count(why);
                if packet.header.ptype == PacketType::Request {
                    self.stats.refused = Some((route.remote, why));
                }
                if !self.strangers.answer(now, route, question, packet, reset) {
                    self.stats.count(Counter::ResetRateLimited);
                }
            }
        }
    }

    /// Returns whether a repeated Request for a half-open session may be answered again.
    pub(super) fn may_repeat(&mut self, now: Time, id: SessionId, question: Question) -> bool {
        let entry = self.sessions.get(&id).filter(|entry| !entry.opened);
        entry.is_none_or(|entry| self.strangers.may_answer(now, question, entry.answer))
    }

    fn handle_request(
        &mut self,
        now: Time,
        route: &Route,
        vouched: Option<u32>,
        question: Question,
        request: &Packet<'_>,
    ) -> Result<(), Refusal> {
        let port = request.header.dst_port;
        // RFC 5596 section 2.2.2: once the Request arrives, no more Listens are sent.
        self.rendezvous.accept(route, ports_of(request));
        let Some(listener) = self.listeners.get(&port) else {
            return Err(refuse(ResetCode::ConnectionRefused, Counter::PortNotBound));
        };
        let (mtu, overhead) = (listener.cfg.mtu, listener.overhead(route));
        if let Some(ci) = wanted_ci(request) {
            // RFC 9897 section 3.6: an invalid connection identifier closes the subflow.
            let unknown = refuse(ResetCode::ConnectionRefused, Counter::JoinUnknownCi);
            let id = self.demux.by_ci(ci).ok_or(unknown)?;
            // A peer may join only its own sessions, and must not learn which other sessions exist.
            let owner = self.sessions.get(&id).map(|entry| entry.session.peer());
            if vouched.is_some() && vouched != owner {
                return Err(unknown);
            }
            let joined = self.with(now, id, |s| s.accept_join(now, *route, request, mtu, overhead));
            let (path, ports) = joined.ok_or(unknown)??;
            self.demux.add(route, ports, id, path);
            return Ok(());
        }
        let peer = self.admit(port, route, vouched)?;
        let Some(listener) = self.listeners.get(&port) else { return Ok(()) };
        // Half-open sessions never cause a refusal, because their source may be forged. Once the per-source
        // or total limit is exceeded, a Request is answered with a cookie and takes up no state.
        let here = listener.sessions.of(source(route.remote.ip()));
        let crowded = listener.is_stranger(vouched)
            && here.half_open + here.open >= listener.cfg.max_sessions_per_source;
        if crowded || listener.sessions.all.half_open >= MAX_HALF_OPEN {
            return self.answer_with_cookie(now, route, peer, question, request);
        }
        let (ci, seed) = (self.fresh_ci(), self.seed());
        // The session logs its transition to RESPOND, but the endpoint has not yet registered the session's
        // span, so enter the span here.
        let span = self.next_span(true);
        let answered = span.in_scope(|| self.respond(now, route, peer, question, request, (ci, seed), &[]));
        let (session, answer) = answered?;
        self.begin(now, route, port, session, (span, answer));
        Ok(())
    }

    /// Answers a Request, and returns the length of the Response. If data would make the Response too long
    /// for an unproven address, the Response carries none.
    #[expect(clippy::too_many_arguments)]
    pub(super) fn respond(
        &mut self,
        now: Time,
        route: &Route,
        peer: u32,
        question: Question,
        request: &Packet<'_>,
        secrets: (u32, [u8; 32]),
        cookie: &[u8],
    ) -> Result<(Session, usize), Refusal> {
        let port = request.header.dst_port;
        let tells =
            self.listeners.get(&port).is_some_and(|listener| !listener.cfg.session.early_data.is_empty());
        for early in [true, false].into_iter().take(if tells { 2 } else { 1 }) {
            let mut session = self.answer(now, route, peer, request, secrets, cookie, early)?;
            let left = self.strangers.answer_with(now, question, |keep| session.poll_transmit(now, keep));
            if let Some(len) = left {
                return Ok((session, len));
            }
        }
        Err(Refusal::Ignore(Counter::AnswerTooLarge))
    }

    /// Returns the [`crate::PeerFilter::id`] of the peer, or a refusal if the peer may not open a session.
    pub(super) fn admit(&self, port: u16, route: &Route, vouched: Option<u32>) -> Result<u32, Refusal> {
        let Some(listener) = self.listeners.get(&port) else {
            return Err(refuse(ResetCode::ConnectionRefused, Counter::PortNotBound));
        };
        let peer = match vouched {
            Some(peer) => (listener.cfg.strangers || listener.numbers.contains(&peer)).then_some(peer),
            None => listener.peer(route.remote.ip()),
        };
        let peer = peer.ok_or(refuse(ResetCode::ConnectionRefused, Counter::RefusedPeer))?;
        if listener.sessions.all.open >= listener.cfg.max_sessions {
            return Err(refuse(ResetCode::TooBusy, Counter::TooManySessions));
        }
        let here = listener.sessions.of(source(route.remote.ip())).open;
        if listener.is_stranger(vouched) && here >= listener.share_of_source() {
            return Err(refuse(ResetCode::TooBusy, Counter::TooManySessionsOfSource));
        }
        Ok(peer)
    }

    /// Creates the session that answers a Request. The session is not registered with the endpoint yet.
    #[expect(clippy::too_many_arguments)]
    pub(super) fn answer(
        &self,
        now: Time,
        route: &Route,
        peer: u32,
        request: &Packet<'_>,
        (ci, seed): (u32, [u8; 32]),
        cookie: &[u8],
        early: bool,
    ) -> Result<Session, Refusal> {
        let Some(listener) = self.listeners.get(&request.header.dst_port) else {
            return Err(refuse(ResetCode::ConnectionRefused, Counter::PortNotBound));
        };
        let (cfg, mtu, overhead) = (&listener.cfg.session, listener.cfg.mtu, listener.overhead(route));
        let offer = Offer { cfg, route: *route, request, mtu, overhead, peer, ci, seed, cookie, early };
        Session::server(now, &offer).map_err(|(reset, why)| Refusal::Reset(reset, why))
    }

    /// Registers the session with the endpoint.
    pub(super) fn begin(
        &mut self,
        now: Time,
        route: &Route,
        port: u16,
        session: Session,
        (span, answer): (Span, usize),
    ) {
        let source = source(route.remote.ip());
        if let Some(listener) = self.listeners.get_mut(&port) {
            listener.sessions.change(source, false, true);
        }
        let first = session.first_connection();
        let id = self.insert(session, Some((port, source)), span);
        if let Some(entry) = self.sessions.get_mut(&id) {
            entry.answer = answer;
        }
        if let Some((path, ports)) = first {
            self.demux.add(route, ports, id, path);
        }
        self.settle(now, id);
    }
}

/// Returns the packet's ports as this end sees them.
pub(super) fn ports_of(packet: &Packet<'_>) -> Ports {
    Ports { local: packet.header.dst_port, remote: packet.header.src_port }
}

pub(super) fn refuse(code: ResetCode, why: Counter) -> Refusal {
    Refusal::Reset(Reset { code, data: [0; 3] }, why)
}
