//! The state that the handle of a stream shares with the data thread.

use crate::StreamError;
use crate::readiness::Descriptor;
use crate::signal::{Signal, lock};
use dccp_streams::{self as streams, StreamId, Streams};
use mpdccp_proto::{Reason, SessionId};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

/// Maximum number of bytes waiting in a pipe per direction. The session's streams hold any further bytes.
const MOST: usize = 256 << 10;
/// The pipes of a connection share this many bytes per direction. Each pipe may hold at least [`LEAST`], so
/// that every stream can be read and written, even if other streams are not.
const SHARED: usize = 8 << 20;
const LEAST: usize = 1 << 10;

/// Returns the maximum number of bytes waiting in a pipe per direction if the connection has this many pipes.
fn share(pipes: usize) -> usize {
    (SHARED / pipes.max(1)).clamp(LEAST, MOST)
}

/// The state that the handle of a stream shares with the data thread.
#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) id: StreamId,
    pub(super) session: SessionId,
    pub(super) state: Mutex<State>,
    pub(super) readable: Signal,
    pub(super) writable: Signal,
    pub(super) finished: Signal,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) incoming: VecDeque<u8>,
    pub(super) outgoing: VecDeque<u8>,
    /// Maximum length of `incoming` and of `outgoing`, in bytes.
    most: usize,
    /// Whether data was left in the session's streams because `incoming` had no room.
    paused: bool,
    /// Whether the peer's data ends after the bytes in `incoming`.
    at_end: bool,
    /// Whether this end has finished writing, and whether the session's streams know about it.
    pub(super) ended: bool,
    told_end: bool,
    /// Whether this end has written any bytes, and whether the peer has received everything.
    wrote: bool,
    delivered: bool,
    /// The errors returned by further reads and by further writes.
    pub(super) no_reading: Option<StreamError>,
    pub(super) no_writing: Option<StreamError>,
    /// The error code, if the handle wants to reset the stream.
    pub(super) reset: Option<u16>,
    /// Whether the handle is closed, and whether the session's streams know about it.
    pub(super) closed: bool,
    told_stop: bool,
    /// Whether the data thread has been notified about this stream but has not handled the notification yet.
    told: bool,
    descriptor: Descriptor,
    /// Whether a writer found too little room in `outgoing`.
    pub(super) wants_room: bool,
    /// Whether the descriptor must report an event until the next call: that the peer has received
    /// everything or has stopped reading, or that this end has finished writing.
    news: bool,
}

impl State {
    pub(super) fn read(&mut self, into: &mut [u8]) -> Option<Result<usize, StreamError>> {
        self.seen();
        if self.incoming.is_empty() && !into.is_empty() {
            return match self.no_reading {
                // The session's streams still have bytes that arrived before the reset.
                Some(StreamError::Reset(_)) if self.paused => None,
                Some(error) => Some(Err(error)),
                None => self.at_end.then_some(Ok(0)),
            };
        }
        let read = self.incoming.read(into).unwrap_or(0);
        self.show();
        Some(Ok(read))
    }

    /// Returns whether the data thread must fetch more bytes.
    pub(super) fn wants_more(&mut self) -> bool {
        self.paused && self.incoming.len() <= self.most / 2 && self.tell()
    }

