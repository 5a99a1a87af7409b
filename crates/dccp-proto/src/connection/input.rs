//! Receiving, in the order of RFC 4340 section 8.5.

use super::options::{self, Seen};
use super::outbox::{Control, OutReset};
use super::refuse::reset_numbers;
use super::types::DropCode;
use super::validity::Validity;
use super::*;
use crate::Ecn;
use crate::ccid;
use crate::ccid::{Arrival, Feedback, SenderRequest};
use dccp_wire::{Packet, PacketType, ResetCode};

/// Minimum mean interval between Syncs, or between Resets in REQUEST, TIMEWAIT and CLOSED.
const ANSWER_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of Syncs or Resets in a burst, because resynchronising needs several. With the interval
/// above, at most eight leave in any second (RFC 4340 section 7.5.4).
const ANSWER_BURST: u32 = 4;
/// Maximum number of bytes kept of the peer's Error Text.
const MAX_PEER_TEXT: usize = 512;
/// Maximum number of bytes of Init Cookies that this end echoes. More would leave no room for other handshake
/// options.
const MAX_COOKIES: usize = 512;
/// Type of the Init Cookie option (RFC 4340 section 8.1.4).
const INIT_COOKIE: u8 = 36;
/// Maximum number of requests of the sending half handled in one call.
const MAX_REQUESTS: usize = 8;
/// A Request that is at most this far behind a received one counts as a reordered Request of the same client
/// and is not answered with a Sync. If the client is still waiting for the Response, it would take the Sync
/// for a sign of a half-open connection, and would reset this connection (RFC 4340 section 8.5, step 4).
const OVERTAKEN: i64 = 16;

