//! Handles feedback to an [`AckVecSender`]. Each acknowledgement or timeout becomes one event and one call of
//! the controller.

use super::control::{Control, Reduction};
use super::history::{Fate, Packet};
use super::loss::Verdict;
use super::rto::DEFAULT_RTT;
use super::sender::AckVecSender;
use crate::ccid::Feedback;
use dccp_cc::{AckEvent, Amount, Lost};
use dccp_wire::ack_vector::{State, runs};
use mpdccp_units::{Duration, Time};

/// The effect of one acknowledgement, or of one expiry of the reordering timer.
#[derive(Debug, Default)]
struct Digest {
    /// Amount outstanding before the acknowledgement, of all connections that share the control, and of this
    /// connection alone (`own_before`).
    before: Amount,
    own_before: Amount,
    acked: Amount,
    /// Number of packets in `acked` that the peer reported after later ones.
    late: u64,
    lost: Amount,
    ce: u64,
    /// Whether a packet sent after the last reduction was lost or marked.
    congestion: bool,
    /// One past the newest data packet acknowledged.
    newest: u64,
    /// Number of packets that had been delivered when the newest acknowledged data packet was sent.
    newest_delivered: u64,
    rtt: Option<Duration>,
    returning: Duration,
    /// Time at which the acknowledgement would have arrived if neither the receiver nor the return path had
    /// delayed it. This is the estimated time at which the newest packet reached the peer, plus the minimum
    /// delay of the return path.
    arrived: Time,
    round_end: bool,
    /// Whether a round of this connection ended. A shared control has its own rounds.
    own_round_end: bool,
}

impl AckVecSender {
    pub(super) fn digest(&mut self, now: Time, feedback: &Feedback<'_>) {
        let Some(ack) = self.history.index(feedback.ack) else { return };
        let mut digest = self.begin_digest(now);
        let delay = self.return_path.on_ack(now, feedback.timestamp);
        digest.returning = delay.min(self.excess(now, ack, feedback.elapsed));
        digest.arrived = now - digest.returning;
        self.close_reported(ack, feedback.vector);
        let mut closed = core::mem::take(&mut self.closed);
        // The ranges are sorted, newest first.
        if closed.first().is_some_and(|(range, _)| range.contains(&ack)) {
            digest.rtt = self.rtt_sample(now, ack, feedback.elapsed);
            if digest.rtt.is_some() && !self.draft {
                digest.arrived = now - feedback.elapsed - digest.returning;
            }
        }
        self.rto.on_held(feedback.elapsed);
        let told = self.told;
        if !feedback.vector.is_empty() {
            self.told = told.max(ack + 1);
        }
        if let Some((oldest, _)) = closed.last() {
            self.requests.on_reach(self.history.next() - oldest.start);
        }
        // The peer answers a probe at once. If the answer has an Ack Vector, the probe counts as received
        // data, so packets that were sent long before the probe and that the answer reports as missing are
        // lost.
        let probe = self.probe.filter(|_| !feedback.vector.is_empty());
        for (range, marked) in closed.drain(..) {
            if let Some(probe) = probe.filter(|probe| range.contains(probe))
                && let Some(packet) = self.history.get(probe)
            {
                self.loss.on_data_received(now, packet.sent_at);
            }
            for index in range.clone() {
                self.on_received(now, index, marked, index + 1 < told, &mut digest);
            }
            self.loss.on_received(&range);
            self.note_fate(&range, false);
        }
        self.closed = closed;
        let punctual = digest.acked.packets.saturating_sub(digest.late);
        self.delay.on_punctual(now, punctual, digest.own_before.packets);
        self.note_round(now, &mut digest);
        self.detect_losses(now, &mut digest);
        self.conclude(now, &digest);
    }

    fn begin_digest(&mut self, now: Time) -> Digest {
        self.control.note_window(now);
        self.end_quiet(now);
        Digest { before: self.control.inflight, own_before: self.inflight, arrived: now, ..Digest::default() }
    }

