//! The handles of reliable byte streams, which share a connection with its datagrams.

mod pipe;

pub(crate) use pipe::Pipe;

use crate::readiness::Shown;
use crate::runtime::Runtime;
use crate::signal::lock;
use crate::{Connection, StreamError};
use mpdccp_proto::Reason;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A reliable, ordered, bidirectional byte stream that shares a connection with datagrams and other streams.
/// [`Connection::open_stream`] and [`Connection::accept_stream`] return streams. A stream uses all paths, at
/// the rate that congestion control allows. A loss on one stream does not block other streams. The type
/// implements [`Read`] and [`Write`], also for `&ByteStream`, so several threads can share a stream in an
/// [`Arc`].
///
/// When the value is dropped, bytes that were written still arrive as long as the connection lives. Bytes
/// from the peer are discarded.
#[derive(Debug)]
pub struct ByteStream {
    runtime: Arc<Runtime>,
    pub(crate) pipe: Arc<Pipe>,
    descriptor: Shown,
}

impl ByteStream {
    pub(crate) fn new(runtime: &Arc<Runtime>, pipe: Arc<Pipe>) -> ByteStream {
        ByteStream { runtime: runtime.clone(), pipe, descriptor: Shown::default() }
    }

    /// Returns the stream's number within its connection. Streams opened by the client have even numbers.
    pub fn id(&self) -> u64 {
        self.pipe.id.0
    }

    /// Returns whether this process is a fork of the one that opened the stream. A fork cannot use the
    /// stream.
    pub fn is_forked(&self) -> bool {
        self.runtime.is_forked()
    }

    fn look(&self) {
        let (session, id) = (self.pipe.session, self.pipe.id);
        self.runtime.run(move |core, streams| streams.exchange(core, session, id));
    }

    fn until(timeout: Option<Duration>) -> Option<Instant> {
        timeout.and_then(|timeout| Instant::now().checked_add(timeout))
    }

    /// Waits for bytes, up to `timeout` if given. Returns the number of bytes read; 0 means the end of the
    /// peer's data.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`], or the reason why no more bytes will arrive. If the connection ends, bytes
    /// that have arrived can still be read before the error. The same applies if the peer resets the stream
    /// and all bytes that it had sent have arrived.
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

    /// Waits until the stream accepts bytes, up to `timeout` if given. Returns the number of bytes accepted.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`], or the reason why the peer will not receive the bytes.
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

    /// Reads like [`read_timeout`](Self::read_timeout), but without waiting. If no bytes are available,
    /// registers the task to be woken.
    ///
    /// # Errors
    /// As for [`read_timeout`](Self::read_timeout).
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

    /// Writes like [`write_timeout`](Self::write_timeout), but does not wait. If no byte can be accepted,
    /// registers the task to be woken.
    ///
    /// # Errors
    /// As for [`write_timeout`](Self::write_timeout).
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

    /// Ends writing. The peer still receives everything that was written, and this end can still read.
    pub fn end(&self) {
        if self.runtime.is_forked() {
            return;
        }
        let news = lock(&self.pipe.state).end();
        self.pipe.writable.notify();
        if news {
            self.look();
        }
    }

    /// Ends writing, then waits until the peer has received everything, up to `timeout` if given. If this end
    /// has written nothing, an orderly end of the connection counts as success.
    ///
    /// A peer that does not read stops receiving once its window is full. Without a time limit, two ends that
    /// finish without reading first can therefore wait for each other forever. Read to the end of the peer's
    /// data first, in another thread, or drop the stream.
    ///
    /// # Errors
    /// [`StreamError::TimedOut`], or the reason why the peer will not receive everything.
    pub fn finish_timeout(&self, timeout: Option<Duration>) -> Result<(), StreamError> {
        self.here()?;
        self.end();
        let until = ByteStream::until(timeout);
        let finished = self.pipe.finished.wait(&self.pipe.state, until, |state| state.finished());
        finished.unwrap_or(Err(StreamError::TimedOut))
    }

