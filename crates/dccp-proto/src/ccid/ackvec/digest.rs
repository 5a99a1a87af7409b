//! What comes back to an [`AckVecSender`]: acknowledgements and timeouts become one event and one call of the controller.

use super::history::{Fate, Packet};
use super::loss::Verdict;
use super::sender::{AckVecSender, DEFAULT_RTT};
use crate::ccid::Feedback;
use dccp_cc::{AckEvent, Amount, Lost};
use dccp_wire::ack_vector::{State, runs};
use units::{Duration, Time};

/// The last reduction of the window, while it may prove spurious.
#[derive(Debug)]
pub(super) struct Reduction {
    since: Time,
    /// Losses behind it that have not proved spurious.
    losses: u64,
    /// Something proved spurious.
    doubted: bool,
    /// A mark was among its reasons: it stands.
    marked: bool,
}

/// What one acknowledgement, or one expiry of the reordering timer, brought.
#[derive(Debug, Default)]
struct Digest {
    before: Amount,
    acked: Amount,
    lost: Amount,
    ce: u64,
    /// A loss or mark after the last reduction.
    congestion: bool,
    /// One past the newest data packet acknowledged.
    newest: u64,
    rtt: Option<Duration>,
    round_end: bool,
}

impl AckVecSender {
    pub(super) fn digest(&mut self, now: Time, feedback: &Feedback<'_>) {
        let Some(ack) = self.history.index(feedback.ack) else { return };
        self.note_window(now);
        let mut digest = Digest { before: self.inflight, ..Digest::default() };
        self.close_reported(ack, feedback.vector);
        let mut closed = core::mem::take(&mut self.closed);
        // Newest first.
        if closed.first().is_some_and(|(range, _)| range.contains(&ack)) {
            digest.rtt = self.rtt_sample(now, ack, feedback.elapsed);
        }
        let newest_before = self.loss.newest();
        for (range, marked) in closed.drain(..) {
            for index in range.clone() {
                self.on_received(now, index, marked, index + 1 < newest_before, &mut digest);
            }
            self.loss.on_received(&range);
        }
        self.closed = closed;
        self.note_round(now, &mut digest);
        self.detect_losses(now, &mut digest);
        self.conclude(now, &digest);
    }