    /// Collects into `closed` the ranges that the vector newly reports as received, newest first, with their
    /// marks.
    fn close_reported(&mut self, ack: u64, vector: &[u8]) {
        let mut reported = core::mem::take(&mut self.reported);
        reported.clear();
        let mut end = ack + 1;
        if vector.is_empty() {
            // Without a vector, only the packet named by the Acknowledgement Number is reported as received.
            reported.push((ack..end, false));
        }
        for (state, packets) in runs(vector) {
            if end <= self.history.base() {
                break;
            }
            // The vector may reach back to packets that were sent before this half existed.
            let start = end.saturating_sub(u64::from(packets));
            let marked = state == State::ReceivedEcnMarked;
            if marked || state == State::Received {
                match reported.last_mut() {
                    Some((run, m)) if run.start == end && *m == marked => run.start = start,
                    _ => reported.push((start..end, marked)),
                }
            }
            end = start;
        }
        for (range, marked) in &reported {
            self.history.close(range.clone(), |part| self.closed.push((part, *marked)));
        }
        self.reported = reported;
    }

    /// Returns the RTT sample of the packet named by the Acknowledgement Number, if the packet is newly
    /// acknowledged. The peer may hold the acknowledgement of a packet without data for any length of time,
    /// so such a packet gives a sample only with an Elapsed Time.
    fn rtt_sample(&self, now: Time, ack: u64, elapsed: Duration) -> Option<Duration> {
        let packet = self.history.get(ack)?;
        if packet.bytes == 0 || ack < self.ours || packet.snapshot.is_none() && elapsed.is_zero() {
            return None;
        }
        // Ignore an Elapsed Time longer than the whole round trip.
        now.since(packet.sent_at).checked_sub(elapsed).filter(|rtt| !rtt.is_zero())
    }

    /// Returns the time since packet `ack` was sent, minus the time at the peer and the minimum round trip.
    /// The return path cannot have delayed the acknowledgement by more than this, whatever the peer's clock
    /// says.
    fn excess(&self, now: Time, ack: u64, elapsed: Duration) -> Duration {
        let Some(((least, _), packet)) = self.control.rtt.min().zip(self.history.get(ack)) else {
            return Duration::ZERO;
        };
        now.since(packet.sent_at).saturating_sub(elapsed).saturating_sub(least)
    }

    fn on_received(&mut self, now: Time, index: u64, marked: bool, late: bool, digest: &mut Digest) {
        let Some(packet) = self.history.get_mut(index) else { return };
        let Packet { bytes, fate, sent_at, snapshot } = *packet;
        packet.fate = Fate::Received;
        let Some(snapshot) = snapshot else { return };
        let packet = Amount::default().plus(bytes);
        if index < self.ours {
            // The path has changed since then, so the packet says nothing about the present path.
            if let Fate::Lost(_) = fate {
                self.counts.lost = self.counts.lost.minus(packet);
                self.counts.spurious += 1;
            }
            if fate != Fate::Received {
                self.counts.delivered = self.counts.delivered.and(packet);
            }
            return;
        }
        match fate {
            Fate::Received => return,
            Fate::InFlight => {
                self.leave_pipe(bytes);
                if late {
                    self.note_late(now, sent_at, digest);
                }
            }
            // RFC 4341 section 5: this packet was declared lost, so it no longer counts as in flight.
            Fate::Lost(at) => {
                self.counts.lost = self.counts.lost.minus(packet);
                self.counts.spurious += 1;
                // If the peer had already reported later packets, the packet was reordered. Otherwise the
                // path stalled, or an earlier acknowledgement of the packet was lost.
                if late {
                    self.note_late(now, sent_at, digest);
                }
                self.control.cc.on_late_packet(at);
                if let Some(reduction) = self.control.reduction.as_mut().filter(|r| at >= r.since) {
                    reduction.losses = reduction.losses.saturating_sub(1);
                    reduction.doubted = true;
                }
            }
        }
        self.counts.delivered = self.counts.delivered.plus(bytes);
        self.control.sampler.on_acked(digest.arrived, &snapshot, bytes);
        self.loss.on_data_received(now, sent_at);
        digest.acked = digest.acked.plus(bytes);
        digest.newest = digest.newest.max(index + 1);
        digest.newest_delivered = digest.newest_delivered.max(snapshot.delivered.packets);
        if marked {
            digest.ce += 1;
            digest.congestion |= sent_at >= self.control.reduced_at;
        }
    }

    fn note_late(&mut self, now: Time, sent_at: Time, digest: &mut Digest) {
        if let Some(late) = self.loss.on_late(now, sent_at) {
            digest.late += 1;
            self.delay.on_late(now, late, digest.own_before.packets);
        }
    }

