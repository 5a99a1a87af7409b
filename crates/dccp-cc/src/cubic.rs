use crate::hystart::HyStart;
use crate::hystart_linux;
use crate::reno::TCP_INITIAL_WINDOW as INITIAL_WINDOW;
use crate::validation::Validation;
use crate::{AckEvent, CcConfig, Controller, Inherited, Limits, Part, RttEstimator, Sent, Window};
use mpdccp_units::{Duration, Rate, Time};

/// C, segments per cubic second (RFC 9438 section 5).
const C: f64 = 0.4;
/// Multiplicative decrease (section 4.6).
pub(crate) const BETA: f64 = 0.7;
/// Additive increase that gives the same mean window as Reno's (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Largest burst, bytes.
const MAX_BURST: u64 = 64 * 1024;
/// Upper limit for windows, far above what any path needs, to keep windows finite.
const MAX_CWND: f64 = 1e9;

/// CUBIC (RFC 9438) with HyStart++ (RFC 9406), for CCID 7. It paces as Linux does with the `fq` qdisc, so
/// that an acknowledgement of many packets causes no burst, and a return path that carries few
/// acknowledgements does not limit the sender. The initial window is ten segments (RFC 6928).
#[derive(Debug)]
pub struct Cubic {
    packets: bool,
    mtu: u16,
    hystart: HyStart,
    /// Linux's deviations. Its HyStart is `None` once slow start has ended.
    linux: Option<Linux>,
    state: State,
    /// The state before the last reduction (section 4.9).
    undo: Option<State>,
    /// Validation of unused windows (RFC 7661). Linux's variant does not use it.
    validation: Validation,
    /// Number of packets outstanding after the last packet was sent or the last acknowledgement arrived.
    inflight: u64,
    /// Whether a timeout occurred and nothing has been acknowledged since.
    timed_out: bool,
    last_ack: Time,
    last_sent: Time,
    rto: Duration,
    srtt: Option<Duration>,
    part: Part,
}

/// How Linux's TCP deviates from RFC 9438: HyStart has no second, slower stage; the target is the value of
/// the cubic function one minimum round-trip time ahead; and before the first loss, the window grows by at
/// least a twentieth per round trip.
#[derive(Debug)]
struct Linux {
    hystart: Option<hystart_linux::HyStart>,
}

/// Windows are in segments.
#[derive(Clone, Copy, Debug)]
struct State {
    cwnd: f64,
    /// Slow-start threshold. `None` means infinite.
    ssthresh: Option<f64>,
    /// Window before the last reduction.
    prior: f64,
    /// Window at the last congestion event. If `None`, the plateau of the next epoch is the window at the
    /// start of that epoch.
    w_max: Option<f64>,
    epoch: Option<Epoch>,
}

/// An epoch of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    plateau: f64,
    /// Time from the start of the epoch to the plateau, seconds.
    k: f64,
    /// C, or a smaller value if the subflow is coupled.
    c: f64,
    /// Reno's window (section 4.3).
    w_est: f64,
}

impl Epoch {
    /// Starts an epoch (section 4.2). `w_max` is its plateau.
    fn new(now: Time, cwnd: f64, w_max: Option<f64>, c: f64) -> Epoch {
        // Sections 4.8 and 4.10: after a timeout, or after a slow start without loss, the plateau is the
        // current window.
        let plateau = w_max.unwrap_or(cwnd).max(cwnd);
        Epoch { start: now, plateau, k: libm::cbrt((plateau - cwnd) / c), c, w_est: cwnd }
    }

    /// Returns W_cubic at time `t` after the start of the epoch.
    fn window(&self, t: Duration) -> f64 {
        let x = t.as_secs_f64() - self.k;
        self.c * x * x * x + self.plateau
    }
}

impl Cubic {
    /// Creates a controller.
    pub fn new(cfg: &CcConfig) -> Cubic {
        let state =
            State { cwnd: INITIAL_WINDOW as f64, ssthresh: None, prior: 0.0, w_max: None, epoch: None };
        Cubic {
            packets: cfg.packets,
            mtu: cfg.mtu,
            hystart: HyStart::new(),
            linux: None,
            state,
            undo: None,
            validation: Validation::default(),
            inflight: 0,
            timed_out: false,
            last_ack: Time::ZERO,
            last_sent: Time::ZERO,
            rto: RttEstimator::INITIAL_RTO,
            srtt: None,
            part: Part::ALONE,
        }
    }

