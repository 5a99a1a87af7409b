//! Applies the results of negotiation to the packets we send and accept, and to the two half-connections.

use super::ecn::EcnPath;
use super::halves::{Halves, Negotiated};
use super::*;
use crate::ccid::{self, HalfConfig, Handover};
use dccp_wire::ResetCode;
use rand_core::RngCore;

impl Connection {
    /// Returns the CCIDs in force: that of our data, and that of the peer's data.
    fn negotiated_ccids(&self) -> (u8, u8) {
        let ccid = |side| u8::try_from(self.features.value(feature::CCID, side)).unwrap_or(0);
        (ccid(Side::Local), ccid(Side::Remote))
    }

    /// Returns the settings of a new sending half.
    fn half_config(&mut self, now: Time, handshake_rtt: Option<Duration>) -> HalfConfig {
        let (first_seq, seed) = (self.numbers.gss.next(), self.rng.next_u64());
        HalfConfig { mtu: self.cfg.mtu, first_seq, cc: self.cfg.cc, seed, handshake_rtt, now }
    }

    /// Creates the half-connections for the CCIDs in force. The first packet they see is the peer's newest
    /// valid packet.
    pub(super) fn make_halves(&mut self, now: Time) {
        let (tx_ccid, rx_ccid) = self.negotiated_ccids();
        let common = self.half_config(now, self.handshake_rtt);
        let tx = ccid::sender(tx_ccid, &common);
        let rx = ccid::receiver(rx_ccid, &HalfConfig { first_seq: self.numbers.gsr, ..common });
        let (Some(tx), Some(rx)) = (tx, rx) else {
            // RFC 4340 section 10: the ends have no CCID in common, and the peer ignored our Mandatory.
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

    /// Changes the CCID of the data we send, as soon as the peer agrees. The new CCID keeps the path's
    /// measurements. Returns false if the change is impossible: the connection is not open, its settings do
    /// not support the CCID, or it shares congestion state with other connections.
    pub fn set_ccid(&mut self, ccid: u8) -> bool {
        use Side::{Local, Remote};
        let Some(halves) = self.halves.as_mut().filter(|_| self.state == State::Open) else { return false };
        let shared = ccid::shareable(&mut *halves.tx).is_some_and(|half| half.group().is_some());
        if shared || !ccid::is_usable(ccid, &self.cfg.cc) {
            return false;
        }
        let timestamps = ccid::uses_timestamps(ccid) && !self.cfg.cc.draft;
        for (number, needed) in
            [(feature::SEND_LOSS_EVENT_RATE, ccid::is_tfrc(ccid)), (feature::SEND_TIMESTAMPS, timestamps)]
        {
            if needed && !self.features.is_known(number, Remote) {
                self.features.add(number, Remote, &[1, 0]);
            }
        }
        // RFC 4341 section 4: request Ack Vectors on the same packet, or data would wait for another round
        // trip.
        if ccid::needs_ack_vector(ccid) && !self.features.is_on(feature::SEND_ACK_VECTOR, Remote) {
            self.features.change(feature::SEND_ACK_VECTOR, Remote, &[1], true);
        }
        self.features.change(feature::CCID, Local, &[ccid.into()], false);
        true
    }

    /// Handles a change of CCIDs in OPEN. RFC 4340 section 10.5 permits congestion control to restart but not
    /// to gain from the restart, so the measurements are kept.
    fn change_halves(&mut self, now: Time, (tx_ccid, rx_ccid): (u8, u8)) {
        let common = self.half_config(now, Some(self.rtt()));
        let Some(halves) = self.halves.take() else { return };
        self.halves = self.succeed(halves, &common, (tx_ccid, rx_ccid));
        if self.halves.is_none() {
            self.fail(Reset { code: ResetCode::MandatoryError, data: [0; 3] });
        }
    }

    /// Drops the congestion control state of the old path (RFC 4340 section 10.5). Call this when packets
    /// have moved to another path. It has no effect before OPEN, or if congestion state is shared.
    pub fn on_path_change(&mut self, now: Time) {
        let shared =
            |halves: &mut Halves| ccid::shareable(&mut *halves.tx).is_some_and(|half| half.group().is_some());
        let Some(mut halves) = self.halves.take_if(|halves| self.state == State::Open && !shared(halves))
        else {
            return;
        };
        let mut left = Handover { found: None, ..halves.tx.hand_over(now, self.numbers.gar) };
        if ccid::is_tfrc(halves.tx_ccid) {
            // TFRC would measure the new path by these packets, and nobody asks for their fates.
            left.outstanding.clear();
        }
        let mut cfg = self.half_config(now, None);
        if let Some(packet) = left.outstanding.first() {
            cfg.first_seq = packet.seq;
        }
        if let Some(mut tx) = ccid::sender(halves.tx_ccid, &cfg) {
            tx.take_over(&left);
            tx.on_ack_ratio(halves.ack_ratio);
            halves.tx = tx;
        }
        cfg.first_seq = self.numbers.gsr;
        // Keep a receiving half that sends Ack Vectors, because Ack Vectors report arrivals on any path.
        // Replace a TFRC receiving half, because its loss intervals belong to the old path.
        if ccid::is_tfrc(halves.rx_ccid)
            && let Some(rx) = ccid::receiver(halves.rx_ccid, &cfg)
        {
            (halves.rx, halves.send_ack_vector) = (rx, false);
        }
        self.ecn = EcnPath::anew(&halves.tx.view());
        self.halves = Some(halves);
        if let Some(old) = &self.pmtu {
            let mut pmtu = pmtu::Pmtu::new(now, self.cfg.mtu);
            // The new path may carry larger packets than the old one.
            pmtu.on_most(now, old.max());
            self.pmtu = Some(pmtu);
        }
        self.tell_halves(now);
    }

    /// Replaces the halves whose CCIDs have changed. Returns `None` if this end does not implement a CCID.
    /// Negotiation never chooses such a CCID.
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

    /// Applies the values of the features that are now in force.
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
            timestamps: on(feature::SEND_TIMESTAMPS, Local),
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
            // Only `set_ccid` changes the CCID of the data we send. The peer chooses the CCID of its own
            // data, from those we accept.
            self.features.freeze(feature::CCID, Local);
        }
    }

    /// Checks acknowledgements against the new Sequence Window as soon as it is requested. Otherwise this end
    /// would outgrow the old window before the peer agrees, and would take acknowledgements of its own
    /// packets for forged ones. RFC 4340 section 7.5.1 says to wait for the agreement, but this window only
    /// limits how far back acknowledgements may reach.
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
                // The handshake has only just completed, so the half-connections do not exist yet.
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
