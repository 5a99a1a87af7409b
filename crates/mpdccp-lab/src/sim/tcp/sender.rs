//! The sending half: what may leave, and what an acknowledgement means. The algorithm is a [`Controller`].

use core::time::Duration;

use dccp_cc::{
    AckEvent, Amount, Controller, Limits, Lost, Pacer, RateSample, RateSampler, RttEstimator, Sent,
};
use units::Time;

use super::board::{Board, Outstanding, State};
use super::detector::{Detector, Rule, Verdict};
use super::segment::{Ack, Data, HEADERS};
use super::timers::{Fired, Timers};
use crate::TcpCounters;

/// What the sender holds at most until it is acknowledged.
const SEND_BUFFER: u64 = 6 << 20;

#[derive(Debug)]
pub(crate) struct Sender {
    flow: u16,
    mss: u32,
    cc: Box<dyn Controller>,
    rtt: RttEstimator,
    sampler: RateSampler,
    pacer: Pacer,
    board: Board,
    detector: Detector,
    timers: Timers,
    /// All before is acknowledged; up to `next` it was sent; up to `written` the application wrote.
    acked: u64,
    next: u64,
    written: u64,
    next_no: u64,
    /// A round ends when a transmission from this one on arrives.
    round_end: u64,
    /// Losses of earlier transmissions belong to the last reduction.
    reduced_before: u64,
    /// Numbers recoveries; losses of the present one not yet shown to be spurious, none if undoing makes no sense.
    recovery: u64,
    to_undo: Option<u64>,
    /// When to judge again what is missing.
    judge_at: Option<Time>,
    /// Segments that leave whatever the window says: the first of a recovery, and probes.
    forced: u32,
    limited_at: Option<Time>,
    last_sent: Option<Time>,
    lost: u64,
    counters: TcpCounters,
    last_rate: Option<RateSample>,
}

/// What one acknowledgement changed.
#[derive(Default)]
struct Digest {
    acked: Amount,
    lost: Amount,
    congestion: bool,
    round_end: bool,
    /// Newest segment sent only once that arrived.
    sent_at: Option<Time>,
}

impl Sender {
    pub(crate) fn new(flow: u16, mss: u32, cc: Box<dyn Controller>, rule: Rule) -> Sender {
        Sender {
            flow,
            mss,
            cc,
            rtt: RttEstimator::default(),
            sampler: RateSampler::default(),
            pacer: Pacer::default(),
            board: Board::default(),
            detector: Detector::new(rule),
            timers: Timers::default(),
            acked: 0,
            next: 0,
            written: 0,
            next_no: 0,
            round_end: 0,
            reduced_before: 0,
            recovery: 0,
            to_undo: None,
            judge_at: None,
            forced: 0,
            limited_at: None,
            last_sent: None,
            lost: 0,
            counters: TcpCounters::default(),
            last_rate: None,
        }
    }

    /// The application writes `bytes`.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// The application has no more; what was not sent by now is not.
    pub(crate) fn finish(&mut self) {
        self.written = self.next;
    }

