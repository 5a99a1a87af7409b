//! Handles packets of established subflows: their multipath options and data (RFC 9897 section 3.2).

use super::plausible::Judgement;
use super::private::Private;
use super::repair::MAX_WAIT;
use super::subflow::Stage;
use super::{MAX_DELIVERABLE, Session, SessionEvent, encode};
use crate::reorder::{Arrival, Back};
use crate::{Counter, PathId, PktInfo};
use alloc::vec::Vec;
use dccp_proto::{DropCode, Ecn, Outcome, Received};
use dccp_wire::{MpOption, Opt, Packet, PacketType, RttType, Seq};
use mpdccp_units::{Duration, Time};

/// Maximum number of options per packet that are read although they need confirmation. Any more are ignored,
/// because the peer repeats them and each may cost an HMAC.
const MAX_SIGNALS: usize = 8;

/// Longest MP_EXP value (RFC 9897 section 3.2.12), bytes.
const MAX_PRIVATE: usize = 252;

/// Maximum age of an RTT that the peer reports, milliseconds. Older RTTs are ignored.
const MAX_RTT_AGE: u32 = 10_000;

/// The multipath options of one packet.
#[derive(Default)]
struct Signals<'a> {
    mp_seq: Option<Seq>,
    /// The encoded distance to the previous packet of the flow.
    back: Option<u8>,
    /// If this is an FEC packet: the MP_SEQ of the newest protected packet, and the number of protected
    /// packets.
    fec: Option<(Seq, u8)>,
    /// Whether the packet belongs to the streams.
    stream: bool,
    /// Keys from MP_CLOSE, and from MP_FAST_CLOSE on a Reset with code 13.
    close: Option<&'a [u8]>,
    fast_close: Option<&'a [u8]>,
    unknown: bool,
    /// Whether some options need confirmation.
    confirmable: bool,
}

/// Returns the key in the first multipath option for which `of` returns one.
fn key_in<'a>(packet: &Packet<'a>, of: impl Fn(MpOption<'a>) -> Option<&'a [u8]>) -> Option<&'a [u8]> {
    packet.options().map_while(Result::ok).find_map(|option| match option {
        Opt::Mp(mp) => of(mp),
        _ => None,
    })
}

impl Session {
    /// Delivers the packets that are held behind missing ones.
    pub(crate) fn stop_holding(&mut self, now: Time) {
        if self.reorderer.occupancy_bytes() > 0 {
            self.count(Counter::HeldBeyondMemory);
            self.reorderer.restart(now);
        }
    }

    /// Handles a packet that arrived on one of the session's connections.
    pub(crate) fn handle_packet(&mut self, now: Time, path: PathId, ecn: Ecn, len: u32, packet: &Packet<'_>) {
        let Some(i) = self.index(path) else { return };
        let Some(conn) = &mut self.paths[i].conn else { return };
        let outcome = conn.handle_packet(now, ecn, len, packet);
        if let Some(text) = conn.error_text() {
            self.error_text = Some(text.into());
        }
        if let Some(data) = conn.take_early_data() {
            self.deliver_plain(&data);
        }
        if let Outcome::Received(received) = outcome {
            self.on_received(now, i, packet, &received);
        }
        self.after_input(now, i);
        self.check_end(now);
        self.forget_paths();
    }

