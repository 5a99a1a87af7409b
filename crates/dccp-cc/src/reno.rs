use crate::validation::Validation;
use crate::{AckEvent, CcConfig, Controller, Inherited, Limits, Part, RttEstimator, Sent, Window};
use mpdccp_units::{Duration, Rate, Time};

/// Infinite threshold: an arbitrarily high value (RFC 4341 section 5).
const INFINITE: u64 = u32::MAX as u64;
/// Upper limit for windows, far above what any path needs, to keep sums in range.
const MAX_CWND: u64 = INFINITE;

/// TCP's initial window, packets (RFC 6928).
pub(crate) const TCP_INITIAL_WINDOW: u64 = 10;

/// TCP's AIMD congestion control (RFC 5681), counted in packets as RFC 4341 section 5 requires.
///
/// RFC 4341 section 5.1 leaves open how to treat an application that does not fill the window. Reno applies
/// RFC 7661: an unused window is kept for five minutes but paced, and a loss reduces it to half of the part
/// in use. A validated window is not paced.
#[derive(Debug)]
pub struct Reno {
    cwnd: u64,
    ssthresh: u64,
    initial: u64,
    mtu: u16,
    ack_ratio: u64,
    /// Whether to use TCP's slow start and initial window instead of RFC 4341's.
    tcp: bool,
    /// Acknowledged packets that have not increased the window yet.
    credit: u64,
    validation: Validation,
    /// Number of packets outstanding after the last packet was sent or the last acknowledgement arrived.
    inflight: u64,
    /// Time of the last packet, for [`Controller::on_idle_restart`]. TCP only.
    last_sent: Time,
    rto: Duration,
    srtt: Option<Duration>,
    /// Whether a timeout occurred and nothing has been acknowledged since.
    timed_out: bool,
    /// Window and threshold before the last reduction.
    before: Option<(u64, u64)>,
    part: Part,
}

impl Reno {
    /// Creates a controller.
    pub fn new(cfg: &CcConfig) -> Reno {
        let initial = initial_window(cfg.mtu);
        Reno {
            cwnd: initial,
            ssthresh: INFINITE,
            initial,
            mtu: cfg.mtu,
            ack_ratio: 2,
            tcp: false,
            credit: 0,
            validation: Validation::default(),
            inflight: 0,
            last_sent: Time::ZERO,
            rto: RttEstimator::INITIAL_RTO,
            srtt: None,
            timed_out: false,
            before: None,
            part: Part::ALONE,
        }
    }

    /// Creates a controller like Linux's TCP. Its initial window is ten packets (RFC 6928). In slow start,
    /// every acknowledged packet counts.
    pub fn tcp(mtu: u16) -> Reno {
        let cfg = CcConfig { mtu, packets: true, draft: false, seed: 0 };
        Reno { cwnd: TCP_INITIAL_WINDOW, initial: TCP_INITIAL_WINDOW, tcp: true, ..Reno::new(&cfg) }
    }

    /// Applies RFC 7661 section 4.4.3.
    fn look(&mut self, now: Time) {
        // RFC 4341 section 5.1: halve the window after five minutes without use.
        if !self.tcp && self.validation.ran_out(now, self.cwnd) {
            self.ssthresh = self.ssthresh.max(self.cwnd - self.cwnd / 4);
            self.cwnd = self.cwnd.min((self.cwnd / 2).max(self.initial));
            self.credit = 0;
        }
    }

    fn validated(&self) -> bool {
        self.tcp || self.validation.is_valid(self.cwnd)
    }

    /// Returns the window from which a reduction starts, for `inflight` packets outstanding. If the window is
    /// not validated, only the part in use counts (RFC 7661 section 4.4.1).
    fn in_use(&self, inflight: u64) -> u64 {
        let used = self.validation.pipe_ack().filter(|_| !self.validated());
        used.map_or(self.cwnd, |pipe| pipe.max(inflight).min(self.cwnd))
    }

    fn grow(&mut self, mut acked: u64) {
        if self.tcp {
            let growth = acked.min(self.ssthresh.saturating_sub(self.cwnd));
            self.cwnd += growth;
            acked -= growth;
        }
        if self.cwnd < self.ssthresh {
            // RFC 4341 section 5: grow by one packet for every two acknowledged packets, but by at most Ack
            // Ratio / 2 per acknowledgement.
            let most = self.ack_ratio.div_ceil(2);
            self.credit = self.credit.saturating_add(acked);
            let growth = (self.credit / 2).min(most);
            self.credit = if growth == most { 0 } else { self.credit % 2 };
            self.cwnd = (self.cwnd + growth).min(self.ssthresh);
        } else {
            // RFC 4341 section 5: grow by one packet for every window of data acknowledged. A coupled subflow
            // needs more acknowledged data.
            self.credit = self.credit.saturating_add(acked);
            let price = |cwnd: u64| (cwnd as f64 / self.part.increase) as u64;
            while self.credit >= price(self.cwnd) {
                self.credit -= price(self.cwnd);
                self.cwnd += 1;
            }
        }
        self.cwnd = self.cwnd.min(MAX_CWND);
    }
}

/// Returns the initial window of RFC 3390: min(4 segments, max(2 segments, 4380 bytes)), in segments. As in
/// TCP, a segment is a packet without 40 bytes of headers.
pub(crate) fn initial_window(mtu: u16) -> u64 {
    (4380 / u64::from(mtu.saturating_sub(40).max(1))).clamp(2, 4)
}

