//! Writes outgoing packets.

use crate::config::INITIAL_STREAMS;
use crate::path::{Path, Sent};
use crate::send::{Credit, Piece};
use crate::stream::control;
use crate::streams::Streams;
use crate::wire::{self, Frame, Header, MAX_CONTROL, MAX_PACKET_HEADER, Writer, varint_len};
use mpdccp_units::{Duration, Time};

/// Smallest packet size, in bytes. Any frame fits into a packet of this size.
const MIN_PACKET: usize = MAX_PACKET_HEADER + MAX_CONTROL + 8;

/// Smallest increase of the session's window, in bytes, that is worth sending a frame.
pub(crate) const MIN_INCREASE: u64 = 16 << 10;

impl Streams {
    /// Returns whether to call [`poll_transmit`](Self::poll_transmit) for this class now. That call may still
    /// find nothing to send, if data due for retransmission has arrived in the meantime.
    pub fn has_packet(&self, now: Time, class: u8) -> bool {
        self.has_data(class.into()) || class == 0 && self.has_due_ack(now)
    }

    /// Returns whether frames of this class are waiting to be sent. Frames that belong to no stream count as
    /// class 0.
    fn has_data(&self, class: usize) -> bool {
        self.classes.get(class).is_some_and(|class| !class.turns.is_empty() || !class.control.is_empty())
            || class == 0 && (self.tell_window || self.tell_streams)
    }

    fn has_due_ack(&self, now: Time) -> bool {
        self.arrivals.iter().any(|a| a.due.is_some_and(|at| at <= now))
    }

    /// Returns the number of bytes in all classes waiting for their first transmission.
    pub fn backlog(&self) -> u64 {
        self.classes.iter().map(|class| class.unsent).sum()
    }

    /// Returns the number of bytes in one class waiting for their first transmission, without those that wait
    /// until the peer has read earlier bytes.
    pub fn backlog_of(&self, class: u8) -> u64 {
        self.classes.get(usize::from(class)).map_or(0, |class| class.ready)
    }