    /// Puts what the vector newly reports received into `closed`, newest first, with whether it was marked.
    fn close_reported(&mut self, ack: u64, vector: &[u8]) {
        let mut reported = core::mem::take(&mut self.reported);
        reported.clear();
        let mut end = ack + 1;
        if vector.is_empty() {
            // The number alone still says that this packet arrived.
            reported.push((ack..end, false));
        }
        for (state, packets) in runs(vector) {
            if end <= self.history.base() {
                break;
            }
            // It may reach back to packets that left before this half was made.
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

    /// The packet named by the Acknowledgement Number, newly acknowledged, gives a sample. A packet without data may have been
    /// held for any time, so it counts only if the peer says for how long.
    fn rtt_sample(&self, now: Time, ack: u64, elapsed: Duration) -> Option<Duration> {
        let packet = self.history.get(ack)?;
        if packet.snapshot.is_none() && elapsed.is_zero() {
            return None;
        }
        // An Elapsed Time longer than the whole is not believed.
        now.since(packet.sent_at).checked_sub(elapsed).filter(|rtt| !rtt.is_zero())
    }

    fn on_received(&mut self, now: Time, index: u64, marked: bool, late: bool, digest: &mut Digest) {
        let Some(packet) = self.history.get_mut(index) else { return };
        let Packet { bytes, fate, sent_at, snapshot } = *packet;
        packet.fate = Fate::Received;
        let Some(snapshot) = snapshot else { return };
        match fate {
            Fate::Received => return,
            Fate::InFlight => {
                self.inflight = self.inflight.minus(Amount::default().plus(bytes));
                if late {
                    self.loss.on_reordered();
                }
            }
            // RFC 4341 section 5: what was lost left the pipe before.
            Fate::Lost(at) => {
                self.lost = self.lost.minus(Amount::default().plus(bytes));
                self.spurious += 1;
                self.loss.on_spurious(index, self.history.next());
                if let Some(reduction) = self.reduction.as_mut().filter(|r| at >= r.since) {
                    reduction.losses = reduction.losses.saturating_sub(1);
                    reduction.doubted = true;
                }
            }
        }
        self.sampler.on_acked(now, &snapshot, bytes);
        self.loss.on_data_received(now, sent_at);
        digest.acked = digest.acked.plus(bytes);
        digest.newest = digest.newest.max(index + 1);
        if marked {
            digest.ce += 1;
            digest.congestion |= index >= self.reduced_before;
        }
    }

    fn note_round(&mut self, now: Time, digest: &mut Digest) {
        digest.round_end = digest.newest > self.round_end;
        if digest.round_end {
            self.round_end = self.history.next();
        }
        // RFC 4341 section 5: for CCID 2 one sample a window of data.
        if let Some(rtt) = digest.rtt
            && (digest.round_end || !self.strict || self.rtt.latest().is_none())
        {
            self.rtt.update(now, rtt);
        }
    }

    fn detect_losses(&mut self, now: Time, digest: &mut Digest) {
        let least = self.rtt.min().map_or(DEFAULT_RTT, |(least, _)| least);
        let window = self.loss.window(least, self.rtt.srtt().unwrap_or(DEFAULT_RTT));
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
        let Packet { bytes, snapshot, .. } = *packet;
        self.count_lost(bytes);
        if let Some(snapshot) = &snapshot {
            let (lost, delivered) = (self.sampler.lost(), self.sampler.delivered());
            self.cc.on_packet_lost(&Lost { now, snapshot, bytes, lost, delivered });
        }
        digest.lost = digest.lost.plus(bytes);
        digest.congestion |= index >= self.reduced_before;
    }

    fn count_lost(&mut self, bytes: u32) {
        self.inflight = self.inflight.minus(Amount::default().plus(bytes));
        self.lost = self.lost.plus(bytes);
        self.sampler.on_lost(bytes);
    }

    /// Tells the controller, and sets timers and demands after it.
    fn conclude(&mut self, now: Time, digest: &Digest) {
        if digest.acked.packets == 0 && digest.lost.packets == 0 && digest.rtt.is_none() {
            return;
        }
        let rate = self.sampler.sample(self.rtt.min().map(|(least, _)| least));
        if rate.is_some() {
            self.last_rate = rate;
        }
        self.ce += digest.ce;
        self.note_reduction(now, digest);
        self.cc.on_ack(&AckEvent {
            now,
            acked: digest.acked,
            lost: digest.lost,
            ce: digest.ce,
            congestion: digest.congestion,
            rtt: digest.rtt,
            estimator: &self.rtt,
            rate,
            inflight_before: digest.before,
            inflight: self.inflight,
            delivered: self.sampler.delivered(),
            round_end: digest.round_end,
            app_limited: !self.recently_limited(now),
        });
        self.undo_if_spurious(now);
        if digest.acked.packets > 0 {
            self.rto.restart(now, self.inflight.packets > 0);
        } else if self.inflight.packets == 0 {
            self.rto.stop();
        }
        let cwnd = self.cc.limits().cwnd.packets(self.mtu);
        if digest.round_end {
            self.demands.on_round(cwnd, digest.before.packets);
        }
        if self.cc.probing_rtt() {
            self.demands.on_collapse(cwnd);
        }
        self.trim_history(now);
    }

    fn note_reduction(&mut self, now: Time, digest: &Digest) {
        if digest.congestion {
            if self.reduction.as_ref().is_some_and(|r| !r.doubted && !r.marked) {
                self.loss.on_true_losses();
            }
            self.reduced_before = self.history.next();
            self.reduction = Some(Reduction { since: now, losses: 0, doubted: false, marked: false });
        }
        if let Some(reduction) = &mut self.reduction {
            reduction.losses += digest.lost.packets;
            reduction.marked |= digest.ce > 0;
        }
    }

    /// RFC 4340 section 11.4.1 permits to undo the reaction to what was not lost; strictly after RFC 4341 nothing is undone.
    fn undo_if_spurious(&mut self, now: Time) {
        let spurious = self.reduction.as_ref().is_some_and(|r| r.doubted && r.losses == 0 && !r.marked);
        if spurious && !self.strict {
            self.reduction = None;
            self.cc.on_spurious_loss(now);
        }
    }

    /// A packet has been late for as long as the reordering window permits.
    pub(super) fn on_reorder_timeout(&mut self, now: Time) {
        self.note_window(now);
        let mut digest = Digest { before: self.inflight, ..Digest::default() };
        self.detect_losses(now, &mut digest);
        self.conclude(now, &digest);
    }

    /// RFC 4341 section 5: a timeout empties the pipe.
    pub(super) fn on_rto(&mut self, now: Time) {
        self.note_window(now);
        let mut digest = Digest::default();
        let (mut at, next) = (self.history.base(), self.history.next());
        while let Some(index) = self.history.first_open(at..next) {
            if self.history.get(index).is_some_and(|p| p.snapshot.is_some() && p.fate == Fate::InFlight) {
                self.declare_lost(now, index, &mut digest);
            }
            at = index + 1;
        }
        self.loss.set_judged(next, None);
        self.timeouts += 1;
        self.rto.on_timeout();
        self.note_reduction(now, &Digest { congestion: true, ..digest });
        self.cc.on_rto(now);
        self.demands.on_collapse(self.cc.limits().cwnd.packets(self.mtu));
        self.trim_history(now);
    }

    /// Forgets what is settled; what was lost is remembered for one more timeout.
    pub(super) fn trim_history(&mut self, now: Time) {
        while let Some(packet) = self.history.trim(now - self.rtt.rto()) {
            if packet.snapshot.is_some() && packet.fate == Fate::InFlight {
                self.count_lost(packet.bytes);
            }
        }
    }
}
