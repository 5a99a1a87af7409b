//! The state that the handles of a connection share with the data thread.

use crate::budget::{Budget, cost};
use crate::byte_stream::Pipe;
use crate::readiness::{Descriptor, Ready};
use crate::send_queue::{Delivery, Outgoing};
use crate::signal::{Signal, lock};
use crate::stats::{Event, Stats};
use crate::{ConnectError, FinishError, Options, RecvError, SendError, StreamError};
use dccp_net::secure::PublicKey;
use dccp_proto::ServiceCode;
use mpdccp_proto::{QueueView, Reason, SessionId};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

/// Maximum number of unread events to keep. A further event replaces the oldest.
const MAX_EVENTS: usize = 256;

/// The addresses of both ends and the peer's key, known once the connection is open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: SocketAddr,
    pub(crate) service: ServiceCode,
    pub(crate) key: Option<PublicKey>,
}

#[derive(Debug)]
pub(crate) struct Stream {
    /// The session's identifier, which the data thread sets as soon as the session exists.
    pub(crate) id: OnceLock<SessionId>,
    pub(crate) state: Mutex<State>,
    /// Signals that the send queue has room, or that sending has ended.
    pub(crate) writable: Signal,
    /// Signals that there is a datagram, or that no more will arrive.
    pub(crate) readable: Signal,
    /// Signals that the connection opened, an event occurred, or the connection ended.
    pub(crate) happened: Signal,
    /// Signals that the peer has opened a stream, or that no more streams will arrive.
    pub(crate) streamed: Signal,
}

#[derive(Debug)]
pub(crate) struct State {
    outgoing: Outgoing,
    incoming: VecDeque<Vec<u8>>,
    incoming_bytes: usize,
    budget: Arc<Budget>,
    events: VecDeque<Event>,
    /// Streams opened by the peer that are waiting to be accepted, and how many may wait.
    streams: VecDeque<Arc<Pipe>>,
    max_streams: usize,
    max_incoming: usize,
    descriptor: Descriptor,
    /// Whether a sender has found the queue full and must be notified when a datagram fits.
    wants_room: bool,
    /// Whether the application has closed the connection and will receive nothing more.
    closed: bool,
    /// Whether the descriptor has something to report; [`Stream::ready`] clears this.
    news: bool,
    ends: Option<Ends>,
    /// The error that prevented the connection from opening.
    failed: Option<ConnectError>,
    /// Whether the receive queue was full and the application has not read half of it since.
    behind: bool,
    /// Whether the session uses multipath (RFC 9897). Set when the connection is open.
    opened: Option<bool>,
    max_datagram: usize,
    /// Whether the application has ended sending. The connection closes when everything has been sent.
    finishing: bool,
    /// Whether the connection is closing and has counted its unacknowledged packets as lost.
    given_up: bool,
    /// Whether the data thread knows that there is data to send.
    told: bool,
    end: Option<Reason>,
    /// The text in the peer's Reset.
    peer_said: Option<String>,
    /// This handle's counters, and the session's latest counters.
    stats: Stats,
}

impl State {
    /// Queues a datagram. Returns `None` if the sender has to wait.
    pub(crate) fn send(&mut self, data: &[u8], delivery: Delivery) -> Option<Result<(), SendError>> {
        self.send_owned(data.len(), delivery, || data.to_vec())
    }

    /// Queues a datagram of `len` bytes like [`send`](Self::send), but creates the datagram only if it is
    /// accepted.
    pub(crate) fn send_owned(
        &mut self,
        len: usize,
        delivery: Delivery,
        data: impl FnOnce() -> Vec<u8>,
    ) -> Option<Result<(), SendError>> {
        let refusal = match self.sending() {
            Err(closed) => closed,
            Ok(()) if len == 0 => SendError::Empty,
            Ok(()) if (1..len).contains(&self.max_datagram) => {
                SendError::TooBig { len, max: self.max_datagram }
            }
            // The size is 0 until a path opens, so until then the sender has to wait.
            Ok(()) if self.max_datagram == 0 || !self.outgoing.push(Instant::now(), delivery, data) => {
                self.wants_room = true;
                return None;
            }
            Ok(()) => {
                self.stats.sent += 1;
                self.stats.sent_bytes += len as u64;
                return Some(Ok(()));
            }
        };
        Some(Err(refusal))
    }

