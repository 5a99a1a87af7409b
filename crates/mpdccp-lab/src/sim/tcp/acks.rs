//! Processes acknowledgements in the sending half.

use core::time::Duration;

use dccp_cc::{AckEvent, Amount};
use mpdccp_units::Time;

use super::frto::Judged;
use super::loss_detector::{Cause, Detector, Verdict};
use super::prr::Prr;
use super::scoreboard::Outstanding;
use super::segment::Ack;
use super::sender::{Digest, Sender};
use super::timers::{SLACK, after};
use super::undo::Undo;

impl Sender {
    pub(crate) fn on_ack(&mut self, now: Time, ack: &Ack) {
        if self.protects(ack) {
            return;
        }
        self.recent_ms = self.recent_ms.max(ack.sent_ms);
        let before = self.board.inflight();
        if !self.window(&self.cc.limits()).has_room(before) {
            self.limited_at = Some(now);
        }
        if ack.no >= self.echo {
            (self.echo, self.peer_window) = (ack.no, ack.window);
        }
        let mut digest = Digest { advanced: ack.upto > self.acked, ..Digest::default() };
        let mut newly: Vec<Outstanding> = Vec::new();
        if self.recover.is_none() && self.board.arrived() == 0 {
            self.forget_retransmissions();
        }
        let (acked_before, arrived_to) = (self.acked, self.board.arrived_to(self.acked));
        // A duplicate of a retransmitted segment after a hole proves that the original was overtaken.
        let duplicate = ack.blocks.first().map(|(start, _)| *start);
        let doubled = duplicate.filter(|start| ack.dsack && self.board.arrived_again(*start));
        // Process the SACK blocks in the order of Linux, because the last segment processed sets RACK's
        // round-trip time.
        let mut blocks = ack.blocks.get(usize::from(ack.dsack)..).unwrap_or_default().to_vec();
        blocks.sort_unstable();
        for block in blocks {
            self.board.select(block, |s| newly.push(*s));
        }
        let selected = newly.len();
        self.board.acknowledge(ack.upto, |s| newly.push(*s));
        self.acked = self.acked.max(ack.upto);
        if ack.dsack {
            self.counters.dsack += 1;
            self.detector.on_duplicate();
            if let (Some(undo), Some((_, end))) = (&mut self.undo, ack.blocks.first()) {
                undo.on_duplicate(*end);
            }
        }
        self.judge_timeout(now, ack, &newly, digest.advanced);
        let overtaken = newly.iter().filter(|s| s.transmissions == 1 && s.start < arrived_to);
        if let Some(start) = overtaken.map(|s| s.start).chain(doubled).min() {
            self.detector.on_reordered(self.distance_from(start));
        }
        for (i, segment) in newly.iter().enumerate() {
            // An echo older than the retransmission proves that the original arrived
            // (`tcp_skb_spurious_retrans`). It says nothing about the retransmission.
            let late = self.detector.undoes() && segment.transmissions > 1 && ack.echo < segment.stamp;
            self.arrived(now, segment, i >= selected && late, &mut digest);
        }
        self.detector.adapt(newly.iter().map(|s| s.no).max(), self.next_no);
        if !newly.is_empty() && self.restarts_timeout(&digest) {
            self.timers.on_progress(now, self.board.len() > 0);
        }
        digest.holds = !self.judge_recovery(now, ack, acked_before);
        // Reduce the window as for a loss, once per round trip (RFC 3168 section 6.1.2). The reduction lasts
        // until data sent after the reduction is acknowledged. This data carries CWR to the receiver, which
        // repeats ECE until CWR arrives.
        if self.ecn && ack.ece && self.recover.is_none() {
            (self.recover, self.reduced_at) = (Some(self.next + 1), self.next_no);
            (self.cwr, self.undo) = (true, None);
            (self.cause, digest.congestion, digest.marked) = (Cause::Mark, true, true);
        }
        self.digest(now, digest, before);
    }

