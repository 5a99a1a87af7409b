//! Copies data from streams to the hosts' sockets, limited by the peer's `receive_rate`. Data over the rate
//! stays in the streams and fills their windows, so the peer stops sending.

use super::flows::Flows;
use super::routes::Routes;
use super::transfer::{CHUNK, read};
use crate::Cx;
use crate::action::Action;
use crate::peers::Peers;
use dccp_streams::Reason;
use mpdccp_proxy::{Command, Flow};
use mpdccp_units::Time;

impl Flows {
    /// Copies data from the stream to the host's socket until the window is full or the rate limit is
    /// reached.
    pub(super) fn fill_socket(&mut self, cx: &mut Cx<'_>, routes: &mut Routes<'_>, flow: Flow) {
        let window = self.window();
        let carried = self.carried.get_mut(&flow).filter(|carried| carried.open && !carried.held_back);
        let Some(carried) = carried else { return };
        let (number, stream) = (carried.peer, carried.stream);
        let peer = &mut routes.peers[number];
        let rate = peer.cfg.receive_rate.map(|rate| rate.0);
        while carried.unwritten < window {
            let most = peer.policer.room(cx.now, rate).min(CHUNK).min(window as usize);
            if most == 0 {
                carried.held_back = true;
                self.held_back.entry(number).or_default().push_back(flow);
                return;
            }
            let read = cx.endpoint.streams(cx.now, carried.session, |s| read(s, stream, most));
            let Some((bytes, ended)) = read else { return };
            peer.policer.had(cx.now, rate, bytes.len());
            carried.unwritten += bytes.len() as u64;
            let more = bytes.len() == most;
            if !bytes.is_empty() {
                cx.out.push(Action::Tcp(Command::Data(flow, bytes)));
            }
            if ended {
                carried.ended = true;
                match carried.stopped {
                    Some(why) => return self.on_reset(cx, flow, why),
                    None => cx.out.push(Action::Tcp(Command::Finish(flow))),
                }
            }
            if ended || !more {
                return;
            }
        }
    }

    /// Handles a far end that takes no more data, because its host has reset the connection. The data that
    /// this host sent before comes first. Until it has arrived, drops the data of the host at this end, which
    /// may have to write before it reads.
    pub(super) fn on_stopped(&mut self, cx: &mut Cx<'_>, flow: Flow, why: Reason) {
        match self.carried.get_mut(&flow) {
            Some(carried) if carried.open && !carried.ended => {
                carried.stopped = Some(why);
                self.fill_stream(cx, flow);
            }
            _ => self.on_reset(cx, flow, why),
        }
    }

    /// Returns when to call [`on_timeout`](Self::on_timeout) next.
    pub(crate) fn next_timeout(&self, peers: &Peers) -> Option<Time> {
        self.held_back.keys().map(|number| peers[*number].policer.again()).min()
    }

    /// Continues the flows held back by their peer's rate limit, one after the other, as far as the rate
    /// allows.
    pub(crate) fn on_timeout(&mut self, cx: &mut Cx<'_>, routes: &mut Routes<'_>) {
        let due = |number: &usize| routes.peers[*number].policer.again() <= cx.now;
        for number in self.held_back.keys().copied().filter(due).collect::<Vec<_>>() {
            let mut waiting = self.held_back.remove(&number).unwrap_or_default();
            let rate = routes.peers[number].cfg.receive_rate.map(|rate| rate.0);
            while routes.peers[number].policer.room(cx.now, rate) > 0 {
                let Some(flow) = waiting.pop_front() else { break };
                if let Some(carried) = self.carried.get_mut(&flow) {
                    carried.held_back = false;
                    self.fill_socket(cx, routes, flow);
                }
            }
            // Flows that are held back again go to the end of the queue.
            waiting.extend(self.held_back.remove(&number).unwrap_or_default());
            if !waiting.is_empty() {
                self.held_back.insert(number, waiting);
            }
        }
    }
}