    /// Creates a controller like Linux's TCP, with an initial window of ten segments (RFC 6928).
    pub fn tcp(mtu: u16) -> Cubic {
        let mut cubic = Cubic::new(&CcConfig { mtu, packets: true, draft: false, seed: 0 });
        cubic.linux = Some(Linux { hystart: Some(hystart_linux::HyStart::default()) });
        cubic
    }

    /// Creates a controller that behaves like Linux's TCP and counts bytes. It starts in congestion avoidance
    /// with a window of `bytes`.
    pub(crate) fn competing(cfg: &CcConfig, bytes: u64) -> Cubic {
        let mut cubic = Cubic::new(cfg);
        cubic.linux = Some(Linux { hystart: None });
        let window = bytes as f64 / f64::from(cfg.mtu.max(1));
        (cubic.state.cwnd, cubic.state.ssthresh) = (window, Some(window));
        cubic
    }

    /// Limits the window to this many bytes.
    pub(crate) fn cap(&mut self, bytes: f64) {
        self.state.cwnd = self.state.cwnd.min(bytes / f64::from(self.mtu.max(1))).max(1.0);
    }

    fn initial(&self) -> f64 {
        INITIAL_WINDOW as f64
    }

    /// Returns the pacing rate: two windows per round trip in slow start, and six fifths of a window per
    /// round trip afterwards.
    fn pacing_rate(&self) -> Option<Rate> {
        let srtt = self.srtt.filter(|srtt| self.linux.is_none() && !srtt.is_zero())?;
        let gain = if self.state.ssthresh.is_none_or(|t| self.state.cwnd < t / 2.0) { 2.0 } else { 1.2 };
        let rate = Rate::from_bytes_per((self.state.cwnd * f64::from(self.mtu)) as u64, srtt).scale(gain);
        // The rate is at least a segment per second. Otherwise a wrong round-trip time could stall a path.
        Some(rate.max(Rate::from_bytes_per(self.mtu.max(1).into(), Duration::from_secs(1))))
    }

    fn slow_start(&self) -> bool {
        self.state.ssthresh.is_none_or(|t| self.state.cwnd < t)
    }

    fn grow(&mut self, ev: &AckEvent<'_>) {
        let segments = ev.acked.segments(self.packets, self.mtu);
        if self.slow_start() && self.linux.is_some() {
            self.slow_start_as_linux(ev, segments);
        } else if self.slow_start() {
            let s = &mut self.state;
            if let Some(threshold) = s.ssthresh {
                s.cwnd = (s.cwnd + segments).min(threshold);
            } else {
                // RFC 9406 section 4.2: HyStart++ runs only before the first congestion.
                let over = self.hystart.on_ack(ev.forward_rtt(), ev.round_end);
                s.cwnd += self.hystart.growth(segments);
                if over {
                    s.ssthresh = Some(s.cwnd);
                    s.prior = s.cwnd;
                }
            }
        } else {
            let least = ev.estimator.min().filter(|_| self.linux.is_some()).map(|(least, _)| least);
            self.avoid_congestion(ev.now, segments, least.or(ev.estimator.srtt()).unwrap_or_default());
        }
        self.state.cwnd = self.state.cwnd.min(MAX_CWND);
    }

    fn slow_start_as_linux(&mut self, ev: &AckEvent<'_>, segments: f64) {
        let s = &mut self.state;
        let least = ev.estimator.min().map(|(least, _)| least);
        let over = self.linux.as_mut().and_then(|linux| {
            let hystart = linux.hystart.as_mut()?;
            let over = hystart.on_ack(ev.now, ev.rtt, ev.round_end, least, s.cwnd);
            over.then(|| linux.hystart = None)
        });
        if over.is_some() {
            s.ssthresh = Some(s.cwnd);
            s.prior = s.cwnd;
        } else {
            s.cwnd = (s.cwnd + segments).min(s.ssthresh.unwrap_or(MAX_CWND));
        }
    }

