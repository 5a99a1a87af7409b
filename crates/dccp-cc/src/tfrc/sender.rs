use super::equation::throughput;
use super::not_limited::NotLimited;
use super::receive_rates::ReceiveRates;
use super::segment_size::SegmentSize;
use crate::Inherited;
use mpdccp_units::{Duration, Rate, Time};

/// Maximum time between two packets, seconds (RFC 5348 section 4.3, t_mbi).
const MAX_BACKOFF: f64 = 64.0;
/// Weight of the old value in the moving average of R (RFC 5348 section 4.3 recommends 0.9).
const Q: f64 = 0.9;
/// Weight of the old value in the moving average of the root of R (RFC 5348 section 4.5 recommends 0.9).
const Q2: f64 = 0.9;
/// Weight of the old value if oscillation reduction is off: "very low" (RFC 5348 section 4.5).
const LOW_Q: f64 = 0.1;
/// Minimum nofeedback timer, which is not in the RFC. It is needed on loopback, where four round trips are
/// shorter than the time after which a busy driver runs its timers.
const MIN_TIMER: Duration = Duration::from_millis(100);
/// Minimum round-trip time used, seconds.
const MIN_RTT: f64 = 10e-6;
/// Upper limit of the rate, bytes per second. It exceeds the rate of any link and keeps the arithmetic
/// finite.
const MAX_RATE: f64 = 1e12;
/// Segment size in the equation for small packets (RFC 5622 section 5).
const NOMINAL_SEGMENT: f64 = 1460.0;
/// Header size for small packets (RFC 5622 section 5).
const HEADER: f64 = 36.0;

/// Settings of a [`TfrcSender`].
#[derive(Clone, Copy, Debug)]
pub struct TfrcConfig {
    /// Whether to use TFRC-SP, in which the equation uses a nominal segment and the rate is reduced by the
    /// share of headers (RFC 4828 sections 4.1 and 4.2).
    pub small_packets: bool,
    /// Whether to send less while the round-trip time is above its average (RFC 5348 section 4.5).
    pub oscillation_reduction: bool,
    /// Application bytes of a full packet.
    pub payload: u32,
    /// Bytes of a full packet on the wire.
    pub wire: u32,
}

/// Content of a feedback packet.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Round-trip time sample without the receiver's delay, or `None` if there is none.
    pub rtt: Option<Duration>,
    /// Time at which the newest packet that the report covers was sent.
    pub sent: Time,
    /// X_recv, application bytes per second.
    pub receive_rate: f64,
    /// The loss event rate p.
    pub loss_event_rate: f64,
    /// Whether the report contains a loss event that was not reported before.
    pub new_loss_event: bool,
}

/// The sender's side of TFRC (RFC 5348 section 4). It computes the sending rate. Rates are in application
/// bytes per second.
#[derive(Clone, Debug)]
pub struct TfrcSender {
    cfg: TfrcConfig,
    /// The allowed rate X. `None` while no round-trip time is known; the rate is then one segment per second.
    x: Option<f64>,
    /// Rate from the equation. It is infinite without losses.
    x_bps: f64,
    p: f64,
    /// Smoothed round-trip time R, seconds.
    rtt: Option<f64>,
    newest_rtt: f64,
    /// Mean of the square root of the round-trip time (R_sqmean).
    root_mean: f64,
    heard: bool,
    received: ReceiveRates,
    /// Time of the last doubling (tld).
    doubled_at: Time,
    size: SegmentSize,
    not_limited: NotLimited,
    timer: Option<Time>,
    /// Whether data was sent since the timer was set.
    active: bool,
    /// Number of packets dropped in the receive buffer, to be applied with the next report. `None` unless the
    /// receiver reported that it is slow.
    slow_receiver: Option<u64>,
    timeouts: u64,
    /// Whether the previous congestion control was settled, or `None` if there was none.
    inherited: Option<bool>,
}