    /// Finishes like [`finish_timeout`](Self::finish_timeout), but without a time limit.
    ///
    /// # Errors
    /// As for [`finish_timeout`](Self::finish_timeout).
    pub fn finish(&self) -> Result<(), StreamError> {
        self.finish_timeout(None)
    }

    /// Finishes like [`finish`](Self::finish), but without waiting. Until the stream has finished, registers
    /// the task to be woken.
    ///
    /// # Errors
    /// As for [`finish`](Self::finish).
    pub fn poll_finish(&self, cx: &mut Context<'_>) -> Poll<Result<(), StreamError>> {
        self.here()?;
        self.end();
        self.pipe.finished.poll(&self.pipe.state, cx, |state| state.finished())
    }

    /// Resets both directions immediately. The peer receives this application error code.
    pub fn reset(&self, code: u16) {
        if self.runtime.is_forked() {
            return;
        }
        let mut state = lock(&self.pipe.state);
        state.reset = Some(code);
        state.incoming.clear();
        state.outgoing.clear();
        (state.no_reading, state.no_writing) = (Some(StreamError::Ended), Some(StreamError::Ended));
        drop(state);
        self.pipe.notify();
        self.look();
    }

    /// Closes the stream for all threads that share it, with the same effect as dropping it. Calls waiting in
    /// other threads return, except [`finish`](Self::finish).
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

    /// Returns whether a read would complete without blocking, and whether a write would.
    pub fn ready(&self) -> (bool, bool) {
        if self.runtime.is_forked() {
            return (true, true);
        }
        let mut state = lock(&self.pipe.state);
        state.seen();
        let room = state.room() > 0 || state.ended || state.no_writing.is_some();
        state.wants_room = !room;
        state.show();
        (state.readable(), room)
    }

    /// Returns a descriptor for `poll`, `epoll` and similar calls; watch it for reading only. It is readable
    /// while bytes are available, and at the end of the stream. Two events also make it readable until the
    /// next call of [`ready`](Self::ready): the peer has received everything, or there is room again after a
    /// write found too little. Only this crate may read or write the descriptor.
    ///
    /// # Errors
    /// A system error, such as too many open files.
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.descriptor.get(|| self.pipe.open_descriptor())
    }
}

impl Drop for ByteStream {
    fn drop(&mut self) {
        self.close();
        if !self.is_forked() {
            self.pipe.release_descriptor();
        }
    }
}

impl Read for &ByteStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_timeout(into, None).map_err(StreamError::of_read)
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

    /// Does nothing, because written bytes are sent without a flush.
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
    /// Opens a reliable stream, which the peer must [accept](Self::accept_stream).
    ///
    /// # Errors
    /// [`StreamError::Unsupported`] unless both ends have set [`Options::streams`](crate::Options::streams),
    /// or [`StreamError::TooMany`].
    pub fn open_stream(&self) -> Result<ByteStream, StreamError> {
        let id = self.id();
        let opened = self.runtime.call(move |core, streams| streams.open_stream(core, id));
        let forked = if self.runtime.is_forked() { StreamError::Forked } else { self.ended() };
        Ok(ByteStream::new(&self.runtime, opened.unwrap_or(Err(forked))?))
    }

    fn ended(&self) -> StreamError {
        StreamError::Closed(self.end().unwrap_or(Reason::Aborted))
    }

    /// Waits for a stream that the peer has opened, up to `timeout` if given.
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

    /// Returns the next stream opened by the peer. If there is none, registers the task to be woken.
    ///
    /// # Errors
    /// [`StreamError::Closed`].
    pub fn poll_accept_stream(&self, cx: &mut Context<'_>) -> Poll<Result<ByteStream, StreamError>> {
        if self.runtime.is_forked() {
            return Poll::Ready(Err(StreamError::Forked));
        }
        let accepted = self.stream.streamed.poll(&self.stream.state, cx, |s| s.accept_stream());
        accepted.map_ok(|pipe| ByteStream::new(&self.runtime, pipe))
    }
}