    /// Sections 4.2 to 4.5.
    fn avoid_congestion(&mut self, now: Time, segments: f64, rtt: Duration) {
        let linux = self.linux.is_some();
        let Part { increase, .. } = self.part;
        let s = &mut self.state;
        let epoch = s.epoch.get_or_insert_with(|| Epoch::new(now, s.cwnd, s.w_max, C * increase));
        // Section 4.3: Reno's full increase applies once the estimate reaches the window before the last
        // reduction.
        let alpha = if epoch.w_est >= s.prior && !linux { 1.0 } else { ALPHA };
        epoch.w_est += increase * alpha * segments / s.cwnd;
        let t = now.since(epoch.start);
        if linux {
            let cubic = epoch.window(t.saturating_add(rtt)) - s.cwnd;
            let before_loss = if s.w_max.is_none() { s.cwnd / 20.0 } else { 0.0 };
            // Growth is at most half a segment per acknowledged segment.
            let growth = cubic.max(before_loss).max(epoch.w_est - s.cwnd).clamp(0.01, 0.5 * s.cwnd);
            s.cwnd += growth / s.cwnd * segments;
        } else if epoch.window(t) < epoch.w_est {
            s.cwnd = s.cwnd.max(epoch.w_est);
        } else {
            let target = epoch.window(t.saturating_add(rtt)).clamp(s.cwnd, 1.5 * s.cwnd);
            // Growth is per acknowledged segment, so it does not depend on the Ack Ratio.
            s.cwnd = (s.cwnd + (target - s.cwnd) / s.cwnd * segments).min(target);
        }
    }

    /// RFC 7661 section 4.4.1: reduces a window that is not validated to the part in use, before a congestion
    /// event reduces it further. `inflight` is the number of packets outstanding.
    fn drop_unused(&mut self, inflight: u64) {
        if let Some(used) = self.validation.pipe_ack().filter(|_| self.linux.is_none())
            && !self.validation.is_valid(self.state.cwnd as u64)
        {
            self.state.cwnd = self.state.cwnd.min(used.max(inflight) as f64).max(1.0);
        }
    }

    /// Sections 4.6 and 4.7.
    fn reduce(&mut self, floor: f64) {
        self.undo = Some(self.state);
        let s = &mut self.state;
        // Fast convergence.
        let shrinking = s.w_max.is_some_and(|w| s.cwnd < w);
        s.w_max = Some(if shrinking { s.cwnd * (1.0 + BETA) / 2.0 } else { s.cwnd });
        s.prior = s.cwnd;
        let left = 1.0 - self.part.decrease * (1.0 - BETA);
        s.ssthresh = Some((s.cwnd * left).max(2.0));
        s.cwnd = (s.cwnd * left).max(floor);
        s.epoch = None;
    }

    /// RFC 7661 section 4.4.3: halves the window after five minutes without use.
    fn expire_unused(&mut self, now: Time) {
        let initial = self.initial();
        let s = &mut self.state;
        if self.linux.is_none() && self.validation.ran_out(now, s.cwnd as u64) {
            s.ssthresh = Some(s.ssthresh.unwrap_or(0.0).max(0.75 * s.cwnd));
            s.cwnd = s.cwnd.min((s.cwnd / 2.0).max(initial));
            s.epoch = None;
        }
    }

    /// Moves the start of the epoch so that time in which a lack of data kept the window from growing is not
    /// part of the epoch (section 5.8).
    fn shift_epoch(&mut self, now: Time) {
        let idle = now.since(self.last_ack);
        if let Some(e) = &mut self.state.epoch {
            e.start += idle;
        }
        self.last_ack = now;
    }
}

impl Controller for Cubic {
    fn on_sent(&mut self, pkt: &Sent) {
        self.last_sent = pkt.now;
        self.inflight = pkt.inflight.packets + 1;
        self.expire_unused(pkt.now);
    }

    fn on_ack(&mut self, ev: &AckEvent<'_>) {
        self.rto = ev.estimator.rto();
        self.srtt = ev.estimator.srtt();
        self.inflight = ev.inflight.packets;
        self.timed_out &= ev.acked.packets == 0;
        if ev.congestion {
            self.drop_unused(ev.inflight_before.packets);
            self.validation.restart();
            // Section 4.6: the window is at least two segments after a loss, and at least one after a mark.
            self.reduce(if ev.lost.packets > 0 { 2.0 } else { 1.0 });
        } else if ev.app_limited {
            self.shift_epoch(ev.now);
        } else if ev.acked.packets > 0 {
            self.grow(ev);
        }
        // RFC 7661 section 4.2: take no samples during loss recovery.
        if ev.lost.packets == 0 {
            self.validation.on_ack(ev, self.state.cwnd as u64);
        }
        self.expire_unused(ev.now);
        self.last_ack = ev.now;
    }

    fn on_rto(&mut self, now: Time) {
        // Section 4.8: a timeout. RFC 5681 section 3.1: ssthresh stays the same if another timeout follows
        // with no acknowledgement in between, because such a timeout gives no new information.
        if !core::mem::replace(&mut self.timed_out, true) {
            self.drop_unused(self.inflight);
            self.reduce(2.0);
        }
        self.state.cwnd = 1.0;
        self.state.w_max = None;
        self.validation.restart();
        if let Some(linux) = &mut self.linux {
            linux.hystart = Some(hystart_linux::HyStart::default());
        }
        self.last_sent = self.last_sent.max(now);
    }

