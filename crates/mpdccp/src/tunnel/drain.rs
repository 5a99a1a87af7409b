//! Several servers: a client goes to the next one of its list when its server asks it to, ends the session, or is silent; a server that is
//! to be taken away asks its clients to go.

use crate::tunnel::app::TunnelApp;
use crate::tunnel::peer::WaitingPath;
use dccp_net::Core;
use mpdccp_proto::PktInfo;
use units::{Duration, Time};

/// A message between tunnels: "go to another server". Its first four bits tell it from IP packets.
const LEAVE: [u8; 2] = [0x10, 1];
/// How long no path may be up before the next server is tried.
const SILENT: Duration = Duration::from_secs(3);

/// Whether a datagram is a server's request to leave it.
pub(crate) fn is_leave(data: &[u8]) -> bool {
    data == LEAVE
}

impl TunnelApp {
    /// Takes no new clients, and asks those that are here to go. Returns how many are.
    pub(crate) fn drain(&mut self, core: &mut Core) -> Result<usize, String> {
        if self.listener.is_none() {
            return Err("only a server can be drained".into());
        }
        if !self.draining {
            if self.shard.is_first() {
                tracing::info!("draining: new clients are refused, others asked to go to another server");
            }
            core.endpoint.unlisten(self.cfg.dccp_port);
            self.draining = true;
        }
        self.ask_to_leave(core, core.clock.now());
        Ok(self.sessions.len())
    }

    /// Asked for again and again, since datagrams get lost; a client that knows no other server stays.
    pub(crate) fn ask_to_leave(&self, core: &mut Core, now: Time) {
        if !self.draining {
            return;
        }
        for session in self.sessions.keys() {
            core.endpoint.send(now, *session, LEAVE.to_vec(), PktInfo::default());
        }
    }

    /// Moves a peer's paths to the next server of its list, if there is one.
    pub(crate) fn next_server(&mut self, core: &mut Core, now: Time, i: usize, why: &str) -> bool {
        let servers = self.peers[i].cfg.servers();
        if servers < 2 || self.is_closing() || self.peers[i].gone {
            return false;
        }
        let peer = &mut self.peers[i];
        peer.server = (peer.server + 1) % servers;
        peer.silent_since = None;
        tracing::warn!("peer {}: on to server {} of {servers}: {why}", peer.cfg.name, peer.server + 1);
        while !self.peers[i].paths.is_empty() {
            let path = self.take_path(core, now, i, 0);
            // What the server left behind advertised is not the next one's.
            if !path.spec.advertised {
                self.peers[i].waiting.push(WaitingPath::new(path.spec));
            }
        }
        if let Some(channels) = core.net.channels_mut() {
            channels.forget_home(i as u32);
        }
        self.open_waiting(core, now);
        true
    }

    /// Leaves servers of which no path has heard for a while.
    pub(crate) fn watch_servers(&mut self, core: &mut Core, now: Time) {
        for i in 0..self.peers.len() {
            let peer = &mut self.peers[i];
            let Some(session) = peer.session.filter(|_| peer.cfg.servers() > 1) else { continue };
            let status = core.endpoint.status(now, session);
            if status.iter().flat_map(|s| &s.paths).any(|path| path.state.is_up()) {
                peer.silent_since = None;
            } else if now.since(*peer.silent_since.get_or_insert(now)) >= SILENT {
                self.next_server(core, now, i, "it does not answer");
            }
        }
    }
}
