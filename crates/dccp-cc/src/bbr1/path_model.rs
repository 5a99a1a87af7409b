//! BBR's path model: BtlBw, RTprop, rounds, and the variation of delay (section 4.1).

use super::tuning::{self, Tuning};
use crate::jitter::Jitter;
use crate::{Amount, RateSample, WindowedMax};
use mpdccp_units::{Duration, Time};

/// BBRMinPipeCwnd, packets (section 4.2.3.3).
pub(super) const MIN_PIPE_CWND: u64 = 4;
/// BtlBwFilterLen, rounds (section 4.1.1.2).
const BTL_BW_ROUNDS: u64 = 10;
/// RTpropFilterLen and ProbeRTTInterval (sections 4.1.2.2 and 4.3.5).
pub(super) const RTPROP_FILTER: Duration = Duration::from_secs(10);

/// Estimates of one path, in the controller's unit (bytes or packets).
#[derive(Clone, Debug)]
pub(super) struct PathModel {
    btl_bw: WindowedMax<f64>,
    /// Bandwidth samples of packets sent before this time are stale.
    fresh_from: Time,
    pub(super) rounds: u64,
    pub(super) rtprop: Option<Duration>,
    pub(super) rtprop_stamp: Time,
    /// Minimum RTTs of the current period of 20 s and of the two periods before it, newest first.
    lowest: [Duration; 3],
    lowest_since: Time,
    pub(super) jitter: Jitter,
    /// Set while both delivery rate and RTT indicate that capacity has fallen.
    fallen: Option<Fallen>,
    /// BtlBw at the time when the path was last without a queue.
    clear_bw: f64,
}

#[derive(Clone, Copy, Debug)]
struct Fallen {
    since: Time,
    delivered: u64,
    acks: u32,
    /// Minimum RTT since capacity appeared to fall.
    least: Duration,
}

impl PathModel {
    pub(super) fn new() -> PathModel {
        PathModel {
            btl_bw: WindowedMax::new(),
            fresh_from: Time::ZERO,
            rounds: 0,
            rtprop: None,
            rtprop_stamp: Time::ZERO,
            lowest: [Duration::MAX; 3],
            lowest_since: Time::ZERO,
            jitter: Jitter::default(),
            fallen: None,
            clear_bw: 0.0,
        }
    }

    /// Returns BtlBw in units per second, or zero before the first sample.
    pub(super) fn bw(&self) -> f64 {
        self.btl_bw.get()
    }

    /// Returns BtlBw times RTprop, or `None` before both are known.
    pub(super) fn bdp(&self) -> Option<f64> {
        self.bdp_at(self.bw())
    }

    /// Like [`Self::bdp`], but at a bandwidth of `bw` units per second.
    pub(super) fn bdp_at(&self, bw: f64) -> Option<f64> {
        self.rtprop.filter(|_| bw > 0.0).map(|r| bw * r.as_secs_f64())
    }

    /// Returns the largest RTT at which this flow has no queue, including the typical variation of delay.
    pub(super) fn drained_rtt(&self) -> Duration {
        self.near_rtprop().saturating_add(self.jitter.get())
    }

    /// Returns the amount that BtlBw delivers during the typical variation of delay and while
    /// acknowledgements wait on the return path.
    pub(super) fn jitter_allowance(&self) -> f64 {
        self.jitter.allowance(self.bw())
    }

    /// Implements BBRUpdateBtlBw (section 4.1.1.5). The caller has already updated the round count.
    pub(super) fn on_bandwidth(&mut self, rate: f64, app_limited: bool, sent_at: Time) {
        if sent_at >= self.fresh_from && (rate >= self.bw() || !app_limited) {
            self.btl_bw.update(BTL_BW_ROUNDS, self.rounds, rate);
        }
    }

    /// Sets BtlBw to the bandwidth that the previous controller used, and drops earlier samples.
    pub(super) fn inherit(&mut self, bw: f64) {
        self.btl_bw.reset(self.rounds, bw);
    }

    /// Returns whether RTprop is older than RTpropFilterLen (section 4.1.2.3).
    pub(super) fn rtprop_expired(&self, now: Time) -> bool {
        self.rtprop.is_some() && now > self.rtprop_stamp + RTPROP_FILTER
    }

    /// Sets RTprop.
    pub(super) fn set_rtprop(&mut self, now: Time, rtt: Duration) {
        self.rtprop = Some(rtt);
        self.rtprop_stamp = now;
    }

    /// Sets RTprop, because the path has become longer. Lower RTTs no longer count.
    pub(super) fn set_longer_rtprop(&mut self, now: Time, rtt: Duration) {
        self.set_rtprop(now, rtt);
        (self.lowest, self.lowest_since) = ([rtt, Duration::MAX, Duration::MAX], now);
    }

    /// Returns the largest RTT that confirms RTprop. Such an RTT is near RTprop and near the lowest RTT of
    /// the last minute. RTprop alone is no reference: if it includes a queue of other flows, this queue would
    /// confirm it.
    pub(super) fn confirming_rtt(&self) -> Duration {
        let lowest = self.lowest.into_iter().min().unwrap_or(Duration::MAX);
        self.near_rtprop().min(scale(lowest, tuning::NEAR))
    }

    /// Returns the RTT above which there is a queue of this flow or of others. The reference is the lowest
    /// RTT of the last minute.
    pub(super) fn empty_rtt(&self) -> Duration {
        let lowest = self.lowest.into_iter().min().unwrap_or(Duration::MAX);
        scale(lowest, tuning::NEAR).max(lowest.saturating_add(tuning::BURST))
    }

