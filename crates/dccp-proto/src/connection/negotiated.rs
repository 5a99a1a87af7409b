//! What negotiation means for the packets we send and accept, and for the two half-connections.

use super::halves::{Halves, Negotiated};
use super::*;
use crate::ccid::{self, HalfConfig, Handover};
use dccp_wire::ResetCode;
use rand_core::RngCore;

impl Connection {
    /// The CCIDs in force: ours, the peer's.
    fn negotiated_ccids(&self) -> (u8, u8) {
        let ccid = |side| u8::try_from(self.features.value(feature::CCID, side)).unwrap_or(0);
        (ccid(Side::Local), ccid(Side::Remote))
    }

    /// (Re)creates the half-connections for the CCIDs in force. The first packet they see from the peer is the newest valid one.
    pub(super) fn make_halves(&mut self, now: Time) {
        let (tx_ccid, rx_ccid) = self.negotiated_ccids();
        let common = HalfConfig {
            mtu: self.cfg.mtu,
            first_seq: self.numbers.gss.next(),
            cc: self.cfg.cc,
            seed: self.rng.next_u64(),
            handshake_rtt: self.handshake_rtt,
            now,
        };
        let tx = ccid::sender(tx_ccid, &common);
        let rx = ccid::receiver(rx_ccid, &HalfConfig { first_seq: self.numbers.gsr, ..common });
        let (Some(tx), Some(rx)) = (tx, rx) else {
            // RFC 4340 section 10: no CCID both know, and our Mandatory was disregarded.
            self.fail(Reset { code: ResetCode::MandatoryError, data: [0; 3] });
            return;
        };
        // New halves start from the initial values of the features.
        self.halves = Some(Halves {
            tx,
            rx,
            tx_ccid,
            rx_ccid,
            ack_ratio: 2,
            peer_ack_ratio: 2,
            send_ack_vector: false,
        });
        self.apply_features(now);
    }

    /// Has what we send governed by another CCID from now on, as soon as the peer agrees; what the old one knows of the path is carried
    /// over. False if that cannot be: not open, not a CCID these settings can use, or congestion state shared with other connections.
    pub fn set_ccid(&mut self, ccid: u8) -> bool {
        use Side::{Local, Remote};
        let Some(halves) = self.halves.as_mut().filter(|_| self.state == State::Open) else { return false };
        let shared = ccid::shareable(&mut *halves.tx).is_some_and(|half| half.group().is_some());
        if shared || !ccid::is_usable(ccid, &self.cfg.cc) {
            return false;
        }
        if ccid::is_tfrc(ccid) && !self.features.is_known(feature::SEND_LOSS_EVENT_RATE, Remote) {
            self.features.add(feature::SEND_LOSS_EVENT_RATE, Remote, &[1, 0]);
        }
        // On the same packet, or data would wait for a second round trip (RFC 4341 section 4).
        if ccid::needs_ack_vector(ccid) && !self.features.is_on(feature::SEND_ACK_VECTOR, Remote) {
            self.features.change(feature::SEND_ACK_VECTOR, Remote, &[1], true);
        }
        self.features.change(feature::CCID, Local, &[ccid.into()], false);
        true
    }

    /// The CCIDs changed in OPEN. RFC 4340 section 10.5 permits to begin anew and forbids to gain by it: what was found out is kept.
    fn change_halves(&mut self, now: Time, (tx_ccid, rx_ccid): (u8, u8)) {
        let common = HalfConfig {
            mtu: self.cfg.mtu,
            first_seq: self.numbers.gss.next(),
            cc: self.cfg.cc,
            seed: self.rng.next_u64(),
            handshake_rtt: Some(self.rtt()),
            now,
        };
        let Some(halves) = self.halves.take() else { return };
        self.halves = self.succeed(halves, &common, (tx_ccid, rx_ccid));
        if self.halves.is_none() {
            self.fail(Reset { code: ResetCode::MandatoryError, data: [0; 3] });
        }
    }

    /// Packets take another way from now on, as the owner knows: what congestion control found out of the old one is forgotten (RFC 4340
    /// section 10.5). Without effect before OPEN, and where congestion state is shared.
    pub fn on_path_change(&mut self, now: Time) {
        let shared =
            |halves: &mut Halves| ccid::shareable(&mut *halves.tx).is_some_and(|half| half.group().is_some());
        let Some(mut halves) = self.halves.take_if(|halves| self.state == State::Open && !shared(halves))
        else {
            return;
        };
        let left = Handover { found: None, ..halves.tx.hand_over(now, self.numbers.gar) };
        let mut cfg = HalfConfig {
            mtu: self.cfg.mtu,
            first_seq: left.outstanding.first().map_or(self.numbers.gss.next(), |packet| packet.seq),
            cc: self.cfg.cc,
            seed: self.rng.next_u64(),
            handshake_rtt: None,
            now,
        };
        if let Some(mut tx) = ccid::sender(halves.tx_ccid, &cfg) {
            tx.take_over(&left);
            tx.on_ack_ratio(halves.ack_ratio);
            halves.tx = tx;
        }
        cfg.first_seq = self.numbers.gsr;
        // Ack Vectors tell what arrived, whatever the way; loss intervals speak of the old one.
        if ccid::is_tfrc(halves.rx_ccid)
            && let Some(rx) = ccid::receiver(halves.rx_ccid, &cfg)
        {
            (halves.rx, halves.send_ack_vector) = (rx, false);
        }
        self.halves = Some(halves);
        (self.ecn, self.pmtu) = Default::default();
        self.tell_halves(now);
    }

