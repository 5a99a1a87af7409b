//! Handles received packets, and the acknowledgement or loss of sent packets.

use crate::arrivals::Arrivals;
use crate::event::Pending;
use crate::output::MIN_INCREASE;
use crate::path::{Path, Sent};
use crate::recv::Refused;
use crate::stream::{Stream, control};
use crate::streams::Streams;
use crate::wire::{self, Frame};
use crate::{Reason, StreamError, StreamId};
use alloc::boxed::Box;
use alloc::vec::Vec;
use mpdccp_units::Time;

/// Maximum number of the peer's paths for which arrived packets are recorded. A new path replaces the one
/// that has been silent longest.
const MAX_ARRIVALS: usize = 16;

impl Streams {
    /// Handles a packet from the peer, received on any path.
    pub fn handle_packet(&mut self, now: Time, bytes: &[u8]) {
        let Some((header, frames)) = wire::header(bytes).filter(|(_, frames)| are_frames(frames)) else {
            self.stats.malformed += 1;
            return;
        };
        self.tell_limits();
        let mut rest = frames;
        let mut taken = Ok(());
        while taken != Err(Refused::Violation)
            && let Some(frame) = wire::frame(&mut rest)
        {
            // If a frame is refused, `taken` stays an error, even if later frames are accepted.
            taken = self.on_frame(now, frame).and(taken);
        }
        match taken {
            Ok(()) => {}
            Err(Refused::Violation) => self.stats.violations += 1,
            Err(Refused::TooManyGaps) => self.stats.too_many_gaps += 1,
        }
        // Do not acknowledge a packet that was not fully processed, so that the peer retransmits it.
        if let (Ok(()), Some((path, number))) = (taken, header.number) {
            self.arrivals_of(now, path).on_packet(now, number, header.ack_now);
        }
        self.paths.retain_mut(|path| !path.is_over(now));
        self.rescue(now);
        self.settle();
    }

    /// If no stream has anything to send, retransmits the packets that are stuck on a path that has become
    /// slow, provided there is a much faster path for their class. The receiver may be waiting only for these
    /// packets.
    fn rescue(&mut self, now: Time) {
        if self.classes.iter().any(|class| !class.turns.is_empty()) {
            return;
        }
        let streams = &self.streams;
        let class = |sent: &Sent| match sent {
            Sent::Data { id, .. }
            | Sent::Reset(id)
            | Sent::Stop(id)
            | Sent::StreamWindow(id)
            | Sent::Blocked(id) => streams.get(id).map(|stream| stream.class),
            Sent::SessionWindow | Sent::Streams => Some(0),
        };
        for at in 0..self.paths.len() {
            let faster = self.paths.iter().filter(|other| self.paths[at].is_much_slower_than(other));
            let may: Vec<_> = faster.map(Path::classes).collect();
            let moves = |sent: &Sent| class(sent).is_some_and(|class| may.iter().any(|may| may(class)));
            if !may.is_empty() {
                self.paths[at].give_up_stuck(now, moves, &mut self.fates);
            }
        }
    }

    fn arrivals_of(&mut self, now: Time, path: u64) -> &mut Arrivals {
        let at = self.arrivals.iter().position(|a| a.path == path).unwrap_or_else(|| {
            if self.arrivals.len() == MAX_ARRIVALS {
                let oldest = (0..MAX_ARRIVALS).min_by_key(|i| self.arrivals[*i].last_at);
                self.arrivals.swap_remove(oldest.unwrap_or(0));
            }
            self.arrivals.push(Arrivals::new(path, now));
            self.arrivals.len() - 1
        });
        &mut self.arrivals[at]
    }

