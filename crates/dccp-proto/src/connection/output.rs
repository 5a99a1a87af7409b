//! Output of non-data packets: handshake, Acks, Syncs, Close, Reset.

use super::outbox::{Control, NDP_ROOM, OutReset};
use super::*;
use crate::ccid::AckDue;
use crate::features::Moment;
use crate::{Ecn, Sink};
use dccp_wire::{Header, Opt, PacketType};

/// Length of the header of an Ack, and of a DataAck, with long sequence numbers (RFC 4340 section 5.1).
pub(super) const ACK_HEADER: usize = 24;

/// Length of the header of a Request (RFC 4340 section 5.1).
const REQUEST_HEADER: usize = 20;

/// Largest Sequence Window for which short sequence numbers are sent.
const SHORT_WINDOW: u64 = 1 << 16;

/// Maximum length of a Reset's Error Text, in bytes.
const MAX_ERROR_TEXT: usize = 255;

/// Returns the number of data bytes that a Checksum Coverage needs (RFC 4340 section 9.2).
fn least_covered(coverage: u8) -> usize {
    usize::from(coverage.saturating_sub(1)) * 4
}

/// Minimum time to wait for the answer to a path MTU probe.
const LEAST_ANSWER: Duration = Duration::from_millis(100);

/// Returns the Timestamp value for `now`, in wrapping units of 10 microseconds (RFC 4340 section 13.1).
pub(super) fn ticks(now: Time) -> u32 {
    (now.as_nanos() / 10_000) as u32
}

/// Fixed header fields set by the caller.
pub(super) struct Fixed {
    pub(super) ptype: PacketType,
    pub(super) seq: Seq,
    pub(super) ack: Option<Seq>,
    pub(super) reset: Option<Reset>,
}

impl Connection {
    /// Writes the non-data packets: handshake, Acks that are due, Syncs, Close, Reset. Returns true if it
    /// sent any packet.
    pub fn poll_transmit(&mut self, now: Time, sink: &mut dyn Sink) -> bool {
        let mut sent = false;
        if let Some(reset) = self.outbox.reset.take() {
            self.transmit_reset(now, reset, sink);
            sent = true;
        }
        if let Some(control) = self.outbox.control.take() {
            self.transmit_control(now, control, sink);
            sent = true;
        }
        if let Some(ack) = self.outbox.sync.take() {
            self.stats.syncs_sent += 1;
            self.transmit_plain(now, PacketType::Sync, ack, 0, sink);
            sent = true;
        }
        sent |= self.transmit_mtu_probe(now, sink);
        if let Some(ack) = self.outbox.sync_ack.take() {
            self.transmit_plain(now, PacketType::SyncAck, ack, 0, sink);
            sent = true;
        }
        // One Ack may not have room for all of the owner's options, so several Acks may be needed.
        for _ in 0..=MAX_OPTION_QUEUE {
            if !self.ack_due(now) {
                break;
            }
            self.transmit_ack(now, sink);
            sent = true;
        }
        if core::mem::take(&mut self.outbox.ask) && self.state == State::PartOpen {
            self.stats.syncs_sent += 1;
            self.transmit_plain(now, PacketType::Sync, self.numbers.gsr, 0, sink);
        }
        self.arm_feature_timer(now);
        sent
    }

    /// Returns whether feedback or another option requires an Ack now.
    pub(super) fn feedback_due(&self, now: Time) -> bool {
        self.outbox.ack
            || self.features.wants_to_write()
            || self.halves.as_ref().is_some_and(|h| match h.rx.ack_due(now) {
                AckDue::No => false,
                AckDue::At(at) => now >= at,
                AckDue::Now => true,
            })
    }

    /// Returns whether there is feedback that data can carry, even if the feedback could wait
    /// (RFC 4340 section 11.2).
    pub(super) fn feedback_pending(&self, now: Time) -> bool {
        self.feedback_due(now) || self.halves.as_ref().is_some_and(|h| h.rx.ack_due(now) != AckDue::No)
    }

    fn ack_due(&self, now: Time) -> bool {
        match self.state {
            // The owner's options wait for OPEN; in PARTOPEN, the owner uses Extra::HandshakeAck instead.
            State::PartOpen => self.feedback_due(now),
            State::Open => !self.outbox.options.is_empty() || self.feedback_due(now),
            _ => false,
        }
    }

