//! Handles the byte streams of connections on the data thread.

use super::Streams;
use crate::StreamError;
use crate::byte_stream::Pipe;
use dccp_net::Core;
use dccp_streams::{Event, StreamError as Why, StreamId};
use mpdccp_proto::{Reason, SessionId};
use mpdccp_units::Time;
use std::sync::Arc;

/// Priority of this crate's streams, the same for all of them.
const PRIORITY: u8 = 1;

impl Streams {
    pub(crate) fn open_stream(&mut self, core: &mut Core, id: SessionId) -> Result<Arc<Pipe>, StreamError> {
        let entry = self.entries.get_mut(&id).ok_or(StreamError::Closed(Reason::Closed))?;
        let opened = core.endpoint.streams(core.clock.now(), id, |streams| streams.open(&[], PRIORITY));
        let stream = opened.ok_or(StreamError::Unsupported)?.map_err(|why| match why {
            Why::Blocked => StreamError::TooMany,
            _ => StreamError::Unsupported,
        })?;
        let pipe = Pipe::new(id, stream, entry.pipes.len() + 1);
        entry.pipes.insert(stream, pipe.clone());
        Ok(pipe)
    }

    /// Serves a handle that has data for a stream, or requests an operation on it.
    pub(crate) fn exchange(&mut self, core: &mut Core, id: SessionId, stream: StreamId) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let Some(pipe) = entry.pipes.get(&stream) else { return };
        let pipes = entry.pipes.len();
        core.endpoint.streams(core.clock.now(), id, |streams| pipe.exchange(streams, pipes));
        if pipe.is_over() {
            entry.pipes.remove(&stream);
        }
    }

    pub(super) fn on_stream(&mut self, core: &mut Core, now: Time, id: SessionId, event: Event) {
        let entry = self.entry(id);
        let stream = match event {
            Event::Opened(stream) => {
                let room = entry.stream.has_room_for_streams();
                let accepted = core.endpoint.streams(now, id, |streams| match room {
                    true => streams.accept(stream, &[]),
                    false => streams.reset(stream, dccp_streams::Reason::Limit).and(Err(Why::Unknown)),
                });
                // Queue the stream even if the connection is ending or the peer has stopped reading, because
                // data that has arrived can still be read.
                if matches!(accepted, None | Some(Ok(()) | Err(Why::Reset))) {
                    let pipe = Pipe::new(id, stream, entry.pipes.len() + 1);
                    if accepted.is_some_and(|accepted| accepted.is_err()) {
                        // The peer stopped reading before the stream opened, so no event reports it.
                        pipe.on_event(Event::Stopped(stream, dccp_streams::Reason::Cancelled));
                    }
                    entry.pipes.insert(stream, pipe.clone());
                    entry.stream.arrive(pipe);
                }
                stream
            }
            Event::Delivered(stream) | Event::Reset(stream, _) | Event::Stopped(stream, _) => {
                if let Some(pipe) = entry.pipes.get(&stream) {
                    pipe.on_event(event);
                }
                stream
            }
            Event::Accepted(stream) | Event::Readable(stream) | Event::Writable(stream) => stream,
        };
        self.exchange(core, id, stream);
    }
}
