//! The interface for the owner.

use crate::arrivals::Arrivals;
use crate::chunks::Pool;
use crate::class::Class;
use crate::config::{Config, INITIAL_SESSION_WINDOW, INITIAL_STREAMS, INITIAL_WINDOW};
use crate::event::{Event, Pending};
use crate::path::{Fates, Path};
use crate::stream::{Stream, control};
use crate::{MAX_HEADER, Reason, Role, Stats, StreamError, StreamId, StreamStats};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// Maximum number of unsent bytes of one stream.
const MAX_UNSENT: u64 = 64 << 10;
/// Number of unsent bytes that any stream may have, regardless of the other streams.
const MIN_UNSENT: u64 = 1 << 10;

/// All streams of a session at one end.
///
/// The inputs are [`handle_packet`](Self::handle_packet), [`on_path_down`](Self::on_path_down) and
/// [`handle_timeout`](Self::handle_timeout). After each input, and after calls on streams, drain
/// [`poll_event`](Self::poll_event) and [`poll_transmit`](Self::poll_transmit). Call `handle_timeout` at the
/// time returned by [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Streams {
    pub(crate) role: Role,
    pub(crate) config: Config,
    pub(crate) streams: BTreeMap<u64, Box<Stream>>,
    pub(crate) pool: Pool,
    /// Classes of streams. There is always at least one, in which new streams start.
    pub(crate) classes: Vec<Class>,
    /// Streams waiting for credit.
    pub(crate) starved: Vec<u64>,
    events: VecDeque<u64>,
    /// Number of streams opened by this end, and the maximum that the peer allows.
    pub(crate) opened: u64,
    pub(crate) may_open: u64,
    /// Number of streams opened by the peer, the maximum that this end allows, and the number still open.
    pub(crate) peer_opened: u64,
    pub(crate) peer_may_open: u64,
    pub(crate) peer_open: u64,
    pub(crate) tell_streams: bool,
    /// The peer's streams that have been neither accepted nor reset.
    pub(crate) half_open: usize,
    /// Number of new bytes sent by this end, the peer's limit for them, and the size of the peer's window.
    pub(crate) sent: u64,
    pub(crate) may_send: u64,
    pub(crate) peer_window: u64,
    /// Number of bytes sent by this end and not acknowledged.
    pub(crate) in_flight: u64,
    /// Number of bytes received, number of bytes read or discarded, and the limit that this end sets for the
    /// peer.
    pub(crate) received: u64,
    pub(crate) read: u64,
    pub(crate) peer_may_send: u64,
    pub(crate) tell_window: bool,
    /// Whether this end's limits have been sent to the peer, or are in the next packet.
    told_limits: bool,
    pub(crate) paths: Vec<Path>,
    pub(crate) next_path: u64,
    pub(crate) arrivals: Vec<Arrivals>,
    pub(crate) fates: Fates,
    pub(crate) stats: Stats,
}

impl Streams {
    /// Creates an end without streams. The peer must have the other role.
    pub fn new(role: Role, config: Config) -> Streams {
        let config = Config {
            receive_memory: config.receive_memory.max(INITIAL_SESSION_WINDOW),
            stream_window: config.stream_window.max(INITIAL_WINDOW),
            max_streams: config.max_streams.max(INITIAL_STREAMS),
            ..config
        };
        Streams {
            role,
            config,
            streams: BTreeMap::new(),
            pool: Pool::default(),
            classes: alloc::vec![Class::default()],
            starved: Vec::new(),
            events: VecDeque::new(),
            opened: 0,
            may_open: INITIAL_STREAMS,
            peer_opened: 0,
            peer_may_open: INITIAL_STREAMS,
            peer_open: 0,
            tell_streams: false,
            half_open: 0,
            sent: 0,
            may_send: INITIAL_SESSION_WINDOW,
            peer_window: INITIAL_SESSION_WINDOW,
            in_flight: 0,
            received: 0,
            read: 0,
            peer_may_send: INITIAL_SESSION_WINDOW,
            tell_window: false,
            told_limits: false,
            paths: Vec::new(),
            next_path: 0,
            arrivals: Vec::new(),
            fates: Fates::default(),
            stats: Stats::default(),
        }
    }

    /// Opens a stream with a header for the peer. The caller may write to the stream at once. `priority` must
    /// be below [`PRIORITIES`](crate::PRIORITIES); 0 is the most urgent.
    ///
    /// # Errors
    /// [`StreamError::Blocked`] while the peer allows no more streams, and [`StreamError::HeaderTooLong`] if
    /// the header is too long.
    pub fn open(&mut self, header: &[u8], priority: u8) -> Result<StreamId, StreamError> {
        if self.opened >= self.may_open {
            return Err(StreamError::Blocked);
        }
        if header.len() > MAX_HEADER {
            return Err(StreamError::HeaderTooLong);
        }
        self.tell_limits();
        let id = 2 * self.opened + u64::from(self.role == Role::Server);
        self.opened += 1;
        self.streams.insert(id, Box::new(Stream::new(priority)));
        self.write_header(id, header);
        Ok(StreamId(id))
    }

