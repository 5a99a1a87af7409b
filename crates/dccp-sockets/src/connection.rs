use crate::readiness::Shown;
use crate::runtime::{Runtime, Streams};
use crate::signal::lock;
use crate::stream::{Ends, State, Stream};
use crate::{CcidError, ConnectError, Delivery, Event, FinishError, Ready, RecvError, SendError, Stats};
use bytes::Bytes;
use dccp_net::Core;
use dccp_net::secure::PublicKey;
use dccp_proto::ServiceCode;
use mpdccp_proto::sched::SchedulerKind;
use mpdccp_proto::{PathId, Reason, SessionId};
use mpdccp_units::Rate;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A connection carries datagrams in both directions, as fast as congestion control allows. All methods take
/// `&self`, so threads can share the connection in an [`Arc`].
///
/// Dropping the connection finishes it in the background, as long as the program keeps running.
/// [`finish`](Self::finish) waits until that is done.
#[derive(Debug)]
pub struct Connection {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) stream: Arc<Stream>,
    descriptor: Shown,
}

impl Connection {
    pub(crate) fn new(runtime: &Arc<Runtime>, stream: Arc<Stream>) -> Connection {
        Connection { runtime: runtime.clone(), stream, descriptor: Shown::default() }
    }

    /// Returns the session's identifier. If the session could not be created, no session has the result.
    pub(crate) fn id(&self) -> SessionId {
        if self.stream.id.get().is_none() {
            // The data thread creates the session of a connection that has just been started before it runs
            // this job.
            self.runtime.call(|_, _| ());
        }
        self.stream.id.get().copied().unwrap_or(SessionId(u64::MAX))
    }

    /// Runs `job` on the data thread soon, without waiting for it. If the session could not be created, does
    /// nothing.
    fn run(&self, job: impl FnOnce(&mut Core, &mut Streams, SessionId) + Send + 'static) {
        let stream = self.stream.clone();
        self.runtime.run(move |core, streams| {
            // The job that creates the session of a connection that has just been started has run before.
            if let Some(id) = stream.id.get() {
                job(core, streams, *id);
            }
        });
    }

    /// Queues a datagram. Waits while the queue is full or the connection is not open yet.
    ///
    /// # Errors
    /// [`SendError::TooBig`], [`SendError::Empty`] or [`SendError::Closed`]. The caller keeps the datagram.
    pub fn send(&self, data: &[u8]) -> Result<(), SendError> {
        self.send_with(data, Delivery::default())
    }