    /// Returns an error if the connection no longer accepts datagrams.
    fn sending(&self) -> Result<(), SendError> {
        match self.end {
            Some(reason) => Err(SendError::Closed(reason)),
            None if self.finishing => Err(SendError::Closed(Reason::Closed)),
            None => Ok(()),
        }
    }

    /// Returns whether a datagram would be accepted now. Returns `None` if the sender has to wait.
    pub(crate) fn send_ready(&mut self) -> Option<Result<(), SendError>> {
        let sending = self.sending();
        // When the connection is open, senders wait only if the policy is `Wait`.
        if sending.is_ok() && (self.max_datagram == 0 || self.outgoing.would_wait()) {
            self.wants_room = true;
            return None;
        }
        Some(sending)
    }

    /// Updates whether the descriptor is readable.
    fn show(&mut self) {
        let readable = !self.incoming.is_empty() || self.over().is_some() || self.news;
        self.descriptor.show(readable);
    }

    /// Makes the descriptor report an event, even if it is already readable.
    fn announce(&mut self) {
        self.news = true;
        self.descriptor.tell();
    }

    /// Returns whether the data thread must be notified now.
    pub(crate) fn tell(&mut self) -> bool {
        !std::mem::replace(&mut self.told, true)
    }

    /// Returns the next datagram, or `None` if there is none yet.
    pub(crate) fn recv(&mut self) -> Option<Result<Vec<u8>, RecvError>> {
        match self.incoming.pop_front() {
            Some(data) => {
                self.incoming_bytes -= cost(data.len());
                self.budget.give_back(cost(data.len()));
                self.show();
                Some(Ok(data))
            }
            None => self.over().map(|reason| Err(RecvError::Closed(reason))),
        }
    }

    /// Receives like [`recv`](Self::recv), but copies into the caller's buffer. Returns the length.
    pub(crate) fn recv_into(&mut self, into: &mut [u8]) -> Option<Result<usize, RecvError>> {
        if let Some(len) = self.incoming.front().map(Vec::len).filter(|len| *len > into.len()) {
            return Some(Err(RecvError::BufferTooSmall { len }));
        }
        Some(self.recv()?.map(|data| {
            into[..data.len()].copy_from_slice(&data);
            data.len()
        }))
    }

    /// Like [`recv`](Self::recv), but removes up to `most` waiting datagrams.
    pub(crate) fn recv_many(
        &mut self,
        into: &mut Vec<Vec<u8>>,
        most: usize,
    ) -> Option<Result<usize, RecvError>> {
        let before = into.len();
        while into.len() - before < most {
            match self.recv() {
                Some(Ok(data)) => into.push(data),
                end if into.len() == before => return end.map(|end| end.map(|_| 0)),
                _ => break,
            }
        }
        Some(Ok(into.len() - before))
    }

    /// Returns the next event, `None` if there is none yet, or `Some(None)` if no more will occur.
    pub(crate) fn event(&mut self) -> Option<Option<Event>> {
        match self.events.pop_front() {
            Some(event) => Some(Some(event)),
            None => self.over().map(|_| None),
        }
    }

    /// Returns the next stream opened by the peer, or `None` if there is none yet.
    pub(crate) fn accept_stream(&mut self) -> Option<Result<Arc<Pipe>, StreamError>> {
        let next = self.streams.pop_front().map(Ok);
        next.or_else(|| self.over().map(|reason| Err(StreamError::Closed(reason))))
    }

    /// Returns the reason why nothing more will arrive, if that is the case.
    fn over(&self) -> Option<Reason> {
        self.end.or(self.closed.then_some(Reason::Closed))
    }

