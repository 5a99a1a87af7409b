//! Sending application data.

use super::output::{ACK_HEADER, Fixed};
use super::pmtu::BASE;
use super::*;
use crate::{Gate, Sink, Why};
use dccp_wire::{Opt, PacketType, checksum};

/// Header of Data with long sequence numbers (RFC 4340 section 5.1).
const DATA_HEADER: usize = 16;
/// Length of an NDP Count option with a one-byte count. Each data packet reserves this room, so that all
/// headers have the same size.
const NDP_SLOT: usize = 3;
/// Data Checksum (RFC 4340 section 9.3).
const CHECKSUM_LEN: usize = 6;
/// Minimum room for options with which feedback is piggybacked on data. With less room, a separate Ack
/// carries the feedback (RFC 4340 section 11.2), because a shortened Ack Vector is worse than an additional
/// small packet. Nine loss intervals of CCID 4 fit into this room (RFC 4342 section 8.6.1).
const MIN_FEEDBACK_ROOM: usize = 132;

impl Connection {
    /// Returns whether a data packet may leave now.
    pub fn gate(&self, now: Time) -> Gate {
        if self.peer_drops.not_listening {
            return Gate::Closed(Why::NotListening);
        }
        match (self.state, &self.halves) {
            (State::CloseReq | State::Closing | State::TimeWait | State::Closed, _) => {
                Gate::Closed(Why::Closing)
            }
            // RFC 9897 section 3.3: a multipath client waits for the Ack that moves it to OPEN.
            (State::PartOpen, _) if self.is_multipath() => Gate::Closed(Why::Handshake),
            (State::PartOpen | State::Open, Some(halves)) if self.negotiated.may_send => halves.tx.gate(now),
            _ => Gate::Closed(Why::Handshake),
        }
    }

    /// Returns the largest payload that may be sent now, together with `options` bytes of the owner's
    /// options. In PARTOPEN only DataAck may be sent (RFC 4340 section 8.1.5), which needs room for its
    /// required options.
    pub fn max_payload(&self, options: usize) -> usize {
        self.payload_now(self.known_mtu(), options)
    }

    fn payload_now(&self, mtu: u16, options: usize) -> usize {
        if self.state == State::PartOpen {
            let more = self.cookies.len() + self.extra(Extra::HandshakeAck).len() + MIN_FEEDBACK_ROOM;
            return self.room_for_payload(mtu, ACK_HEADER, options + more);
        }
        self.room_for_payload(mtu, DATA_HEADER, options)
    }

    /// Returns the largest payload in OPEN, together with `options` bytes of the owner's options, once the
    /// peer has answered a path MTU probe of that size.
    pub fn max_payload_open(&self, options: usize) -> usize {
        self.room_for_payload(self.cfg.mtu, DATA_HEADER, options)
    }

    /// Like [`max_payload`](Self::max_payload), but while packets of the current size seem to get lost, the
    /// result is limited to a size that nearly every path carries.
    pub fn sure_payload(&self, options: usize) -> usize {
        self.payload_now(self.pmtu.as_ref().map_or_else(|| self.known_mtu(), |pmtu| pmtu.sure()), options)
    }

    /// Returns the MTU known so far. It may be too large until a probe confirms it.
    fn known_mtu(&self) -> u16 {
        match &self.pmtu {
            Some(pmtu) => pmtu.known(),
            None if self.cfg.probe_mtu => self.cfg.mtu.min(BASE),
            None => self.cfg.mtu,
        }
    }

    fn room_for_payload(&self, mtu: u16, header: usize, mut options: usize) -> usize {
        if self.negotiated.ndp {
            options += NDP_SLOT;
        }
        if self.negotiated.checksum {
            options += CHECKSUM_LEN;
        }
        let packet = usize::from(mtu).saturating_sub(usize::from(self.cfg.overhead));
        packet.saturating_sub(header + options.next_multiple_of(4))
    }

    /// A packet took another path because it is too large for this one. Like this path's own data, such
    /// packets trigger probes of a larger size. Otherwise, if all packets offered to a path are too large for
    /// it, the path would not recover from an MTU black hole.
    pub fn note_too_narrow(&mut self, now: Time) {
        self.pmtu.iter_mut().for_each(|pmtu| pmtu.on_data(now));
    }

    /// Sends one data packet, with the owner's encoded `options` first. Call this only while
    /// [`gate`](Self::gate) is open, with `payload` within [`max_payload`](Self::max_payload). A packet
    /// without payload serves only to measure the path, and is padded. Feedback is not piggybacked if the
    /// packet would then exceed the path MTU.
    pub fn transmit(&mut self, now: Time, options: &[u8], payload: &[u8], sink: &mut dyn Sink) -> Seq {
        self.skip_number();
        self.pmtu.iter_mut().for_each(|pmtu| pmtu.on_data(now));
        let seq = self.numbers.take();
        let packet = usize::from(self.cfg.mtu).saturating_sub(usize::from(self.cfg.overhead));
        // Room for options if the packet becomes a DataAck within the path MTU.
        let room = packet.saturating_sub(ACK_HEADER + payload.len()) & !3;
        let mut out = self.start_options();
        out.extend(options);
        self.write_ndp_slot(room, &mut out);
        if self.negotiated.checksum {
            out.push(&Opt::DataChecksum(checksum::crc32c(payload)));
        }
        let part_open = self.state == State::PartOpen;
        let piggyback = room >= out.len() + MIN_FEEDBACK_ROOM && self.feedback_pending(now);
        let ack = (part_open || piggyback).then_some(self.numbers.gsr);
        if part_open {
            self.write_part_open_options(&mut out);
        }
        if ack.is_some() {
            self.write_feedback(now, seq, room, &mut out);
        }
        if payload.is_empty() {
            out.pad(room);
        }
        let ptype = if ack.is_some() { PacketType::DataAck } else { PacketType::Data };
        self.stats.data_sent += 1;
        self.emit(now, Fixed { ptype, seq, ack, reset: None }, out, payload, sink);
        seq
    }

    /// Skips a sequence number if a skip is due. To the peer, the skipped number looks like a lost packet
    /// without data (RFC 4340 section 7.7).
    fn skip_number(&mut self) {
        let vectors = self.halves.as_ref().is_some_and(|halves| !ccid::is_tfrc(halves.tx_ccid));
        if let Some(skipped) = self.skipped.as_mut().filter(|_| vectors && self.state == State::Open)
            && skipped.is_due(&mut self.rng)
        {
            skipped.note(self.numbers.take());
            self.ndp_run = self.ndp_run.saturating_add(1);
        }
    }

    /// Call this when the owner did not deliver the data of packet `seq`. A Data Dropped option reports this
    /// to the peer (RFC 4340 section 11.7, RFC 9897 section 3.6).
    pub fn report_dropped(&mut self, seq: Seq, code: DropCode) {
        self.drops.note(seq, code as u8);
    }

    /// Writes NDP Count on data, even if the count is zero, in its short form if possible. If a longer count
    /// does not fit the path MTU, writes 255 instead; at worst, the peer then suspects a loss of data that
    /// did not occur.
    fn write_ndp_slot(&mut self, room: usize, out: &mut OptionBuf) {
        if self.negotiated.ndp {
            let fits = room >= out.len() + NDP_SLOT + 5;
            let count = if fits { self.ndp_run } else { self.ndp_run.min(255) };
            out.push(&Opt::NdpCount(count));
        }
    }
}