    fn on_received(&mut self, now: Time, i: usize, packet: &Packet<'_>, received: &Received<'_>) {
        match (packet.header.ptype, self.paths[i].stage) {
            (PacketType::Request, _) => return,
            (PacketType::Response, Stage::KeySent) => return self.on_key_response(i, packet),
            (PacketType::Response, Stage::JoinSent { nonce }) => {
                return self.on_join_response(i, nonce, packet);
            }
            (PacketType::Response, _) => return,
            // RFC 9897 sections 3.2.3 and 3.2.11: the first MP_FAST_CLOSE or MP_CLOSE is valid on any
            // subflow, because its key is as good a proof as an HMAC.
            (PacketType::Reset, Stage::JoinAnswered { .. }) => {
                let key =
                    key_in(packet, |mp| if let MpOption::FastClose(key) = mp { Some(key) } else { None });
                if let (Some(key), Some(reset)) = (key, received.reset) {
                    self.on_mp_fast_close(reset.code, key);
                }
                return;
            }
            (_, Stage::JoinAnswered { tag }) if !self.prove_join(now, i, &tag, packet) => {
                let key = key_in(packet, |mp| if let MpOption::Close(key) = mp { Some(key) } else { None });
                return key.map_or((), |key| self.on_mp_close(now, packet.header.ptype, key));
            }
            _ => {}
        }
        if !self.multipath {
            if let Some(data) = received.data
                && !self.deliver_plain(data)
                && let Some(conn) = &mut self.paths[i].conn
            {
                // RFC 4340 section 11.7.2: data that a full buffer cannot take is reported.
                conn.report_dropped(received.seq, DropCode::ReceiveBuffer);
            }
            return;
        }
        let signals = self.read_options(now, i, packet);
        let number = signals.mp_seq.or(signals.fec.map(|(newest, _)| newest));
        if let (Some(mp_seq), Some(_)) = (number, received.data)
            && !self.believes(now, mp_seq)
        {
            return self.count(Counter::ImplausibleMpSeq);
        }
        if let (true, Some(mp_seq)) = (signals.confirmable, signals.mp_seq) {
            self.on_confirmable(now, i, mp_seq, packet);
        } else if signals.confirmable {
            self.count(Counter::OptionWithoutMpSeq);
        }
        match received.data {
            Some(data) => self.on_data(now, i, data, received, &signals),
            None => self.reorderer.on_other(now, self.paths[i].id, received.seq, received.ndp, false),
        }
        if let Some(key) = signals.close {
            self.on_mp_close(now, packet.header.ptype, key);
        }
        if let (Some(key), Some(reset)) = (signals.fast_close, received.reset) {
            self.on_mp_fast_close(reset.code, key);
        }
    }

    /// Returns whether a data packet's MP_SEQ is plausible.
    fn believes(&mut self, now: Time, mp_seq: Seq) -> bool {
        match self.plausible.judge(mp_seq) {
            Judgement::Fits => true,
            Judgement::Doubtful => false,
            Judgement::Moved => {
                self.reorderer.restart(now);
                self.count(Counter::MpSeqMoved);
                true
            }
        }
    }

