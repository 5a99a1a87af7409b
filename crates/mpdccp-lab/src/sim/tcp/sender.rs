//! Models the sending half of a connection. `acks.rs` processes acknowledgements, and the congestion control
//! is a [`Controller`].

use core::time::Duration;

use dccp_cc::{Amount, Controller, Limits, Lost, Pacer, RateSample, RateSampler, RttEstimator, Sent, Window};
use mpdccp_units::Time;

use super::frto::Frto;
use super::loss_detector::{Cause, Detector, Rule};
use super::prr::Prr;
use super::scoreboard::{Board, Outstanding, State};
use super::segment::{Data, HEADERS, milliseconds};
use super::timers::{Fired, Timers, timeout};
use super::undo::Undo;
use super::usage::Usage;
use crate::TcpCounters;

/// Send buffer size in bytes.
const SEND_BUFFER: u64 = 4 << 20;
/// Receive window before the first acknowledgement, not scaled.
const FIRST_WINDOW: u64 = 65_535;
/// Burst limits, as in `tcp_tso_autosize` and `tcp_tso_should_defer`: a burst has at most `MAX_BURST`
/// segments, and at most the window divided by `BURST_SHARE`.
const MAX_BURST: u64 = 44;
const BURST_SHARE: u64 = 3;
/// A burst may wait for more room in the window only for this long after the last packet
/// (`tcp_tso_should_defer`).
const RECENT: Duration = Duration::from_millis(1);
/// Number of packets that QUIC sends when its probe timeout expires (RFC 9002 section 6.2.4).
const QUIC_PROBES: u32 = 2;

/// Effect of one acknowledgement.
#[derive(Default)]
pub(super) struct Digest {
    pub(super) acked: Amount,
    pub(super) lost: Amount,
    pub(super) congestion: bool,
    /// Whether the acknowledgement reported congestion marks.
    pub(super) marked: bool,
    pub(super) round_end: bool,
    /// Whether the cumulative acknowledgement advanced.
    pub(super) advanced: bool,
    /// Whether no segment may be declared lost now.
    pub(super) holds: bool,
    /// Send time of the newest segment that has arrived and was sent only once.
    pub(super) sent_at: Option<Time>,
    /// Send time of the oldest such segment.
    pub(super) oldest_sent_at: Option<Time>,
}

#[derive(Debug)]
pub(crate) struct Sender {
    flow: u16,
    pub(super) mss: u32,
    pub(super) cc: Box<dyn Controller>,
    /// Round-trip times of the newest segment that each acknowledgement reports. The congestion control and
    /// the minimum use them.
    pub(super) rtt: RttEstimator,
    /// Round-trip times of the oldest segment that each acknowledgement reports, for timeouts. In QUIC, they
    /// are those of the newest.
    pub(super) oldest_rtt: RttEstimator,
    pub(super) sampler: RateSampler,
    pub(super) pacer: Pacer,
    pub(super) board: Board,
    pub(super) detector: Detector,
    pub(super) timers: Timers,
    /// `acked` is the end of the acknowledged data, `next` the end of the data sent, and `written` the end of
    /// the data that the application has written.
    pub(super) acked: u64,
    pub(super) next: u64,
    pub(super) written: u64,
    pub(super) next_no: u64,
    /// Number of a transmission. The round ends when this or a later transmission arrives.
    pub(super) round_end: u64,
    /// End of the window reduction in progress, which lasts until all data before this point is acknowledged
    /// (`recover` of RFC 6582).
    pub(super) recover: Option<u64>,
    /// Number of the first transmission after the latest reduction.
    pub(super) reduced_at: u64,
    /// Cause of the latest reduction.
    pub(super) cause: Cause,
    pub(super) prr: Option<Prr>,
    /// Window, in packets, after a timeout that did not reduce the congestion controller's window. It grows
    /// by slow start until it reaches that window.
    pub(super) restart: Option<u64>,
    pub(super) frto: Option<Frto>,
    /// Receive window beyond `acked`, and the number of the acknowledgement that announced it.
    pub(super) peer_window: u64,
    pub(super) echo: u32,
    /// Latest time, in ms, at which an acknowledgement that arrived was sent (TS.Recent of RFC 7323).
    pub(super) recent_ms: u32,
    /// Number of segments of the current burst yet to be sent.
    pub(super) burst: u64,
    /// Whether ECN is in use, and whether the next packet with new data announces a reduction (CWR).
    pub(super) ecn: bool,
    pub(super) cwr: bool,
    /// Data for undoing the latest reduction. `None` after an undo, or if the reduction's cause cannot be
    /// spurious.
    pub(super) undo: Option<Undo>,
    /// Number of the first transmission in the millisecond of the first retransmission since none was in
    /// flight (`retrans_stamp`).
    pub(super) first_again: Option<u64>,
    /// Millisecond of the latest transmission, and number of the first transmission in it. Timestamps have no
    /// finer resolution.
    tick: (u32, u64),
    /// Whether to send only new data until the next acknowledgement.
    pub(super) new_only: bool,
    /// Time at which to check again whether missing segments are lost.
    pub(super) judge_at: Option<Time>,
    /// Number of segments to send regardless of the window: the first segment of a recovery, and probes.
    pub(super) forced: u32,
    pub(super) limited_at: Option<Time>,
    pub(super) usage: Usage,
    pub(super) last_sent: Option<Time>,
    pub(super) lost: u64,
    pub(super) counters: TcpCounters,
    pub(super) last_rate: Option<RateSample>,
}

