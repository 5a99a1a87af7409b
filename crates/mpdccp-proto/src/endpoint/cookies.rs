//! Init Cookies (RFC 4340 section 8.1.4). Under load, a listener puts the state of a Request into a cookie,
//! which the client returns. A valid cookie opens a session, and an invalid one is answered with a Reset.

use super::accept::{ports_of, refuse};
use super::strangers::Question;
use super::{Endpoint, Entry, cookie_codec};
use crate::session::Refusal;
use crate::{Counter, SessionState};
use alloc::vec::Vec;
use dccp_proto::{Ecn, Route, Sink};
use dccp_wire::{Packet, ResetCode};
use mpdccp_units::Time;

impl Entry {
    /// Returns whether a cookie opened the session. Its connections rest like those in TIMEWAIT, because a
    /// late copy of the packet with the cookie would open the session again.
    pub(super) fn is_by_cookie(&self) -> bool {
        self.listener.is_some() && self.answer == 0
    }
}

impl Endpoint {
    /// Answers a Request without keeping state (RFC 4340 section 8.1.4).
    pub(super) fn answer_with_cookie(
        &mut self,
        now: Time,
        route: &Route,
        peer: u32,
        question: Question,
        request: &Packet<'_>,
    ) -> Result<(), Refusal> {
        let too_long = refuse(ResetCode::TooBusy, Counter::TooLongForACookie);
        let (cookie, seed) = self.cookies.make(now, route, ports_of(request), request).ok_or(too_long)?;
        self.respond(now, route, peer, question, request, (self.ci_of(&seed), seed), &cookie)?;
        self.stats.count(Counter::AnsweredWithCookie);
        Ok(())
    }

    /// Handles a packet that returns a cookie: restores the session that answered the Request, and lets it
    /// process the packet. An invalid cookie is refused with Reset code 10.
    pub(super) fn handle_cookie(
        &mut self,
        now: Time,
        route: &Route,
        vouched: Option<u32>,
        (ecn, question): (Ecn, Question),
        packet: &Packet<'_>,
    ) -> Result<(), Refusal> {
        let port = packet.header.dst_port;
        let bad = refuse(ResetCode::BadInitCookie, Counter::BadInitCookie);
        let cookie = cookie_codec::find(packet).ok_or(bad)?;
        let remembered = self.cookies.open(now, route, ports_of(packet), cookie).ok_or(bad)?;
        let request = Packet::parse(&remembered.request).map_err(|_| bad)?;
        let peer = self.admit(port, route, vouched)?;
        let ci = self.ci_of(&remembered.seed);
        if self.demux.knows_ci(ci) {
            return Err(bad);
        }
        let span = self.next_span(true);
        let _in = span.clone().entered();
        let mut session =
            self.answer(remembered.at, route, peer, &request, (ci, remembered.seed), cookie, false)?;
        // The restored session creates its Response again. The client already has it, so discard it.
        session.poll_transmit(remembered.at, &mut Nowhere::default());
        if let Some((path, _)) = session.first_connection() {
            session.handle_packet(now, path, ecn, question.len, packet);
        }
        // If the packet acknowledges another Response, the session does not open.
        if session.state() != SessionState::Open {
            return Err(bad);
        }
        self.stats.count(Counter::OpenedByCookie);
        self.begin(now, route, port, session, (span, 0));
        Ok(())
    }

    /// Returns the connection identifier of a stateless session, derived from the seed.
    fn ci_of(&self, seed: &[u8; 32]) -> u32 {
        let [a, b, c, d, ..] = *seed;
        u32::from_be_bytes([self.shard.unwrap_or(a), b, c, d])
    }
}

/// A sink that discards packets.
#[derive(Default)]
struct Nowhere(Vec<u8>);

impl Sink for Nowhere {
    fn reserve(&mut self, _: &Route, _: Ecn, len: usize) -> &mut [u8] {
        self.0.resize(len, 0);
        &mut self.0
    }
}