    /// Discards everything that has arrived: the application will receive nothing more.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.incoming.clear();
        self.budget.give_back(std::mem::take(&mut self.incoming_bytes));
        self.show();
    }

    /// Returns the result of opening the connection, or `None` while the connection is still opening.
    pub(crate) fn opening(&mut self) -> Option<Result<(), ConnectError>> {
        match (self.opened, &self.failed, self.end) {
            (Some(_), ..) => Some(Ok(())),
            (None, Some(error), _) => Some(Err(error.again())),
            (None, None, Some(Reason::NoAnswer)) => Some(Err(ConnectError::TimedOut)),
            (None, None, end) => end.map(|reason| Err(ConnectError::Refused(reason))),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.opened.is_some()
    }

    pub(crate) fn ends(&self) -> Option<Ends> {
        self.ends
    }

    /// Returns the result of finishing; `None` until the connection has ended.
    pub(crate) fn finished(&self) -> Option<Result<Stats, FinishError>> {
        self.end.map(|reason| match reason.is_orderly() && self.stats.dropped == 0 {
            true => Ok(self.stats()),
            false => Err(FinishError(reason)),
        })
    }

    pub(crate) fn finish(&mut self) {
        self.finishing = true;
    }

    pub(crate) fn is_multipath(&self) -> bool {
        self.opened == Some(true)
    }

    pub(crate) fn max_datagram(&self) -> usize {
        self.max_datagram
    }

    pub(crate) fn end(&self) -> Option<Reason> {
        self.end
    }

    pub(crate) fn stats(&self) -> Stats {
        let queued = self.stats.queued + self.outgoing.len() as u64;
        let Outgoing { displaced, expired, .. } = self.outgoing;
        let here = self.outgoing.oldest().map(|at| at.elapsed());
        let oldest = self.stats.oldest.max(here);
        Stats { queued, displaced, expired, oldest, ..self.stats.clone() }
    }

    pub(crate) fn peer_said(&self) -> Option<String> {
        self.peer_said.clone()
    }

    pub(crate) fn hear(&mut self, text: Option<String>) {
        self.peer_said = text;
    }

    /// Counts the unacknowledged packets as lost: after the close, no acknowledgement can arrive.
    pub(crate) fn give_up(&mut self, packets: u64) {
        self.stats.lost += packets;
        self.given_up = true;
    }

    /// Replaces the statistics with those of the session, but keeps this handle's counters.
    pub(crate) fn update(&mut self, look: Stats) {
        let own = std::mem::take(&mut self.stats);
        let Stats { sent, sent_bytes, received, received_bytes, unread, .. } = own;
        let lost = if self.given_up { own.lost } else { look.lost };
        self.stats = Stats { sent, sent_bytes, received, received_bytes, unread, lost, ..look };
    }
}

impl Stream {
    pub(crate) fn new(options: &Options, budget: &Arc<Budget>) -> Stream {
        Stream {
            id: OnceLock::new(),
            state: Mutex::new(State {
                outgoing: Outgoing::new(options.policy, options.queue, options.queue_time),
                incoming: VecDeque::new(),
                incoming_bytes: 0,
                budget: budget.clone(),
                descriptor: Descriptor::default(),
                wants_room: false,
                news: false,
                ends: None,
                failed: None,
                events: VecDeque::new(),
                streams: VecDeque::new(),
                max_streams: options.backlog,
                max_incoming: options.receive_queue,
                behind: false,
                opened: None,
                max_datagram: 0,
                finishing: false,
                closed: false,
                given_up: false,
                told: false,
                end: None,
                peer_said: None,
                stats: Stats::default(),
            }),
            writable: Signal::default(),
            readable: Signal::default(),
            happened: Signal::default(),
            streamed: Signal::default(),
        }
    }

