//! Handles sessions that open and end, and changes of the configuration.

use super::flows::{Carried, Flows};
use super::routes::{Routes, rule};
use crate::Cx;
use crate::action::Action;
use dccp_streams::{Reason, StreamId};
use mpdccp_proto::SessionId;
use mpdccp_proxy::{Command, Flow, Refusal, Tuple};

impl Flows {
    /// Handles the opening of a session. The peer may have lost its state along with the last session, so it
    /// gets the list of dead connections.
    pub(crate) fn on_session(&mut self, cx: &mut Cx<'_>, routes: &Routes<'_>, session: SessionId) {
        if let Some(number) = routes.peers.of(session) {
            self.dead.tell(cx, number, session);
        }
    }

    /// Handles the end of a session: resets the flows that it carried. A host whose SYN is still held gets no
    /// answer and retransmits the SYN.
    pub(crate) fn on_session_end(&mut self, cx: &mut Cx<'_>, routes: &Routes<'_>, session: SessionId) {
        self.dead.on_session_end(session);
        let mut peer = None;
        for flow in self.flows_of(session).collect::<Vec<_>>() {
            let Some(number) = self.carried.get(&flow).map(|carried| carried.peer) else { continue };
            peer = Some(number);
            if let Some(tuple) = self.table.tuple(flow) {
                self.dead.note(number, tuple, self.most);
            }
            self.give_up(cx, flow, Reason::SessionLost);
        }
        // If the next session is already open, send the list of dead connections now.
        let next = peer.and_then(|number| Some((number, routes.peers.get(number)?.session?)));
        if let Some((number, next)) = next.filter(|(_, next)| *next != session) {
            self.dead.tell(cx, number, next);
        }
    }

    /// Resets flows that the configuration no longer allows. The remaining flows get their class from the
    /// current rules, but stay streams even if a rule now requires packets.
    pub(crate) fn recheck(&mut self, cx: &mut Cx<'_>, routes: &Routes<'_>) {
        let flows: Vec<(Flow, Tuple)> =
            self.carried.keys().filter_map(|flow| Some((*flow, self.table.tuple(*flow)?))).collect();
        for (flow, tuple) in flows {
            let Some(&Carried { session, stream, request, .. }) = self.carried.get(&flow) else { continue };
            let right = |n: &usize| routes.allowed.peer(tuple.to.ip()) == Some(*n);
            let (rule, class) = rule(cx, &request.answer());
            if rule.is_some_and(|rule| rule.drop) || !routes.peers.of(session).as_ref().is_some_and(right) {
                self.give_up(cx, flow, Reason::NotAllowed);
                continue;
            }
            let dscp = request.traffic_class >> 2;
            let _ = cx.endpoint.streams(cx.now, session, |s| s.classify(stream, class, dscp));
        }
    }

    /// Resets the connection to the host at this end. If the sockets are still connecting, it is reset once
    /// they have answered. Until then, the flow counts as half-open. Otherwise, a peer could open and reset
    /// streams faster than the sockets connect, and their queue of commands would grow without limit.
    pub(super) fn reset_host(&mut self, cx: &mut Cx<'_>, flow: Flow) {
        if self.table.is_connecting(flow) {
            return;
        }
        self.resets += 1;
        self.table.ended(cx.now, flow);
        cx.out.push(Action::Tcp(Command::Reset(flow)));
    }

    fn give_up(&mut self, cx: &mut Cx<'_>, flow: Flow, why: Reason) {
        let held = self.carried.get(&flow).is_some_and(|carried| carried.ours && !carried.open);
        match held {
            true => drop(self.table.refused(cx.now, flow, Refusal::Busy)),
            false => self.reset_host(cx, flow),
        }
        self.reset_stream(cx, flow, why);
    }

    /// Returns the number of flows that a session carries.
    pub(crate) fn of_session(&self, session: SessionId) -> usize {
        self.flows_of(session).count()
    }

    /// Returns the flows that a session carries, in the order of their streams. Does not search the flows of
    /// other sessions, because a peer can open and end many sessions.
    fn flows_of(&self, session: SessionId) -> impl Iterator<Item = Flow> {
        let all = (session, StreamId(0))..=(session, StreamId(u64::MAX));
        self.by_stream.range(all).map(|(_, flow)| *flow)
    }
}