    fn on_spurious_loss(&mut self, _now: Time) {
        let Some(before) = self.undo.take() else { return };
        let s = &mut self.state;
        if self.linux.is_some() {
            // Linux restores the window and the threshold. The plateau of the next epoch keeps the value that
            // the reduction set.
            s.cwnd = s.cwnd.max(before.cwnd);
            s.ssthresh = s.ssthresh.zip(before.ssthresh).map(|(now, before)| now.max(before));
        } else if s.cwnd < s.prior {
            // Section 4.9.
            *s = before;
        }
    }

    fn on_idle_restart(&mut self, now: Time) {
        self.shift_epoch(now);
        if self.linux.is_none() {
            return self.expire_unused(now);
        }
        // Linux reduces the window of an idle connection as described in RFC 2861.
        let initial = self.initial();
        let mut idle = now.since(self.last_sent);
        let s = &mut self.state;
        if idle < self.rto || s.cwnd <= initial {
            return;
        }
        s.ssthresh = s.ssthresh.map(|t| t.max(0.75 * s.cwnd)).or(Some(0.75 * s.cwnd));
        while idle >= self.rto && s.cwnd > initial {
            idle -= self.rto;
            s.cwnd = (s.cwnd / 2.0).max(initial);
        }
        s.epoch = None;
    }

    fn on_mtu(&mut self, mtu: u16) {
        if !self.packets {
            let scale = f64::from(self.mtu.max(1)) / f64::from(mtu.max(1));
            let s = &mut self.state;
            s.cwnd = (s.cwnd * scale).clamp(1.0, MAX_CWND);
            s.ssthresh = s.ssthresh.map(|t| (t * scale).max(2.0));
            s.prior *= scale;
            s.w_max = s.w_max.map(|w| w * scale);
            s.epoch = None;
            self.undo = None;
        }
        self.mtu = mtu;
    }

    fn couple(&mut self, part: &Part) {
        if (*part == Part::ALONE) != (self.part == Part::ALONE) {
            self.state.epoch = None;
        }
        self.part = *part;
    }

    fn on_slow_receiver(&mut self, buffer_drops: u64) {
        let s = &mut self.state;
        // RFC 4341 section 5.2, as for CCID 2.
        s.cwnd = (s.cwnd - buffer_drops as f64).max(1.0);
        s.ssthresh = Some(s.ssthresh.map_or(s.cwnd, |t| t.min(s.cwnd)).max(2.0));
        s.epoch = None;
    }

    fn limits(&self) -> Limits {
        let cwnd = if self.packets {
            Window::Packets((self.state.cwnd as u64).max(1))
        } else {
            let mtu = u64::from(self.mtu);
            Window::Bytes(((self.state.cwnd * f64::from(self.mtu)) as u64).max(mtu))
        };
        let pacing = self.pacing_rate();
        // As in Linux, the quantum is a millisecond of the rate and at least two segments. In addition, it is
        // at most a sixteenth of the window, for the sake of short queues.
        let most = (self.state.cwnd / 16.0 * f64::from(self.mtu)) as u64;
        let burst = pacing.map_or(0, |rate| rate.bytes_in(Duration::from_millis(1)).min(MAX_BURST).min(most));
        Limits { cwnd, pacing, quantum: (burst as u32).max(2 * u32::from(self.mtu)) }
    }

    fn phase(&self) -> &'static str {
        if self.slow_start() { "slow_start" } else { "congestion_avoidance" }
    }

    fn threshold(&self) -> Option<u64> {
        self.state.ssthresh.map(|threshold| threshold as u64)
    }

    fn settled(&self) -> bool {
        self.state.ssthresh.is_some()
    }

    fn inherit(&mut self, from: &Inherited) {
        self.state.cwnd = (from.window as f64 / f64::from(self.mtu.max(1))).clamp(1.0, MAX_CWND);
        // After a resumption, the controller has been in use, but its epoch belongs to another window.
        (self.state.w_max, self.state.epoch) = (None, None);
        if from.settled {
            self.state.ssthresh = Some(self.state.cwnd.max(2.0));
            self.state.prior = self.state.cwnd;
        }
        self.last_sent = from.now;
    }
}

#[cfg(test)]
#[path = "cubic_tests.rs"]
mod tests;