    /// Writes the next packet of a class into `out` and returns its length. The caller must now send the
    /// packet over `path`, which is the caller's identifier of the path. The length of `out` is that of the
    /// largest packet that the path carries. `rtt` is the path's round-trip time, used until the streams have
    /// measured one themselves.
    ///
    /// `head_start` is 0 for a path with the smallest delay. On a path with a larger delay, only streams
    /// whose current burst has at least `head_start` bytes may send, and the packet carries no
    /// acknowledgements and no control frames, so that short exchanges do not wait for that path. A burst
    /// ends when the peer has acknowledged everything that was written; the next data begins a new burst.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        class: u8,
        path: u32,
        rtt: Option<Duration>,
        head_start: u64,
        out: &mut [u8],
    ) -> Option<usize> {
        if !self.has_packet(now, class) || out.len() < MIN_PACKET {
            return None;
        }
        let class = usize::from(class);
        let at = self.path_at(now, path, rtt);
        self.paths[at].offer(class);
        let may_have_data = self.has_data(class) && !self.paths[at].is_full();
        let skip = if may_have_data { self.skip(at) } else { 1 };
        let mut writer = Writer::new(out, skip);
        let head = self.next_turn(class, head_start).filter(|_| may_have_data);
        let dscp = head.and_then(|(id, _)| self.streams.get(&id)).map_or(0, |stream| stream.dscp);
        writer.dscp(dscp);
        let empty = writer.len();
        // Short exchanges also wait for acknowledgements and control frames, so these take no distant path.
        let near = head_start == 0;
        if near {
            self.write_acks(now, &mut writer);
        }
        if may_have_data {
            if near {
                self.write_control(at, class, &mut writer);
            }
            self.write_data(at, class, dscp, head_start, &mut writer);
        }
        if writer.len() == empty {
            return None;
        }
        let last = !self.has_data(class);
        Some(self.leave(now, at, writer, skip, last))
    }

    /// Copies stream bytes from `packet`, which has just been written for another path, into a packet for
    /// this path, as far as they fit.
    pub fn poll_copy(
        &mut self,
        now: Time,
        packet: &[u8],
        path: u32,
        rtt: Option<Duration>,
        out: &mut [u8],
    ) -> Option<usize> {
        let (_, mut frames) = wire::header(packet)?;
        let at = self.path_at(now, path, rtt);
        if out.len() < MIN_PACKET || self.paths[at].is_full() {
            return None;
        }
        let skip = self.skip(at);
        let mut writer = Writer::new(out, skip);
        writer.dscp(wire::dscp(packet).unwrap_or(0));
        let empty = writer.len();
        while let Some(frame) = wire::frame(&mut frames) {
            let Frame::Data { id, offset, bytes, fin } = frame else { continue };
            let head = 1 + varint_len(id) + varint_len(offset) + varint_len(bytes.len() as u64);
            let len = bytes.len().min(writer.room().saturating_sub(head));
            let fin = fin && len == bytes.len();
            if len > 0 || fin && writer.room() >= head {
                writer.data(id, offset, len, fin, true).copy_from_slice(&bytes[..len]);
                self.paths[at].push_frame(Sent::Data { id, offset, len: len as u32, fin });
                self.stats.bytes_sent += len as u64;
                self.stats.bytes_copied += len as u64;
            }
        }
        (writer.len() > empty).then(|| self.leave(now, at, writer, skip, false))
    }

    fn path_at(&mut self, now: Time, path: u32, rtt: Option<Duration>) -> usize {
        self.paths.iter().position(|p| p.id == Some(path)).unwrap_or_else(|| {
            self.paths.push(Path::new(path, self.next_path, now, rtt));
            self.next_path += 1;
            self.paths.len() - 1
        })
    }

    fn skip(&self, at: usize) -> usize {
        wire::header_len(self.paths[at].name, self.paths[at].next_number())
    }

    /// Completes the packet. It is sent now.
    fn leave(&mut self, now: Time, at: usize, writer: Writer<'_>, skip: usize, last: bool) -> usize {
        let path = &mut self.paths[at];
        let number = (path.name, path.next_number());
        let numbered = path.on_sent(now);
        let ack_now = numbered && path.asks(now, last);
        writer.finish(skip, Header { number: numbered.then_some(number), ack_now })
    }

    fn write_acks(&mut self, now: Time, writer: &mut Writer<'_>) {
        for arrivals in &mut self.arrivals {
            if arrivals.due.is_some_and(|at| at <= now)
                && writer.ack(arrivals.path, arrivals.delay(now), arrivals.ranges())
            {
                arrivals.due = None;
            }
        }
    }

    fn write_control(&mut self, at: usize, class: usize, writer: &mut Writer<'_>) {
        let path = &mut self.paths[at];
        let mut put = |writer: &mut Writer<'_>, frame: Frame<'_>, sent: Sent| {
            writer.control(frame);
            path.push_frame(sent);
        };
        if self.tell_window && writer.room() >= MAX_CONTROL {
            self.tell_window = false;
            self.peer_may_send = self.read + self.config.receive_memory;
            put(writer, Frame::SessionWindow(self.peer_may_send), Sent::SessionWindow);
        }
        if self.tell_streams && writer.room() >= MAX_CONTROL {
            self.tell_streams = false;
            self.peer_may_open = self.peer_opened - self.peer_open + self.config.max_streams;
            put(writer, Frame::Streams(self.peer_may_open), Sent::Streams);
        }
        let queue = &mut self.classes[class].control;
        while let Some(&id) = queue.front() {
            let Some(stream) = self.streams.get_mut(&id) else {
                queue.pop_front();
                continue;
            };
            let bit = stream.control & stream.control.wrapping_neg();
            if bit == 0 {
                stream.in_control = false;
                queue.pop_front();
                continue;
            }
            if writer.room() < MAX_CONTROL {
                return;
            }
            stream.control &= !bit;
            match bit {
                control::RESET => {
                    if let Some((reason, _)) = stream.send.reset {
                        let size = stream.send.sent;
                        put(writer, Frame::Reset { id, reason, size }, Sent::Reset(id));
                    }
                }
                control::STOP => {
                    if let Some((reason, _)) = stream.recv.stopped {
                        put(writer, Frame::Stop { id, reason }, Sent::Stop(id));
                    }
                }
                control::WINDOW => {
                    let limit = stream.recv.window.raise(stream.recv.read());
                    put(writer, Frame::StreamWindow { id, limit }, Sent::StreamWindow(id));
                }
                _ => put(writer, Frame::Blocked { id, limit: stream.send.limit }, Sent::Blocked(id)),
            }
        }
    }

    /// Returns how much the session's window and the limit of bytes in flight allow a stream to send.
    pub(crate) fn credit(&self) -> Credit {
        let room = self.config.in_flight_memory.saturating_sub(self.in_flight);
        Credit::new(self.may_send - self.sent, self.peer_window).within(room)
    }

    /// Subtracts bytes that are no longer in flight. Wakes the streams that wait for credit once there is
    /// room for many packets, because waking all of them for each packet would take too long.
    pub(crate) fn land(&mut self, bytes: u64) {
        let (before, few) = (self.in_flight, self.config.in_flight_memory / 16 * 15);
        self.in_flight -= bytes;
        if before > few && self.in_flight <= few {
            self.wake_starved();
        }
    }

    /// Returns the next stream of a class, and the data that it sends.
    fn next_turn(&mut self, class: usize, head_start: u64) -> Option<(u64, Piece)> {
        let credit = self.credit();
        while let Some(id) = self.classes.get_mut(class)?.turns.next(&mut self.streams, head_start) {
            match self.streams.get(&id)?.send.next(credit) {
                Some(piece) => return Some((id, piece)),
                None => self.end_turn(id),
            }
        }
        None
    }

    /// Ends the turn of a stream that is blocked or has nothing to send.
    fn end_turn(&mut self, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        self.classes[stream.class].turns.drop_next(&mut stream.place);
        if stream.send.tell_blocked() {
            self.send_control(id, control::BLOCKED);
        } else if stream.send.wants_credit() {
            if !core::mem::replace(&mut stream.starved, true) {
                self.starved.push(id);
            }
            self.count_ready(id);
        }
    }

    /// Updates a stream's part of the backlog of its class.
    pub(crate) fn count_ready(&mut self, id: u64) {
        let credit = self.credit();
        let Some(stream) = self.streams.get_mut(&id) else { return };
        // The peer may let a starved stream send more by raising the stream's own limit.
        let held_back = stream.starved && stream.send.next(credit).is_none();
        let ready = if held_back { 0 } else { stream.send.ready() };
        let before = core::mem::replace(&mut stream.ready, ready);
        let class = &mut self.classes[stream.class];
        class.ready = class.ready - before + ready;
    }

    fn write_data(&mut self, at: usize, class: usize, dscp: u8, head_start: u64, writer: &mut Writer<'_>) {
        while let Some((id, mut piece)) = self.next_turn(class, head_start) {
            let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.dscp == dscp) else { return };
            let offset = piece.range.start;
            let Some(room) = writer.room().checked_sub(1 + varint_len(id) + varint_len(offset)) else {
                return;
            };
            let whole = piece.range.end - offset;
            let delimited = whole as usize + varint_len(whole) <= room;
            let len = whole.min(room as u64);
            if len == 0 && whole > 0 {
                return;
            }
            let end = offset + len;
            piece = Piece { range: offset..end, fin: piece.fin && len == whole, ..piece };
            stream
                .send
                .chunks
                .copy(piece.range.clone(), writer.data(id, offset, len as usize, piece.fin, delimited));
            stream.send.on_sent(&piece);
            stream.place.on_sent(len as usize);
            self.stats.bytes_sent += len;
            if piece.repair {
                self.stats.bytes_repaired += len;
            } else {
                self.sent += len;
                self.in_flight += len;
                self.classes[class].unsent -= len;
            }
            self.paths[at].push_frame(Sent::Data { id, offset, len: len as u32, fin: piece.fin });
            self.count_ready(id);
            // If the stream has no more data, its turn ends and it leaves the schedule.
            let credit = self.credit();
            if self.streams.get(&id).is_some_and(|stream| stream.send.next(credit).is_none()) {
                self.end_turn(id);
            }
            self.notify_writable(id);
            if !delimited {
                return;
            }
        }
    }

    /// Schedules a stream if it has data to send.
    pub(crate) fn schedule(&mut self, id: u64) {
        self.count_ready(id);
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.send.next(Credit::UNLIMITED).is_some() {
            self.classes[stream.class].turns.add(id, &mut stream.place);
        } else if stream.send.tell_blocked() {
            self.send_control(id, control::BLOCKED);
        }
    }

    pub(crate) fn send_control(&mut self, id: u64, bit: u8) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.control |= bit;
        if !stream.in_control {
            stream.in_control = true;
            self.classes[stream.class].control.push_back(id);
        }
    }

    /// Sends the peer a higher limit for a stream or for the session, if the increase is worth sending a
    /// frame.
    pub(crate) fn on_consumed(&mut self, id: u64, len: u64) {
        self.read += len;
        self.check_session_window();
        self.check_window(id);
    }

    pub(crate) fn check_window(&mut self, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.recv.wants_more() && stream.recv.window.is_due(stream.recv.read()) {
            self.send_control(id, control::WINDOW);
        }
    }

    pub(crate) fn check_session_window(&mut self) {
        let memory = self.config.receive_memory;
        let room = self.read + memory - self.peer_may_send;
        // If the peer is short of credit because unread data takes up memory, also announce small increases.
        let scarce = self.peer_may_send - self.received < memory / 2;
        self.tell_window |= room >= if scarce { MIN_INCREASE } else { memory / 4 };
    }

    /// Removes a stream if it has ended, so that the peer may open another one.
    pub(crate) fn forget(&mut self, id: u64) {
        if self.streams.get(&id).is_none_or(|stream| !stream.is_over()) {
            return;
        }
        if let Some(stream) = self.streams.remove(&id).filter(|stream| stream.in_control) {
            self.classes[stream.class].control.retain(|other| *other != id);
        }
        if self.is_peers(id) {
            self.peer_open -= 1;
            self.check_streams();
        }
    }

    /// Raises the number of streams that the peer may open, if the increase is worth sending a frame.
    pub(crate) fn check_streams(&mut self) {
        let may = self.peer_opened - self.peer_open + self.config.max_streams;
        self.tell_streams |= may - self.peer_may_open >= INITIAL_STREAMS / 2;
    }
}