impl TfrcSender {
    /// Creates a sender that has not sent data. `rtt` is the round-trip time of the handshake, if measured.
    pub fn new(cfg: TfrcConfig, now: Time, rtt: Option<Duration>) -> TfrcSender {
        let mut sender = TfrcSender {
            cfg,
            x: None,
            x_bps: f64::INFINITY,
            p: 0.0,
            rtt: None,
            newest_rtt: 0.0,
            root_mean: 0.0,
            heard: false,
            received: ReceiveRates::new(),
            doubled_at: now,
            size: SegmentSize::new(cfg.payload, cfg.wire),
            not_limited: NotLimited::default(),
            timer: None,
            active: false,
            slow_receiver: None,
            timeouts: 0,
            inherited: None,
        };
        if let Some(rtt) = rtt {
            sender.measure(rtt);
            // RFC 5348 section 4.2: the round-trip time of the handshake is sufficient for the initial rate.
            sender.x = Some(sender.initial_rate());
        }
        sender
    }

    /// Takes over from another congestion control on the same path. This must be called before any other
    /// input.
    pub fn inherit(&mut self, from: &Inherited) {
        let (Some(rate), Some(srtt)) = (from.rate(), from.srtt) else { return };
        self.measure(srtt);
        self.x = Some((rate * self.size.payload() / self.size.wire()).clamp(self.initial_rate(), MAX_RATE));
        self.inherited = Some(from.settled);
        self.doubled_at = from.now;
    }

    /// Returns whether the initial search is over.
    pub fn settled(&self) -> bool {
        self.p > 0.0 || self.inherited == Some(true)
    }

    /// Returns the rate at which data may be sent now (X_inst).
    pub fn rate(&self) -> f64 {
        // RFC 4342 section 5: the rate is at least one packet per 64 seconds.
        let least = self.segment() / MAX_BACKOFF;
        let x = self.x.unwrap_or(self.segment()).clamp(least, MAX_RATE);
        // RFC 5348 section 4.5: send less while the newest round-trip time is above the mean, and more while
        // it is below.
        if self.cfg.oscillation_reduction && self.newest_rtt > 0.0 {
            (x * self.root_mean / libm::sqrt(self.newest_rtt)).clamp(least, MAX_RATE)
        } else {
            x
        }
    }

    /// Returns the rate in bytes on the wire, for the recent mean packet size.
    pub fn wire_rate(&self) -> Rate {
        Rate::from_bps((self.rate() * self.size.wire() / self.size.payload() * 8.0).max(1.0) as u64)
    }

