use crate::reno::initial_window;
use crate::{AckEvent, CcConfig, Controller, Inherited, Limits, Part, Sent, Window};
use mpdccp_units::{Duration, Rate, Time};

/// Weight of a new round in the average share of marks (RFC 8257 section 3.3, g).
const GAIN: f64 = 1.0 / 16.0;
/// For window growth, shorter round-trip times count as this one, so that growth depends less on the
/// round-trip time (RFC 9331 section 4.3).
const REFERENCE_RTT: f64 = 0.025;
/// Maximum burst, as time at the pacing rate. A burst must fit into the shallow queue of an L4S link.
const QUANTUM: Duration = Duration::from_micros(250);
/// Pacing rate in slow start, in windows per round trip.
const FAST: f64 = 2.0;
/// Pacing rate after slow start, in windows per round trip.
const STEADY: f64 = 1.0;
/// Upper limit for windows, far above what any path needs, to keep windows finite.
const MAX_CWND: f64 = 1e9;

/// A scalable congestion control for L4S (RFC 9331), following the Prague requirements and DCTCP (RFC 8257).
/// The window shrinks in proportion to the share of marked packets, so that a flow receives about two marks
/// per round trip, whatever its window. A loss halves the window, as in Reno. The controller uses pacing.
///
/// This controller is experimental. RFC 9331 section 4.3 recommends telling a classic ECN queue from an L4S
/// queue, which this controller does not do, so at a classic queue that marks it takes more than its share.
#[derive(Debug)]
pub struct Prague {
    packets: bool,
    mtu: u16,
    /// Window in packets of `mtu` bytes.
    cwnd: f64,
    /// Slow-start threshold. `None` is infinite.
    ssthresh: Option<f64>,
    /// Average share of marked packets.
    alpha: f64,
    /// Number of packets acknowledged in this round.
    acked: u64,
    /// Number of packets marked in this round.
    marked: u64,
    /// Window before the last reduction.
    top: f64,
    /// Number of rounds, since the last reduction, whose window was larger than `top`.
    beyond: f64,
    /// Whether the last reduction was for marks alone.
    marks_only: bool,
    /// Whether a timeout occurred and nothing has been acknowledged since.
    timed_out: bool,
    /// Window and threshold before the last loss.
    before: Option<(f64, Option<f64>)>,
    srtt: Option<Duration>,
    part: Part,
}

impl Prague {
    /// Creates a controller.
    pub fn new(cfg: &CcConfig) -> Prague {
        Prague {
            packets: cfg.packets,
            mtu: cfg.mtu,
            cwnd: initial_window(cfg.mtu) as f64,
            ssthresh: None,
            // RFC 8257 section 4.2: start cautiously.
            alpha: 1.0,
            acked: 0,
            marked: 0,
            top: 0.0,
            beyond: 0.0,
            marks_only: false,
            timed_out: false,
            before: None,
            srtt: None,
            part: Part::ALONE,
        }
    }

    fn slow_start(&self) -> bool {
        self.ssthresh.is_none_or(|t| self.cwnd < t)
    }

    fn reduce_to(&mut self, cwnd: f64) {
        (self.top, self.beyond) = (self.cwnd, 0.0);
        self.cwnd = cwnd.clamp(2.0, MAX_CWND);
        self.ssthresh = Some(self.cwnd);
    }

    /// Grows the window after `acked` segments without a mark.
    fn grow(&mut self, acked: f64) {
        if self.slow_start() {
            self.cwnd = (self.cwnd + acked).min(self.ssthresh.unwrap_or(MAX_CWND));
        } else {
            let short = self.srtt.map_or(1.0, |srtt| (srtt.as_secs_f64() / REFERENCE_RTT).min(1.0));
            let mut step = self.part.increase * short * short;
            // The window exceeds its size before the last reduction, and the queue is not marking, so growth
            // accelerates: the growth per round increases by half a packet each round. Growing by W packets
            // then takes 2 sqrt(W) rounds instead of W.
            if self.cwnd > self.top {
                self.beyond += acked / self.cwnd;
                step *= (self.beyond / 2.0).max(1.0);
            }
            self.cwnd += step * acked / self.cwnd;
        }
        self.cwnd = self.cwnd.min(MAX_CWND);
    }
}

impl Controller for Prague {
    fn on_sent(&mut self, _pkt: &Sent) {}

