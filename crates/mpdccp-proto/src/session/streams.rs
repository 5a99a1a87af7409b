//! Streams of a session (docs/streams.md). They share the paths by bytes with the datagram queues, and have
//! their own scheduler.

use super::Session;
use super::class_queues::Source;
use crate::{PathId, PktInfo, SessionState, StreamsStatus};
use dccp_cc::RttEstimator;
use dccp_proto::{Connection, Received, Sink};
use dccp_streams::Streams;
use dccp_wire::{MpOption, Opt};
use mpdccp_units::Time;

/// Length of the option that marks a stream packet, bytes. The option is an empty MP_EXP in place of MP_SEQ.
const OPTION: usize = 3;

impl Session {
    /// Passes the streams to `act`, if both ends support them and the session is open.
    pub(crate) fn with_streams<T>(&mut self, now: Time, act: impl FnOnce(&mut Streams) -> T) -> Option<T> {
        let carried = self.streams.as_mut().filter(|_| self.state == SessionState::Open)?;
        let result = act(&mut carried.streams);
        carried.follow_backlog(now);
        Some(result)
    }

    /// Passes the streams to `act` once the session has begun to end. Data that arrived before then can still
    /// be read.
    pub(crate) fn with_unread_streams<T>(&mut self, act: impl FnOnce(&mut Streams) -> T) -> Option<T> {
        self.unread.as_mut().map(|carried| act(&mut carried.streams))
    }

    /// Sends the peer its initial flow control limits once the session is open, so that the peer's first
    /// streams can start at once.
    pub(super) fn greet_streams(&mut self) {
        if let Some(carried) = &mut self.streams {
            carried.streams.tell_limits();
        }
    }

    /// Handles a stream packet. Because the packet has no MP_SEQ, tells the reorderer that the packet's DCCP
    /// sequence number on this path carried no datagram of the session.
    pub(super) fn on_stream_packet(&mut self, now: Time, i: usize, data: &[u8], received: &Received<'_>) {
        self.reorderer.on_other(now, self.paths[i].id, received.seq, received.ndp, true);
        self.paths[i].data_at = now;
        if let Some(carried) = &mut self.streams {
            carried.streams.handle_packet(now, data);
            carried.follow_backlog(now);
        }
    }

    /// Call this when a path went down or takes another route. Unacknowledged stream packets that were sent
    /// on it are retransmitted.
    pub(super) fn tell_streams_down(&mut self, path: PathId) {
        if let Some(carried) = &mut self.streams {
            carried.streams.on_path_down(path.0);
        }
    }

    pub(super) fn on_stream_timeout(&mut self, now: Time) {
        if let Some(carried) = &mut self.streams
            && carried.streams.poll_timeout().is_some_and(|at| at <= now)
        {
            carried.streams.handle_timeout(now);
        }
    }

    /// Returns when [`on_stream_timeout`](Self::on_stream_timeout) is due. Packets that were already due at
    /// the last transmission are waiting for a path rather than a timer.
    pub(super) fn stream_timeout(&self) -> Option<Time> {
        self.streams.as_ref()?.streams.poll_timeout_after(self.polled)
    }

    /// Describes the next packet from a class's streams, if any. The packet is sized for the path with the
    /// smallest MTU, so that any path can carry it.
    pub(super) fn stream_head(&self, now: Time, class: usize) -> Option<(Source, PktInfo)> {
        let number = class as u8;
        let carried = self.streams.as_ref().filter(|carried| carried.streams.has_packet(now, number))?;
        let up = self.rows.iter().filter(|row| row.state.is_up());
        // If there is no backlog, the packet carries only an acknowledgement, so it is small.
        let len = match carried.streams.backlog_of(number) {
            0 => 1,
            _ => up.map(|row| row.max_payload).min().unwrap_or(1),
        };
        Some((Source::Streams(class), PktInfo { len, class: number, ..PktInfo::default() }))
    }

    /// Sends one packet from a class's streams, as an identical copy on each of `paths`. Returns false if
    /// there was no packet.
    pub(super) fn send_stream_packet(
        &mut self,
        now: Time,
        class: usize,
        paths: &[PathId],
        head_start: u64,
        sink: &mut dyn Sink,
    ) -> bool {
        let source = self.classes.all.len() + class;
        self.options.clear();
        self.options.push(&Opt::Mp(MpOption::Exp(&[])));
        let (mut first, mut buffer) = (self.blocks.take(), self.blocks.take());
        let mut any = false;
        for &path in paths {
            let Some(i) = self.index(path).filter(|i| self.rows[*i].is_open()) else { continue };
            let conn = self.paths[i].conn.as_ref();
            let room = conn.map_or(0, |conn| conn.sure_payload(OPTION));
            // The row's round-trip time may be that of a former route.
            let srtt = conn.and_then(Connection::tx_rtt).and_then(RttEstimator::srtt);
            let Some(carried) = &mut self.streams else { break };
            buffer.resize(room, 0);
            let len = match any {
                false => {
                    carried.streams.poll_transmit(now, class as u8, path.0, srtt, head_start, &mut buffer)
                }
                true => carried.streams.poll_copy(now, &first, path.0, srtt, &mut buffer),
            };
            let Some(len) = len else { continue };
            carried.follow_backlog(now);
            let entry = &mut self.classes.all[class];
            entry.stream_scheduler.on_sent(now, path, len);
            self.paths[i].transmit_any(now, self.options.as_bytes(), &buffer[..len], sink);
            if !core::mem::replace(&mut any, true) {
                if paths.len() > 1 {
                    first.clear();
                    first.extend(&buffer[..len]);
                }
                entry.stats.packets += 1;
                entry.stats.bytes += len as u64;
                self.classes.on_sent(source, len);
            }
            self.cap.on_sent(now, len as u64);
            self.allowance = self.allowance.map(|bytes| bytes - len as i64);
            self.paths[i].refresh(now, &mut self.rows[i]);
        }
        self.blocks.put(first);
        self.blocks.put(buffer);
        any
    }

    pub(super) fn streams_status(&self) -> Option<StreamsStatus> {
        let streams = &self.streams.as_ref()?.streams;
        Some(StreamsStatus { open: streams.len(), backlog: streams.backlog(), stats: streams.stats() })
    }
}