    /// `None` if this end has no such CCID, which it did not agree to then.
    fn succeed(
        &mut self,
        mut halves: Halves,
        common: &HalfConfig,
        (tx_ccid, rx_ccid): (u8, u8),
    ) -> Option<Halves> {
        if halves.tx_ccid != tx_ccid {
            let acked = self.numbers.gar;
            let under_way = halves.tx.hand_over(common.now, acked).outstanding;
            let first_seq = under_way.first().map_or(common.first_seq, |packet| packet.seq);
            halves.tx = ccid::succeed(halves.tx, tx_ccid, acked, &HalfConfig { first_seq, ..*common })?;
            halves.tx.on_ack_ratio(halves.ack_ratio);
            halves.tx_ccid = tx_ccid;
            if !ccid::needs_ack_vector(tx_ccid) {
                self.features.change(feature::SEND_ACK_VECTOR, Side::Remote, &[0], false);
            }
        }
        if halves.rx_ccid != rx_ccid {
            if !ccid::same_receiver(halves.rx_ccid, rx_ccid, &self.cfg.cc) {
                halves.rx = ccid::receiver(rx_ccid, &HalfConfig { first_seq: self.numbers.gsr, ..*common })?;
                (halves.peer_ack_ratio, halves.send_ack_vector) = (2, false);
            }
            halves.rx_ccid = rx_ccid;
        }
        Some(halves)
    }

    /// Puts the values of the features into force.
    pub(super) fn apply_features(&mut self, now: Time) {
        use Side::{Local, Remote};
        preferences::depend(&mut self.features);
        let needs_vector = ccid::needs_ack_vector(self.negotiated_ccids().0);
        let on = |number, side| self.features.is_on(number, side);
        let coverage =
            |side| u8::try_from(self.features.value(feature::MIN_CHECKSUM_COVERAGE, side)).unwrap_or(0);
        let accepted = coverage(Remote);
        self.negotiated = Negotiated {
            may_send: !needs_vector || on(feature::SEND_ACK_VECTOR, Remote),
            may_accept: self.cfg.ecn || on(feature::ECN_INCAPABLE, Local),
            ndp: on(feature::SEND_NDP_COUNT, Local),
            checksum: self.cfg.check_data_checksum && on(feature::CHECK_DATA_CHECKSUM, Remote),
            ect: self.cfg.ecn && !on(feature::ECN_INCAPABLE, Remote),
            short: on(feature::ALLOW_SHORT_SEQNOS, Remote),
            send_short: self.cfg.short_seqnos && on(feature::ALLOW_SHORT_SEQNOS, Local),
            min_coverage: coverage(Local),
            coverage: if accepted > 0 && self.cfg.coverage >= accepted { self.cfg.coverage } else { 0 },
        };
        self.numbers.remote_window = self.features.value(feature::SEQUENCE_WINDOW, Remote);
        self.apply_local_window();
        self.tell_halves(now);
        if self.state == State::Open {
            // Of what we send we decide: `set_ccid`. The peer decides of what it sends, within what we accept.
            self.features.freeze(feature::CCID, Local);
        }
    }

    /// Acknowledgements are checked against the width we ask for as soon as we ask: until the peer agrees the sender would
    /// otherwise outgrow the old width, and take its own acknowledgements for forged. (RFC 4340 section 7.5.1 would wait; it only
    /// concerns how far back they reach.)
    pub(super) fn apply_local_window(&mut self) {
        let wanted = self.features.wanted(feature::SEQUENCE_WINDOW, Side::Local).unwrap_or(0);
        self.numbers.local_window = self.features.value(feature::SEQUENCE_WINDOW, Side::Local).max(wanted);
    }

    fn tell_halves(&mut self, now: Time) {
        let ccids = self.negotiated_ccids();
        let ratio = |side| u16::try_from(self.features.value(feature::ACK_RATIO, side)).unwrap_or(u16::MAX);
        let (ack_ratio, peer_ack_ratio) = (ratio(Side::Local), ratio(Side::Remote));
        let send_ack_vector = self.features.is_on(feature::SEND_ACK_VECTOR, Side::Local);
        let Some(halves) = &mut self.halves else { return };
        if (halves.tx_ccid, halves.rx_ccid) != ccids {
            if self.state != State::Open {
                // Between the two ends of the handshake.
                return self.make_halves(now);
            }
            self.change_halves(now, ccids);
        }
        let Some(halves) = &mut self.halves else { return };
        if halves.ack_ratio != ack_ratio {
            halves.ack_ratio = ack_ratio;
            halves.tx.on_ack_ratio(ack_ratio);
        }
        if halves.peer_ack_ratio != peer_ack_ratio {
            halves.peer_ack_ratio = peer_ack_ratio;
            halves.rx.on_ack_ratio(peer_ack_ratio);
        }
        if halves.send_ack_vector != send_ack_vector {
            halves.send_ack_vector = send_ack_vector;
            halves.rx.on_send_ack_vector(send_ack_vector);
        }
    }
}