    fn on_ack(&mut self, ev: &AckEvent<'_>) {
        self.srtt = ev.estimator.srtt();
        self.timed_out &= ev.acked.packets == 0;
        self.acked += ev.acked.packets;
        self.marked += ev.ce;
        if ev.round_end {
            // RFC 8257 section 3.3: each round updates the average share of marked packets.
            let share = self.marked as f64 / self.acked.max(1) as f64;
            self.alpha += GAIN * (share - self.alpha);
            (self.acked, self.marked) = (0, 0);
        }
        // Respond to a loss as Reno does. Losses of packets sent before the last reduction do not cause
        // another one (RFC 9331 section 4.3, RFC 8257 section 3.3).
        if ev.congestion && ev.lost.packets > 0 {
            self.before = Some((self.cwnd, self.ssthresh));
            self.marks_only = false;
            self.reduce_to(self.cwnd / 2.0);
            return;
        }
        // If the last reduction was for marks, a loss adds to it, so that both together halve the window.
        if ev.lost.packets > 0 && core::mem::take(&mut self.marks_only) {
            self.cwnd = self.cwnd.min(self.top / 2.0).max(2.0);
            self.ssthresh = Some(self.cwnd);
            return;
        }
        if ev.congestion {
            self.marks_only = true;
            self.reduce_to(self.cwnd * (1.0 - self.alpha / 2.0));
        }
        if !ev.app_limited && ev.acked.packets > 0 {
            let unmarked = 1.0 - ev.ce as f64 / ev.acked.packets as f64;
            self.grow(unmarked * ev.acked.segments(self.packets, self.mtu));
        }
    }

    fn on_rto(&mut self, _now: Time) {
        // RFC 5681 section 3.1: ssthresh stays the same if another timeout follows with no acknowledgement in
        // between, because such a timeout gives no new information.
        if !core::mem::replace(&mut self.timed_out, true) {
            self.before = Some((self.cwnd, self.ssthresh));
            self.ssthresh = Some((self.cwnd / 2.0).max(2.0));
            (self.top, self.beyond) = (self.cwnd, 0.0);
        }
        self.marks_only = false;
        self.cwnd = 1.0;
    }