impl Connection {
    /// Handles a parsed packet for this connection (RFC 4340 section 8.5). `len` is its length as an IP
    /// packet.
    pub fn handle_packet<'a>(&mut self, now: Time, ecn: Ecn, len: u32, packet: &Packet<'a>) -> Outcome<'a> {
        let outcome = match self.receive(now, ecn, len, packet) {
            Ok(received) => Outcome::Received(received),
            Err(reason) => {
                self.count_drop(reason);
                Outcome::Dropped(reason)
            }
        };
        self.watch_mtu(now);
        self.serve_sender();
        self.arm_feature_timer(now);
        outcome
    }

    fn receive<'a>(
        &mut self,
        now: Time,
        ecn: Ecn,
        len: u32,
        packet: &Packet<'a>,
    ) -> Result<Received<'a>, DropReason> {
        let header = &packet.header;
        let ptype = header.ptype;
        if ptype == PacketType::Listen {
            self.on_listen(now, header.service_code);
            return Err(DropReason::Listen);
        }
        // Step 2: without a connection, answer with a Reset.
        if matches!(self.state, State::TimeWait | State::Closed) {
            if ptype != PacketType::Reset && self.outbox.reset.is_none() && self.may_answer(now) {
                let (seq, ack) = reset_numbers(packet);
                let reset = Reset { code: ResetCode::NoConnection, data: [0; 3] };
                self.outbox.reset = Some(OutReset { reset, seq: Some(seq), ack });
            }
            return Err(DropReason::Closed);
        }
        // Step 4: in REQUEST, set up the windows. This comes before the check of short sequence numbers, so
        // that a half-open connection that sends them is reset, too.
        let in_request = self.state == State::Request;
        if in_request {
            self.prepare_request_state(now, packet)?;
        }
        let (seq, ack) = if header.short {
            // Step 6, first part: short sequence numbers are valid only if they were negotiated.
            if !self.negotiated.short {
                return Err(DropReason::ShortSeqno);
            }
            self.numbers.extend(header.seq, header.ack)
        } else {
            (header.seq, header.ack)
        };
        if !in_request {
            self.check_numbers(now, ptype, seq, ack)?;
        }
        let gar = self.numbers.gar;
        self.numbers.accept(ptype, seq, ack);
        self.last_valid = now;
        if self.numbers.gar != gar {
            self.last_answered = now;
        }
        self.check_type(now, ptype, seq)?;

        // Step 8: process the options.
        let read = options::read(packet, seq, ack, self.cfg.multipath, &mut self.features);
        let seen = read.map_err(|reset| {
            self.fail(reset);
            DropReason::BadOption
        })?;
        if seen.features {
            self.apply_features(now);
        }
        // Step 9: process a Reset.
        if let Some(reset) = header.reset.filter(|_| ptype == PacketType::Reset) {
            self.on_reset(now, reset);
            // RFC 4340 section 5.6: the application data area of a Reset has Error Text.
            let text = packet.payload.get(..packet.payload.len().min(MAX_PEER_TEXT)).unwrap_or_default();
            self.peer_error_text = (!text.is_empty()).then(|| String::from_utf8_lossy(text).into_owned());
            return Ok(Received { data: None, corrupt: false, seq, ndp: seen.ndp, reset: Some(reset) });
        }
        self.advance_handshake(now, packet, seq, ack, &seen);
        self.feed_halves(now, ecn, len, packet, seq, ack, &seen)?;
        // Steps 13 to 15: process CloseReq, Close and Sync.
        match ptype {
            PacketType::CloseReq => self.on_close_req(now),
            PacketType::Close => self.on_close(),
            PacketType::Sync => self.outbox.sync_ack = Some(seq),
            PacketType::SyncAck => {
                if let (Some(pmtu), Some(ack)) = (&mut self.pmtu, ack) {
                    pmtu.on_sync_ack(now, ack);
                }
            }
            _ => {}
        }
        let (data, corrupt) = self.accept_data(packet, seq, &seen);
        Ok(Received { data, corrupt, seq, ndp: seen.ndp, reset: None })
    }

    /// Step 4 of RFC 4340 section 8.5: in REQUEST, only a Response or a Reset is valid, and it must
    /// acknowledge our Request.
    fn prepare_request_state(&mut self, now: Time, packet: &Packet<'_>) -> Result<(), DropReason> {
        let header = &packet.header;
        let (low, high) = (self.numbers.awl(), self.numbers.awh());
        let acks_us = header.ack.is_some_and(|ack| ack.within(low, high));
        match header.ptype {
            PacketType::Response | PacketType::Reset if acks_us => {
                // RFC 4340 section 5.3: the Service Code of a Response must equal that of the Request.
                if header.service_code.is_some_and(|code| code != self.cfg.service_code) {
                    self.answer_packet_error(now, packet);
                    return Err(DropReason::UnexpectedType);
                }
                self.numbers.set_isr(header.seq);
                Ok(())
            }
            ptype => {
                self.answer_packet_error(now, packet);
                Err(match ptype {
                    PacketType::Response | PacketType::Reset => DropReason::AckInvalid,
                    _ => DropReason::UnexpectedType,
                })
            }
        }
    }

    /// Sends a Reset from REQUEST to end a half-open connection at the peer (RFC 4340 section 7.5.6). Our
    /// sequence numbers mean nothing to that connection, so the Reset derives its numbers from the peer's
    /// packet (section 8.3.1). A Reset is never answered.
    fn answer_packet_error(&mut self, now: Time, packet: &Packet<'_>) {
        let ptype = packet.header.ptype;
        if ptype != PacketType::Reset && self.may_answer(now) {
            let reset = Reset { code: ResetCode::PacketError, data: [ptype.number(), 0, 0] };
            let (seq, ack) = reset_numbers(packet);
            self.outbox.reset = Some(OutReset { reset, seq: Some(seq), ack });
        }
    }

    /// Steps 5 and 6 of RFC 4340 section 8.5: checks the Sequence Number and the Acknowledgement Number.
    fn check_numbers(
        &mut self,
        now: Time,
        ptype: PacketType,
        seq: Seq,
        ack: Option<Seq>,
    ) -> Result<(), DropReason> {
        let sync = matches!(ptype, PacketType::Sync | PacketType::SyncAck);
        // RFC 4340 section 7.5.3: the connection counts as active if a valid packet has arrived within the
        // last three round-trip times.
        let active = sync && now.since(self.last_valid) <= self.rtt() * 3;
        let reason = match self.numbers.check(ptype, seq, ack, active) {
            Validity::Valid => return Ok(()),
            Validity::BadSeq => DropReason::SequenceInvalid,
            Validity::BadAck => DropReason::AckInvalid,
        };
        let behind = self.numbers.gsr.diff(seq);
        let overtaken =
            self.state == State::Respond && ptype == PacketType::Request && (1..=OVERTAKEN).contains(&behind);
        if !sync && !overtaken {
            // RFC 4340 section 7.5.4: a Sync sent in answer to an invalid Reset acknowledges GSR, because the
            // Reset's Sequence Number may be forged.
            self.send_sync(now, if ptype == PacketType::Reset { self.numbers.gsr } else { seq });
        }
        Err(reason)
    }

    /// Step 7 of RFC 4340 section 8.5: checks the packet type.
    fn check_type(&mut self, now: Time, ptype: PacketType, seq: Seq) -> Result<(), DropReason> {
        let open = !matches!(self.state, State::Request | State::Respond | State::PartOpen);
        let late = open && !seq.before(self.numbers.osr);
        let unexpected = match ptype {
            PacketType::CloseReq => self.is_server,
            PacketType::Response => self.is_server || late,
            PacketType::Request => !self.is_server || late,
            PacketType::Data => self.state == State::Respond,
            _ => false,
        };
        if unexpected {
            self.send_sync(now, seq);
            return Err(DropReason::UnexpectedType);
        }
        Ok(())
    }

    fn send_sync(&mut self, now: Time, ack: Seq) {
        if self.may_answer(now) {
            self.outbox.sync = Some(ack);
        }
    }

    /// Takes a token from the bucket that rate-limits answers. Returns false if the bucket is empty.
    fn may_answer(&mut self, now: Time) -> bool {
        let full_at = self.answers_full_at.max(now);
        let may = full_at.since(now) <= ANSWER_INTERVAL.saturating_mul(ANSWER_BURST - 1);
        if may {
            self.answers_full_at = full_at + ANSWER_INTERVAL;
        }
        may
    }

    /// Steps 10 to 12 of RFC 4340 section 8.5: advances the handshake.
    fn advance_handshake(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        seq: Seq,
        ack: Option<Seq>,
        seen: &Seen<'_>,
    ) {
        let ptype = packet.header.ptype;
        match (self.state, ptype) {
            (State::Request, _) if seen.cookies.len() > MAX_COOKIES => {
                self.fail(Reset { code: ResetCode::OptionError, data: [INIT_COOKIE, 0, 0] });
            }
            (State::Request, _) => {
                self.cookies.clone_from(&seen.cookies);
                self.take_handshake_data(packet, seen);
                // RFC 4340 section 13.3: the echo of our Timestamp is the only way to learn how long the
                // server held the Request.
                self.enter_part_open(
                    now,
                    ack,
                    if self.cfg.timestamps { seen.elapsed } else { Duration::ZERO },
                );
            }
            (State::Respond, PacketType::Request) => {
                if !self.cfg.early_data {
                    self.take_handshake_data(packet, seen);
                } else if seq != self.numbers.isr && !packet.payload.is_empty() && !seen.corrupt {
                    // RFC 4340 section 8.1.3: the data of a repeated Request is reported as dropped.
                    self.report_dropped(seq, DropCode::ProtocolConstraints);
                }
                self.outbox.control = Some(Control::Response);
            }
            (State::Respond, _) => self.enter_open(now, seq, ack),
            (State::PartOpen, PacketType::Response) => {
                // RFC 4340 section 8.1.4: our packets will acknowledge this Response, so they must carry its
                // cookies.
                if seq == self.numbers.gsr && seen.cookies.len() <= MAX_COOKIES {
                    self.cookies.clone_from(&seen.cookies);
                }
                self.outbox.ack = true;
            }
            (State::PartOpen, PacketType::Sync) => {}
            (State::PartOpen, _) => self.enter_open(now, seq, ack),
            // Answer an Ack that acknowledges nothing newer than our Response or our last Sync: its sender is
            // probably still in PARTOPEN and retransmitting its handshake Ack. A client past PARTOPEN
            // acknowledges our last Sync only until it receives another packet.
            (State::Open, PacketType::Ack) if self.is_server => {
                self.outbox.ack |=
                    ack.is_some_and(|ack| !ack.after(self.last_response) || Some(ack) == self.last_sync);
            }
            _ => {}
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn feed_halves(
        &mut self,
        now: Time,
        ecn: Ecn,
        len: u32,
        packet: &Packet<'_>,
        seq: Seq,
        ack: Option<Seq>,
        seen: &Seen<'_>,
    ) -> Result<(), DropReason> {
        if seen.slow_receiver {
            self.stats.slow_receiver += 1;
        }
        // RFC 4340 section 13.1: echo a Timestamp with the next packet, but only once per round trip.
        if let Some(value) = seen.timestamp.filter(|_| now >= self.echo_after) {
            self.timestamp = Some((value, now));
        }
        let ptype = packet.header.ptype;
        let Some(halves) = &mut self.halves else { return Ok(()) };
        let data = matches!(ptype, PacketType::Data | PacketType::DataAck);
        // RFC 4340 section 11.7: corrupt data counts as marked. With TFRC, this receiver counts the mark;
        // otherwise, the sender counts it when Data Dropped arrives.
        let marked = seen.corrupt && ccid::is_tfrc(halves.rx_ccid);
        let arrival = Arrival {
            seq,
            ecn: if marked { Ecn::Ce } else { ecn },
            data,
            ccval: packet.header.ccval,
            ndp: seen.ndp,
            bytes: len,
            payload: if data { u32::try_from(packet.payload.len()).unwrap_or(u32::MAX) } else { 0 },
        };
        halves.rx.on_packet(now, &arrival);
        halves.tx.on_peer_packet(now, &arrival);
        if data && self.cfg.ecn && self.ecn.on_data(ecn) {
            self.features.change(feature::ECN_INCAPABLE, Side::Local, &[1], false);
        }
        // RFC 4340 section 11.6: Slow Receiver is valid on any packet.
        if seen.slow_receiver {
            halves.tx.on_slow_receiver(now, 0);
        }
        // RFC 4340 section 5.7: a Sync's Acknowledgement Number does not acknowledge anything. The packet
        // that a Response acknowledges was sent before the half-connections existed.
        let Some(ack) = ack.filter(|_| !matches!(ptype, PacketType::Sync | PacketType::Response)) else {
            return Ok(());
        };
        let feedback = Feedback {
            ack,
            vector: &seen.vector,
            elapsed: seen.elapsed,
            timestamp: seen.timestamp,
            options: if seen.for_ccid { packet.option_bytes } else { &[] },
        };
        // RFC 4340 section 12.3: a receiver that acknowledges a skipped sequence number is lying.
        if self.skipped.as_mut().is_some_and(|skipped| skipped.is_acknowledged(&feedback)) {
            self.error_text = b"an acknowledgement covers packets that were never sent".into();
            self.fail(Reset { code: ResetCode::AggressionPenalty, data: [0; 3] });
            return Err(DropReason::NeverSent);
        }
        self.drops.on_ack(&feedback);
        let buffer_drops = self.peer_drops.learn(ack, &seen.dropped);
        if buffer_drops > 0 {
            halves.tx.on_slow_receiver(now, buffer_drops);
        }
        halves.tx.on_feedback(now, &feedback);
        halves.rx.on_ack_of_ack(now, &feedback);
        let view = halves.tx.view();
        if let Some(rtt) = view.rtt.srtt() {
            halves.rx.on_rtt(rtt);
        }
        if let Some(pmtu) = &mut self.pmtu {
            pmtu.on_answer(now, ack, view.delivered);
        }
        self.ecn.on_feedback(&view);
        Ok(())
    }

    /// Step 16 of RFC 4340 section 8.5: returns the data, or `None` if it must not be delivered. The second
    /// value is true if the data is corrupt but the owner accepts corrupt data.
    pub(super) fn accept_data<'a>(
        &mut self,
        packet: &Packet<'a>,
        seq: Seq,
        seen: &Seen<'_>,
    ) -> (Option<&'a [u8]>, bool) {
        let is_data = matches!(packet.header.ptype, PacketType::Data | PacketType::DataAck);
        // RFC 4340 section 9.3: the Data Checksum is verified on every packet that carries it.
        let corrupt = seen.corrupt;
        let refused = if corrupt && !(is_data && self.cfg.take_corrupt) {
            Some((DropReason::DataChecksum, DropCode::Corrupt))
        } else if !is_data {
            None
        } else if self.covers_too_little(packet.header.cscov) {
            Some((DropReason::Coverage, DropCode::ProtocolConstraints))
        } else if !self.negotiated.may_accept {
            Some((DropReason::DataNotAllowed, DropCode::ProtocolConstraints))
        } else {
            None
        };
        if let Some((reason, code)) = refused {
            self.count_drop(reason);
            self.report_dropped(seq, code);
            return (None, false);
        }
        if !is_data || self.state == State::Closed {
            return (None, false);
        }
        if corrupt {
            self.report_dropped(seq, DropCode::DeliveredCorrupt);
        }
        self.stats.data_received += 1;
        self.stats.bytes_received += packet.payload.len() as u64;
        (Some(packet.payload), corrupt)
    }

    /// Returns whether data with this checksum coverage must be dropped (RFC 4340 section 9.2.1).
    pub(super) fn covers_too_little(&self, coverage: u8) -> bool {
        coverage != 0 && (self.negotiated.min_coverage == 0 || coverage < self.negotiated.min_coverage)
    }

    /// Carries out what the sending half requests.
    pub(super) fn serve_sender(&mut self) {
        let Some(halves) = &mut self.halves else { return };
        let mut window = false;
        for _ in 0..MAX_REQUESTS {
            let Some(request) = halves.tx.poll_request() else { break };
            match request {
                SenderRequest::AckRatio(ratio) => {
                    self.features.change(feature::ACK_RATIO, Side::Local, &[ratio.into()], false);
                }
                SenderRequest::SequenceWindow(width) => {
                    let width = width.max(self.cfg.seq_window).clamp(32, (1 << 46) - 1);
                    self.features.change(feature::SEQUENCE_WINDOW, Side::Local, &[width], false);
                    window = true;
                }
                // If a Sync is already queued to resynchronise, it also asks for an acknowledgement.
                SenderRequest::Probe => {
                    self.outbox.sync.get_or_insert(self.numbers.gsr);
                }
                // An acknowledgement of the peer's data also acknowledges the peer's Acks
                // (RFC 4340 section 11.1, RFC 4341 section 6.2).
                SenderRequest::AckPeer => self.outbox.ack |= !core::mem::take(&mut self.outbox.acked_data),
            }
        }
        if window {
            self.apply_local_window();
        }
    }
}