    /// Returns whether the data thread must be notified now. From then on it counts as notified.
    pub(super) fn tell(&mut self) -> bool {
        !std::mem::replace(&mut self.told, true)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Option<Result<usize, StreamError>> {
        self.seen();
        if let Some(error) = self.no_writing.or(self.ended.then_some(StreamError::Ended)) {
            return Some(Err(error));
        }
        let len = bytes.len().min(self.room());
        if len == 0 && !bytes.is_empty() {
            self.wants_room = true;
            return None;
        }
        self.outgoing.extend(&bytes[..len]);
        self.wrote |= len > 0;
        // After a part was accepted, an event loop waits for room without trying again.
        self.wants_room = len < bytes.len();
        self.show();
        Some(Ok(len))
    }

    pub(super) fn finished(&mut self) -> Option<Result<(), StreamError>> {
        self.seen();
        match self.no_writing {
            _ if self.delivered => Some(Ok(())),
            // The peer closed the connection. Nothing was lost, because this end has written nothing.
            Some(StreamError::Closed(reason)) if reason.is_orderly() && !self.wrote => Some(Ok(())),
            error => error.map(Err),
        }
    }

    /// Clears the event, because the handle has seen it.
    pub(super) fn seen(&mut self) {
        if std::mem::take(&mut self.news) {
            self.show();
        }
    }

    /// Returns how many more bytes `outgoing` may hold.
    pub(super) fn room(&self) -> usize {
        self.most.saturating_sub(self.outgoing.len())
    }

    pub(super) fn readable(&self) -> bool {
        !self.incoming.is_empty() || self.at_end || self.no_reading.is_some()
    }

    fn is_told(&self) -> bool {
        let room = self.wants_room && (self.outgoing.len() <= self.most / 2 || self.no_writing.is_some());
        self.readable() || room || self.news
    }

    /// Ends writing. Returns whether the data thread must be notified. A writer that waits for room waits no
    /// longer, which the descriptor reports until the next call.
    pub(super) fn end(&mut self) -> bool {
        if std::mem::take(&mut self.wants_room) {
            self.news = true;
            self.announce();
        }
        !std::mem::replace(&mut self.ended, true)
    }

    /// Updates whether the descriptor is readable.
    pub(super) fn show(&mut self) {
        let told = self.is_told();
        self.descriptor.show(told);
    }

    /// Updates the descriptor like [`show`](Self::show), but also notifies an edge-triggered event loop
    /// again.
    fn announce(&mut self) {
        match self.is_told() {
            true => self.descriptor.tell(),
            false => self.descriptor.show(false),
        }
    }
}

impl Pipe {
    /// Creates the state of a stream. `pipes` is the number of pipes that the connection now has.
    pub(crate) fn new(session: SessionId, id: StreamId, pipes: usize) -> Arc<Pipe> {
        Arc::new(Pipe {
            id,
            session,
            state: Mutex::new(State { most: share(pipes), ..State::default() }),
            readable: Signal::default(),
            writable: Signal::default(),
            finished: Signal::default(),
        })
    }

    pub(super) fn notify(&self) {
        [&self.readable, &self.writable, &self.finished].into_iter().for_each(Signal::notify);
    }

    /// Moves bytes and state between the session's streams and this pipe, which is one of `pipes` pipes of
    /// the connection. Called on the data thread.
    pub(crate) fn exchange(&self, all: &mut Streams, pipes: usize) {
        let mut state = lock(&self.state);
        (state.told, state.most) = (false, share(pipes));
        if let Some(code) = state.reset.take() {
            let _ = all.reset(self.id, streams::Reason::Application(code));
        }
        let most = state.most;
        state.receive(all, self.id, most);
        state.send(all, self.id);
        if state.closed && !state.at_end && !std::mem::replace(&mut state.told_stop, true) {
            // Ignore the error. The peer must stop sending, because the handle is closed.
            let _ = all.stop(self.id, streams::Reason::Cancelled);
        }
        state.announce();
        drop(state);
        self.notify();
    }

    /// Reads all bytes that have arrived, without a limit. Called on the data thread when the connection
    /// ends.
    pub(crate) fn read_rest(&self, all: &mut Streams) {
        lock(&self.state).receive(all, self.id, usize::MAX);
    }

    /// Handles an event of the stream. Called on the data thread.
    pub(crate) fn on_event(&self, event: streams::Event) {
        let code = |reason| match reason {
            streams::Reason::Application(code) => code,
            _ => 0,
        };
        let mut state = lock(&self.state);
        match event {
            streams::Event::Delivered(_) => (state.delivered, state.news) = (true, true),
            streams::Event::Reset(_, why) => state.no_reading = Some(StreamError::Reset(code(why))),
            streams::Event::Stopped(_, why) => {
                state.outgoing.clear();
                // If this end has reset the stream, its writers already know that it ended.
                state.no_writing.get_or_insert(StreamError::Stopped(code(why)));
                state.news = true;
            }
            _ => {}
        }
        state.announce();
        drop(state);
        self.notify();
    }

    /// Ends the stream because its connection has ended. This does not affect a direction that was already
    /// complete.
    pub(crate) fn end(&self, reason: Reason) {
        let mut state = lock(&self.state);
        let over = Some(StreamError::Closed(reason));
        if !state.at_end {
            state.no_reading = state.no_reading.or(over);
        }
        state.no_writing = state.no_writing.or(over);
        state.paused = false;
        state.announce();
        drop(state);
        self.notify();
    }

    /// Returns whether the connection must stay open because the peer has not received everything that was
    /// written here.
    pub(crate) fn holds(&self, all: &Streams) -> bool {
        let state = lock(&self.state);
        let unacknowledged =
            all.stream_stats(self.id).is_some_and(|stats| stats.unsent + stats.in_flight > 0);
        let pending = state.ended || unacknowledged || !state.outgoing.is_empty();
        pending && !state.delivered && state.no_writing.is_none()
    }

    /// Returns whether the data thread can drop the pipe.
    pub(crate) fn is_over(&self) -> bool {
        let state = lock(&self.state);
        state.closed && (state.delivered || state.no_writing.is_some())
    }