    fn read_options<'a>(&mut self, now: Time, i: usize, packet: &Packet<'a>) -> Signals<'a> {
        let mut signals = Signals::default();
        for option in packet.options().map_while(Result::ok) {
            match option {
                Opt::Mp(MpOption::Seq(seq)) => signals.mp_seq = signals.mp_seq.or(Some(seq)),
                Opt::Mp(MpOption::Confirm(list)) => self.on_confirm(list),
                Opt::Mp(MpOption::Rtt { kind, rtt_ms, age_ms }) => {
                    // Ignore the all-time minimum and maximum, and old values, which say little about the
                    // present. RFC 9897 section 3.2.7: a peer that has not measured anything may send an age
                    // of 0, so ignore an RTT of 0.
                    let current = matches!(kind, RttType::Raw | RttType::Smooth) && age_ms <= MAX_RTT_AGE;
                    let rtt = Duration::from_millis(u64::from(rtt_ms));
                    let known = Some(rtt).filter(|_| current && rtt_ms > 0);
                    self.reorderer.on_path(self.paths[i].id, known, self.paths[i].is_up());
                }
                Opt::Mp(MpOption::AddAddr { .. } | MpOption::RemoveAddr { .. } | MpOption::Prio(_)) => {
                    signals.confirmable = true;
                }
                Opt::Mp(MpOption::Close(key)) => signals.close = Some(key),
                Opt::Mp(MpOption::FastClose(key)) => signals.fast_close = Some(key),
                Opt::Mp(MpOption::Unknown(..)) => signals.unknown = true,
                Opt::Mp(MpOption::Exp(&[])) if self.streams.is_some() => signals.stream = true,
                Opt::Mp(MpOption::Exp(&[back])) if self.peer_is_ours && self.cfg.flow_order => {
                    signals.back = Some(back);
                }
                Opt::Mp(MpOption::Exp(bytes)) => match Private::read(bytes) {
                    Some(Private::Fec(newest, count)) if self.fec.on => signals.fec = Some((newest, count)),
                    _ => self.on_private(now, i, bytes),
                },
                // An HMAC is read together with the option before it, and ignored if there is no such option
                // (RFC 9897 section 3.2.6).
                Opt::Mp(MpOption::Hmac(_)) => {}
                Opt::Mp(MpOption::Join { .. } | MpOption::Key { .. }) => {
                    self.count(Counter::HandshakeOptionLate)
                }
                // RFC 4340 section 5.8: a malformed option is ignored. Only during the handshake does it end
                // the subflow, and only if the negotiation is incomplete without this option.
                Opt::Invalid(46, _) => self.count(Counter::MalformedMpOption),
                _ => {}
            }
        }
        signals
    }

    fn on_private(&mut self, now: Time, i: usize, bytes: &[u8]) {
        match Private::read(bytes).filter(|_| self.peer_is_ours) {
            Some(Private::Repair(wait)) => self.reorderer.on_repair(wait.min(MAX_WAIT)),
            Some(Private::Suspect(theirs, ours)) => self.suspect_paths(now, i, ours, theirs),
            Some(Private::Hello { .. } | Private::Name(_) | Private::Fec(..)) => {}
            None if !self.cfg.private_options || Private::is_ours(bytes) => self.count(Counter::MpExpIgnored),
            None => self.events.push_back(SessionEvent::Private(self.paths[i].id, bytes.to_vec())),
        }
    }

    /// Sends an application's option (MP_EXP) on the next Ack of a path that is up. The option may be lost.
    pub(crate) fn send_private(&mut self, bytes: &[u8]) -> bool {
        // A one-byte value is reserved for the distance to the flow's previous packet.
        if !self.multipath || !(2..=MAX_PRIVATE).contains(&bytes.len()) || Private::is_ours(bytes) {
            return false;
        }
        let path = self.paths.iter_mut().find(|p| p.is_up()).and_then(|p| p.conn.as_mut());
        path.map(|conn| conn.send_options(encode(&[MpOption::Exp(bytes)]).as_bytes())).is_some()
    }

    /// Handles MP_PRIO, MP_ADDADDR and MP_REMOVEADDR in a second pass, because they need the packet's MP_SEQ.
    /// Few packets have these options.
    fn on_confirmable(&mut self, now: Time, i: usize, mp_seq: Seq, packet: &Packet<'_>) {
        let mut options = packet.options().map_while(Result::ok).peekable();
        let (mut read, mut confirmed): (usize, Vec<MpOption<'_>>) = (0, Vec::new());
        while let Some(option) = options.next() {
            let Opt::Mp(option) = option else { continue };
            let tag = match options.peek() {
                Some(Opt::Mp(MpOption::Hmac(tag))) => Some(*tag),
                _ => None,
            };
            let counts =
                matches!(option, MpOption::AddAddr { .. } | MpOption::RemoveAddr { .. } | MpOption::Prio(_));
            if counts && read == MAX_SIGNALS {
                self.count(Counter::TooManyOptions);
                break;
            }
            read += usize::from(counts);
            let confirm = match option {
                MpOption::AddAddr { addr_id, nonce, addr, port } => {
                    self.on_add_addr((now, i), mp_seq, addr_id, nonce, (addr, port), tag)
                }
                MpOption::RemoveAddr { addr_id, nonce } => {
                    self.on_remove_addr(now, i, mp_seq, addr_id, nonce, tag)
                }
                MpOption::Prio(prio) => self.on_prio(i, mp_seq, prio),
                _ => false,
            };
            if confirm {
                confirmed.push(option);
            }
        }
        if !confirmed.is_empty() {
            self.confirm(i, mp_seq, &confirmed);
        }
    }

    fn on_data(&mut self, now: Time, i: usize, data: &[u8], received: &Received<'_>, signals: &Signals<'_>) {
        if let Some((newest, count)) = signals.fec {
            return self.on_fec(now, i, newest, count, data, received);
        }
        let Some(mp_seq) = signals.mp_seq else {
            if signals.stream {
                return self.on_stream_packet(now, i, data, received);
            }
            // RFC 9897 section 3.2.5: data must have an MP_SEQ.
            return self.count(Counter::DataWithoutMpSeq);
        };
        if signals.unknown {
            // RFC 9897 section 3.6: such data is dropped and reported as corrupt.
            if let Some(conn) = &mut self.paths[i].conn {
                conn.report_dropped(received.seq, DropCode::Corrupt);
            }
            return self.count(Counter::UnknownMpOption);
        }
        self.paths[i].data_at = now;
        let path = self.paths[i].id;
        let back = signals.back.and_then(Back::read);
        let flow = back.map_or(0, |_| PktInfo::of_ip(data, self.flow_key).flow);
        let arrival = Arrival { mp_seq, path, path_seq: Some(received.seq), ndp: received.ndp, flow, back };
        let copy = self.blocks.copy(data);
        self.reorderer.push(now, arrival, copy);
        self.follow_fec(now, path, mp_seq, signals.back.unwrap_or(0), data);
    }

    /// Queues data for the application. Returns false if the queue is full.
    pub(super) fn deliver_plain(&mut self, data: &[u8]) -> bool {
        let fits = self.delivered.len() < MAX_DELIVERABLE;
        if fits {
            self.delivered.push_back(self.blocks.copy(data));
        } else {
            self.count(Counter::NotFetchedByApplication);
        }
        fits
    }
}
