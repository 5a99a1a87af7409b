//! Reliable byte streams beside the datagrams of a connection, as its handles see them.

mod pipe;

pub(crate) use pipe::Pipe;

use crate::runtime::Runtime;
use crate::signal::lock;
use crate::{Connection, StreamError};
use mpdccp_proto::Reason;
use pipe::MOST;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A reliable stream of bytes both ways, in order, beside the datagrams of its connection and other streams: [`Connection::open_stream`],
/// [`Connection::accept_stream`]. It travels on all paths, at the rate that congestion control allows, and a loss holds up no other stream. Reads
/// and writes with [`Read`] and [`Write`], also of `&ByteStream`; threads share it in an [`Arc`].
///
/// Dropped, what was written still arrives while the connection lives, and the peer's bytes are not wanted any more.
#[derive(Debug)]
pub struct ByteStream {
    runtime: Arc<Runtime>,
    pub(crate) pipe: Arc<Pipe>,
}

impl ByteStream {
    pub(crate) fn new(runtime: &Arc<Runtime>, pipe: Arc<Pipe>) -> ByteStream {
        ByteStream { runtime: runtime.clone(), pipe }
    }

    /// Its number in the connection: those of the client are even.
    pub fn id(&self) -> u64 {
        self.pipe.id.0
    }

    fn look(&self) {
        let (session, id) = (self.pipe.session, self.pipe.id);
        self.runtime.run(move |core, streams| streams.exchange(core, session, id));
    }

    fn until(timeout: Option<Duration>) -> Option<Instant> {
        timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }

    /// Waits for bytes, no longer than `timeout` if there is one; how many were read. 0 is the end: the peer has written everything.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`]; what arrived before the peer reset the stream, or the connection ended, is read first, unless it was a reset.
    pub fn read_timeout(&self, into: &mut [u8], timeout: Option<Duration>) -> Result<usize, StreamError> {
        self.here()?;
        let mut more = false;
        let read = self.pipe.readable.wait(&self.pipe.state, ByteStream::until(timeout), |state| {
            let read = state.read(into);
            more = state.wants_more();
            read
        });
        if more {
            self.look();
        }
        read.unwrap_or(Err(StreamError::TimedOut))
    }

    /// Waits for room, no longer than `timeout` if there is one; how many bytes were taken.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`], and why the peer will not have them.
    pub fn write_timeout(&self, bytes: &[u8], timeout: Option<Duration>) -> Result<usize, StreamError> {
        self.here()?;
        let mut tell = false;
        let written = self.pipe.writable.wait(&self.pipe.state, ByteStream::until(timeout), |state| {
            let written = state.write(bytes);
            tell = matches!(written, Some(Ok(_))) && state.tell();
            written
        });
        if tell {
            self.look();
        }
        written.unwrap_or(Err(StreamError::TimedOut))
    }