impl Controller for Reno {
    fn on_sent(&mut self, pkt: &Sent) {
        self.last_sent = pkt.now;
        self.inflight = pkt.inflight.packets + 1;
        self.look(pkt.now);
    }

    fn on_ack(&mut self, ev: &AckEvent<'_>) {
        self.srtt = ev.estimator.srtt();
        self.rto = ev.estimator.rto();
        self.inflight = ev.inflight.packets;
        self.timed_out &= ev.acked.packets == 0;
        if ev.congestion {
            self.before = Some((self.cwnd, self.ssthresh));
            let window = self.in_use(ev.inflight_before.packets);
            // RFC 4341 section 5: halve the window, rounding down. cwnd is at least one, and ssthresh is at
            // least two. Coupled subflows reduce their windows more.
            self.cwnd = (window as f64 * (1.0 - self.part.decrease / 2.0)).max(1.0) as u64;
            // RFC 4341 section 5: slow start ends here.
            self.ssthresh = self.cwnd.max(2);
            self.credit = 0;
            self.validation.restart();
        } else if ev.lost.packets > 0 || ev.ce > 0 {
            // RFC 4341 section 5: the window grows only after a window of data without lost or marked
            // packets.
            self.credit = 0;
        } else if !ev.app_limited {
            // RFC 4341 section 5.1: the window does not grow while it is not used.
            self.grow(ev.acked.packets);
        }
        // RFC 7661 section 4.2: take no samples during loss recovery.
        if ev.lost.packets == 0 {
            self.validation.on_ack(ev, self.cwnd);
        }
        self.look(ev.now);
    }

    fn on_rto(&mut self, now: Time) {
        // RFC 4341 section 5: a timeout. RFC 5681 section 3.1: ssthresh stays the same if another timeout
        // follows with no acknowledgement in between, because such a timeout gives no new information.
        if !core::mem::replace(&mut self.timed_out, true) {
            self.before = Some((self.cwnd, self.ssthresh));
            self.ssthresh = (self.in_use(self.inflight) / 2).max(2);
        }
        // RFC 4341 section 5: reduce the window to one packet.
        self.cwnd = 1;
        self.credit = 0;
        self.validation.restart();
        self.last_sent = self.last_sent.max(now);
    }

    fn on_spurious_loss(&mut self, _now: Time) {
        if let Some((cwnd, ssthresh)) = self.before.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    fn on_idle_restart(&mut self, now: Time) {
        if !self.tcp {
            return self.look(now);
        }
        // Linux reduces the window of an idle connection as described in RFC 2861: it halves the window for
        // every timeout spent idle, down to the initial window. ssthresh becomes three quarters of the
        // validated window.
        let mut idle = now.since(self.last_sent);
        if idle < self.rto || self.cwnd <= self.initial {
            return;
        }
        self.ssthresh = self.ssthresh.max(self.cwnd - self.cwnd / 4);
        while idle >= self.rto && self.cwnd > self.initial {
            idle -= self.rto;
            self.cwnd = (self.cwnd / 2).max(self.initial);
        }
        self.credit = 0;
    }

    fn on_mtu(&mut self, mtu: u16) {
        // RFC 4341 section 5.3: the window in packets does not change.
        self.mtu = mtu;
        self.initial = if self.tcp { TCP_INITIAL_WINDOW } else { initial_window(mtu) };
    }

    fn on_ack_ratio(&mut self, ratio: u16) {
        self.ack_ratio = u64::from(ratio.max(1));
    }

    fn couple(&mut self, part: &Part) {
        self.part = *part;
    }

    fn on_slow_receiver(&mut self, buffer_drops: u64) {
        // RFC 4341 section 5.2: reduce the window by one for each packet dropped in the receive buffer, and
        // end slow start.
        self.cwnd = self.cwnd.saturating_sub(buffer_drops).max(1);
        // RFC 4341 section 5.2: slow start also ends if the receiver reported no drops.
        self.ssthresh = self.ssthresh.min(self.cwnd.max(2));
    }

    fn limits(&self) -> Limits {
        // RFC 7661 section 4.4.2: pace while the window is not validated, so that no burst enters the path.
        let mtu = u64::from(self.mtu);
        // The rate must not be zero, even if the round-trip time is long.
        let rate = |srtt| Rate::from_bytes_per(self.cwnd * mtu, srtt).max(Rate::from_bps(1));
        let pacing = self.srtt.filter(|_| !self.validated()).map(rate);
        Limits { cwnd: Window::Packets(self.cwnd), pacing, quantum: u32::from(self.mtu) }
    }

    fn phase(&self) -> &'static str {
        if self.cwnd < self.ssthresh { "slow_start" } else { "congestion_avoidance" }
    }

    fn threshold(&self) -> Option<u64> {
        (self.ssthresh < INFINITE).then_some(self.ssthresh)
    }

    fn settled(&self) -> bool {
        self.ssthresh < INFINITE
    }

    fn inherit(&mut self, from: &Inherited) {
        self.cwnd = from.packets(self.mtu).min(MAX_CWND);
        if from.settled {
            self.ssthresh = self.cwnd.max(2);
        }
        self.last_sent = from.now;
        self.look(from.now);
    }
}