    /// Returns the smoothed round-trip time R.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt.map(Duration::from_secs_f64)
    }

    /// Returns the current loss event rate p.
    pub fn loss_event_rate(&self) -> f64 {
        self.p
    }

    /// Returns the number of times that the nofeedback timer expired with data in flight.
    pub fn timeouts(&self) -> u64 {
        self.timeouts
    }

    /// Returns whether only the application limited sending since `since`.
    pub fn data_limited_since(&self, since: Time) -> bool {
        !self.not_limited.since(since)
    }

    /// Returns the name of the state that determines the rate.
    pub fn phase(&self) -> &'static str {
        match self.x {
            None => "initial",
            Some(_) if self.p == 0.0 => "slow_start",
            Some(x) if x < self.x_bps => "receive_rate",
            Some(_) => "equation",
        }
    }

    /// Returns when to call [`on_timeout`](Self::on_timeout).
    pub fn next_timeout(&self) -> Option<Time> {
        self.timer
    }

    /// A data packet was sent. `limited` is true if the packet was sent as early as the rate permits, which
    /// means that the sender used its full rate.
    pub fn on_sent(&mut self, now: Time, payload: u32, wire: u32, limited: bool) {
        let first = self.size.is_empty();
        self.size.on_sent(payload, wire);
        if first && self.x.is_some() && self.inherited.is_none() {
            // RFC 5348 section 4.2: use the actual segment size as soon as it is known.
            self.x = Some(self.initial_rate());
        }
        self.received.on_sent(now);
        self.active = true;
        // RFC 5348 section 4.2: the nofeedback timer starts here.
        if self.timer.is_none() {
            self.timer = Some(now + self.timeout());
        }
        // RFC 5348 section 8.2.1: if the rate limited the sender, the receive rate of this period shows the
        // path's capacity.
        if limited {
            self.not_limited.note(now);
        }
    }

    /// The receiver reports that it is slow, or that it dropped `buffer_drops` packets in its buffer
    /// (RFC 4342 section 5.2). Call this before [`on_report`](Self::on_report) for the same packet.
    pub fn on_slow_receiver(&mut self, buffer_drops: u64) {
        let drops = self.slow_receiver.unwrap_or(0).saturating_add(buffer_drops);
        self.slow_receiver = Some(drops);
    }

    /// A feedback packet arrived (RFC 5348 section 4.3).
    pub fn on_report(&mut self, now: Time, report: &Report) {
        let known = self.rtt.is_some();
        if let Some(sample) = report.rtt {
            self.measure(sample);
        }
        self.heard |= report.rtt.is_some();
        let Some(rtt) = self.rtt else { return };
        let round = Duration::from_secs_f64(rtt);
        // RFC 5348 section 4.1: the mean size is taken over the last loss intervals.
        if report.new_loss_event {
            self.size.on_loss_event();
        }
        let worse = report.new_loss_event || report.loss_event_rate > self.p;
        self.p = report.loss_event_rate.clamp(0.0, 1.0);
        let limit = self.receive_limit(now, report, round, worse);
        // RFC 5348 section 4.3: the first feedback sets the initial rate.
        if !known {
            self.x = Some(self.initial_rate());
            self.doubled_at = now;
        }
        if self.p > 0.0 {
            self.apply_equation(limit);
        } else {
            self.slow_start(now, limit, round);
        }
        self.restart_timer(now);
    }

    /// The nofeedback timer expired (RFC 5348 section 4.4).
    pub fn on_timeout(&mut self, now: Time) {
        if self.timer.is_none_or(|at| now < at) {
            return;
        }
        let idle = !self.active;
        self.timeouts += u64::from(!idle);
        let least = self.segment() / MAX_BACKOFF;
        let half = (self.x.unwrap_or(self.segment()) / 2.0).max(least);
        let received = self.received.max();
        let recover = self.initial_rate();
        let untouched = match self.rtt {
            None => true,
            Some(_) if self.p > 0.0 => received < recover,
            Some(_) => self.x.unwrap_or(0.0) < 2.0 * recover,
        };
        // RFC 4342 section 5.1: idle time does not reduce the rate below the initial rate. The timer stops
        // until data is sent again.
        if idle && untouched {
            self.timer = None;
            return;
        }
        // RFC 5348 section 4.4: without losses, halve the rate. Otherwise halve the receive rate.
        if self.p == 0.0 {
            self.x = Some(half);
        } else {
            // The procedure "Update_Limits" of the RFC.
            let limit = if self.x_bps > 2.0 * received { received } else { self.x_bps / 2.0 }.max(least);
            self.received.replace(now, limit / 2.0);
            self.apply_equation(limit);
        }
        self.restart_timer(now);
    }

    /// Updates R (steps 1 and 2 of RFC 5348 section 4.3) and R_sqmean with a round-trip time sample.
    fn measure(&mut self, sample: Duration) {
        let sample = sample.as_secs_f64().max(MIN_RTT);
        let root = libm::sqrt(sample);
        let q = if self.cfg.oscillation_reduction { Q } else { LOW_Q };
        match self.rtt.filter(|_| self.heard) {
            Some(rtt) => {
                // RFC 5348 section 4.3: a new sample has a weight of a tenth in R.
                self.rtt = Some(q * rtt + (1.0 - q) * sample);
                // RFC 5348 section 4.5: the same weight in R_sqmean.
                self.root_mean = Q2 * self.root_mean + (1.0 - Q2) * root;
            }
            None => {
                self.rtt = Some(sample);
                self.root_mean = root;
            }
        }
        self.newest_rtt = sample;
    }

    /// Adds the report to the receive rates, and returns recv_limit (step 4, first part).
    fn receive_limit(&mut self, now: Time, report: &Report, round: Duration, worse: bool) -> f64 {
        let per_round = self.segment() / round.as_secs_f64();
        let reported = report.receive_rate.clamp(0.0, MAX_RATE);
        // RFC 5348 section 4.3: the receive rate does not limit a data-limited sender.
        let limited = self.not_limited.on_report(now, report.sent, round) && reported > 0.0;
        // RFC 5348 section 6.2: a receive rate counts as at least one packet per round trip. A rate that
        // could not be measured yet does not count.
        let rate = reported.max(per_round);
        if let Some(drops) = self.slow_receiver.take() {
            // RFC 4342 section 5.2: keep only this rate, because a larger rate in X_recv_set would undo the
            // limit.
            let bound = (rate - drops as f64 * per_round).max(rate.min(per_round));
            self.received.replace(now, rate.min(bound / 2.0));
            return 2.0 * self.received.max();
        }
        if !limited {
            self.received.update(now, rate, round);
        } else if worse {
            // RFC 5348 section 4.3: a loss halves the remembered rates.
            self.received.halve();
            self.received.maximize(now, 0.85 * rate);
            return self.received.max();
        } else {
            self.received.maximize(now, rate);
        }
        2.0 * self.received.max()
    }

    /// Sets the rate in congestion avoidance (step 4).
    fn apply_equation(&mut self, limit: f64) {
        let Some(rtt) = self.rtt else { return };
        self.x_bps = if self.cfg.small_packets {
            // RFC 5622 section 5: the equation uses a nominal segment, and headers reduce the rate.
            let payload = self.size.payload();
            throughput(NOMINAL_SEGMENT, rtt, self.p) * payload / (payload + HEADER)
        } else {
            throughput(self.segment(), rtt, self.p)
        };
        let least = self.segment() / MAX_BACKOFF;
        // RFC 4342 section 5: the rate is at most twice the receive rate.
        self.x = Some(self.x_bps.min(limit).max(least).min(MAX_RATE));
    }

    /// Sets the rate as long as there are no losses (step 4).
    fn slow_start(&mut self, now: Time, limit: f64, round: Duration) {
        self.x_bps = f64::INFINITY;
        // RFC 5348 section 4.3: slow start doubles the rate once per round trip.
        if now.since(self.doubled_at) >= round {
            let x = self.x.unwrap_or(0.0);
            // If the previous congestion control was settled, there is no new search; the rate grows like
            // TCP's, by one segment per round trip.
            let settled = self.inherited == Some(true);
            let more = if settled { x + self.segment() / round.as_secs_f64() } else { 2.0 * x };
            // RFC 5348 section 4.3: the rate is at most twice the receive rate, and at least the initial
            // rate.
            let more = more.min(limit);
            self.x = Some(more.max(self.initial_rate()).min(MAX_RATE));
            self.doubled_at = now;
        }
    }

    fn restart_timer(&mut self, now: Time) {
        self.timer = Some(now + self.timeout());
        self.active = false;
    }

    /// Returns the duration of the nofeedback timer (step 3).
    fn timeout(&self) -> Duration {
        // Without a round-trip time, the rate is one segment per second, so the timer starts at two seconds
        // (RFC 5348 section 4.2). The timer becomes longer when the rate falls.
        let x = self.x.unwrap_or(self.segment()).max(self.segment() / MAX_BACKOFF);
        Duration::from_secs_f64((4.0 * self.rtt.unwrap_or(0.0)).max(2.0 * self.segment() / x)).max(MIN_TIMER)
    }

    /// Returns the segment size s.
    fn segment(&self) -> f64 {
        self.size.payload()
    }

    /// Returns the initial rate, also called recover_rate.
    fn initial_rate(&self) -> f64 {
        let mss = self.segment();
        // RFC 4342 section 5: as in RFC 3390, two to four packets per round trip.
        let window = (4.0 * mss).min((2.0 * mss).max(4380.0));
        self.rtt.map_or(mss, |rtt| window / rtt)
    }
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
