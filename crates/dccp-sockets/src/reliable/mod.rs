//! Reliable messages, or a byte stream, in order, over a [`Connection`]: for what must arrive whole, such as files and commands. What got
//! lost is retransmitted; how fast anything leaves is the connection's congestion control's affair alone, on one path or several.
//!
//! ```
//! use dccp_sockets::{Connection, Listener, Options, reliable::Channel};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = Listener::bind("127.0.0.1:0", Options::ccid(5))?;
//! let addr = listener.local_addr();
//! let server = std::thread::spawn(move || -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//!     let channel = Channel::new(listener.accept()?);
//!     while let Some(message) = channel.recv()? {
//!         channel.send(&message)?;
//!     }
//!     Ok(channel.finish()?)
//! });
//!
//! let channel = Channel::new(Connection::connect(addr, Options::ccid(5))?);
//! // However long: it takes as many datagrams as it needs.
//! let long = vec![7; 100_000];
//! channel.send(&long)?;
//! assert_eq!(channel.recv()?, Some(long));
//! channel.finish()?;
//! # server.join().unwrap().unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! Both ends of a connection make a [`Channel`] of it. Each direction is one stream: use it for messages ([`Channel::send`],
//! [`Channel::recv`]) or as [`Write`](std::io::Write) and [`Read`](std::io::Read), not both. The datagrams' format is in the source, `reliable/frame.rs`.

mod frame;
mod io;
mod ranges;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

use crate::signal::{Signal, lock};
use crate::{Connection, RecvError, SendError};
use frame::Frame;
use mpdccp_proto::Reason;
use receiver::Receiver;
use sender::Sender;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use thiserror::Error;

/// What waits in each direction at most, bytes, unless [`Channel::with_window`] says otherwise.
const WINDOW: usize = 4 << 20;
/// Bytes of a message's length.
const LENGTH: usize = 4;

/// Why a channel cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The connection ended before all was transferred.
    #[error("the connection ended before all was transferred: {0}")]
    Broken(Reason),
    /// This end said that it writes no more.
    #[error("this end of the channel was ended")]
    Ended,
    /// A message longer than [`Channel::MAX_MESSAGE`], here or from the peer.
    #[error("a message of {0} bytes is longer than the {max} that are allowed", max = Channel::MAX_MESSAGE)]
    TooLong(u64),
}

#[derive(Debug)]
pub(crate) struct State {
    tx: Sender,
    rx: Receiver,
    /// A message whose length is known: that, and what there is of it.
    message: Option<(usize, Vec<u8>)>,
    /// Nothing is wanted but that all written arrives.
    finishing: bool,
    /// Nothing more leaves: the connection may be closed.
    silent: bool,
    /// The connection is over.
    over: Option<Reason>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    connection: Connection,
    pub(crate) state: Mutex<State>,
    /// Something to send, or a timer to set anew.
    outgoing: Signal,
    pub(crate) readable: Signal,
    pub(crate) writable: Signal,
    pub(crate) finished: Signal,
}

/// What to do next for what leaves.
enum Step {
    Send(Vec<u8>),
    Look,
    Stop,
}

impl State {
    fn broken(&self) -> Option<ChannelError> {
        self.over.map(ChannelError::Broken)
    }

    fn step(&mut self, size: usize) -> Option<Step> {
        let now = Instant::now();
        if self.over.is_some() {
            self.silent = true;
            return Some(Step::Stop);
        }
        let done = self.finishing && self.tx.is_done();
        // Nothing is heard of us after the end: what the peer has to hear goes before it, due or not.
        if self.rx.ack_due().is_some_and(|at| done || at <= now) {
            return Some(Step::Send(self.rx.ack()));
        }
        if done {
            self.silent = true;
            return Some(Step::Stop);
        }
        self.tx.on_timeout(now);
        let frame = self.tx.next(now, size)?;
        if self.tx.is_ended() {
            // With the end goes, every time, what of the peer's has arrived: the peer may wait for nothing else.
            self.rx.repeat_ack(now);
        }
        Some(Step::Send(frame))
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.rx.ack_due().into_iter().chain(self.tx.next_timeout()).min()
    }