    /// As [`read_timeout`](Self::read_timeout); without bytes, the task is woken when there are some.
    ///
    /// # Errors
    /// As there.
    pub fn poll_read_bytes(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, StreamError>> {
        self.here()?;
        let mut more = false;
        let read = self.pipe.readable.poll(&self.pipe.state, cx, |state| {
            let read = state.read(into);
            more |= state.wants_more();
            read
        });
        if more {
            self.look();
        }
        read
    }

    /// As [`write_timeout`](Self::write_timeout); without room, the task is woken when there is.
    ///
    /// # Errors
    /// As there.
    pub fn poll_write_bytes(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, StreamError>> {
        self.here()?;
        let mut tell = false;
        let written = self.pipe.writable.poll(&self.pipe.state, cx, |state| {
            let written = state.write(bytes);
            tell |= matches!(written, Some(Ok(_))) && state.tell();
            written
        });
        if tell {
            self.look();
        }
        written
    }

    fn here(&self) -> Result<(), StreamError> {
        if self.runtime.is_forked() { Err(StreamError::Forked) } else { Ok(()) }
    }

    /// Writes no more: the peer reads to the end. Reading goes on.
    pub fn end(&self) {
        if self.runtime.is_forked() {
            return;
        }
        let mut state = lock(&self.pipe.state);
        let news = !std::mem::replace(&mut state.ended, true);
        drop(state);
        self.pipe.writable.notify();
        if news {
            self.look();
        }
    }

    /// Writes no more, and waits until the peer has everything, no longer than `timeout` if there is one.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`], and why the peer will not have it.
    pub fn finish_timeout(&self, timeout: Option<Duration>) -> Result<(), StreamError> {
        self.here()?;
        self.end();
        let until = ByteStream::until(timeout);
        let finished = self.pipe.finished.wait(&self.pipe.state, until, |state| state.finished());
        finished.unwrap_or(Err(StreamError::TimedOut))
    }

    /// As [`finish_timeout`](Self::finish_timeout), however long it takes.
    ///
    /// # Errors
    /// As there.
    pub fn finish(&self) -> Result<(), StreamError> {
        self.finish_timeout(None)
    }

    /// As [`finish`](Self::finish); until then, the task is woken.
    ///
    /// # Errors
    /// As there.
    pub fn poll_finish(&self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        self.here()?;
        self.end();
        self.pipe.finished.poll(&self.pipe.state, cx, |state| state.finished())
    }

    /// Gives both directions up at once; the peer is told this number of the application's.
    pub fn reset(&self, code: u16) {
        if self.runtime.is_forked() {
            return;
        }
        let mut state = lock(&self.pipe.state);
        state.reset = Some(code);
        state.incoming.clear();
        state.outgoing.clear();
        state.no_reading = state.no_reading.or(Some(StreamError::Ended));
        state.no_writing = state.no_writing.or(Some(StreamError::Ended));
        drop(state);
        self.pipe.notify();
        self.look();
    }

    /// As dropping it, for a handle that others share: calls of other threads that wait return.
    pub fn close(&self) {
        if self.runtime.is_forked() {
            return;
        }
        let mut state = lock(&self.pipe.state);
        (state.ended, state.closed) = (true, true);
        state.no_reading = state.no_reading.or(Some(StreamError::Ended));
        state.incoming.clear();
        drop(state);
        self.pipe.notify();
        self.look();
    }

    /// Whether a read, and a write, would not wait.
    pub fn ready(&self) -> (bool, bool) {
        let mut state = lock(&self.pipe.state);
        state.seen();
        let room = state.outgoing.len() < MOST || state.ended || state.no_writing.is_some();
        state.wants_room = !room;
        (state.readable(), room)
    }

    /// A descriptor for `poll`, `epoll` and the like, for reading only: readable while there are bytes, or the end, and until the next call when there is
    /// room again that a write with a timeout of zero did not find, or the peer has everything. Nothing but this crate may read or write it.
    ///
    /// # Errors
    /// What the system says: too many open files.
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.pipe.descriptor().map(AsFd::as_fd)
    }
}

impl Drop for ByteStream {
    fn drop(&mut self) {
        self.close();
    }
}

impl Read for &ByteStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.read_timeout(into, None)?)
    }
}

impl Read for ByteStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for &ByteStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(self.write_timeout(bytes, None)?)
    }

    /// What was written leaves by itself.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for ByteStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Connection {
    /// Opens a reliable stream beside the datagrams, which the peer [accepts](Self::accept_stream).
    ///
    /// # Errors
    /// [`StreamError::Unsupported`] unless both ends have [`Options::streams`](crate::Options::streams), [`StreamError::TooMany`].
    pub fn open_stream(&self) -> Result<ByteStream, StreamError> {
        let id = self.id();
        let opened = self.runtime.call(move |core, streams| streams.open_stream(core, id));
        let forked = if self.runtime.is_forked() { StreamError::Forked } else { self.ended() };
        Ok(ByteStream::new(&self.runtime, opened.unwrap_or(Err(forked))?))
    }

    fn ended(&self) -> StreamError {
        StreamError::Closed(self.end().unwrap_or(Reason::Aborted))
    }

    /// Waits for a stream that the peer opens, no longer than `timeout` if there is one.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`], [`StreamError::Closed`].
    pub fn accept_stream(&self, timeout: Option<Duration>) -> Result<ByteStream, StreamError> {
        if self.runtime.is_forked() {
            return Err(StreamError::Forked);
        }
        let until = ByteStream::until(timeout);
        let accepted = self.stream.streamed.wait(&self.stream.state, until, |s| s.accept_stream());
        accepted.unwrap_or(Err(StreamError::TimedOut)).map(|pipe| ByteStream::new(&self.runtime, pipe))
    }

    /// The next stream that the peer opened; without one, the task is woken when there is.
    ///
    /// # Errors
    /// [`StreamError::Closed`].
    pub fn poll_accept_stream(&self, cx: &mut Context<'_>) -> Poll<Result<ByteStream, StreamError>> {
        let accepted = self.stream.streamed.poll(&self.stream.state, cx, |s| s.accept_stream());
        accepted.map_ok(|pipe| ByteStream::new(&self.runtime, pipe))
    }
}