    /// Opens a descriptor that is readable while there is something to report, unless it is open already.
    pub(super) fn open_descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        let mut state = lock(&self.state);
        let fd = state.descriptor.open()?;
        state.show();
        Ok(fd)
    }

    /// Releases the descriptor, because the handle that shows it is gone.
    pub(super) fn release_descriptor(&self) {
        lock(&self.state).descriptor = Descriptor::default();
    }
}

impl State {
    /// Reads available bytes until `incoming` has `most` bytes.
    fn receive(&mut self, all: &mut Streams, id: StreamId, most: usize) {
        self.paused = false;
        loop {
            let Ok(bytes) = all.peek(id) else { return };
            let len = bytes.len().min(most.saturating_sub(self.incoming.len()));
            if len == 0 && !bytes.is_empty() {
                self.paused = true;
                return;
            }
            self.incoming.extend(&bytes[..len]);
            match all.consume(id, len) {
                Ok(()) if len == 0 => return self.at_end = true,
                Ok(()) => {}
                Err(_) => return,
            }
        }
    }

    fn send(&mut self, all: &mut Streams, id: StreamId) {
        while !self.outgoing.is_empty() {
            let (bytes, _) = self.outgoing.as_slices();
            match all.write(id, bytes) {
                Ok(len) => drop(self.outgoing.drain(..len)),
                Err(_) => return,
            }
        }
        if self.ended && !self.told_end {
            self.told_end = all.finish(id).is_ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpdccp_units::Time;

    /// The peer's window may hold back bytes that have left the pipe.
    #[test]
    fn a_pipe_holds_the_connection_until_its_bytes_are_acknowledged() {
        let mut all = Streams::new(streams::Role::Client, streams::Config::default());
        let pipe = Pipe::new(SessionId(0), all.open(&[], 0).unwrap(), 1);
        assert_eq!(lock(&pipe.state).write(b"data"), Some(Ok(4)));
        pipe.exchange(&mut all, 1);
        assert!(lock(&pipe.state).outgoing.is_empty() && pipe.holds(&all));
        all.reset(pipe.id, streams::Reason::Cancelled).unwrap();
        assert!(!pipe.holds(&all));
    }

    /// The pipe has too little room for all bytes that arrived before the reset.
    #[test]
    fn bytes_that_arrived_before_a_reset_are_read_first() {
        let roles = [streams::Role::Client, streams::Role::Server];
        let [mut here, mut there] = roles.map(|role| Streams::new(role, streams::Config::default()));
        let (now, mut packet) = (Time::from_millis(1), [0; 1_400]);
        let mut deliver = |from: &mut Streams, to: &mut Streams| {
            while let Some(len) = from.poll_transmit(now, 0, 0, None, 0, &mut packet) {
                to.handle_packet(now, &packet[..len]);
            }
        };
        let id = here.open(&[], 0).unwrap();
        here.write(id, &[7; 3_000]).unwrap();
        deliver(&mut here, &mut there);
        there.accept(id, &[]).unwrap();
        let pipe = Pipe::new(SessionId(0), id, SHARED);
        pipe.exchange(&mut there, SHARED);
        here.reset(id, streams::Reason::Application(9)).unwrap();
        deliver(&mut here, &mut there);
        std::iter::from_fn(|| there.poll_event()).for_each(|event| pipe.on_event(event));
        let (mut read, mut buf) = (0, [0; 4_000]);
        let error = loop {
            let result = lock(&pipe.state).read(&mut buf);
            match result {
                Some(Ok(len)) => read += len,
                Some(Err(error)) => break error,
                None => pipe.exchange(&mut there, SHARED),
            }
        };
        assert_eq!((read, error), (3_000, StreamError::Reset(9)));
    }

    /// A peer decides how many streams there are and how fast it reads them, so the memory of all pipes
    /// together is limited. Each pipe still has some room.
    #[test]
    fn the_pipes_of_a_connection_share_their_memory() {
        let mut all = Streams::new(streams::Role::Client, streams::Config::default());
        let (mut held, data) = (Vec::new(), vec![7; MOST]);
        while let Ok(id) = all.open(&[], 0) {
            let pipes = held.len() + 1;
            let pipe = Pipe::new(SessionId(0), id, pipes);
            // Nothing leaves the streams, so they take only the bytes of the first pipes.
            loop {
                let written = lock(&pipe.state).write(&data);
                if written.is_none() {
                    break;
                }
                pipe.exchange(&mut all, pipes);
            }
            held.push(lock(&pipe.state).outgoing.len());
        }
        assert!(held.len() > 100 && held.iter().all(|held| *held >= LEAST), "{held:?}");
        assert!(held.iter().sum::<usize>() < 3 * SHARED, "{held:?}");
    }
}