    fn on_datagram(&mut self, bytes: &[u8]) {
        let now = Instant::now();
        match Frame::decode(bytes) {
            Some(Frame::Data { offset, bytes }) => self.rx.on_data(now, offset, bytes),
            Some(Frame::End { length }) => self.rx.on_end(now, length),
            Some(Frame::Ack(ack)) => {
                self.tx.on_ack(now, &ack);
            }
            // Not of a channel; nothing here depends on it.
            None => {}
        }
    }

    /// Takes a message in as soon as anything fits; `None` while nothing does.
    pub(crate) fn send(&mut self, message: &[u8]) -> Option<Result<(), ChannelError>> {
        let length = u32::try_from(message.len()).ok().filter(|_| message.len() <= Channel::MAX_MESSAGE);
        let refused = match (self.broken(), length) {
            (Some(broken), _) => broken,
            _ if self.tx.is_ended() => ChannelError::Ended,
            (_, None) => ChannelError::TooLong(message.len() as u64),
            (_, Some(length)) => {
                return self.tx.write_whole(&[&length.to_be_bytes()[..], message]).then_some(Ok(()));
            }
        };
        Some(Err(refused))
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Option<Result<usize, ChannelError>> {
        if let Some(broken) = self.broken() {
            return Some(Err(broken));
        }
        if self.tx.is_ended() {
            return Some(Err(ChannelError::Ended));
        }
        Some(self.tx.write(bytes)).filter(|taken| *taken > 0 || bytes.is_empty()).map(Ok)
    }

    /// The next message; `None` while it is not whole, `Some(Ok(None))` after the last.
    pub(crate) fn recv(&mut self) -> Option<Result<Option<Vec<u8>>, ChannelError>> {
        let now = Instant::now();
        if self.message.is_none()
            && let Some(length) = self.rx.peek::<LENGTH>()
        {
            let length = u32::from_be_bytes(length) as usize;
            if length > Channel::MAX_MESSAGE {
                return Some(Err(ChannelError::TooLong(length as u64)));
            }
            self.rx.read(now, LENGTH);
            self.message = Some((length, Vec::new()));
        }
        if let Some((length, message)) = &mut self.message {
            message.extend(self.rx.read(now, *length - message.len()));
            if message.len() == *length {
                return self.message.take().map(|(_, message)| Ok(Some(message)));
            }
        } else if self.rx.is_whole() && self.rx.ready() == 0 {
            return Some(Ok(None));
        }
        self.broken().map(Err)
    }

    pub(crate) fn read(&mut self, most: usize) -> Option<Result<Vec<u8>, ChannelError>> {
        if self.rx.ready() > 0 || self.rx.is_whole() || most == 0 {
            return Some(Ok(self.rx.read(Instant::now(), most)));
        }
        self.broken().map(Err)
    }

    /// Whether all written has arrived, and the peer was told all; `None` while that is not known.
    pub(crate) fn finished(&self) -> Option<Result<(), ChannelError>> {
        match self.over {
            _ if self.tx.is_done() && self.silent => Some(Ok(())),
            Some(_) if self.tx.is_done() => Some(Ok(())),
            // Whoever has everything may close before we hear that the end was understood.
            Some(reason) if reason.is_orderly() && self.tx.has_arrived() => Some(Ok(())),
            over => over.map(|reason| Err(ChannelError::Broken(reason))),
        }
    }
}

impl Shared {
    /// Sends until nothing is left to send.
    fn transmit(&self) {
        loop {
            let size = self.connection.max_datagram_size();
            let until = lock(&self.state).next_timeout();
            let mut woken = false;
            let step = self.outgoing.wait(&self.state, until, |state| {
                let step = state.step(size);
                // Woken without anything to send: the timers may have changed.
                let look = std::mem::replace(&mut woken, true).then_some(Step::Look);
                step.or(look)
            });
            match step {
                None | Some(Step::Look) => {}
                Some(Step::Stop) => break,
                // One that has become too large is cut anew once it is found lost.
                Some(Step::Send(frame)) => match self.connection.send(&frame) {
                    Ok(()) | Err(SendError::TooBig { .. } | SendError::Empty | SendError::Full) => {}
                    Err(SendError::Closed(_) | SendError::Forked) => break,
                },
            }
        }
        self.connection.begin_finish();
        self.finished.notify();
    }

