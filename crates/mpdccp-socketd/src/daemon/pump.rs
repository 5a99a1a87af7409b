//! Moves datagrams from a program's socket to its session's send queue.

use super::Daemon;
use super::socket::State;
use dccp_net::Core;
use mpdccp_proto::PktInfo;
use mpdccp_units::Time;

/// Maximum number of datagrams read from one program per turn, so that all programs get their turn.
const BURST: usize = 32;

impl Daemon {
    /// Moves datagrams while the send queue has room. Returns whether it has moved any datagram.
    pub(super) fn pump(&mut self, core: &mut Core, now: Time, inode: u64) -> bool {
        let session = match self.sockets.get(&inode).map(|socket| &socket.state) {
            Some(State::Open(session)) => *session,
            _ => {
                self.full.remove(&inode);
                return false;
            }
        };
        let below = core.endpoint.backlog(now, session).packets;
        let Some(socket) = self.sockets.get_mut(&inode) else { return false };
        let room = match socket.options.priority {
            true => BURST,
            false => BURST.min(socket.most_queued().saturating_sub(below) as usize),
        };
        let (mut any, mut dry) = (false, false);
        for _ in 0..room {
            match socket.next() {
                Some(Some(data)) if socket.options.priority => socket.enqueue(0, data),
                Some(Some(data)) => {
                    core.endpoint.send(now, session, data, PktInfo::default());
                    any = true;
                }
                Some(None) => dry = true,
                None => (dry, socket.fd) = (true, None),
            }
            if dry {
                break;
            }
        }
        // With priorities, the next datagram is chosen only once the previous one has left the send queue.
        if below == 0 && !socket.waiting.is_empty() {
            core.endpoint.send(now, session, socket.waiting.remove(0).1, PktInfo::default());
            any = true;
        }
        if dry && socket.waiting.is_empty() {
            if socket.fd.is_some() {
                self.full.remove(&inode);
                self.watch(inode);
            } else if below == 0 && !any {
                // The program has closed its end, and the daemon has sent all data.
                self.full.remove(&inode);
                match socket.options.server_timewait {
                    true => core.endpoint.close(now, session),
                    false => core.endpoint.close_req(now, session),
                }
            }
        }
        any
    }
}