    /// Returns whether protection against wrapped sequence numbers drops an overtaken acknowledgement
    /// (RFC 7323 section 5). Linux accepts an old timestamp only from an acknowledgement that moves neither
    /// edge of the window (`tcp_disordered_ack`), and tolerates an age of 1 ms. QUIC has no such protection.
    fn protects(&self, ack: &Ack) -> bool {
        let old = ack.sent_ms + 1 < self.recent_ms;
        self.detector.undoes() && old && (ack.upto != self.acked || ack.window > self.peer_window)
    }

    /// Returns whether an acknowledgement that reports arrivals restarts the timeout. Without progress, it
    /// does so only if it reports data that was sent before the first segment was sent last, because the
    /// timeout could otherwise be put off during a whole recovery (`tcp_clean_rtx_queue`).
    fn restarts_timeout(&self, digest: &Digest) -> bool {
        let sent_later = |at: Time| self.board.first().is_some_and(|first| at < first.snapshot.sent_at);
        digest.advanced || self.detector.is_quic() || digest.oldest_sent_at.is_some_and(sent_later)
    }

    /// Judges whether the last timeout was spurious.
    fn judge_timeout(&mut self, now: Time, ack: &Ack, newly: &[Outstanding], advanced: bool) {
        let end = self.recover.unwrap_or_default();
        let original = newly.iter().any(|s| s.transmissions == 1 && s.end() <= end);
        let delayed = advanced && self.undo.is_some() && self.delayed(ack.echo);
        let Some(frto) = &mut self.frto else { return };
        match frto.on_ack(original || delayed, advanced) {
            Judged::Open => return,
            Judged::Real => {}
            Judged::Spurious => {
                self.board.revive();
                self.take_back(now);
            }
        }
        self.frto = None;
    }

    /// Judges whether the recovery is over, and whether it was spurious. Returns whether to look for further
    /// losses.
    fn judge_recovery(&mut self, now: Time, ack: &Ack, acked_before: u64) -> bool {
        let advanced = self.acked > acked_before;
        self.new_only = false;
        let over = self.recover.is_some_and(|end| match self.detector.is_quic() {
            // RFC 9002 section 7.3.2.
            true => self.detector.newest().is_some_and(|no| no >= self.reduced_at),
            false => self.acked >= end,
        });
        if let Some(undo) = self.undo {
            if self.recover.is_some() && advanced && self.delayed(ack.echo) {
                let partly = !over && self.cause == Cause::Hole;
                if partly && self.board.arrived() > 0 {
                    self.detector.on_reordered(self.distance_from(acked_before));
                }
                // The segment that filled the hole was only late, but other retransmissions in flight may be
                // needed. Until these arrive, declare nothing else lost, and send only new data
                // (`tcp_try_undo_partial`). RACK's timer ends, because Linux has one timer for RACK and for
                // timeouts, and this acknowledgement sets it for a timeout.
                if partly && self.board.repairing() > 0 {
                    (self.new_only, self.judge_at) = (true, None);
                    return false;
                }
                // At the end of a fast recovery, segments that were declared lost stay lost.
                if !over || self.cause == Cause::Timeout {
                    self.board.revive();
                }
                self.take_back(now);
            } else if undo.all_duplicate() {
                let timed_out = self.recover.is_some() && self.cause == Cause::Timeout;
                // After a timeout, Linux looks for duplicates only if the acknowledgement advances
                // (`tcp_process_loss`).
                if timed_out && advanced {
                    self.board.revive();
                } else if !timed_out && !over {
                    self.detector.on_duplicates_only();
                }
                if !timed_out || advanced {
                    self.take_back(now);
                }
            }
        }
        if over {
            if self.recover.is_some() {
                self.detector.on_repaired();
            }
            (self.recover, self.prr) = (None, None);
            // At the end of a recovery, BBR restores its window (`bbr_set_cwnd_to_recover_or_restore`).
            self.cc.on_repaired(now);
        }
        true
    }