    /// Receives until the connection is over.
    fn receive(&self) {
        loop {
            let received = self.connection.recv();
            let mut state = lock(&self.state);
            match received {
                Ok(datagram) => state.on_datagram(&datagram),
                Err(RecvError::Closed(reason)) => state.over = Some(reason),
                Err(_) => {}
            }
            let over = state.over.is_some();
            drop(state);
            self.notify();
            if over {
                return;
            }
        }
    }

    pub(crate) fn notify(&self) {
        [&self.outgoing, &self.readable, &self.writable, &self.finished].into_iter().for_each(Signal::notify);
    }

    /// The connection below is over.
    #[cfg(feature = "tokio")]
    pub(crate) async fn closed(&self) {
        self.finished.wait_async(&self.state, |state| state.over).await;
    }

    pub(crate) fn begin_finish(&self) {
        let mut state = lock(&self.state);
        state.tx.end();
        state.finishing = true;
        drop(state);
        self.notify();
    }
}

/// A reliable channel; see the [module](self). All methods take `&self`; threads share it in an [`Arc`].
///
/// Dropped, it is finished in the background, for as long as the program runs.
#[derive(Debug)]
pub struct Channel(pub(crate) Arc<Shared>);

impl Channel {
    /// Longest message, bytes.
    pub const MAX_MESSAGE: usize = 16 << 20;

    /// Over this connection, whose other end makes one too. It has two threads.
    pub fn new(connection: Connection) -> Channel {
        Channel::with_window(connection, WINDOW)
    }

    /// As [`new`](Self::new), with at most so many bytes waiting in each direction, at least 64 KiB: 4 MiB by default. No more than that is
    /// under way at a time.
    pub fn with_window(connection: Connection, bytes: usize) -> Channel {
        let bytes = bytes.max(64 << 10);
        let shared = Arc::new(Shared {
            connection,
            state: Mutex::new(State {
                tx: Sender::new(bytes),
                rx: Receiver::new(bytes),
                message: None,
                finishing: false,
                silent: false,
                over: None,
            }),
            outgoing: Signal::default(),
            readable: Signal::default(),
            writable: Signal::default(),
            finished: Signal::default(),
        });
        let (one, other) = (shared.clone(), shared.clone());
        std::thread::spawn(move || one.transmit());
        std::thread::spawn(move || other.receive());
        Channel(shared)
    }

    /// Sends a message; waits while there is no room. It arrives after all sent before.
    ///
    /// # Errors
    /// [`ChannelError`]. The message was not taken then.
    pub fn send(&self, message: &[u8]) -> Result<(), ChannelError> {
        let shared = &self.0;
        let sent = shared.writable.wait(&shared.state, None, |state| state.send(message));
        shared.outgoing.notify();
        sent.unwrap_or(Err(ChannelError::Ended))
    }

    /// The next message; `None` after the last one.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub fn recv(&self) -> Result<Option<Vec<u8>>, ChannelError> {
        let shared = &self.0;
        let received = shared.readable.wait(&shared.state, None, State::recv);
        shared.outgoing.notify();
        received.unwrap_or(Ok(None))
    }

    /// Writes no more: the peer reads to the end. Reading goes on.
    pub fn end(&self) {
        lock(&self.0.state).tx.end();
        self.0.outgoing.notify();
    }

    /// Writes no more, waits until everything written has arrived, and closes the connection.
    ///
    /// # Errors
    /// The connection broke before that.
    pub fn finish(&self) -> Result<(), ChannelError> {
        let shared = &self.0;
        shared.begin_finish();
        let finished = shared.finished.wait(&shared.state, None, |state| state.finished());
        finished.unwrap_or(Err(ChannelError::Ended))?;
        // All has arrived; how the connection ends changes nothing.
        let _ = shared.connection.finish();
        Ok(())
    }

    /// Frames retransmitted so far.
    pub fn resent(&self) -> u64 {
        lock(&self.0.state).tx.resent
    }

    /// The connection below, for its counters and paths. What is sent or received on it directly is lost to the channel.
    pub fn connection(&self) -> &Connection {
        &self.0.connection
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.0.begin_finish();
    }
}
