//! Sending application data.

use super::output::{ACK_HEADER, Fixed};
use super::pmtu::BASE;
use super::*;
use crate::{Gate, Sink, Why};
use dccp_wire::{Opt, PacketType, checksum};

/// Header of Data with long sequence numbers (RFC 4340 section 5.1).
const DATA_HEADER: usize = 16;
/// NDP Count with a one-byte count: its fixed slot on data packets, so that headers stay equal in size.
const NDP_SLOT: usize = 3;
/// Data Checksum (RFC 4340 section 9.3).
const CHECKSUM_LEN: usize = 6;
/// Feedback rides on data only where this many bytes of options are left; elsewhere it takes an Ack of its own
/// (RFC 4340 section 11.2), for a shortened Ack Vector is worse than a small packet.
/// Nine loss intervals of CCID 4 fit (RFC 4342 section 8.6.1).
const MIN_FEEDBACK_ROOM: usize = 132;

impl Connection {
    /// Whether a data packet may leave now.
    pub fn gate(&self, now: Time) -> Gate {
        if self.peer_drops.not_listening {
            return Gate::Closed(Why::NotListening);
        }
        match (self.state, &self.halves) {
            (State::CloseReq | State::Closing | State::TimeWait | State::Closed, _) => {
                Gate::Closed(Why::Closing)
            }
            // RFC 9897 section 3.3: a multipath client waits for the Ack that makes it OPEN.
            (State::PartOpen, _) if self.is_multipath() => Gate::Closed(Why::Handshake),
            (State::PartOpen | State::Open, Some(halves)) if self.negotiated.may_send => halves.tx.gate(now),
            _ => Gate::Closed(Why::Handshake),
        }
    }

    /// Largest payload beside `options` bytes of the owner's options, now: in PARTOPEN only DataAck may be sent (RFC 4340
    /// section 8.1.5), with room for what such packets carry.
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

    /// Largest payload beside `options` bytes of the owner's options, in OPEN, once a probe of that size was answered.
    pub fn max_payload_open(&self, options: usize) -> usize {
        self.room_for_payload(self.cfg.mtu, DATA_HEADER, options)
    }

    /// As [`max_payload`](Self::max_payload), but no more than nearly every path carries while packets of the size in use seem to get lost.
    pub fn sure_payload(&self, options: usize) -> usize {
        self.payload_now(self.pmtu.as_ref().map_or_else(|| self.known_mtu(), |pmtu| pmtu.sure()), options)
    }

    /// A size may be too large until a probe of it is answered.
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

    /// Sends one data packet with `options` (encoded, the owner's) first. Call only while [`gate`](Self::gate) is open and with
    /// `payload` within [`max_payload`](Self::max_payload). A packet without a payload is filled with padding: it only shows what the path
    /// carries. Feedback never rides on a packet it would make longer than the path MTU.
    pub fn transmit(&mut self, now: Time, options: &[u8], payload: &[u8], sink: &mut dyn Sink) -> Seq {
        self.skip_number();
        self.pmtu.iter_mut().for_each(|pmtu| pmtu.on_data(now));
        let seq = self.numbers.take();
        let packet = usize::from(self.cfg.mtu).saturating_sub(usize::from(self.cfg.overhead));
        // Option bytes of a DataAck that stays within the path MTU.
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

    /// Leaves a number out, if its time has come. To the peer a packet without data is missing (RFC 4340 section 7.7).
    fn skip_number(&mut self) {
        let vectors = self.halves.as_ref().is_some_and(|halves| !ccid::is_tfrc(halves.tx_ccid));
        if let Some(skipped) = self.skipped.as_mut().filter(|_| vectors && self.state == State::Open)
            && skipped.is_due(&mut self.rng)
        {
            skipped.note(self.numbers.take());
            self.ndp_run = self.ndp_run.saturating_add(1);
        }
    }

    /// The owner did not deliver the data of packet `seq`: the peer is told with Data Dropped (RFC 4340 section 11.7, RFC 9897 section 3.6).
    pub fn report_dropped(&mut self, seq: Seq, code: DropCode) {
        self.drops.note(seq, code as u8);
    }

    /// NDP Count on data is always there, zero too, in its short form where possible. A longer count that would not fit the path MTU
    /// is cut to 255: the peer then at worst suspects a loss of data that was none.
    fn write_ndp_slot(&mut self, room: usize, out: &mut OptionBuf) {
        if self.negotiated.ndp {
            let fits = room >= out.len() + NDP_SLOT + 5;
            let count = if fits { self.ndp_run } else { self.ndp_run.min(255) };
            out.push(&Opt::NdpCount(count));
        }
    }
}