    fn on_spurious_loss(&mut self, _now: Time) {
        if let Some((cwnd, ssthresh)) = self.before.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = ssthresh;
        }
    }

    fn on_idle_restart(&mut self, _now: Time) {}

    fn on_mtu(&mut self, mtu: u16) {
        if !self.packets {
            let scale = f64::from(self.mtu.max(1)) / f64::from(mtu.max(1));
            self.cwnd = (self.cwnd * scale).clamp(1.0, MAX_CWND);
            self.ssthresh = self.ssthresh.map(|t| (t * scale).max(1.0));
            self.top *= scale;
            self.before = None;
        }
        self.mtu = mtu;
    }

    fn couple(&mut self, part: &Part) {
        self.part = *part;
    }

    fn on_slow_receiver(&mut self, buffer_drops: u64) {
        // RFC 4341 section 5.2: each packet dropped in the receive buffer reduces the window by one, as for
        // CCID 2.
        self.cwnd = (self.cwnd - buffer_drops as f64).max(1.0);
        self.ssthresh = Some(self.ssthresh.map_or(self.cwnd, |t| t.min(self.cwnd)));
    }

    fn limits(&self) -> Limits {
        let bytes = self.cwnd * f64::from(self.mtu);
        let cwnd = if self.packets {
            Window::Packets((self.cwnd as u64).max(1))
        } else {
            Window::Bytes((bytes as u64).max(self.mtu.into()))
        };
        let gain = if self.slow_start() { FAST } else { STEADY };
        let pacing = self.srtt.map(|srtt| {
            let rate = gain * bytes * 8.0 / srtt.as_secs_f64().max(1e-6);
            Rate::from_bps(rate as u64)
        });
        let quantum = pacing.map_or(0, |rate| rate.bytes_in(QUANTUM)).max(self.mtu.into());
        Limits { cwnd, pacing, quantum: u32::try_from(quantum).unwrap_or(u32::MAX) }
    }

    /// The controller needs many acknowledgements although it paces, because its window holds hardly more
    /// than the path. If one acknowledgement reported a large part of the window, the path would be empty
    /// until the next one.
    fn clocked(&self) -> bool {
        true
    }

    fn phase(&self) -> &'static str {
        if self.slow_start() { "slow_start" } else { "congestion_avoidance" }
    }

    fn settled(&self) -> bool {
        self.ssthresh.is_some()
    }

    fn inherit(&mut self, from: &Inherited) {
        self.cwnd = (from.window as f64 / f64::from(self.mtu.max(1))).clamp(1.0, MAX_CWND);
        self.ssthresh = from.settled.then_some(self.cwnd);
        self.srtt = from.srtt;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Amount, RttEstimator};

    /// Simulates a round of `acked` packets with `ce` marks and `lost` losses, at a round-trip time of 25 ms.
    fn round(prague: &mut Prague, acked: u64, ce: u64, lost: u64) {
        on_ack(prague, (acked, 1000), ce, lost, ce + lost > 0);
    }

    /// Acknowledges `acked` packets of `size` bytes. `congestion` is false if the marks or losses belong to
    /// an earlier reduction.
    fn on_ack(prague: &mut Prague, (acked, size): (u64, u64), ce: u64, lost: u64, congestion: bool) {
        let mut estimator = RttEstimator::default();
        estimator.update(Time::ZERO, Duration::from_millis(25));
        let amount = |packets| Amount { packets, bytes: packets * size };
        let event = AckEvent {
            now: Time::ZERO,
            acked: amount(acked),
            lost: amount(lost),
            ce,
            congestion,
            rtt: None,
            returning: Duration::ZERO,
            estimator: &estimator,
            rate: None,
            inflight_before: amount(acked),
            inflight: amount(0),
            delivered: amount(acked),
            round_end: true,
            app_limited: false,
        };
        prague.on_ack(&event);
    }

    fn fresh() -> Prague {
        Prague::new(&CcConfig { mtu: 1000, packets: true, draft: false, seed: 0 })
    }

    #[test]
    fn buffer_drops_cost_packets_and_end_slow_start() {
        let mut prague = fresh();
        prague.cwnd = 100.0;
        prague.on_slow_receiver(10);
        assert_eq!((prague.cwnd, prague.ssthresh), (90.0, Some(90.0)));
    }

    #[test]
    fn shrinks_by_half_the_share_of_marks() {
        let mut prague = fresh();
        prague.cwnd = 100.0;
        // After many rounds in which all packets are marked, the controller responds as it does to a loss.
        round(&mut prague, 100, 100, 0);
        assert_eq!(prague.cwnd, 50.0);
        for _ in 0..200 {
            prague.cwnd = 100.0;
            round(&mut prague, 100, 2, 0);
        }
        assert!((prague.alpha - 0.02).abs() < 1e-3, "{}", prague.alpha);
        // The window shrinks by one per cent and grows by about one packet in the round.
        assert!((prague.cwnd - 99.99).abs() < 0.1, "{}", prague.cwnd);
    }

    #[test]
    fn a_loss_halves_and_may_be_taken_back() {
        let mut prague = fresh();
        prague.cwnd = 100.0;
        prague.alpha = 0.01;
        round(&mut prague, 90, 0, 10);
        assert_eq!((prague.cwnd, prague.ssthresh), (50.0, Some(50.0)));
        prague.on_spurious_loss(Time::ZERO);
        assert_eq!((prague.cwnd, prague.ssthresh), (100.0, None));
        prague.on_rto(Time::ZERO);
        assert_eq!((prague.cwnd, prague.ssthresh), (1.0, Some(50.0)));
    }

    #[test]
    fn a_loss_soon_after_a_mark_halves_once() {
        let mut prague = fresh();
        (prague.cwnd, prague.ssthresh, prague.alpha) = (100.0, Some(100.0), 0.02);
        on_ack(&mut prague, (10, 1000), 1, 0, true);
        assert!(prague.cwnd > 95.0);
        for _ in 0..2 {
            on_ack(&mut prague, (10, 1000), 0, 5, false);
            assert!((49.0..51.0).contains(&prague.cwnd), "{}", prague.cwnd);
        }
    }

    #[test]
    fn growth_accelerates_anew_after_a_timeout() {
        let mut prague = fresh();
        (prague.cwnd, prague.top, prague.beyond) = (100.0, 20.0, 40.0);
        prague.on_rto(Time::ZERO);
        assert_eq!((prague.top, prague.beyond), (100.0, 0.0));
    }

    #[test]
    fn a_second_timeout_keeps_the_threshold() {
        let mut prague = fresh();
        prague.cwnd = 100.0;
        prague.on_rto(Time::ZERO);
        prague.on_rto(Time::ZERO);
        assert_eq!((prague.cwnd, prague.ssthresh), (1.0, Some(50.0)));
        prague.on_spurious_loss(Time::ZERO);
        assert_eq!(prague.cwnd, 100.0);
    }

    #[test]
    fn a_window_of_bytes_grows_by_bytes_and_keeps_them_when_the_packet_size_changes() {
        let mut prague = Prague::new(&CcConfig { mtu: 1000, packets: false, draft: false, seed: 0 });
        prague.cwnd = 10.0;
        on_ack(&mut prague, (100, 100), 0, 0, false);
        assert_eq!(prague.cwnd, 20.0);
        (prague.ssthresh, prague.top) = (Some(20.0), 30.0);
        prague.on_mtu(4000);
        assert_eq!((prague.cwnd, prague.top, prague.phase()), (5.0, 7.5, "congestion_avoidance"));
    }

    #[test]
    fn slow_start_ends_with_the_first_mark_and_then_grows_by_one_a_round() {
        let mut prague = fresh();
        prague.cwnd = 8.0;
        round(&mut prague, 8, 0, 0);
        assert_eq!((prague.cwnd, prague.phase()), (16.0, "slow_start"));
        prague.alpha = 0.0;
        round(&mut prague, 16, 1, 0);
        assert_eq!(prague.phase(), "congestion_avoidance");
        let before = prague.cwnd;
        round(&mut prague, before as u64, 0, 0);
        assert!((prague.cwnd - before - 1.0).abs() < 0.1, "{before} {}", prague.cwnd);
    }
}