    /// Returns the room for options on an Ack, in bytes. There is always enough for the shortest feedback,
    /// since feedback that never fits would stay due forever.
    pub(super) fn ack_room(&self) -> usize {
        let packet = usize::from(self.cfg.mtu).saturating_sub(usize::from(self.cfg.overhead));
        (packet.saturating_sub(ACK_HEADER) & !3).clamp(64, dccp_wire::MAX_OPTIONS)
    }

    fn transmit_ack(&mut self, now: Time, sink: &mut dyn Sink) {
        let seq = self.numbers.take();
        let room = self.ack_room();
        let mut out = self.start_options();
        if self.state == State::PartOpen {
            self.write_part_open_options(&mut out);
        } else {
            self.write_features(seq, &mut out);
            while let Some(options) = self.outbox.options.front() {
                if options.len() + NDP_ROOM > room {
                    // The MTU has shrunk since the owner queued these options. Drop them: an Ack waiting for
                    // enough room would stay due forever.
                    self.stats.options_dropped += 1;
                } else if out.len() + options.len() + NDP_ROOM > room || !out.extend(options) {
                    break;
                }
                self.outbox.options.pop_front();
            }
        }
        self.write_ndp(&mut out);
        // Leave half of the room for the feedback.
        if self.negotiated.timestamps && out.len() < room / 2 {
            out.push(&Opt::Timestamp(ticks(now)));
        }
        self.write_feedback(now, seq, room, &mut out);
        let fixed = Fixed { ptype: PacketType::Ack, seq, ack: Some(self.numbers.gsr), reset: None };
        self.emit(now, fixed, out, &[], sink);
    }

    fn write_features(&mut self, seq: Seq, out: &mut OptionBuf) {
        let moment = if self.state == State::PartOpen { Moment::Handshake } else { Moment::Established };
        if self.features.write(moment, seq, out) {
            // A new Change starts with a fresh timer interval instead of the backed-off interval of an older
            // Change.
            self.timers.feature = None;
        }
    }

    /// Writes the options that every packet in PARTOPEN needs (RFC 4340 section 8.1.5).
    pub(super) fn write_part_open_options(&mut self, out: &mut OptionBuf) {
        out.extend(&self.cookies);
        out.extend(self.extra(Extra::HandshakeAck));
    }

    /// Writes everything that an acknowledgement may carry. All options together take at most `room` bytes.
    pub(super) fn write_feedback(&mut self, now: Time, seq: Seq, room: usize, out: &mut OptionBuf) {
        self.outbox.acked_data |= !core::mem::take(&mut self.outbox.ack);
        self.write_features(seq, out);
        if self.slow_receiver {
            out.push(&Opt::SlowReceiver);
        }
        self.write_timestamp_echo(now, out);
        let ack = self.numbers.gsr;
        // Padding may take up to three more bytes.
        self.drops.write(seq, ack, room.saturating_sub(out.len()), out);
        if let Some(halves) = &mut self.halves {
            halves.rx.write_feedback(now, seq, ack, room.saturating_sub(out.len()), out);
        }
        if let Some(retransmit) = self.timers.retransmit.as_mut().filter(|_| self.state == State::PartOpen) {
            retransmit.restart(now);
        }
    }

    /// Echoes the peer's Timestamp, in the first packet sent after it arrived (RFC 4340 section 13.1).
    fn write_timestamp_echo(&mut self, now: Time, out: &mut OptionBuf) {
        if let Some((value, at)) = self.timestamp.take() {
            self.echo_after = now + self.rtt();
            let elapsed = u32::try_from(now.since(at).as_micros() / 10).unwrap_or(u32::MAX);
            out.push(&Opt::TimestampEcho(value, elapsed));
        }
    }

