//! Ends a tunnel, and saves its state for the next run.

use super::{CLOSE_PATIENCE, Tunnel};
use crate::Cx;
use crate::action::{Action, HookEvent};
use crate::client;
use crate::peer::Peer;
use mpdccp_proto::Endpoint;
use mpdccp_units::Time;

impl Tunnel {
    /// Closes all sessions, then stops the tunnel.
    pub(super) fn shut_down(&mut self, endpoint: &mut Endpoint, now: Time) {
        if self.closing.is_some() {
            return;
        }
        self.closing = Some(now + CLOSE_PATIENCE);
        self.observe(endpoint, now);
        self.peers.iter_mut().for_each(Peer::shut_down);
        // A client reconnects as soon as its session is closed. A session with this end would die with it,
        // and the client would notice only after a timeout.
        self.listener.close(&self.cfg, &self.peers, endpoint);
        let sessions = endpoint.sessions();
        for session in &sessions {
            endpoint.close(now, *session);
        }
        if sessions.is_empty() {
            self.stop(endpoint, now);
        }
    }

    /// Stores the capacities of all paths.
    pub(super) fn observe(&mut self, endpoint: &mut Endpoint, now: Time) {
        let cx = cx!(self, endpoint, now);
        self.peers.iter().for_each(|peer| self.capacities.observe(cx, peer));
        if self.shard.is_first() {
            self.capacities.save(&mut self.out);
        }
    }

    pub(super) fn stop(&mut self, endpoint: &mut Endpoint, now: Time) {
        let cx = cx!(self, endpoint, now);
        for number in self.name_servers.end(cx).into_iter().filter_map(|session| self.peers.of(session)) {
            cx.hook(HookEvent::SessionDown, self.peers[number].name(), None, "the tunnel ends");
        }
        client::finish(&self.peers, &self.paths, &mut self.out);
        self.leases.save(&mut self.out);
        self.out.push(Action::Stop);
    }
}