    fn on_frame(&mut self, now: Time, frame: Frame<'_>) -> Result<(), Refused> {
        match frame {
            Frame::Ack(ack) => {
                let Some(path) = self.paths.iter_mut().find(|p| p.name == ack.path) else {
                    // The acknowledged packet was sent on a path that went down some time ago.
                    return if ack.path < self.next_path { Ok(()) } else { Err(Refused::Violation) };
                };
                if !path.on_ack(now, &ack, &mut self.fates) {
                    return Err(Refused::Violation);
                }
            }
            Frame::SessionWindow(limit) => {
                if limit > self.may_send {
                    let (before, was_scarce) = (self.may_send - self.sent, self.credit().scarce);
                    self.may_send = limit;
                    let left = limit - self.sent;
                    let scarce = self.credit().scarce;
                    self.peer_window = self.peer_window.max(left);
                    // While credit is scarce, a stream that has used up its share must wait until the peer
                    // raises the stream's own limit, so do not wake it here. Also do not wake all streams for
                    // a few bytes: thousands of streams may be waiting.
                    if before < MIN_INCREASE && left >= MIN_INCREASE || was_scarce && !scarce {
                        self.wake_starved();
                    }
                }
            }
            Frame::Streams(limit) => self.may_open = self.may_open.max(limit),
            Frame::Extension => {}
            Frame::Reset { id, .. }
            | Frame::Stop { id, .. }
            | Frame::StreamWindow { id, .. }
            | Frame::Blocked { id, .. }
            | Frame::Data { id, .. } => {
                if self.find(id)? {
                    return self.on_stream_frame(id, frame);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn wake_starved(&mut self) {
        for id in core::mem::take(&mut self.starved) {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.starved = false;
            }
            self.schedule(id);
        }
    }

    /// Creates the peer's streams up to `id`, as far as they are new. Returns false if stream `id` has ended.
    fn find(&mut self, id: u64) -> Result<bool, Refused> {
        if self.is_peers(id) {
            if id / 2 >= self.peer_may_open {
                return Err(Refused::Violation);
            }
            while self.peer_opened <= id / 2 {
                let new = 2 * self.peer_opened + id % 2;
                self.streams.insert(new, Box::new(Stream::new(0)));
                self.peer_opened += 1;
                self.peer_open += 1;
                self.half_open += 1;
                if self.half_open > self.config.half_open {
                    self.stats.half_open_refused += 1;
                    let _ = self.reset(StreamId(new), Reason::Limit);
                }
            }
        } else if id / 2 >= self.opened {
            return Err(Refused::Violation);
        }
        Ok(self.streams.contains_key(&id))
    }

    fn on_stream_frame(&mut self, id: u64, frame: Frame<'_>) -> Result<(), Refused> {
        let (credit, ours) = (self.peer_may_send - self.received, !self.is_peers(id));
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        let (before, header) = (stream.recv.read(), stream.recv.header().is_some());
        match frame {
            Frame::Data { offset, bytes, fin, .. } => {
                let (rise, new) = stream.recv.on_data(&mut self.pool, offset, bytes, fin, credit)?;
                self.received += rise;
                self.stats.bytes_received += new;
            }
            Frame::Reset { reason, size, .. } => {
                self.received += stream.recv.on_reset(&mut self.pool, reason, size, credit)?;
                if !(header || ours) {
                    // The application does not know about the stream yet, so reset this end's half too, and
                    // report no event.
                    self.reset_send(id, reason);
                } else if stream.recv.reset.is_some() && stream.recv.stopped.is_none() {
                    if stream.recv.available() == 0 {
                        stream.events.remove(Pending::READABLE);
                    }
                    self.notify(id, Pending::RESET);
                }
            }
            Frame::Stop { reason, .. } if !stream.send.is_done() && stream.send.reset.is_none() => {
                self.reset_send(id, reason);
                if header || ours {
                    self.notify(id, Pending::STOPPED);
                }
            }
            Frame::StreamWindow { limit, .. } => {
                stream.send.on_limit(limit);
                self.schedule(id);
            }
            Frame::Blocked { limit, .. } => {
                // Unread data on other streams reduces the room for this one.
                let left = self.config.receive_memory.saturating_sub(self.received - self.read);
                let most = self.config.stream_window.min(left / 2);
                stream.recv.window.on_blocked(limit, before, stream.recv.available(), most);
                self.check_window(id);
            }
            _ => {}
        }
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        // The header and discarded bytes count as read.
        self.read += stream.recv.read() - before;
        if stream.recv.is_header_invalid() && stream.recv.stopped.is_none() {
            let _ = self.reset(StreamId(id), Reason::Protocol);
        } else if stream.recv.stopped.is_none() && stream.recv.reset.is_none() {
            if !header && stream.recv.header().is_some() {
                self.notify(id, Pending::HEADER);
            }
            self.notify_readable(id);
        }
        self.check_session_window();
        self.forget(id);
        Ok(())
    }

    pub(crate) fn notify_readable(&mut self, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.wants_read && (stream.recv.available() > 0 || stream.recv.is_finished()) {
            stream.wants_read = false;
            self.notify(id, Pending::READABLE);
        }
    }

    /// Handles a path that has gone down. Data sent over it is retransmitted over other paths, unless an
    /// acknowledgement arrives first.
    pub fn on_path_down(&mut self, path: u32) {
        if let Some(down) = self.paths.iter_mut().find(|p| p.id == Some(path)) {
            down.retire(&mut self.fates);
            self.settle();
        }
        // The peer acknowledges packets of only so many paths.
        if self.paths.len() > MAX_ARRIVALS
            && let Some(oldest) = self.paths.iter().position(|p| p.id.is_none())
        {
            self.paths.remove(oldest);
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout). The time is in the past if a packet is
    /// due but no path has been able to send it yet.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.timeouts().min()
    }

    /// Like [`poll_timeout`](Self::poll_timeout), but leaves out what was due at `then`, when the caller last
    /// sent packets.
    pub fn poll_timeout_after(&self, then: Time) -> Option<Time> {
        self.timeouts().filter(|at| *at > then).min()
    }

    fn timeouts(&self) -> impl Iterator<Item = Time> {
        let acks = self.arrivals.iter().filter_map(|a| a.due);
        acks.chain(self.paths.iter().filter_map(Path::next_timeout))
    }

    /// Handles expired timers. Call this at the time returned by [`poll_timeout`](Self::poll_timeout).
    pub fn handle_timeout(&mut self, now: Time) {
        for path in &mut self.paths {
            if path.next_timeout().is_some_and(|at| at <= now) {
                path.on_timeout(now, &mut self.fates);
            }
        }
        self.paths.retain_mut(|path| !path.is_over(now));
        self.settle();
    }

    /// Like [`reset`](Self::reset), but waits until the peer has received everything that was written.
    ///
    /// # Errors
    /// [`StreamError::Unknown`] if there is no such stream.
    pub fn reset_later(&mut self, id: StreamId, reason: Reason) -> Result<(), StreamError> {
        self.streams.get_mut(&id.0).ok_or(StreamError::Unknown)?.reset_later = Some(reason);
        self.check_reset(id.0);
        Ok(())
    }

    /// Resets a stream if the reset has waited for what is now delivered.
    fn check_reset(&mut self, id: u64) {
        let due = self.streams.get(&id).filter(|stream| stream.send.is_settled());
        if let Some(reason) = due.and_then(|stream| stream.reset_later) {
            let _ = self.reset(StreamId(id), reason);
        }
    }

    /// Tells streams whether their frames were acknowledged or lost.
    fn settle(&mut self) {
        while let Some(sent) = self.fates.acked.pop_front() {
            match sent {
                Sent::Data { id, offset, len, fin } => {
                    let Some(stream) = self.streams.get_mut(&id) else { continue };
                    let (before, in_flight) = (stream.send.is_delivered(), stream.send.in_flight());
                    stream.send.on_acked(&mut self.pool, offset..offset + u64::from(len), fin);
                    let landed = in_flight - stream.send.in_flight();
                    if !before && stream.send.is_delivered() {
                        self.notify(id, Pending::DELIVERED);
                    }
                    self.land(landed);
                    self.check_reset(id);
                }
                Sent::Reset(id) => {
                    let Some(stream) = self.streams.get_mut(&id) else { continue };
                    stream.send.reset = stream.send.reset.map(|(reason, _)| (reason, true));
                    self.forget(id);
                }
                Sent::Stop(id) => {
                    let Some(stream) = self.streams.get_mut(&id) else { continue };
                    stream.recv.stopped = stream.recv.stopped.map(|(reason, _)| (reason, true));
                }
                Sent::StreamWindow(_) | Sent::Blocked(_) | Sent::SessionWindow | Sent::Streams => {}
            }
        }
        while let Some(sent) = self.fates.lost.pop_front() {
            match sent {
                Sent::Data { id, offset, len, fin } => {
                    let Some(stream) = self.streams.get_mut(&id) else { continue };
                    stream.send.on_lost(offset..offset + u64::from(len), fin);
                    self.schedule(id);
                }
                Sent::Reset(id) => {
                    if self.streams.get(&id).is_some_and(|s| s.send.reset.is_some_and(|(_, known)| !known)) {
                        self.send_control(id, control::RESET);
                    }
                }
                Sent::Stop(id) => {
                    if self.streams.get(&id).is_some_and(|s| s.recv.stopped.is_some_and(|(_, known)| !known))
                    {
                        self.send_control(id, control::STOP);
                    }
                }
                Sent::StreamWindow(id) => {
                    if self.streams.get(&id).is_some_and(|s| s.recv.wants_more()) {
                        self.send_control(id, control::WINDOW);
                    }
                }
                Sent::Blocked(id) => {
                    if let Some(stream) = self.streams.get_mut(&id) {
                        stream.send.on_blocked_lost();
                        self.schedule(id);
                    }
                }
                Sent::SessionWindow => self.tell_window = true,
                Sent::Streams => self.tell_streams = true,
            }
        }
    }
}

/// Returns whether a packet is entirely well-formed. If it is not, none of its frames is processed.
fn are_frames(mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        if wire::frame(&mut bytes).is_none() {
            return false;
        }
    }
    true
}