    fn transmit_control(&mut self, now: Time, control: Control, sink: &mut dyn Sink) {
        let seq = self.numbers.take();
        let mut out = self.start_options();
        let (ptype, extra, ack) = match control {
            Control::Request => (PacketType::Request, Extra::Request, None),
            Control::Response => (PacketType::Response, Extra::Response, Some(self.numbers.gsr)),
            Control::CloseReq => (PacketType::CloseReq, Extra::Close, Some(self.numbers.gsr)),
            Control::Close => (PacketType::Close, Extra::Close, Some(self.numbers.gsr)),
        };
        // Cookies are set only in PARTOPEN, but remain set if the connection was closed in PARTOPEN.
        out.extend(&self.cookies);
        out.extend(self.extra(extra));
        self.write_ndp(&mut out);
        match control {
            Control::Request => {
                self.requests_sent += 1;
                self.on_handshake_sent(now, seq);
                if self.cfg.timestamps {
                    out.push(&Opt::Timestamp(ticks(now)));
                }
                self.features.write(Moment::Request, seq, &mut out);
            }
            Control::Response => {
                self.last_response = seq;
                self.on_handshake_sent(now, seq);
                // A Linux client uses this echo to measure its first round-trip time. Without the echo, its
                // CCID 3 waits a second.
                self.write_timestamp_echo(now, &mut out);
                self.features.write(Moment::Handshake, seq, &mut out);
                self.drops.write(seq, self.numbers.gsr, out.room(), &mut out);
            }
            Control::CloseReq | Control::Close => {}
        }
        let early = match control {
            Control::Request | Control::Response => core::mem::take(&mut self.early_data),
            Control::CloseReq | Control::Close => Vec::new(),
        };
        if ptype == PacketType::Request {
            let least = usize::from(self.cfg.least_request);
            let padding = least.saturating_sub(REQUEST_HEADER + early.len() + out.len());
            out.extend(&alloc::vec![0; padding.min(out.room())]);
        }
        self.emit(now, Fixed { ptype, seq, ack, reset: None }, out, &early, sink);
        // Keep the data, because every retransmission carries it.
        self.early_data = early;
    }

    /// Sends a Sync of the size to probe. The application data that fills it has no meaning
    /// (RFC 4340 section 5.7).
    fn transmit_mtu_probe(&mut self, now: Time, sink: &mut dyn Sink) -> bool {
        let wanted = self.pmtu.as_ref().filter(|_| self.state == State::Open).and_then(|p| p.poll_probe(now));
        let Some(size) = wanted else { return false };
        let packet = usize::from(size).saturating_sub(self.cfg.overhead.into());
        self.stats.mtu_probes += 1;
        sink.separate(&self.route);
        let seq = self.transmit_plain(now, PacketType::Sync, self.numbers.gsr, packet, sink);
        sink.separate(&self.route);
        let answer = (self.rtt() * 3).max(LEAST_ANSWER);
        if let Some(pmtu) = &mut self.pmtu {
            pmtu.on_sent(now, seq, answer);
        }
        true
    }

    /// Sends a Sync or SyncAck, padded to a DCCP packet of `len` bytes.
    fn transmit_plain(
        &mut self,
        now: Time,
        ptype: PacketType,
        ack: Seq,
        len: usize,
        sink: &mut dyn Sink,
    ) -> Seq {
        let seq = self.numbers.take();
        if ptype == PacketType::Sync {
            self.last_sync = Some(seq);
        }
        let mut out = self.start_options();
        if self.state == State::PartOpen {
            // This packet may arrive before the Ack and move the server to OPEN, so it carries the same
            // options.
            self.write_part_open_options(&mut out);
            self.write_features(seq, &mut out);
        } else {
            out.extend(&self.cookies);
        }
        self.write_ndp(&mut out);
        if ptype == PacketType::SyncAck {
            self.answer_probe(now, seq, ack, &mut out);
        }
        let filling = len.saturating_sub(ACK_HEADER + out.len().next_multiple_of(4));
        let filling = alloc::vec![0; filling];
        self.emit(now, Fixed { ptype, seq, ack: Some(ack), reset: None }, out, &filling, sink);
        seq
    }

    /// Writes feedback on the SyncAck `seq`, because the sender of the Sync `ack` may not have received any
    /// acknowledgement of its packets. If later packets have arrived, an Ack follows instead, but only once
    /// per newest packet: if the other end finds Acks invalid, it answers each of them with a Sync. A SyncAck
    /// does not replace an Ack that is due for another reason.
    fn answer_probe(&mut self, now: Time, seq: Seq, ack: Seq, out: &mut OptionBuf) {
        let room = self.ack_room();
        let Some(halves) = self.halves.as_mut().filter(|h| ccid::needs_ack_vector(h.rx_ccid)) else { return };
        if ack != self.numbers.gsr {
            let before = self.followed.replace(self.numbers.gsr);
            self.outbox.ack |= self.state == State::Open && before != self.followed;
            return;
        }
        if self.slow_receiver {
            out.push(&Opt::SlowReceiver);
        }
        self.drops.write(seq, ack, room.saturating_sub(out.len()), out);
        halves.rx.write_feedback(now, seq, ack, room.saturating_sub(out.len()), out);
    }

