//! Passes events to the TCP flows that are carried as streams.

use super::Tunnel;
use crate::Cx;
use crate::client::servers;
use crate::message::Message;
use crate::packet::allowed::addresses;
use crate::packet::forward::Outcome;
use crate::tcp::{Divert, Flows, Routes};
use mpdccp_proto::{Endpoint, SessionEvent, SessionId};
use mpdccp_units::Time;

macro_rules! routes {
    ($self:ident) => {
        Routes { peers: &mut $self.peers, allowed: &$self.forward.allowed }
    };
}

impl Tunnel {
    /// Sets how many TCP connections this host can carry as streams at the same time. The error says why it
    /// cannot carry any. Call this before [`start`](Self::start).
    pub fn set_proxy(&mut self, endpoint: &mut Endpoint, able: Result<usize, String>) {
        match able {
            Ok(flows) => {
                self.cfg.proxy = true;
                self.flows = Some(Flows::new(self.started, flows, &std::mem::take(&mut self.connections)));
                self.listener.update(&self.cfg, &self.peers, endpoint);
            }
            Err(why) if self.shard.is_first() => {
                self.out.warn(format!(
                    "cannot terminate TCP; all connections are carried as packets instead of streams: {why}"
                ));
            }
            Err(_) => {}
        }
    }

    /// Handles events of the proxy's sockets.
    pub fn handle_sockets(&mut self, endpoint: &mut Endpoint, now: Time, events: Vec<mpdccp_proxy::Event>) {
        if let Some(flows) = &mut self.flows {
            flows.on_sockets(cx!(self, endpoint, now), &mut routes!(self), events);
            flows.save(cx!(self, endpoint, now));
        }
    }

    /// Handles a super-packet from the interface before it is segmented. If the result is [`Divert::Packet`],
    /// the caller must segment the super-packet and handle each resulting packet.
    pub fn divert_whole(&mut self, endpoint: &mut Endpoint, now: Time, packet: &[u8]) -> Divert {
        let Some(done) = self.divert(endpoint, now, packet, true) else { return Divert::Packet };
        self.forward.read.count(1, packet.len() as u64);
        done
    }

    /// Offers a packet or a whole super-packet from the interface to the proxy. Returns `None` if the tunnel
    /// must carry it itself.
    pub(super) fn divert(
        &mut self,
        endpoint: &mut Endpoint,
        now: Time,
        packet: &[u8],
        whole: bool,
    ) -> Option<Divert> {
        let flows = self.flows.as_mut()?;
        let (_, destination) = addresses(packet)?;
        let home = self.forward.allowed.peer(destination).is_some_and(|number| self.shard.is_home(number));
        let cx = cx!(self, endpoint, now);
        let done = home.then(|| flows.on_packet(cx, &routes!(self), packet, whole))?;
        flows.save(cx);
        (done != Divert::Packet).then_some(done)
    }

    /// Handles a session event. Returns true if the event concerned only the session's streams.
    pub(super) fn handle_stream_event(
        &mut self,
        endpoint: &mut Endpoint,
        now: Time,
        session: SessionId,
        event: &SessionEvent,
    ) -> bool {
        let Some(flows) = &mut self.flows else { return matches!(event, SessionEvent::Stream(_)) };
        let (cx, routes) = (cx!(self, endpoint, now), &mut routes!(self));
        match event {
            SessionEvent::Stream(event) => flows.on_stream(cx, routes, session, *event),
            SessionEvent::Closed(_) => flows.on_session_end(cx, routes, session),
            SessionEvent::Opened { .. } => flows.on_session(cx, routes, session),
            _ => return false,
        }
        flows.save(cx);
        matches!(event, SessionEvent::Stream(_))
    }

    /// Checks all flows again, because an address may now belong to another peer.
    pub(super) fn recheck_flows(&mut self, endpoint: &mut Endpoint, now: Time) {
        if let Some(flows) = &mut self.flows {
            flows.recheck(cx!(self, endpoint, now), &routes!(self));
        }
    }

    /// Continues flows that their peer's rate limit held back.
    pub(super) fn continue_flows(&mut self, endpoint: &mut Endpoint, now: Time) {
        if let Some(flows) = &mut self.flows {
            flows.on_timeout(cx!(self, endpoint, now), &mut routes!(self));
        }
    }

    /// Handles a server's message that asks its client to leave. Does nothing if the client has already left
    /// that server. While the client's only path moves, the session has no path that could stay, so the
    /// client waits until the server repeats the message.
    pub(super) fn leave(&mut self, endpoint: &mut Endpoint, now: Time, number: usize, session: SessionId) {
        let peer = &self.peers[number];
        if peer.session == Some(session) && !peer.paths.is_empty() {
            let connections = Some(self.flows.as_ref().map_or(0, |flows| flows.of_session(session)));
            let (cx, peers) = (cx!(self, endpoint, now), &mut self.peers);
            servers::next(
                cx,
                peers,
                &mut self.paths,
                number,
                "the previous server is being drained",
                connections,
            );
        }
    }

    /// Handles a probe message from the peer, which either asks whether the host of a stream is alive or
    /// answers that its own host is.
    pub(super) fn handle_probe(
        &mut self,
        endpoint: &mut Endpoint,
        now: Time,
        session: SessionId,
        message: &Message,
    ) -> Outcome {
        let Some(flows) = &mut self.flows else { return Outcome::Done };
        match message {
            Message::Probe(stream) => flows.on_probe(cx!(self, endpoint, now), session, *stream),
            Message::Alive(stream) => {
                return flows.on_alive(session, *stream).map_or(Outcome::Done, Outcome::Proxy);
            }
            _ => {}
        }
        Outcome::Done
    }
}

impl Divert {
    /// Converts the decision about a packet to an outcome for the caller.
    pub(super) fn outcome(self, packet: Vec<u8>) -> Outcome {
        match self {
            Divert::Proxy => Outcome::Proxy(packet),
            Divert::Packet | Divert::Done => Outcome::Done,
        }
    }
}