    fn note_round(&mut self, now: Time, digest: &mut Digest) {
        let control = &mut self.control;
        digest.round_end = digest.newest > 0 && digest.newest_delivered >= control.round_end;
        if digest.round_end {
            control.round_end = control.sampler.delivered().packets;
        }
        digest.own_round_end = digest.newest > self.round_end;
        if digest.own_round_end {
            self.round_end = self.history.next();
            self.loss.on_round(now);
            self.rto.on_round();
        }
        if let Some(rtt) = digest.rtt {
            // RFC 4341 section 5 takes one sample per window of data. Unless `strict`, take several samples
            // per window, each with less weight.
            if !self.strict {
                control.rtt.update_one_of(now, rtt, control.samples.per_round(digest.round_end));
            } else if digest.round_end || control.rtt.latest().is_none() {
                control.rtt.update(now, rtt);
            }
        }
    }

    fn detect_losses(&mut self, now: Time, digest: &mut Digest) {
        let rtt = &self.control.rtt;
        let least = rtt.min().map_or(DEFAULT_RTT, |(least, _)| least);
        let window = self.loss.window(least, rtt.rto());
        let limit = self.loss.limit();
        let mut at = self.loss.judged().max(self.history.base());
        let mut due = None;
        while let Some(index) = self.history.first_open(at..limit) {
            let Some(&packet) = self.history.get(index) else { break };
            if packet.snapshot.is_some() && packet.fate == Fate::InFlight {
                match self.loss.judge(now, index, packet.sent_at, window) {
                    Verdict::Lost => self.declare_lost(now, index, digest),
                    Verdict::Wait(until) => due = Some(until),
                    Verdict::Open => {}
                }
                if self.history.get(index).is_some_and(|p| p.fate == Fate::InFlight) {
                    self.loss.set_judged(index, due);
                    return;
                }
            }
            at = index + 1;
        }
        self.loss.set_judged(at.max(limit), None);
    }

    fn declare_lost(&mut self, now: Time, index: u64, digest: &mut Digest) {
        let Some(packet) = self.history.get_mut(index) else { return };
        packet.fate = Fate::Lost(now);
        let Packet { bytes, sent_at, snapshot, .. } = *packet;
        if index < self.ours {
            self.counts.lost = self.counts.lost.plus(bytes);
            return self.note_fate(&(index..index + 1), true);
        }
        self.count_lost(bytes);
        if let Some(snapshot) = &snapshot {
            let Control { cc, sampler, .. } = &mut self.control;
            let (lost, delivered) = (sampler.lost(), sampler.delivered());
            cc.on_packet_lost(&Lost { now, snapshot, bytes, lost, delivered });
        }
        self.note_fate(&(index..index + 1), true);
        digest.lost = digest.lost.plus(bytes);
        digest.congestion |= sent_at >= self.control.reduced_at;
    }

    fn count_lost(&mut self, bytes: u32) {
        self.leave_pipe(bytes);
        self.counts.lost = self.counts.lost.plus(bytes);
        self.control.sampler.on_lost(bytes);
    }

    fn leave_pipe(&mut self, bytes: u32) {
        let packet = Amount::default().plus(bytes);
        self.inflight = self.inflight.minus(packet);
        self.control.inflight = self.control.inflight.minus(packet);
    }

    /// Calls the controller, then updates timers and requests.
    fn conclude(&mut self, now: Time, digest: &Digest) {
        if digest.acked.packets == 0 && digest.lost.packets == 0 && digest.rtt.is_none() {
            return;
        }
        let Control { rtt, sampler, .. } = &mut self.control;
        let rate = sampler.sample(rtt.min().map(|(least, _)| least));
        if rate.is_some() {
            self.last_rate = rate;
        }
        self.counts.ce += digest.ce;
        self.note_reduction(now, digest, false);
        let app_limited = !self.control.recently_limited(now, self.last_rate.as_ref());
        let observes = self.control.observes();
        let Control { cc, rtt, sampler, inflight, observer, .. } = &mut self.control;
        let event = AckEvent {
            now,
            acked: digest.acked,
            lost: digest.lost,
            ce: digest.ce,
            congestion: digest.congestion,
            rtt: digest.rtt,
            returning: digest.returning,
            estimator: rtt,
            rate,
            inflight_before: digest.before,
            inflight: *inflight,
            delivered: sampler.delivered(),
            round_end: digest.round_end,
            app_limited,
        };
        cc.on_ack(&event);
        if observes {
            observer.on_ack(&event);
        }
        self.undo_if_spurious(now);
        if digest.acked.packets > 0 {
            self.control.heard = now;
            self.rto.restart(now, self.inflight.packets > 0);
        } else if self.inflight.packets == 0 {
            self.rto.stop();
        }
        let cwnd = self.own_window(digest);
        if digest.own_round_end {
            let paced = !self.control.cc.clocked();
            self.requests.on_round(cwnd, digest.own_before.packets, paced);
        }
        if self.control.cc.probing_rtt() {
            self.requests.on_collapse(cwnd);
        }
        self.trim_history(now);
    }

