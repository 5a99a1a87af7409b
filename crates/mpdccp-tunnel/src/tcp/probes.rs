//! Forwards keepalive probes between hosts, and writes the journal for use after a crash.

use super::flows::{Carried, Flows};
use super::journal;
use crate::Cx;
use crate::action::{Action, StateFile};
use crate::message::Message;
use dccp_streams::StreamId;
use mpdccp_proto::{PktInfo, SessionId};
use mpdccp_proxy::{Command, Flow};

impl Flows {
    pub(super) fn say(&self, cx: &mut Cx<'_>, flow: Flow, message: impl Fn(u64) -> Message) {
        if let Some(Carried { session, stream, .. }) = self.carried.get(&flow) {
            let bytes = message(stream.0).to_bytes();
            cx.endpoint.send(cx.now, *session, bytes, PktInfo::default());
        }
    }

    /// Handles a probe: the far host asks whether the host at this end is alive. If this end has no open
    /// connection for the stream, it answers at once. If the stream is gone, this answer has no effect,
    /// because the stream's reset ends the connection at the far end.
    pub(crate) fn on_probe(&mut self, cx: &mut Cx<'_>, session: SessionId, stream: u64) {
        match self.by_stream.get(&(session, StreamId(stream))) {
            Some(flow) if self.table.ask(*flow) => cx.out.push(Action::Tcp(Command::Probe(*flow, true))),
            _ => {
                let bytes = Message::Alive(stream).to_bytes();
                cx.endpoint.send(cx.now, session, bytes, PktInfo::default());
            }
        }
    }

    /// Handles the answer that the far host is alive. Returns the held keepalive of the host at this end, for
    /// the private namespace to answer.
    pub(crate) fn on_alive(&mut self, session: SessionId, stream: u64) -> Option<Vec<u8>> {
        self.table.alive(*self.by_stream.get(&(session, StreamId(stream)))?)
    }

    /// Writes the connections that have changed to the journal.
    pub(crate) fn save(&mut self, cx: &mut Cx<'_>) {
        for (line, tuple) in self.table.changes() {
            cx.out.push(Action::SaveLine(StateFile::Connections, line, journal::line(tuple)));
        }
    }
}