    /// Opens a descriptor that is readable while there is something to report, unless it is open already.
    pub(crate) fn open_descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        let mut state = lock(&self.state);
        let fd = state.descriptor.open()?;
        state.show();
        Ok(fd)
    }

    /// Releases the descriptor, because the handle that shows it is gone.
    pub(crate) fn release_descriptor(&self) {
        lock(&self.state).descriptor = Descriptor::default();
    }

    /// Returns which operations would not block, and clears what the descriptor has to report.
    pub(crate) fn ready(&self) -> Ready {
        let mut state = lock(&self.state);
        state.news = false;
        state.show();
        let closed = state.end.is_some();
        let wants_room = state.wants_room;
        let writable = state.send_ready().is_some();
        state.wants_room = wants_room && !writable;
        Ready {
            readable: state.over().is_some() || !state.incoming.is_empty(),
            writable,
            event: !state.events.is_empty(),
            stream: !state.streams.is_empty(),
            closed,
        }
    }

    /// Removes up to `most` datagrams for the session. `below` describes the datagrams already waiting in the
    /// session. Also returns whether nothing is left to do.
    pub(crate) fn take(&self, most: usize, below: &QueueView) -> (Vec<Vec<u8>>, bool) {
        let mut state = lock(&self.state);
        let waited = state.outgoing.len() + state.outgoing.below;
        let taken = state.outgoing.take(Instant::now(), most);
        state.outgoing.below = below.packets as usize + taken.len();
        let left = state.outgoing.len() + state.outgoing.below;
        if left == 0 {
            state.told = false;
        }
        let room = left < waited && !state.outgoing.would_wait();
        if room && std::mem::take(&mut state.wants_room) {
            state.announce();
        }
        drop(state);
        if room {
            self.writable.notify();
        }
        (taken, left == 0)
    }

    pub(crate) fn has_room_for_streams(&self) -> bool {
        let state = lock(&self.state);
        state.streams.len() < state.max_streams
    }

    /// Queues a stream opened by the peer.
    pub(crate) fn arrive(&self, pipe: Arc<Pipe>) {
        let mut state = lock(&self.state);
        state.streams.push_back(pipe);
        state.announce();
        drop(state);
        self.streamed.notify();
    }

    /// Returns whether the application has ended sending.
    pub(crate) fn is_finishing(&self) -> bool {
        lock(&self.state).finishing
    }

    /// Returns whether a datagram is waiting to be sent.
    pub(crate) fn waits(&self) -> bool {
        lock(&self.state).outgoing.len() > 0
    }

    /// Queues a received datagram. Returns true if the application is falling behind: the queue has been
    /// full, and the application has not read half of it since.
    pub(crate) fn deliver(&self, data: Vec<u8>) -> bool {
        let mut state = lock(&self.state);
        state.stats.received += 1;
        state.stats.received_bytes += data.len() as u64;
        let room = !state.closed && state.incoming.len() < state.max_incoming;
        if !room || !state.budget.take(state.incoming_bytes, cost(data.len())) {
            state.stats.unread += 1;
            state.behind = true;
            return true;
        }
        state.incoming_bytes += cost(data.len());
        state.incoming.push_back(data);
        state.show();
        state.behind &= state.incoming.len() > state.max_incoming / 2;
        let behind = state.behind;
        drop(state);
        self.readable.notify();
        behind
    }

    pub(crate) fn open(&self, multipath: bool, ends: Option<Ends>) {
        let mut state = lock(&self.state);
        (state.opened, state.ends) = (Some(multipath), ends);
        state.announce();
        drop(state);
        self.happened.notify();
    }

    /// Stores the error that prevented the connection from starting.
    pub(crate) fn fail(&self, error: ConnectError) {
        lock(&self.state).failed = Some(error);
        self.end(Reason::Aborted, 0);
    }

    pub(crate) fn set_max_datagram(&self, bytes: usize) {
        let before = std::mem::replace(&mut lock(&self.state).max_datagram, bytes);
        if before != bytes {
            self.writable.notify();
            if before > 0 {
                self.tell_event(Event::Size(bytes));
            }
        }
    }

    pub(crate) fn tell_event(&self, event: Event) {
        let mut state = lock(&self.state);
        if state.events.len() >= MAX_EVENTS {
            state.events.pop_front();
        }
        state.events.push_back(event);
        state.announce();
        drop(state);
        self.happened.notify();
    }

    /// Ends the connection and drops the datagrams that have not been sent. They count in addition to the
    /// session's `dropped` datagrams, which [`State::update`] may already have counted.
    pub(crate) fn end(&self, reason: Reason, dropped: u64) {
        let mut state = lock(&self.state);
        if state.end.is_some() {
            return;
        }
        state.stats.dropped = state.stats.dropped.max(dropped) + state.outgoing.clear();
        (state.stats.queued, state.stats.oldest) = (0, None);
        state.end = Some(reason);
        state.events.push_back(Event::Closed(reason));
        state.announce();
        drop(state);
        self.writable.notify();
        self.readable.notify();
        self.happened.notify();
        self.streamed.notify();
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.budget.give_back(self.incoming_bytes);
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;