    /// Returns whether the transmission `echo`, which advanced the cumulative acknowledgement, was sent
    /// before all retransmissions, in an earlier millisecond.
    fn delayed(&self, echo: u64) -> bool {
        self.first_again.is_none_or(|first| echo < first)
    }

    /// Forgets the first retransmission if no retransmission is in flight any more
    /// (`tcp_retrans_stamp_cleanup`).
    fn forget_retransmissions(&mut self) {
        if self.board.repairing() == 0 && self.board.first().is_none_or(|first| first.transmissions == 1) {
            self.first_again = None;
        }
    }

    /// Returns the number of segments from `start` to the highest segment that has arrived.
    fn distance_from(&self, start: u64) -> u64 {
        self.board.arrived_to(self.acked).saturating_sub(start).div_ceil(u64::from(self.mss))
    }

    /// Handles the arrival of a segment. `late` means that its original arrived after a retransmission.
    fn arrived(&mut self, now: Time, segment: &Outstanding, late: bool, digest: &mut Digest) {
        let again = segment.transmissions > 1;
        digest.acked = digest.acked.plus(segment.bytes());
        digest.round_end |= segment.no >= self.round_end;
        self.sampler.on_acked(now, &segment.snapshot, segment.bytes());
        let sent_at = segment.snapshot.sent_at;
        if !again {
            digest.sent_at = digest.sent_at.max(Some(sent_at));
            let oldest = digest.oldest_sent_at.map_or(sent_at, |at| at.min(sent_at));
            digest.oldest_sent_at = Some(if self.detector.is_quic() { sent_at } else { oldest });
        }
        if !late {
            self.detector.on_arrived(now, segment.no, sent_at, again, &self.rtt);
        }
    }

    /// Undoes the most recent window reduction, and makes RACK look for losses again.
    fn take_back(&mut self, now: Time) {
        (self.undo, self.recover, self.prr, self.restart, self.frto) = (None, None, None, None, None);
        self.detector.set_due();
        self.cc.on_spurious_loss(now);
    }

    /// Detects losses and informs the controller.
    pub(super) fn digest(&mut self, now: Time, mut digest: Digest, before: Amount) {
        let rtt: Option<Duration> = digest.sent_at.map(|at| now.since(at));
        if let Some(rtt) = rtt {
            self.rtt.update(now, rtt);
        }
        if let Some(at) = digest.oldest_sent_at {
            self.oldest_rtt.update(now, now.since(at));
        }
        if !digest.holds && self.detector.take_due() {
            self.find_losses(now, &mut digest);
        }
        // Segments still missing at the end of a recovery, or when it is undone, begin a new recovery
        // (`tcp_time_to_recover`).
        if self.recover.is_none() && self.board.missing() > 0 && !self.detector.is_quic() {
            self.begin_recovery();
            digest.congestion = true;
        }
        if digest.acked.packets == 0 && digest.lost.packets == 0 && !digest.congestion {
            return;
        }
        // In Linux, BBR also starts a round when it enters recovery, so that it conserves packets for a whole
        // round (`bbr_set_cwnd_to_recover_or_restore`).
        if digest.round_end || (digest.congestion && !digest.marked) {
            self.round_end = self.next_no;
        }
        let rate = self.sampler.sample(self.rtt.min().map(|m| m.0));
        self.last_rate = rate.or(self.last_rate);
        let window_before = self.cc.limits().cwnd.packets(self.mtu());
        // The window does not grow during recovery. At other times, it grows when data arrives in order. If
        // the detector permits, it also grows when data arrives after a hole. BBR needs all events.
        let grows = self.prr.is_none() && (digest.advanced || self.detector.grows_after_holes());
        let restarts = self.restart.is_some();
        if let Some(window) = self.restart.filter(|_| grows) {
            self.restart = Some(window + digest.acked.packets).filter(|window| *window < window_before);
        }
        let counts = digest.congestion || (grows && !restarts) || self.cc.limits().pacing.is_some();
        self.cc.on_ack(&AckEvent {
            now,
            acked: if counts { digest.acked } else { Amount::default() },
            lost: digest.lost,
            ce: u64::from(digest.marked),
            congestion: digest.congestion,
            rtt,
            returning: Duration::ZERO,
            estimator: &self.rtt,
            rate,
            inflight_before: before,
            inflight: self.board.inflight(),
            delivered: self.sampler.delivered(),
            round_end: digest.round_end,
            app_limited: !self.usage.fills(window_before, self.cc.phase() == "slow_start"),
        });
        self.reduce(&digest, window_before);
    }