impl Sender {
    pub(crate) fn new(flow: u16, mss: u32, cc: Box<dyn Controller>, rule: Rule) -> Sender {
        Sender {
            flow,
            mss,
            cc,
            rtt: RttEstimator::default(),
            oldest_rtt: RttEstimator::default(),
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
            recover: None,
            reduced_at: 0,
            cause: Cause::Hole,
            prr: None,
            restart: None,
            frto: None,
            peer_window: FIRST_WINDOW,
            echo: 0,
            recent_ms: 0,
            burst: 0,
            ecn: false,
            cwr: false,
            undo: None,
            first_again: None,
            tick: (0, 0),
            new_only: false,
            judge_at: None,
            forced: 0,
            limited_at: None,
            usage: Usage::default(),
            last_sent: None,
            lost: 0,
            counters: TcpCounters::default(),
            last_rate: None,
        }
    }

    /// Takes `bytes` that the application writes.
    pub(crate) fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// Ends the application's data, and discards what has not been sent yet.
    pub(crate) fn finish(&mut self) {
        self.written = self.next;
    }

    /// Returns the number of bytes written but not sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.written - self.next
    }

    /// Returns the number of bytes written but not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.written - self.acked
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

    /// Returns the number of segments declared lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the latest delivery-rate sample.
    pub(crate) fn last_rate(&self) -> Option<RateSample> {
        self.last_rate
    }

    /// Returns whether the sender is limited by the application rather than the path.
    pub(crate) fn app_limited(&self, now: Time) -> bool {
        let round = self.oldest_rtt.srtt().unwrap_or(RttEstimator::MIN_RTO);
        self.limited_at.is_none_or(|at| now.since(at) > round)
    }

    fn timer(&self) -> Option<(Time, Fired)> {
        if self.detector.is_quic() {
            // While the time threshold of loss detection runs, there is no probe timeout (RFC 9002 section
            // 6.2.1).
            return self.timers.due_in_quic(&self.rtt).filter(|_| self.judge_at.is_none());
        }
        // Linux probes only in its states Open and CWR (`tcp_schedule_loss_probe`).
        let recovering = self.recover.is_some() && self.cause != Cause::Mark;
        let missing = self.board.first_lost().is_some() || self.board.arrived() > 0;
        self.timers.due(&self.oldest_rtt, !recovering && !missing, self.board.inflight().packets == 1)
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) and [`poll`](Self::poll).
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        let timer = self.timer().map(|(at, _)| at);
        timer.into_iter().chain(self.judge_at).chain(self.paced_until()).min()
    }

    /// Returns when the pacer allows the next segment, if the window has room for it.
    fn paced_until(&self) -> Option<Time> {
        let limits = self.cc.limits();
        let wants = self.next_start().is_some() && self.window(&limits).has_room(self.board.inflight());
        limits.pacing.filter(|_| wants).map(|_| self.pacer.next_send(Time::ZERO))
    }

    /// Returns the window that limits data in flight.
    pub(super) fn window(&self, limits: &Limits) -> Window {
        self.prr.map(|prr| prr.window()).or(self.restart).map_or(limits.cwnd, Window::Packets)
    }

    /// Returns the size of a full packet in IP bytes.
    pub(super) fn mtu(&self) -> u16 {
        (self.mss as usize + HEADERS) as u16
    }

    /// Enables ECN (RFC 3168), which both ends support.
    pub(crate) fn use_ecn(&mut self) {
        self.ecn = true;
    }

    /// Handles the end of the handshake, which took `rtt`.
    pub(crate) fn on_handshake(&mut self, now: Time, rtt: Duration) {
        self.rtt.update(now, rtt);
        self.oldest_rtt.update(now, rtt);
    }

    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.judge_at.is_some_and(|at| at <= now) {
            self.detector.set_due();
            self.digest(now, Digest::default(), self.board.inflight());
        }
        match self.timer() {
            Some((at, Fired::Probe)) if at <= now => {
                self.timers.on_probe(now, self.detector.is_quic());
                self.forced = if self.detector.is_quic() { QUIC_PROBES } else { 1 };
                if self.next_start().is_none()
                    && let Some(last) = self.board.last().copied()
                {
                    // If there is no new data, retransmit the last segment (RFC 8985 section 7.3).
                    self.resend_later(&last);
                }
            }
            Some((at, Fired::Timeout)) if at <= now => self.on_timeout(now),
            _ => {}
        }
    }

    /// Retransmits a segment that is in flight, without reporting a loss to the controller.
    fn resend_later(&mut self, segment: &Outstanding) {
        if segment.state == State::Flying {
            self.board.probe(segment.start);
        }
    }

    fn on_timeout(&mut self, now: Time) {
        let forgotten = self.board.first().is_some_and(|first| first.state == State::Arrived);
        if forgotten {
            self.board.forget_arrivals();
        }
        for segment in self.board.all_flying() {
            let recent = self.detector.is_recent(now, segment.snapshot.sent_at);
            // Linux spares recent segments other than the first (`tcp_timeout_mark_lost`).
            if forgotten || !recent || segment.start == self.acked {
                self.lose(now, &segment, false);
            }
        }
        // Whether this timeout follows another without progress in between (`icsk_retransmits`).
        let repeated = self.timers.backoff() > 0;
        self.timers.on_timeout();
        self.forced = 1;
        (self.judge_at, self.prr, self.new_only) = (None, None, false);
        // Do not use F-RTO for a timeout during a recovery (RFC 5682 section 2), because it would undo the
        // recovery's reduction. Use it for a repeated timeout, because it then undoes the reduction of the
        // first timeout.
        self.frto = ((self.recover.is_none() || repeated) && !self.detector.is_quic()).then(Frto::default);
        // Linux reduces the threshold once per window of data (`tcp_enter_loss`). BBR has no threshold.
        let reduced =
            self.recover.is_some() && self.cause != Cause::Timeout && self.cc.limits().pacing.is_none();
        if self.recover.is_none() || (self.cause == Cause::Timeout && !repeated) {
            let repairing = self.board.repairing() as u64;
            self.undo = self.detector.undoes().then(|| Undo::new(self.acked, repairing));
        }
        (self.recover, self.reduced_at, self.cause) = (Some(self.next), self.next_no, Cause::Timeout);
        self.cc.on_rto(now);
        self.restart = reduced.then(|| self.board.inflight().packets + 1);
        if reduced {
            self.cc.on_spurious_loss(now);
        }
    }

    /// Declares a segment lost. `judged` means that RACK detected the loss.
    pub(super) fn lose(&mut self, now: Time, segment: &Outstanding, judged: bool) {
        self.board.lose(segment.start, judged);
        self.sampler.on_lost(segment.bytes());
        self.lost += 1;
        let (lost, delivered) = (self.sampler.lost(), self.sampler.delivered());
        let snapshot = &segment.snapshot;
        self.cc.on_packet_lost(&Lost { now, snapshot, bytes: segment.bytes(), lost, delivered });
    }

    /// Returns where the next segment to send begins, if there is one.
    fn next_start(&self) -> Option<u64> {
        let ahead = self.next - self.acked + u64::from(self.mss);
        let fresh = self.next < self.written && ahead <= SEND_BUFFER.min(self.peer_window);
        let fresh = fresh.then_some(self.next);
        if self.new_only {
            return fresh;
        }
        if self.frto.is_some_and(Frto::probing) {
            return fresh.or(self.board.first_lost());
        }
        self.board.first_lost().or(fresh)
    }

    /// Returns the next segment that may leave now, if any.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Data> {
        let inflight = self.board.inflight();
        let Some(start) = self.next_start() else {
            if self.next >= self.written && self.app_limited(now) {
                self.sampler.set_app_limited(inflight);
            }
            return None;
        };
        let limits = self.cc.limits();
        let again = start < self.next;
        if self.forced == 0 && !self.may_leave(now, &limits, inflight, again) {
            self.limited_at = Some(now);
            self.note_usage(true);
            return None;
        }
        self.forced = self.forced.saturating_sub(1);
        let len = if again { self.mss } else { (self.written - start).min(u64::from(self.mss)) as u32 };
        let data = self.transmit(now, start, len, again);
        self.note_usage(!self.window(&limits).has_room(self.board.inflight()));
        Some(data)
    }

    fn note_usage(&mut self, limited: bool) {
        self.usage.update(limited, self.acked, self.next, self.board.len() as u64);
    }

    fn may_leave(&mut self, now: Time, limits: &Limits, inflight: Amount, again: bool) -> bool {
        let window = self.window(limits);
        if !window.has_room(inflight) {
            return false;
        }
        if limits.pacing.is_some() {
            return self.pacer.next_send(now) <= now;
        }
        if self.burst == 0 && !again && self.prr.is_none() {
            let room = window.packets(self.mtu()).saturating_sub(inflight.packets);
            let goal = self.burst_goal(window).min(self.unsent().div_ceil(u64::from(self.mss)));
            if room < goal && self.may_defer(now) {
                return false;
            }
            self.burst = goal;
        }
        true
    }

    /// Returns whether a burst may wait for more room in the window. This is the case if a packet was sent
    /// just now and the next acknowledgement is due within half a round-trip time.
    fn may_defer(&self, now: Time) -> bool {
        let recent = self.last_sent.is_some_and(|at| now.since(at) <= RECENT);
        let half = self.oldest_rtt.srtt().unwrap_or_default() / 2;
        recent && self.board.first().is_some_and(|first| now.since(first.snapshot.sent_at) >= half)
    }

    /// Returns the number of segments per burst: as many as the rate allows in a millisecond, but at most a
    /// third of the window.
    fn burst_goal(&self, window: Window) -> u64 {
        let Some(srtt) = self.oldest_rtt.srtt().filter(|rtt| !rtt.is_zero()) else { return 1 };
        let packets = window.packets(self.mtu());
        // As in Linux's `sk_pacing_rate`, the rate is twice the window per round trip in slow start, and 1.2
        // times the window afterwards.
        let gain = if self.cc.phase() == "slow_start" { 2.0 } else { 1.2 };
        let a_millisecond = gain * packets as f64 / srtt.as_secs_f64() / 1024.0;
        (a_millisecond as u64).clamp(2, MAX_BURST).min(packets / BURST_SHARE).max(1)
    }

    fn transmit(&mut self, now: Time, start: u64, len: u32, again: bool) -> Data {
        let inflight = self.board.inflight();
        self.check_idle(now, inflight);
        let no = self.next_no;
        self.next_no += 1;
        if self.tick.0 != milliseconds(now) {
            self.tick = (milliseconds(now), no);
        }
        let stamp = self.tick.1;
        // A retransmission has the original size.
        let snapshot = self.sampler.on_sent(now, len + HEADERS as u32, inflight);
        self.burst = self.burst.saturating_sub(1);
        self.prr.iter_mut().for_each(Prr::on_sent);
        let resent = if again { self.board.resend(start, no, stamp, snapshot) } else { None };
        let len = resent.map_or(len, |s| s.len);
        let bytes = len + HEADERS as u32;
        if again {
            self.counters.retransmits += 1;
            if resent.is_some_and(|s| !s.probe) {
                self.undo.iter_mut().for_each(Undo::on_resent);
                self.first_again.get_or_insert(stamp);
            }
        } else {
            let state = State::Flying;
            let (judged, missing, probe) = (false, false, false);
            self.board.push(Outstanding {
                start,
                len,
                no,
                snapshot,
                stamp,
                transmissions: 1,
                state,
                judged,
                missing,
                probe,
            });
            self.next = start + u64::from(len);
        }
        self.cc.on_sent(&Sent { now, bytes, inflight });
        let limits = self.cc.limits();
        if let Some(rate) = limits.pacing {
            self.pacer.on_sent(now, bytes, rate, limits.quantum);
        }
        // Retransmitting the first segment restarts the timeout (`tcp_xmit_retransmit_queue`).
        self.timers.on_sent(now, inflight.packets == 0 || start == self.acked);
        self.last_sent = Some(now);
        // Retransmissions are not ECN-capable (RFC 3168 section 6.1.5).
        let (ecn, cwr) = (Data::capable(self.ecn && !again), !again && std::mem::take(&mut self.cwr));
        Data { flow: self.flow, start, len, no, echo: self.echo, sent_ms: milliseconds(now), ecn, cwr }
    }

    fn check_idle(&mut self, now: Time, inflight: Amount) {
        let Some(last) = self.last_sent.filter(|_| inflight.packets == 0) else { return };
        // Window-based algorithms restart after idle time (RFC 5681 section 4.1). BBR restarts if nothing is
        // in flight because there is no data to send.
        let paces = self.cc.limits().pacing.is_some();
        if if paces { self.sampler.app_limited() } else { now.since(last) > timeout(&self.oldest_rtt) } {
            self.cc.on_idle_restart(now);
        }
    }
}