    /// Call this once the peer is present. The next packet then tells the peer this end's limits, if they
    /// differ from the initial ones. Without this call, the peer starts with the small initial limits, and
    /// learns the actual ones only when a stream opens.
    pub fn tell_limits(&mut self) {
        if !self.told_limits {
            self.told_limits = true;
            self.check_session_window();
            self.check_streams();
        }
    }

    fn write_header(&mut self, id: u64, header: &[u8]) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.accepted = true;
        stream.send.write(&mut self.pool, &(header.len() as u16).to_be_bytes());
        stream.send.write(&mut self.pool, header);
        let class = &mut self.classes[stream.class];
        class.unsent += 2 + header.len() as u64;
        class.turns.add(id, &mut stream.place);
        self.count_ready(id);
    }

    /// Accepts a stream opened by the peer, with an answer. To refuse the stream, [`reset`](Self::reset) it.
    ///
    /// # Errors
    /// [`StreamError::NotAccepted`] if the stream was accepted before, [`StreamError::Reset`] if it was
    /// reset, and [`StreamError::HeaderTooLong`] if the answer is too long.
    pub fn accept(&mut self, id: StreamId, answer: &[u8]) -> Result<(), StreamError> {
        let stream = self.streams.get_mut(&id.0).ok_or(StreamError::Unknown)?;
        if answer.len() > MAX_HEADER {
            return Err(StreamError::HeaderTooLong);
        }
        if stream.send.reset.is_some() {
            return Err(StreamError::Reset);
        }
        if stream.accepted {
            return Err(StreamError::NotAccepted);
        }
        self.half_open -= 1;
        self.write_header(id.0, answer);
        Ok(())
    }

    /// Returns the header that the peer gave a stream, or the peer's answer to our header. Returns `None`
    /// until this has arrived.
    pub fn header(&self, id: StreamId) -> Option<&[u8]> {
        self.streams.get(&id.0)?.recv.header()
    }

    fn writable(&mut self, id: StreamId) -> Result<&mut Stream, StreamError> {
        let stream = self.streams.get_mut(&id.0).ok_or(StreamError::Unknown)?;
        if stream.send.reset.is_some() {
            return Err(StreamError::Reset);
        }
        if !stream.send.is_open() {
            return Err(StreamError::Finished);
        }
        if !stream.accepted {
            return Err(StreamError::NotAccepted);
        }
        Ok(stream)
    }

    /// Returns the maximum number of unsent bytes for a stream: half of the free send memory, so that blocked
    /// streams leave room for others.
    fn share(&self) -> u64 {
        (self.config.send_memory.saturating_sub(self.backlog()) / 2).clamp(MIN_UNSENT, MAX_UNSENT)
    }

    /// Writes as many bytes as there is room for, and returns the number written.
    ///
    /// # Errors
    /// [`StreamError::Blocked`] if there is no room. [`Event::Writable`] reports when there is room again.
    pub fn write(&mut self, id: StreamId, bytes: &[u8]) -> Result<usize, StreamError> {
        let share = self.share();
        let stream = self.writable(id)?;
        let room = share.saturating_sub(stream.send.unsent());
        let len = bytes.len().min(room as usize);
        stream.wants_write = len < bytes.len();
        if len == 0 && !bytes.is_empty() {
            return Err(StreamError::Blocked);
        }
        let Some(stream) = self.streams.get_mut(&id.0) else { return Err(StreamError::Unknown) };
        if stream.send.is_all_acked() {
            stream.place.burst = 0;
        }
        stream.send.write(&mut self.pool, &bytes[..len]);
        self.classes[stream.class].unsent += len as u64;
        self.schedule(id.0);
        Ok(len)
    }

    /// Ends writing. The peer will read the end of the stream after the written data.
    ///
    /// # Errors
    /// [`StreamError::Finished`] and [`StreamError::Reset`] if the stream was already in that state.
    pub fn finish(&mut self, id: StreamId) -> Result<(), StreamError> {
        self.writable(id)?.send.finish();
        self.schedule(id.0);
        Ok(())
    }

    /// Reads bytes. If the result is 0 and `buf` is not empty, the stream has ended.
    ///
    /// # Errors
    /// [`StreamError::Blocked`] if nothing has arrived, [`StreamError::Reset`] if the stream was stopped, or
    /// was reset and all bytes that had arrived have been read.
    pub fn read(&mut self, id: StreamId, buf: &mut [u8]) -> Result<usize, StreamError> {
        let mut done = 0;
        while done < buf.len() {
            let bytes = match self.peek(id) {
                Err(_) if done > 0 => break,
                bytes => bytes?,
            };
            let len = bytes.len().min(buf.len() - done);
            if len == 0 {
                break;
            }
            buf[done..done + len].copy_from_slice(&bytes[..len]);
            done += len;
            let Some(stream) = self.streams.get_mut(&id.0) else { break };
            stream.recv.consume(&mut self.pool, len as u64);
        }
        self.after_read(id, done)?;
        Ok(done)
    }

    /// Returns the next readable bytes, as far as they are contiguous in memory. The result is empty if
    /// nothing has arrived or the stream has ended. To remove the bytes, call [`consume`](Self::consume).
    ///
    /// # Errors
    /// [`StreamError::Reset`] as for [`read`](Self::read).
    pub fn peek(&self, id: StreamId) -> Result<&[u8], StreamError> {
        let recv = &self.streams.get(&id.0).ok_or(StreamError::Unknown)?.recv;
        if recv.stopped.is_some() || recv.reset.is_some() && recv.available() == 0 {
            return Err(StreamError::Reset);
        }
        Ok(recv.peek())
    }

    /// Removes the first `len` bytes that [`peek`](Self::peek) returned. With `len` 0, this acknowledges the
    /// end of the stream.
    ///
    /// # Errors
    /// The errors are those of [`read`](Self::read). If `peek` returned nothing and this call returns no
    /// error, the stream has ended.
    pub fn consume(&mut self, id: StreamId, len: usize) -> Result<(), StreamError> {
        let len = len.min(self.peek(id)?.len());
        if let Some(stream) = self.streams.get_mut(&id.0) {
            stream.recv.consume(&mut self.pool, len as u64);
        }
        self.after_read(id, len)
    }

    fn after_read(&mut self, id: StreamId, len: usize) -> Result<(), StreamError> {
        let Some(stream) = self.streams.get_mut(&id.0) else { return Err(StreamError::Unknown) };
        stream.events.remove(Pending::READABLE);
        if len == 0 && !stream.recv.is_finished() {
            stream.wants_read = true;
            return Err(StreamError::Blocked);
        }
        stream.recv.end_read |= len == 0;
        // After bytes were consumed, an event reports further bytes or the end. With `len` 0, the caller
        // already knows of the end.
        stream.wants_read = len > 0 && stream.recv.available() == 0;
        self.notify_readable(id.0);
        self.on_consumed(id.0, len as u64);
        self.forget(id.0);
        Ok(())
    }

    /// Resets both directions. Undelivered data is lost, and the peer receives the reason. For a stream that
    /// the peer opened and this end has not accepted, this refuses the stream. A direction that has already
    /// ended is not affected.
    ///
    /// # Errors
    /// [`StreamError::Unknown`] if there is no such stream.
    pub fn reset(&mut self, id: StreamId, reason: Reason) -> Result<(), StreamError> {
        self.stop(id, reason)?;
        self.reset_send(id.0, reason);
        self.forget(id.0);
        Ok(())
    }

    /// Stops reading. Arriving data is discarded, and the peer is asked to stop sending. For a stream that
    /// the peer opened and this end has not accepted, this refuses the stream.
    ///
    /// # Errors
    /// [`StreamError::Unknown`] if there is no such stream.
    pub fn stop(&mut self, id: StreamId, reason: Reason) -> Result<(), StreamError> {
        let stream = self.streams.get_mut(&id.0).ok_or(StreamError::Unknown)?;
        if !stream.recv.is_done() && stream.recv.stopped.is_none() {
            stream.recv.stopped = Some((reason, false));
            let unread = stream.recv.highest - stream.recv.read();
            stream.recv.discard(&mut self.pool);
            self.read += unread;
            self.check_session_window();
            self.send_control(id.0, control::STOP);
        }
        if let Some(stream) = self.streams.get_mut(&id.0) {
            stream.events.remove(Pending::HEADER | Pending::READABLE | Pending::RESET);
            if !stream.accepted {
                self.reset_send(id.0, reason);
            }
        }
        self.forget(id.0);
        Ok(())
    }

    pub(crate) fn reset_send(&mut self, id: u64, reason: Reason) {
        let peer = self.is_peers(id);
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.send.is_done() || stream.send.reset.is_some() {
            return;
        }
        if peer && !stream.accepted {
            self.half_open -= 1;
        }
        stream.events.remove(Pending::WRITABLE | Pending::DELIVERED);
        let (class, in_flight) = (&mut self.classes[stream.class], stream.send.in_flight());
        class.unsent -= stream.send.reset(&mut self.pool, reason);
        class.turns.remove(id, &mut stream.place);
        self.count_ready(id);
        self.land(in_flight);
        self.send_control(id, control::RESET);
    }

    /// Changes a stream's priority, which must be below [`PRIORITIES`](crate::PRIORITIES).
    ///
    /// # Errors
    /// [`StreamError::Unknown`] if there is no such stream.
    pub fn set_priority(&mut self, id: StreamId, priority: u8) -> Result<(), StreamError> {
        let stream = self.streams.get_mut(&id.0).ok_or(StreamError::Unknown)?;
        self.classes[stream.class].turns.set_priority(id.0, &mut stream.place, priority);
        Ok(())
    }

    /// Moves a stream to another of the 256 classes. All streams start in class 0. The stream's packets are
    /// marked with `dscp`, which can be read from a packet with [`dscp`](crate::dscp).
    ///
    /// # Errors
    /// [`StreamError::Unknown`] if there is no such stream.
    pub fn classify(&mut self, id: StreamId, class: u8, dscp: u8) -> Result<(), StreamError> {
        let stream = self.streams.get_mut(&id.0).ok_or(StreamError::Unknown)?;
        stream.dscp = dscp & 63;
        let (from, to) = (core::mem::replace(&mut stream.class, class.into()), usize::from(class));
        if self.classes.len() <= to {
            self.classes.resize_with(to + 1, Class::default);
        }
        if from != to {
            let unsent = stream.send.unsent();
            self.classes[from].unsent -= unsent;
            self.classes[to].unsent += unsent;
            self.classes[from].ready -= stream.ready;
            self.classes[to].ready += stream.ready;
            if self.classes[from].turns.remove(id.0, &mut stream.place) {
                self.classes[to].turns.add(id.0, &mut stream.place);
            }
            if stream.in_control {
                self.classes[from].control.retain(|other| *other != id.0);
                self.classes[to].control.push_back(id.0);
            }
        }
        Ok(())
    }

    /// Moves all streams back to class 0.
    pub fn declassify(&mut self) {
        let others = self.streams.iter().filter(|(_, stream)| stream.class > 0);
        for (id, dscp) in others.map(|(id, stream)| (*id, stream.dscp)).collect::<Vec<_>>() {
            let _ = self.classify(StreamId(id), 0, dscp);
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        while let Some(&id) = self.events.front() {
            let Some(stream) = self.streams.get_mut(&id) else {
                self.events.pop_front();
                continue;
            };
            let Some(bit) = stream.events.take() else {
                stream.in_events = false;
                self.events.pop_front();
                self.forget(id);
                continue;
            };
            let name = StreamId(id);
            let (reset, stopped) = (stream.recv.reset, stream.send.reset);
            return Some(match bit {
                Pending::HEADER if self.is_peers(id) => Event::Opened(name),
                Pending::HEADER => Event::Accepted(name),
                Pending::READABLE => Event::Readable(name),
                Pending::WRITABLE => Event::Writable(name),
                Pending::DELIVERED => Event::Delivered(name),
                Pending::RESET => Event::Reset(name, reset.unwrap_or(Reason::Cancelled)),
                _ => Event::Stopped(name, stopped.map_or(Reason::Cancelled, |(reason, _)| reason)),
            });
        }
        None
    }

    pub(crate) fn notify(&mut self, id: u64, bit: u8) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.events.add(bit);
        if !stream.in_events {
            stream.in_events = true;
            self.events.push_back(id);
        }
    }

    pub(crate) fn notify_writable(&mut self, id: u64) {
        let share = self.share();
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.wants_write && stream.send.is_open() && stream.send.unsent() <= share / 2 {
            stream.wants_write = false;
            self.notify(id, Pending::WRITABLE);
        }
    }

    pub(crate) fn is_peers(&self, id: u64) -> bool {
        id.is_multiple_of(2) == (self.role == Role::Server)
    }

    /// Returns whether an acknowledgement is due or will become due.
    pub fn owes_ack(&self) -> bool {
        self.arrivals.iter().any(|arrivals| arrivals.due.is_some())
    }

    /// Returns the number of streams that have not ended.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// Returns whether there is no stream.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Counters since the start.
    pub fn stats(&self) -> Stats {
        Stats {
            packets_lost: self.fates.packets_lost,
            losses_taken_back: self.fates.losses_taken_back,
            probe_timeouts: self.fates.probe_timeouts,
            ..self.stats
        }
    }

    /// Statistics of one stream. `None` if it has ended.
    pub fn stream_stats(&self, id: StreamId) -> Option<StreamStats> {
        let stream = self.streams.get(&id.0)?;
        Some(StreamStats {
            unsent: stream.send.unsent(),
            in_flight: stream.send.in_flight(),
            unread: stream.recv.highest - stream.recv.read(),
            window: stream.recv.window.limit().saturating_sub(stream.recv.read()),
        })
    }
}