    /// Applies proportional rate reduction, for algorithms without pacing.
    fn reduce(&mut self, digest: &Digest, window_before: u64) {
        let limits = self.cc.limits();
        if digest.congestion && limits.pacing.is_none() {
            self.prr = Some(Prr::new(window_before, limits.cwnd.packets(self.mtu())));
            self.restart = None;
        }
        let inflight = self.board.inflight().packets;
        if let Some(prr) = &mut self.prr {
            prr.on_ack(digest.acked.packets, inflight, digest.advanced && digest.lost.packets == 0);
        }
    }

    fn find_losses(&mut self, now: Time, digest: &mut Digest) {
        self.judge_at = None;
        // A reduction because of a mark is no recovery in this respect (`tcp_rack_reo_wnd`).
        let recovering = self.recover.is_some() && self.cause != Cause::Mark;
        let certain = recovering || self.board.arrived() >= Detector::threshold();
        let (mut from, mut latest) = (0, None);
        while let Some(segment) = self.board.flying_from(from).copied() {
            from = segment.no + 1;
            match self.judge(now, &segment, certain) {
                Verdict::Lost => {
                    // In QUIC, the loss of a packet sent before the latest reduction causes no further
                    // reduction.
                    let counts = !self.detector.is_quic() || segment.no >= self.reduced_at;
                    // If a retransmission is lost after a timeout, Linux begins a fast recovery, which
                    // reduces the window once more (`tcp_fastretrans_alert`).
                    let relapses = self.cause == Cause::Timeout && segment.transmissions > 1;
                    if counts && (self.recover.is_none() || relapses && !self.detector.is_quic()) {
                        self.begin_recovery();
                        digest.congestion = true;
                    }
                    digest.lost = digest.lost.plus(segment.bytes());
                    self.lose(now, &segment, true);
                }
                // RFC 9002 section 6.1.2: QUIC's timer is for the earliest segment.
                Verdict::Wait(at) if self.detector.is_quic() => {
                    self.judge_at = Some(at);
                    break;
                }
                // Linux's timer is for the latest segment (`tcp_rack_detect_loss`).
                Verdict::Wait(at) => latest = latest.max(Some(at)),
                Verdict::Open => break,
            }
        }
        if let Some(at) = latest {
            self.judge_at = Some(after(now, at.since(now) + SLACK));
        }
    }

    fn judge(&self, now: Time, segment: &Outstanding, certain: bool) -> Verdict {
        let srtt = self.oldest_rtt.srtt();
        self.detector.judge(now, segment.no, segment.snapshot.sent_at, &self.rtt, srtt, certain)
    }

    fn begin_recovery(&mut self) {
        self.forget_retransmissions();
        let repeated = self.board.repairing() as u64 + u64::from(self.board.probed());
        self.undo = self.detector.undoes().then(|| Undo::new(self.acked, repeated));
        (self.recover, self.reduced_at, self.cause) = (Some(self.next), self.next_no, Cause::Hole);
        // Retransmit the first lost segment immediately (RFC 5681 section 3.2).
        (self.forced, self.frto) = (1, None);
    }
}