    fn transmit_reset(&mut self, now: Time, reset: OutReset, sink: &mut dyn Sink) {
        let seq = reset.seq.unwrap_or_else(|| self.numbers.take());
        let mut out = self.start_options();
        out.extend(self.extra(Extra::Reset));
        self.write_ndp(&mut out);
        let fixed = Fixed { ptype: PacketType::Reset, seq, ack: Some(reset.ack), reset: Some(reset.reset) };
        let mut text = core::mem::take(&mut self.error_text);
        text.truncate(MAX_ERROR_TEXT);
        self.emit(now, fixed, out, &text, sink);
    }

    /// Takes the empty option buffer, which [`emit`](Self::emit) gives back.
    pub(super) fn start_options(&mut self) -> OptionBuf {
        let mut out = core::mem::take(&mut self.scratch);
        out.clear();
        out
    }

    /// Writes NDP Count if it is not zero (RFC 4340 section 7.7), on packets other than Data and DataAck.
    fn write_ndp(&mut self, out: &mut OptionBuf) {
        if self.negotiated.ndp && self.ndp_run > 0 {
            out.push(&Opt::NdpCount(self.ndp_run));
        }
    }

    /// Writes a packet to the sink. All packets leave the connection through here.
    pub(super) fn emit(
        &mut self,
        now: Time,
        fixed: Fixed,
        options: OptionBuf,
        payload: &[u8],
        sink: &mut dyn Sink,
    ) {
        let Fixed { ptype, seq, ack, reset } = fixed;
        let data = matches!(ptype, PacketType::Data | PacketType::DataAck);
        let header = Header {
            src_port: self.ports.local,
            dst_port: self.ports.remote,
            ccval: self.halves.as_ref().filter(|_| data).map_or(0, |h| h.tx.ccval(now)),
            cscov: if data && payload.len() >= least_covered(self.negotiated.coverage) {
                self.negotiated.coverage
            } else {
                0
            },
            ptype,
            // RFC 4340 section 7.6.2: short sequence numbers are not safe with large windows.
            short: self.negotiated.send_short && self.numbers.local_window <= SHORT_WINDOW,
            seq,
            ack,
            service_code: ptype.has_service_code().then_some(self.cfg.service_code),
            reset,
        };
        // RFC 4340 section 12: acknowledgements are also ECN-capable. RFC 8311 section 5 obsoletes the nonce,
        // so Acks always use ECT(0).
        let ecn = match &self.halves {
            _ if !self.negotiated.ect || self.ecn.failed() => Ecn::NotEct,
            Some(halves) if data => halves.tx.ecn(),
            _ if ptype == PacketType::Ack && self.ecn.acks() => Ecn::Ect0,
            _ => Ecn::NotEct,
        };
        let len = header.packet_len(options.len(), payload.len());
        let buf = sink.reserve(&self.route, ecn, len);
        header.emit(options.as_bytes(), buf).copy_from_slice(payload);
        self.scratch = options;

        self.ndp_run = if ptype.is_data() { 0 } else { self.ndp_run.saturating_add(1) };
        // A Reset ends the connection, so the halves need not know it. If it answers a packet, its number may
        // come from that packet (RFC 4340 section 8.3.1).
        if let Some(halves) = self.halves.as_mut().filter(|_| ptype != PacketType::Reset) {
            let bytes = u32::try_from(len).unwrap_or(u32::MAX).saturating_add(self.cfg.overhead.into());
            let payload = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            halves.tx.on_sent(now, seq, bytes, data.then_some(payload));
            if let Some(pmtu) =
                self.pmtu.as_mut().filter(|pmtu| payload == 0 && pmtu.looks(halves.tx.load().inflight))
            {
                pmtu.on_small(seq, halves.tx.view().delivered);
            }
        }
    }
}
