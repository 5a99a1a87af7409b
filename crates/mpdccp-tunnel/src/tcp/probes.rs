//! Keepalive probes between hosts, and the journal for use after a crash.

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

    /// The far host probes whether the near host of this stream is alive. If the stream is gone, the answer
    /// is its reset.
    pub(crate) fn on_probe(&mut self, cx: &mut Cx<'_>, session: SessionId, stream: u64) {
        match self.by_stream.get(&(session, StreamId(stream))) {
            Some(flow) if self.table.ask(*flow) => cx.out.push(Action::Tcp(Command::Probe(*flow, true))),
            _ => {
                let bytes = Message::Alive(stream).to_bytes();
                cx.endpoint.send(cx.now, session, bytes, PktInfo::default());
            }
        }
    }

    /// The far host is alive. Returns the host's probe, for the private namespace to answer.
    pub(crate) fn on_alive(&mut self, session: SessionId, stream: u64) -> Option<Vec<u8>> {
        self.table.alive(*self.by_stream.get(&(session, StreamId(stream)))?)
    }

    /// Writes to the journal which connections a host may believe to be open.
    pub(crate) fn save(&mut self, cx: &mut Cx<'_>) {
        for (line, tuple) in self.table.changes() {
            cx.out.push(Action::SaveLine(StateFile::Connections, line, journal::line(tuple)));
        }
    }
}