    /// Returns the largest RTT that counts as equal to RTprop.
    pub(super) fn near_rtprop(&self) -> Duration {
        scale(self.rtprop.unwrap_or(Duration::MAX), tuning::NEAR)
    }

    /// Returns the RTT above which there is a queue at a bottleneck of `bw` units per second.
    pub(super) fn queue_rtt(&self, bw: f64, packet: u64) -> Duration {
        let Some(rtprop) = self.rtprop else { return Duration::MAX };
        let packets = seconds((MIN_PIPE_CWND * packet) as f64 / bw.max(1e-9));
        let queue = self.near_rtprop().max(rtprop.saturating_add(packets.max(tuning::BURST)));
        queue.saturating_add(self.jitter.get() * 2)
    }

    /// Adds an RTT of the running round.
    pub(super) fn on_rtt(&mut self, now: Time, rtt: Duration) {
        let age = now.since(self.lowest_since);
        if age > tuning::MINUTE {
            // The sender was idle.
            self.lowest = [Duration::MAX; 3];
        }
        if age > tuning::MINUTE / 3 {
            self.lowest_since = now;
            self.lowest = [rtt, self.lowest[0], self.lowest[1]];
        }
        self.lowest[0] = self.lowest[0].min(rtt);
        self.jitter.on_rtt(now, rtt);
    }

    /// Ends a round and returns its minimum RTT, if it had enough samples.
    pub(super) fn on_round_end(&mut self, window_limited: bool) -> Option<Duration> {
        self.rounds += 1;
        self.jitter.on_round_end(self.rtprop, window_limited)
    }

    /// Detects a fall in capacity: for eight acknowledgements and an RTprop, RTTs show a queue, the delivery
    /// rate is well below the BtlBw measured without a queue, and the sender is not the limit. If so, drops
    /// older samples, sets BtlBw to the rate delivered in this period, and returns the old BtlBw and the
    /// period's minimum RTT.
    pub(super) fn capacity_fell(
        &mut self,
        now: Time,
        rtt: Duration,
        rs: &RateSample,
        u: &Units,
        delivered: u64,
    ) -> Option<(f64, Duration)> {
        let rate = u.rate(rs);
        if rtt <= self.queue_rtt(rate, u.packet()) {
            self.clear_bw = self.bw();
            self.fallen = None;
            return None;
        }
        let limit = tuning::FALLEN * self.clear_bw;
        // An application-limited sender also counts if it sends faster than the path delivers, because then
        // it builds the queue itself.
        let pushing = !rs.app_limited || rs.ack_interval > scale(rs.send_interval, tuning::NEAR);
        if rate >= limit || !pushing {
            self.fallen = None;
            return None;
        }
        let Some(f) = &mut self.fallen else {
            self.fallen = Some(Fallen { since: now, delivered, acks: 1, least: rtt });
            return None;
        };
        f.acks += 1;
        f.least = f.least.min(rtt);
        let lasted = now.since(f.since);
        if f.acks < tuning::FALLEN_ACKS || lasted <= self.rtprop.unwrap_or_default() {
            return None;
        }
        let measured = delivered.saturating_sub(f.delivered) as f64 / lasted.as_secs_f64();
        if measured >= limit {
            // The rate over the whole period is not low. The rate samples were low because of a gap before
            // this period. The path's delay has grown, but its capacity has not fallen.
            return None;
        }
        let (since, least) = (f.since, f.least);
        self.fresh_from = since;
        self.fallen = None;
        self.jitter.forget();
        self.btl_bw.reset(self.rounds, measured);
        Some((core::mem::take(&mut self.clear_bw), least))
    }

    /// Idle time is over. Rates over this time say nothing about capacity.
    pub(super) fn on_idle_restart(&mut self) {
        self.fallen = None;
    }

    /// Limits BtlBw to `bw` from now on, because packets sent faster than `bw` were lost.
    pub(super) fn bound_bandwidth(&mut self, now: Time, bw: f64) {
        if bw < self.bw() {
            self.fresh_from = now;
            self.btl_bw.reset(self.rounds, bw);
            self.clear_bw = self.clear_bw.min(bw);
        }
    }

    /// Restores BtlBw, because capacity had not fallen after all.
    pub(super) fn restore_bandwidth(&mut self, bw: f64) {
        if bw > self.bw() {
            self.btl_bw.reset(self.rounds, bw);
        }
    }
}

/// The unit of windows and rates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    pub(super) packets: bool,
    pub(super) mtu: u16,
}

impl Units {
    pub(super) fn of(&self, a: Amount) -> u64 {
        if self.packets { a.packets } else { a.bytes }
    }

    /// Returns one full packet.
    pub(super) fn packet(&self) -> u64 {
        if self.packets { 1 } else { u64::from(self.mtu.max(1)) }
    }

    pub(super) fn rate(&self, rs: &RateSample) -> f64 {
        if self.packets { rs.packets_per_sec } else { rs.rate.bytes_per_sec() }
    }

    /// Returns the number of bytes in one unit.
    pub(super) fn bytes(&self) -> f64 {
        if self.packets { f64::from(self.mtu.max(1)) } else { 1.0 }
    }
}

impl Tuning {
    pub(super) fn of(draft: bool) -> Tuning {
        if draft { Tuning::DRAFT } else { Tuning::TUNED }
    }
}

fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX)
}

fn scale(d: Duration, by: f64) -> Duration {
    seconds(d.as_secs_f64() * by)
}
