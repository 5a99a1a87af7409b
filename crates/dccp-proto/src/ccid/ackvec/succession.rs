//! Changing the congestion control of a running sending half.

use super::ack_ratio::RatioRule;
use super::history::{Fate, Packet};
use super::requests::Requests;
use super::sender::AckVecSender;
use crate::ccid::table::AckVectors;
use crate::ccid::{HalfConfig, Handover, Outstanding, SenderHalf};
use alloc::vec::Vec;
use dccp_cc::CcConfig;
use dccp_wire::Seq;
use mpdccp_units::Time;

impl AckVecSender {
    /// Replaces the controller, but keeps the history and the measurements. Has no effect while the control
    /// is shared.
    pub(crate) fn change_control(&mut self, by: &AckVectors, cfg: &HalfConfig) {
        if self.group.is_some() {
            return;
        }
        let found = self.hand_over(cfg.now, self.history.seq(self.history.next())).found;
        let mut cc = (by.controller)(&CcConfig { packets: by.strict || cfg.cc.packets, ..cfg.controller() });
        if let Some(found) = &found {
            cc.inherit(found);
        }
        self.control.cc = cc.into();
        self.control.reduction = None;
        self.strict = by.strict;
        self.ecn = by.ecn;
        self.draft = cfg.cc.draft;
        self.requests = Requests::anew(RatioRule::of(self.strict, self.draft));
    }

    pub(super) fn leave(&self, now: Time, acked: Seq) -> Handover {
        let mut outstanding = Vec::new();
        let from = self.history.index(acked).map_or(self.history.base(), |index| index + 1);
        for index in from..self.history.next() {
            if let Some(packet) = self.history.get(index)
                && packet.fate == Fate::InFlight
                && packet.snapshot.is_some()
            {
                let (at, bytes) = (packet.sent_at, packet.bytes);
                outstanding.push(Outstanding { seq: self.history.seq(index), at, bytes });
            }
        }
        Handover::of(&self.view(), now, self.mtu, self.control.cc.settled(), outstanding)
    }

    pub(super) fn succeed(&mut self, from: &Handover) {
        self.requests = Requests::anew(RatioRule::of(self.strict, self.draft));
        if let Some(found) = &from.found {
            self.control.cc.inherit(found);
            if let Some(srtt) = found.srtt {
                self.control.rtt = Default::default();
                self.control.rtt.update(found.now, srtt);
            }
        }
        for packet in &from.outstanding {
            let snapshot = self.control.sampler.on_sent(packet.at, packet.bytes, self.inflight);
            let sent = Packet {
                sent_at: packet.at,
                bytes: packet.bytes,
                fate: Fate::InFlight,
                snapshot: Some(snapshot),
            };
            self.history.push(packet.seq, sent);
            if from.found.is_some() {
                self.inflight = self.inflight.plus(packet.bytes);
            }
            self.rto.start(packet.at);
        }
        if from.found.is_none() {
            self.ours = u64::MAX;
        }
        self.control.inflight = self.inflight;
        self.counts = from.counts;
    }
}