    /// Written and not sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.written - self.next
    }

    pub(crate) fn counters(&self) -> TcpCounters {
        self.counters
    }

    pub(crate) fn controller(&self) -> &dyn Controller {
        self.cc.as_ref()
    }

    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    pub(crate) fn inflight(&self) -> Amount {
        self.board.inflight()
    }

    /// Segments declared lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// The latest delivery-rate sample.
    pub(crate) fn last_rate(&self) -> Option<RateSample> {
        self.last_rate
    }

    /// Whether the application rather than the path keeps it from sending more.
    pub(crate) fn app_limited(&self, now: Time) -> bool {
        let round = self.rtt.srtt().unwrap_or(RttEstimator::MIN_RTO);
        self.limited_at.is_none_or(|at| now.since(at) > round)
    }

    fn timer(&self) -> Option<(Time, Fired)> {
        let missing = self.board.first_lost().is_some() || self.board.arrived() > 0;
        self.timers.due(&self.rtt, !missing, self.board.inflight().packets == 1)
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and [`poll`](Self::poll).
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let timer = self.timer().map(|(at, _)| at);
        timer.into_iter().chain(self.judge_at).chain(self.paced_until()).min()
    }

    /// When the pacer lets go of what the window has room for.
    fn paced_until(&self) -> Option<Time> {
        let wants = self.next_start().is_some() && self.cc.limits().cwnd.has_room(self.board.inflight());
        wants.then(|| self.pacer.next_send(Time::ZERO))
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.judge_at.is_some_and(|at| at <= now) {
            self.digest(now, Digest::default(), self.board.inflight());
        }
        match self.timer() {
            Some((at, Fired::Probe)) if at <= now => {
                self.timers.on_probe(now);
                self.forced = 1;
                if self.next_start().is_none()
                    && let Some(last) = self.board.last().copied()
                {
                    // RFC 8985 section 7.3: without new data, the last segment.
                    self.resend_later(&last);
                }
            }
            Some((at, Fired::Timeout)) if at <= now => self.on_timeout(now),
            _ => {}
        }
    }

    /// A segment in flight is to leave again, without being taken for lost by the controller.
    fn resend_later(&mut self, segment: &Outstanding) {
        if segment.state == State::Flying {
            self.board.lose(segment.no, None);
        }
    }

    fn on_timeout(&mut self, now: Time) {
        while let Some(segment) = self.board.flying_from(0).copied() {
            self.lose(now, &segment, None);
        }
        self.timers.on_timeout();
        self.forced = 1;
        (self.judge_at, self.to_undo) = (None, None);
        self.reduced_before = self.next_no;
        self.cc.on_rto(now);
    }

    fn lose(&mut self, now: Time, segment: &Outstanding, recovery: Option<u64>) {
        self.board.lose(segment.no, recovery);
        self.sampler.on_lost(segment.bytes());
        self.lost += 1;
        let (lost, delivered) = (self.sampler.lost(), self.sampler.delivered());
        let snapshot = &segment.snapshot;
        self.cc.on_packet_lost(&Lost { now, snapshot, bytes: segment.bytes(), lost, delivered });
    }

    /// Where the next segment begins, if there is one.
    fn next_start(&self) -> Option<u64> {
        let fresh = self.next < self.written && self.next - self.acked < SEND_BUFFER;
        self.board.first_lost().or(fresh.then_some(self.next))
    }

    /// The next segment that may leave now.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Data> {
        let inflight = self.board.inflight();
        let Some(start) = self.next_start() else {
            if self.app_limited(now) {
                self.sampler.set_app_limited(inflight);
            }
            return None;
        };
        let limits = self.cc.limits();
        if self.forced == 0 && !self.may_leave(now, &limits, inflight) {
            self.limited_at = Some(now);
            return None;
        }
        self.forced = self.forced.saturating_sub(1);
        let again = start < self.next;
        let len = if again { self.mss } else { (self.written - start).min(u64::from(self.mss)) as u32 };
        Some(self.transmit(now, start, len, again))
    }

    fn may_leave(&self, now: Time, limits: &Limits, inflight: Amount) -> bool {
        limits.cwnd.has_room(inflight) && (limits.pacing.is_none() || self.pacer.next_send(now) <= now)
    }

    fn transmit(&mut self, now: Time, start: u64, len: u32, again: bool) -> Data {
        let inflight = self.board.inflight();
        self.check_idle(now, inflight);
        let no = self.next_no;
        self.next_no += 1;
        // What is sent again has the size it had.
        let snapshot = self.sampler.on_sent(now, len + HEADERS as u32, inflight);
        let resent = if again { self.board.resend(start, no, snapshot) } else { None };
        let len = resent.map_or(len, |s| s.len);
        let bytes = len + HEADERS as u32;
        if again {
            self.counters.retransmits += 1;
        } else {
            let state = State::Flying;
            self.board.push(Outstanding {
                start,
                len,
                no,
                snapshot,
                transmissions: 1,
                state,
                recovery: None,
            });
            self.next = start + u64::from(len);
        }
        self.cc.on_sent(&Sent { now, bytes, inflight });
        let limits = self.cc.limits();
        if let Some(rate) = limits.pacing {
            self.pacer.on_sent(now, bytes, rate, limits.quantum);
        }
        self.timers.on_sent(now, inflight.packets == 0);
        self.last_sent = Some(now);
        Data { flow: self.flow, start, len, no }
    }

    fn check_idle(&mut self, now: Time, inflight: Amount) {
        let Some(last) = self.last_sent.filter(|_| inflight.packets == 0) else { return };
        // Window-based algorithms: RFC 5681 section 4.1. BBR: nothing in flight for want of data.
        let paces = self.cc.limits().pacing.is_some();
        if if paces { self.sampler.app_limited() } else { now.since(last) > self.rtt.rto() } {
            self.cc.on_idle_restart(now);
        }
    }

    pub(crate) fn on_ack(&mut self, now: Time, ack: &Ack) {
        let before = self.board.inflight();
        if !self.cc.limits().cwnd.has_room(before) {
            self.limited_at = Some(now);
        }
        let mut digest = Digest::default();
        let mut newly: Vec<Outstanding> = Vec::new();
        self.board.acknowledge(ack.upto, |s| newly.push(*s));
        self.acked = self.acked.max(ack.upto);
        let blocks = if ack.dsack { ack.blocks.get(1..).unwrap_or_default() } else { &ack.blocks };
        for block in blocks {
            self.board.select(*block, |s| newly.push(*s));
        }
        if ack.dsack {
            self.counters.dsack += 1;
            self.detector.on_duplicate(self.next_no);
        }
        let newest_before = self.detector.newest();
        for segment in &newly {
            self.arrived(now, ack, segment, newest_before, &mut digest);
        }
        if !newly.is_empty() {
            self.timers.on_progress(now, self.board.inflight().packets > 0);
        }
        self.digest(now, digest, before);
    }

    fn arrived(
        &mut self,
        now: Time,
        ack: &Ack,
        segment: &Outstanding,
        newest_before: Option<u64>,
        digest: &mut Digest,
    ) {
        let again = segment.transmissions > 1;
        digest.acked = digest.acked.plus(segment.bytes());
        digest.round_end |= segment.no >= self.round_end;
        self.sampler.on_acked(now, &segment.snapshot, segment.bytes());
        // An earlier transmission arrived, so the loss was none (as RFC 3522 tells by timestamps).
        let spurious = segment.state == State::Lost || (again && ack.echo < segment.no);
        if spurious {
            if segment.recovery.is_some() {
                self.detector.on_reordered();
            }
            if segment.recovery == Some(self.recovery)
                && let Some(left) = self.to_undo.as_mut()
            {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.to_undo = None;
                    self.cc.on_spurious_loss(now);
                }
            }
            return;
        }
        let sent_at = segment.snapshot.sent_at;
        if !again {
            if newest_before.is_some_and(|n| segment.no < n) {
                self.detector.on_reordered();
            }
            digest.sent_at = digest.sent_at.max(Some(sent_at));
        }
        self.detector.on_arrived(now, segment.no, sent_at, again, &self.rtt);
    }

    /// Finds losses and tells the controller.
    fn digest(&mut self, now: Time, mut digest: Digest, before: Amount) {
        let rtt: Option<Duration> = digest.sent_at.map(|at| now.since(at));
        if let Some(rtt) = rtt {
            self.rtt.update(now, rtt);
        }
        self.find_losses(now, &mut digest);
        if digest.acked.packets == 0 && digest.lost.packets == 0 {
            return;
        }
        if digest.round_end {
            self.round_end = self.next_no;
        }
        let rate = self.sampler.sample(self.rtt.min().map(|m| m.0));
        self.last_rate = rate.or(self.last_rate);
        self.cc.on_ack(&AckEvent {
            now,
            acked: digest.acked,
            lost: digest.lost,
            ce: 0,
            congestion: digest.congestion,
            rtt,
            estimator: &self.rtt,
            rate,
            inflight_before: before,
            inflight: self.board.inflight(),
            delivered: self.sampler.delivered(),
            round_end: digest.round_end,
            app_limited: self.app_limited(now),
        });
    }

    fn find_losses(&mut self, now: Time, digest: &mut Digest) {
        self.judge_at = None;
        let many = self.board.arrived() >= Detector::threshold();
        let mut from = 0;
        while let Some(segment) = self.board.flying_from(from).copied() {
            from = segment.no + 1;
            match self.detector.judge(now, segment.no, segment.snapshot.sent_at, &self.rtt, many) {
                Verdict::Lost => {
                    if segment.no >= self.reduced_before {
                        self.begin_recovery();
                        digest.congestion = true;
                    }
                    self.to_undo = self.to_undo.map(|n| n + 1);
                    digest.lost = digest.lost.plus(segment.bytes());
                    self.lose(now, &segment, Some(self.recovery));
                }
                Verdict::Wait(at) => {
                    self.judge_at = Some(at);
                    break;
                }
                Verdict::Open => break,
            }
        }
    }

    fn begin_recovery(&mut self) {
        self.detector.on_recovery();
        self.recovery += 1;
        self.to_undo = self.detector.undoes().then_some(0);
        self.reduced_before = self.next_no;
        // RFC 5681 section 3.2: the first lost segment leaves at once.
        self.forced = 1;
    }
}