    /// Returns the part of the congestion window that this connection uses, in packets. The peer never has
    /// more packets than this to acknowledge.
    fn own_window(&self, digest: &Digest) -> u64 {
        let cwnd = self.control.cc.limits().cwnd.packets(self.mtu);
        let (own, all) = (digest.own_before.packets, digest.before.packets);
        if own == all { cwnd } else { (cwnd.saturating_mul(own) / all.max(1)).max(1) }
    }

    fn note_reduction(&mut self, now: Time, digest: &Digest, again: bool) {
        if digest.congestion {
            if !again && self.control.reduction.as_ref().is_some_and(|r| !r.doubted && !r.marked) {
                self.loss.on_true_losses();
            }
            self.control.reduced_at = now;
            // A timeout that follows another one without an acknowledgement in between belongs to the same
            // reduction.
            if !again || self.control.reduction.is_none() {
                let reduction = Reduction { since: now, losses: 0, doubted: false, marked: false };
                self.control.reduction = Some(reduction);
            }
        }
        if let Some(reduction) = &mut self.control.reduction {
            reduction.losses += digest.lost.packets;
            reduction.marked |= digest.ce > 0;
        }
    }

    /// Undoes the reaction to a loss that proved spurious, which RFC 4340 section 11.4.1 permits.
    fn undo_if_spurious(&mut self, now: Time) {
        let spurious =
            self.control.reduction.as_ref().is_some_and(|r| r.doubted && r.losses == 0 && !r.marked);
        if spurious && !self.loss.is_final() {
            self.control.reduction = None;
            self.control.cc.on_spurious_loss(now);
        }
    }

    /// The reordering timer expired, so a missing packet is now lost if it is late by more than the
    /// reordering window.
    pub(super) fn on_reorder_timeout(&mut self, now: Time) {
        let mut digest = self.begin_digest(now);
        self.detect_losses(now, &mut digest);
        self.conclude(now, &digest);
    }

    /// RFC 4341 section 5: after a timeout, nothing counts as in flight. If another connection that shares
    /// the control has received an acknowledgement since the timer started, only the packets of this
    /// connection were lost, and the timeout counts as an ordinary loss.
    pub(super) fn on_rto(&mut self, now: Time) {
        // Whether only packets that were sent before the path changed are outstanding.
        let none_ours = self.inflight.packets == 0;
        let mut digest = self.begin_digest(now);
        let (mut at, next) = (self.history.base(), self.history.next());
        while let Some(index) = self.history.first_open(at..next) {
            if self.history.get(index).is_some_and(|p| p.snapshot.is_some() && p.fate == Fate::InFlight) {
                self.declare_lost(now, index, &mut digest);
            }
            at = index + 1;
        }
        self.loss.set_judged(next, None);
        if none_ours {
            return self.rto.stop();
        }
        self.counts.timeouts += 1;
        let others_heard = self.rto.since().is_some_and(|since| self.control.heard > since);
        let again = self.rto.has_expired();
        self.rto.on_timeout();
        if others_heard {
            return self.conclude(now, &digest);
        }
        self.control.heard = now;
        digest.congestion = true;
        self.note_reduction(now, &digest, again);
        self.control.cc.on_rto(now);
        self.requests.on_collapse(self.own_window(&digest));
        self.trim_history(now);
    }

    /// Removes the oldest packets that are settled. Lost packets are kept for one more timeout, because they
    /// may still arrive.
    pub(super) fn trim_history(&mut self, now: Time) {
        while let Some(packet) = self.history.trim(|| now - self.control.rtt.rto()) {
            let ours = self.history.base() > self.ours;
            if ours && packet.snapshot.is_some() && packet.fate == Fate::InFlight {
                self.count_lost(packet.bytes);
            }
        }
    }
}