    /// Queues a datagram like [`send`](Self::send), with a priority or an expiry time.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn send_with(&self, data: &[u8], delivery: Delivery) -> Result<(), SendError> {
        self.here(SendError::Forked)?;
        let sent = self.stream.writable.wait(&self.stream.state, None, |s| s.send(data, delivery));
        self.tell_of(sent.unwrap_or(Err(SendError::Full)))
    }

    /// Queues a datagram like [`send_with`](Self::send_with), with a time limit for the wait.
    ///
    /// # Errors
    /// [`SendError::Full`] after the timeout, and the errors of [`send`](Self::send).
    pub fn send_timeout(&self, data: &[u8], delivery: Delivery, timeout: Duration) -> Result<(), SendError> {
        self.here(SendError::Forked)?;
        let until = Instant::now().checked_add(timeout);
        let sent = self.stream.writable.wait(&self.stream.state, until, |s| s.send(data, delivery));
        self.tell_of(sent.unwrap_or(Err(SendError::Full)))
    }

    /// Queues a datagram if the queue is not full and the connection is open.
    ///
    /// # Errors
    /// [`SendError::Full`], and the errors of [`send`](Self::send). The caller keeps the datagram.
    pub fn try_send(&self, data: &[u8]) -> Result<(), SendError> {
        self.try_send_with(data, Delivery::default())
    }

    /// Queues a datagram like [`try_send`](Self::try_send), with a priority or an expiry time.
    ///
    /// # Errors
    /// As for [`try_send`](Self::try_send).
    pub fn try_send_with(&self, data: &[u8], delivery: Delivery) -> Result<(), SendError> {
        self.here(SendError::Forked)?;
        let sent = lock(&self.stream.state).send(data, delivery);
        self.tell_of(sent.unwrap_or(Err(SendError::Full)))
    }

    /// Queues a datagram like [`try_send`](Self::try_send), without copying the bytes if no other handle
    /// refers to them.
    ///
    /// # Errors
    /// As for [`try_send`](Self::try_send).
    pub fn try_send_bytes(&self, data: Bytes) -> Result<(), SendError> {
        self.here(SendError::Forked)?;
        let sent = lock(&self.stream.state).send_owned(data.len(), Delivery::default(), || Vec::from(data));
        self.tell_of(sent.unwrap_or(Err(SendError::Full)))
    }

    /// Queues datagrams in order until the queue is full. Returns the number queued.
    ///
    /// # Errors
    /// The error for the first datagram, as for [`try_send`](Self::try_send). If only a later datagram is
    /// refused, the call succeeds and returns the number of datagrams before it.
    pub fn try_send_many<'a>(
        &self,
        datagrams: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<usize, SendError> {
        self.here(SendError::Forked)?;
        let mut state = lock(&self.stream.state);
        let mut taken = 0;
        let mut refused = None;
        for data in datagrams {
            match state.send(data, Delivery::default()).unwrap_or(Err(SendError::Full)) {
                Ok(()) => taken += 1,
                Err(e) => {
                    refused = Some(e);
                    break;
                }
            }
        }
        drop(state);
        match refused {
            Some(e) if taken == 0 => Err(e),
            _ if taken == 0 => Ok(0),
            _ => self.tell_of(Ok(())).map(|()| taken),
        }
    }

    /// Makes the data thread read the queue, unless it is about to do so anyway.
    pub(crate) fn tell_of(&self, sent: Result<(), SendError>) -> Result<(), SendError> {
        if sent.is_ok() && lock(&self.stream.state).tell() {
            self.wake();
        }
        sent
    }

    fn wake(&self) {
        self.run(|_, streams, id| streams.wake(id));
    }

    /// Returns whether this process is a fork of the one that opened the connection. A fork cannot use the
    /// connection.
    pub fn is_forked(&self) -> bool {
        self.runtime.is_forked()
    }

    /// Returns `error` if the process has forked.
    pub(crate) fn here<E>(&self, error: E) -> Result<(), E> {
        if self.is_forked() { Err(error) } else { Ok(()) }
    }

    /// Waits for the next datagram.
    ///
    /// # Errors
    /// [`RecvError::Closed`] when everything that arrived has been received.
    pub fn recv(&self) -> Result<Vec<u8>, RecvError> {
        self.wait_recv(None, State::recv)
    }

    /// Waits for the next datagram, with a timeout.
    ///
    /// # Errors
    /// [`RecvError::TimedOut`], and the errors of [`recv`](Self::recv).
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Vec<u8>, RecvError> {
        self.wait_recv(Instant::now().checked_add(timeout), State::recv)
    }

    /// Returns the next datagram if one has arrived.
    ///
    /// # Errors
    /// [`RecvError::Empty`], and the errors of [`recv`](Self::recv).
    pub fn try_recv(&self) -> Result<Vec<u8>, RecvError> {
        self.here(RecvError::Forked)?;
        lock(&self.stream.state).recv().unwrap_or(Err(RecvError::Empty))
    }

    /// Waits for the next datagram and copies it into the caller's buffer. Returns the length of the
    /// datagram.
    ///
    /// # Errors
    /// [`RecvError::BufferTooSmall`], and the errors of [`recv`](Self::recv). A datagram that is too large
    /// for the buffer stays in the queue.
    pub fn recv_into(&self, into: &mut [u8]) -> Result<usize, RecvError> {
        self.wait_recv(None, |state| state.recv_into(into))
    }

    /// Receives like [`recv_into`](Self::recv_into), with a time limit for the wait.
    ///
    /// # Errors
    /// [`RecvError::TimedOut`], and the errors of [`recv_into`](Self::recv_into).
    pub fn recv_into_timeout(&self, into: &mut [u8], timeout: Duration) -> Result<usize, RecvError> {
        self.wait_recv(Instant::now().checked_add(timeout), |state| state.recv_into(into))
    }

    /// Waits for a datagram, then appends up to `most` queued datagrams to `into`. Returns the number
    /// appended. If `most` is 0, returns 0 at once.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    pub fn recv_many(&self, into: &mut Vec<Vec<u8>>, most: usize) -> Result<usize, RecvError> {
        self.wait_recv(None, |state| state.recv_many(into, most))
    }

    fn wait_recv<T>(
        &self,
        until: Option<Instant>,
        attempt: impl FnMut(&mut State) -> Option<Result<T, RecvError>>,
    ) -> Result<T, RecvError> {
        self.here(RecvError::Forked)?;
        let received = self.stream.readable.wait(&self.stream.state, until, attempt);
        received.unwrap_or(Err(RecvError::TimedOut))
    }

    /// Returns the next datagram. If there is none, registers the task to be woken.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv).
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<Result<Bytes, RecvError>> {
        self.here(RecvError::Forked)?;
        self.stream.readable.poll(&self.stream.state, cx, State::recv).map_ok(Bytes::from)
    }

    /// Returns `Ready` if the queue has room for [`try_send`](Self::try_send); otherwise registers the task
    /// to be woken. By the time the task runs, another sender may have filled the queue again.
    ///
    /// # Errors
    /// If the connection no longer accepts datagrams.
    pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        self.here(SendError::Forked)?;
        self.stream.writable.poll(&self.stream.state, cx, State::send_ready)
    }

    /// Returns the next event, or `None` after the last event. If no event has occurred yet, registers the
    /// task to be woken.
    pub fn poll_event(&self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.stream.happened.poll(&self.stream.state, cx, State::event)
    }

    /// Returns a descriptor for `poll`, `epoll` and similar calls; watch it for reading only. It is readable
    /// while datagrams are waiting, and after the end. Two events also make it readable until the next call
    /// of [`ready`](Self::ready): an event of the connection, or room in the queue after
    /// [`try_send`](Self::try_send) found none. Only this crate may read or write the descriptor.
    ///
    /// # Errors
    /// A system error, such as too many open files.
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.descriptor.get(|| self.stream.open_descriptor())
    }

    /// Returns which operations would not block now. In a forked process, all operations fail at once.
    pub fn ready(&self) -> Ready {
        // A fork shares the descriptor with its parent, so it must not change the descriptor's state.
        if self.is_forked() {
            return Ready { readable: true, writable: true, event: true, stream: true, closed: true };
        }
        self.stream.ready()
    }

    /// Sends the queue, waits until every packet has been acknowledged or given up as lost, and closes the
    /// connection. The connection accepts no more datagrams, but datagrams already received can still be
    /// read. Returns the counters; [`Stats::lost`] shows how much did not arrive.
    ///
    /// This also waits until the peer has received the bytes written to streams. If both ends finish and both
    /// leave bytes of streams unread, they can wait for each other forever. To avoid this, drop the streams
    /// first, or use [`finish_timeout`](Self::finish_timeout).
    ///
    /// # Errors
    /// If the connection ended before everything was acknowledged.
    pub fn finish(&self) -> Result<Stats, FinishError> {
        self.wait_finish(None).unwrap_or(Err(FinishError(Reason::Aborted)))
    }

    /// Finishes like [`finish`](Self::finish), with a time limit for the wait. If the time limit passes,
    /// returns `None`, and the connection continues to finish in the background.
    pub fn finish_timeout(&self, timeout: Duration) -> Option<Result<Stats, FinishError>> {
        self.wait_finish(Instant::now().checked_add(timeout))
    }

    fn wait_finish(&self, until: Option<Instant>) -> Option<Result<Stats, FinishError>> {
        if let Err(forked) = self.here(FinishError(Reason::Aborted)) {
            return Some(Err(forked));
        }
        self.begin_finish();
        self.stream.happened.wait(&self.stream.state, until, |s| s.finished())
    }

    /// Finishes the connection in the background for all threads that share it, with the same effect as
    /// dropping it. Nothing more is received. Calls waiting in other threads return, except
    /// [`finish`](Self::finish).
    pub fn close(&self) {
        // A fork shares the connection's descriptor with its parent, so it must not change anything.
        if self.is_forked() {
            return;
        }
        self.begin_finish();
        lock(&self.stream.state).close();
        self.stream.readable.notify();
        self.stream.happened.notify();
        self.stream.streamed.notify();
    }

    pub(crate) fn begin_finish(&self) {
        if self.runtime.is_forked() {
            return;
        }
        lock(&self.stream.state).finish();
        self.stream.writable.notify();
        self.wake();
    }

    /// Ends the connection immediately and drops the queue.
    pub fn abort(&self) {
        self.run(|core, _, id| core.endpoint.abort(core.clock.now(), id));
    }

    /// Ends the connection immediately, and sends the peer the reason as a text of at most 255 bytes.
    pub fn abort_with(&self, why: &str) {
        let why = why.to_owned();
        self.run(move |core, _, id| core.endpoint.abort_with(core.clock.now(), id, &why));
    }

    /// Returns the text with which the peer ended the connection, if the peer sent one.
    pub fn peer_said(&self) -> Option<String> {
        lock(&self.stream.state).peer_said()
    }

    /// Returns the Service Code. If a listener accepts several, the client selects one of them.
    pub fn service(&self) -> Option<ServiceCode> {
        self.ends().map(|ends| ends.service)
    }

    fn ends(&self) -> Option<Ends> {
        lock(&self.stream.state).ends()
    }

    /// Restarts congestion control on a path that now leads through another network. A mobile host can change
    /// networks without getting a new address.
    pub fn path_changed(&self, path: PathId) {
        self.run(move |core, _, id| core.endpoint.change_path(core.clock.now(), id, path));
    }

    /// Returns the size of the largest datagram that all paths can currently carry, in bytes, or 0 until the
    /// connection is open.
    pub fn max_datagram_size(&self) -> usize {
        lock(&self.stream.state).max_datagram()
    }

    /// Returns whether the connection is a multipath session (RFC 9897).
    pub fn is_multipath(&self) -> bool {
        lock(&self.stream.state).is_multipath()
    }

    /// Returns the reason why the connection has ended, if it has.
    pub fn end(&self) -> Option<Reason> {
        lock(&self.stream.state).end()
    }

    /// Counters and state of the connection.
    pub fn stats(&self) -> Stats {
        let id = self.id();
        self.runtime.call(move |core, streams| streams.refresh(core, id));
        self.last_stats()
    }

    /// Returns the statistics as they were when last read.
    pub(crate) fn last_stats(&self) -> Stats {
        lock(&self.stream.state).stats()
    }

    /// Returns the peer's address when the connection opened, on the path that opened it.
    /// [`PathStats::peer`](crate::PathStats::peer) has the peer's current address on each path. With
    /// [`Encapsulation::Raw`](crate::Encapsulation::Raw), the address has no port.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.ends().map(|ends| ends.peer)
    }

    /// Returns the local address from which the connection was opened or on which it was accepted.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.ends()?.local
    }

    /// Closes a path gracefully. The path is not opened again.
    pub fn remove_path(&self, path: PathId) {
        self.run(move |core, _, id| core.endpoint.remove_path(core.clock.now(), id, path));
    }

    /// Changes the priority of a path at both ends (MP_PRIO); see [`Path::priority`](crate::Path::priority).
    pub fn set_priority(&self, path: PathId, priority: u8) {
        let priority = priority.min(15);
        self.run(move |core, _, id| core.endpoint.set_prio(core.clock.now(), id, path, priority));
    }

    /// Changes the scheduler, which chooses the path of each datagram that this end sends
    /// ([`Options::scheduler`](crate::Options::scheduler)). For example, `redundant` sends each datagram on
    /// every path while a line is bad. The peer has its own scheduler.
    pub fn set_scheduler(&self, scheduler: SchedulerKind) {
        self.run(move |core, _, id| core.endpoint.set_scheduler(core.clock.now(), id, scheduler));
    }

    /// Changes the congestion control for data that this end sends, on all paths, while data flows. The new
    /// congestion control starts with the old one's window and round-trip time. The peer may refuse the
    /// change. One round trip later, [`PathStats::ccids`](crate::PathStats::ccids) shows the CCIDs in use.
    ///
    /// # Errors
    /// If this CCID does not exist, or no path is open.
    pub fn set_ccid(&self, ccid: u8) -> Result<(), CcidError> {
        self.here(CcidError::Forked)?;
        if !crate::known_ccids().any(|known| known == ccid) {
            return Err(CcidError::Unknown(ccid));
        }
        let id = self.id();
        let set = self.runtime.call(move |core, _| core.endpoint.set_ccid(core.clock.now(), id, ccid));
        if set == Some(true) { Ok(()) } else { Err(CcidError::NotOpen) }
    }

    /// Sends at this rate for a while, using padding when the application has no data. In this way, a slow
    /// sender learns the path's capacity ([`Stats::allowed`], [`Stats::rate`]) before it sends more. The
    /// padding is subject to congestion control, and application data goes first. The peer's library drops
    /// the padding; Linux's DCCP sockets would deliver it as empty datagrams. A new probe replaces a running
    /// one, and a duration of zero ends it.
    pub fn probe(&self, rate: Rate, duration: Duration) {
        self.run(move |core, streams, id| streams.probe(core.clock.now(), id, rate, duration));
    }

    /// Returns all events of the connection from its start on. The iterator waits for the next event, and
    /// ends after [`Event::Closed`]. Of the events that nobody has read, only the newest 256 are kept.
    pub fn events(&self) -> Events<'_> {
        Events(self)
    }

    /// Returns the next event, if there is one.
    pub fn try_event(&self) -> Option<Event> {
        lock(&self.stream.state).event().flatten()
    }

    /// Waits for the next event. Returns `None` after the timeout, and after the last event.
    pub fn event_timeout(&self, timeout: Duration) -> Option<Event> {
        self.here(()).ok()?;
        let until = Instant::now().checked_add(timeout);
        self.stream.happened.wait(&self.stream.state, until, State::event).flatten()
    }

    /// Waits for a connection that was [started](crate::Connector::start) to open or fail. Returns `None`
    /// after the timeout.
    pub fn opened(&self, timeout: Duration) -> Option<Result<(), ConnectError>> {
        if self.is_forked() {
            return Some(Err(ConnectError::Forked));
        }
        let until = Instant::now().checked_add(timeout);
        self.stream.happened.wait(&self.stream.state, until, State::opening)
    }

    /// Returns the peer's public key, if the connection uses keys.
    pub fn peer_key(&self) -> Option<PublicKey> {
        self.ends()?.key
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.begin_finish();
        if !self.is_forked() {
            self.stream.release_descriptor();
        }
    }
}

/// The events of a connection; see [`Connection::events`].
#[derive(Debug)]
pub struct Events<'a>(&'a Connection);

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let Connection { stream, .. } = self.0;
        self.0.here(()).ok()?;
        stream.happened.wait(&stream.state, None, |s| s.event()).flatten()
    }
}
