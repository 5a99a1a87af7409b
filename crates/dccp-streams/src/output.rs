//! Packets that leave.

use crate::config::INITIAL_STREAMS;
use crate::path::{Path, Sent};
use crate::send::Piece;
use crate::stream::control;
use crate::streams::Streams;
use crate::wire::{self, Frame, Header, MAX_CONTROL, MAX_PACKET_HEADER, Writer, varint_len};
use mpdccp_units::{Duration, Time};

/// Smallest packet that is made, bytes; any frame fits into it.
const MIN_PACKET: usize = MAX_PACKET_HEADER + MAX_CONTROL + 8;

impl Streams {
    /// Whether to call [`poll_transmit`](Self::poll_transmit) now. It may find that what was to be sent again has arrived after all.
    pub fn has_packet(&self, now: Time) -> bool {
        self.has_data() || self.has_due_ack(now)
    }

    fn has_data(&self) -> bool {
        !self.turns.is_empty() || !self.control.is_empty() || self.tell_window || self.tell_streams
    }

    fn has_due_ack(&self, now: Time) -> bool {
        self.arrivals.iter().any(|a| a.due.is_some_and(|at| at <= now))
    }

    /// Bytes that wait to be sent for the first time.
    pub fn backlog(&self) -> u64 {
        self.unsent
    }

    /// Writes the next packet, which leaves over `path` now, into `out`, which is as long as a packet of that path may be, and returns its
    /// length. `path` is any name the owner has for it; `rtt` is used until the streams have measured one.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        path: u32,
        rtt: Option<Duration>,
        out: &mut [u8],
    ) -> Option<usize> {
        if !self.has_packet(now) || out.len() < MIN_PACKET {
            return None;
        }
        let at = self.paths.iter().position(|p| p.id == path).unwrap_or_else(|| {
            self.paths.push(Path::new(path, self.next_path, now, rtt));
            self.next_path += 1;
            self.paths.len() - 1
        });
        let may_have_data = self.has_data() && !self.paths[at].is_full();
        let (name, number) = (self.paths[at].name, self.paths[at].next_number());
        let skip = if may_have_data { wire::header_len(name, number) } else { 1 };
        let mut writer = Writer::new(out, skip);
        self.write_acks(now, &mut writer);
        let acks = writer.len();
        if may_have_data {
            self.write_control(at, &mut writer);
            self.write_data(at, &mut writer);
        }
        if writer.len() == skip {
            return None;
        }
        self.stats.packets_sent += 1;
        let numbered = self.paths[at].on_sent(now);
        self.stats.acks_sent += u64::from(writer.len() == acks);
        let last = !self.has_data();
        let header = Header {
            number: numbered.then_some((name, number)),
            ack_now: numbered && self.paths[at].asks(now, last),
        };
        Some(writer.finish(skip, header))
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

    fn write_control(&mut self, at: usize, writer: &mut Writer<'_>) {
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
        while let Some(&id) = self.control.front() {
            let Some(stream) = self.streams.get_mut(&id) else {
                self.control.pop_front();
                continue;
            };
            let bit = stream.control & stream.control.wrapping_neg();
            if bit == 0 {
                stream.in_control = false;
                self.control.pop_front();
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

    fn write_data(&mut self, at: usize, writer: &mut Writer<'_>) {
        while let Some(id) = self.turns.next(&mut self.streams) {
            let credit = self.may_send - self.sent;
            let Some(stream) = self.streams.get_mut(&id) else { return };
            let Some(mut piece) = stream.send.next(credit) else {
                self.turns.drop_next(&mut stream.place);
                if stream.send.tell_blocked() {
                    self.send_control(id, control::BLOCKED);
                } else if stream.send.wants_credit() && !stream.starved {
                    stream.starved = true;
                    self.starved.push(id);
                }
                continue;
            };
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
                self.unsent -= len;
            }
            self.paths[at].push_frame(Sent::Data { id, offset, len: len as u32, fin: piece.fin });
            // It may have no more: then the packet is the last, and its place in the round is not for nothing.
            if stream.send.next(self.may_send - self.sent).is_none() {
                self.turns.drop_next(&mut stream.place);
                if stream.send.tell_blocked() {
                    self.send_control(id, control::BLOCKED);
                } else if stream.send.wants_credit() && !stream.starved {
                    stream.starved = true;
                    self.starved.push(id);
                }
            }
            self.notify_writable(id);
            if !delimited {
                return;
            }
        }
    }

    /// Gives a stream a turn if it has something to send.
    pub(crate) fn schedule(&mut self, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.send.next(u64::MAX).is_some() {
            self.turns.add(id, &mut stream.place);
        } else if stream.send.tell_blocked() {
            self.send_control(id, control::BLOCKED);
        }
    }

    pub(crate) fn send_control(&mut self, id: u64, bit: u8) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.control |= bit;
        if !stream.in_control {
            stream.in_control = true;
            self.control.push_back(id);
        }
    }

    /// Tells the peer that it may send more on a stream, or on all, once that is worth a frame.
    pub(crate) fn on_consumed(&mut self, id: u64, len: u64) {
        self.read += len;
        self.check_session_window();
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.recv.window.on_read(stream.recv.read());
        self.check_window(id);
    }

    pub(crate) fn check_window(&mut self, id: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.recv.wants_more() && stream.recv.window.is_due(stream.recv.read()) {
            self.send_control(id, control::WINDOW);
        }
    }

    pub(crate) fn check_session_window(&mut self) {
        let room = self.read + self.config.receive_memory - self.peer_may_send;
        self.tell_window |= room >= self.config.receive_memory / 4;
    }

    /// Lets go of a stream that is over, and lets the peer open another.
    pub(crate) fn forget(&mut self, id: u64) {
        if self.streams.get(&id).is_none_or(|stream| !stream.is_over()) {
            return;
        }
        if self.streams.remove(&id).is_some_and(|stream| stream.in_control) {
            self.control.retain(|other| *other != id);
        }
        if self.is_peers(id) {
            self.peer_open -= 1;
            self.check_streams();
        }
    }

    /// Tells the peer how many streams it may open once that is worth a frame.
    pub(crate) fn check_streams(&mut self) {
        let may = self.peer_opened - self.peer_open + self.config.max_streams;
        self.tell_streams |= may - self.peer_may_open >= INITIAL_STREAMS / 2;
    }
}
