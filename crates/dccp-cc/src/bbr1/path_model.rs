//! What BBR believes about the path: BtlBw, RTprop, rounds, and how much delay varies (section 4.1).

use super::tuning::{self, Tuning};
use crate::{Amount, RateSample, WindowedMax};
use units::{Duration, Time};

/// BtlBwFilterLen, rounds (section 4.1.1.2).
const BTL_BW_ROUNDS: u64 = 10;
/// RTpropFilterLen and ProbeRTTInterval (sections 4.1.2.2 and 4.3.5).
pub(super) const RTPROP_FILTER: Duration = Duration::from_secs(10);
/// A third of how long the lowest RTT is remembered.
const LOWEST_SPAN: Duration = Duration::from_secs(20);
/// Rounds in which delay shows how much it varies.
const LEASTS: usize = 8;
/// RTT samples before a round's variation is believed.
const JITTER_SAMPLES: u32 = 4;

/// Estimates of one path, in the controller's unit (bytes or packets).
#[derive(Clone, Debug)]
pub(super) struct PathModel {
    btl_bw: WindowedMax<f64>,
    /// Bandwidth samples of packets sent before this are stale.
    fresh_from: Time,
    pub(super) rounds: u64,
    pub(super) rtprop: Option<Duration>,
    pub(super) rtprop_stamp: Time,
    /// Least RTTs of this span of [`LOWEST_SPAN`] and the two before.
    lowest: [Duration; 3],
    lowest_since: Time,
    /// RTTs of the round: least, count.
    round_rtt: (Duration, u32),
    /// Least RTTs of the last rounds.
    leasts: [Duration; LEASTS],
    /// How long the packets acknowledged in the round were under way, together, and how many.
    ages: (Duration, u32),
    /// When the first and the last of those samples came.
    sampled: (Time, Time),
    /// Smoothed variation of delay.
    jitter: Duration,
    /// Since when delivery rate and RTT have agreed that capacity fell.
    fallen: Option<Fallen>,
    /// BtlBw when no queue was last seen.
    clear_bw: f64,
}

#[derive(Clone, Copy, Debug)]
struct Fallen {
    since: Time,
    delivered: u64,
    acks: u32,
    /// Least RTT since.
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
            round_rtt: (Duration::MAX, 0),
            leasts: [Duration::MAX; LEASTS],
            ages: (Duration::ZERO, 0),
            sampled: (Time::ZERO, Time::ZERO),
            jitter: Duration::ZERO,
            fallen: None,
            clear_bw: 0.0,
        }
    }

    /// BtlBw, units a second; zero before the first sample.
    pub(super) fn bw(&self) -> f64 {
        self.btl_bw.get()
    }

    /// BtlBw times RTprop; `None` before both are known.
    pub(super) fn bdp(&self) -> Option<f64> {
        let bw = self.bw();
        self.rtprop.filter(|_| bw > 0.0).map(|r| bw * r.as_secs_f64())
    }

    /// RTT up to which no queue of ours is left, the usual variation of delay allowed for.
    pub(super) fn drained_rtt(&self) -> Duration {
        self.near_rtprop().saturating_add(self.jitter)
    }

    /// What arrives at BtlBw during the usual variation of delay.
    pub(super) fn jitter_allowance(&self) -> f64 {
        self.bw() * self.jitter.as_secs_f64()
    }

    /// BBRUpdateBtlBw (section 4.1.1.5); rounds are counted before.
    pub(super) fn on_bandwidth(&mut self, rate: f64, app_limited: bool, sent_at: Time) {
        if sent_at >= self.fresh_from && (rate >= self.bw() || !app_limited) {
            self.btl_bw.update(BTL_BW_ROUNDS, self.rounds, rate);
        }
    }

    /// RTpropFilterLen has passed (section 4.1.2.3).
    pub(super) fn rtprop_expired(&self, now: Time) -> bool {
        self.rtprop.is_some() && now > self.rtprop_stamp + RTPROP_FILTER
    }

    /// A new RTprop.
    pub(super) fn set_rtprop(&mut self, now: Time, rtt: Duration) {
        self.rtprop = Some(rtt);
        self.rtprop_stamp = now;
    }

    /// RTT up to which a sample confirms RTprop: near the lowest of the last minute too. Else an RTprop that took in the queue of
    /// others would confirm itself by that queue.
    pub(super) fn confirming_rtt(&self) -> Duration {
        let lowest = self.lowest.into_iter().min().unwrap_or(Duration::MAX);
        self.near_rtprop().min(scale(lowest, tuning::NEAR))
    }

    /// RTT above which somebody's queue stands, ours or that of others: by the lowest of the last minute.
    pub(super) fn empty_rtt(&self) -> Duration {
        let lowest = self.lowest.into_iter().min().unwrap_or(Duration::MAX);
        scale(lowest, tuning::NEAR).max(lowest.saturating_add(tuning::QUEUE_FLOOR))
    }

    /// RTT that is as good as RTprop.
    pub(super) fn near_rtprop(&self) -> Duration {
        scale(self.rtprop.unwrap_or(Duration::MAX), tuning::NEAR)
    }

    /// RTT above which a queue stands at a bottleneck of `bw` units a second.
    pub(super) fn queue_rtt(&self, bw: f64, packet: u64) -> Duration {
        let Some(rtprop) = self.rtprop else { return Duration::MAX };
        let packets = seconds((tuning::QUEUE_PACKETS * packet) as f64 / bw.max(1e-9));
        let queue = self.near_rtprop().max(rtprop.saturating_add(packets.max(tuning::QUEUE_FLOOR)));
        queue.saturating_add(self.jitter * 2)
    }

    /// Notes an RTT of the running round.
    pub(super) fn on_rtt(&mut self, now: Time, rtt: Duration) {
        if now.since(self.lowest_since) > LOWEST_SPAN {
            self.lowest_since = now;
            self.lowest = [rtt, self.lowest[0], self.lowest[1]];
        }
        self.lowest[0] = self.lowest[0].min(rtt);
        let (least, n) = self.round_rtt;
        if n == 0 {
            self.sampled.0 = now;
        }
        self.sampled.1 = now;
        self.round_rtt = (least.min(rtt), n + 1);
    }

    /// Notes how long the packets of an acknowledgement were under way.
    pub(super) fn on_ages(&mut self, (sum, n): (Duration, u32)) {
        self.ages = (self.ages.0.saturating_add(sum), self.ages.1.saturating_add(n));
    }

    /// Ends a round and returns its least RTT, if it had enough samples. Where its window was full, there may be too little room for how much
    /// delay varies from round to round; else that is a queue of ours, which drains make shorter.
    pub(super) fn on_round_end(&mut self, window_limited: bool) -> Option<Duration> {
        self.rounds += 1;
        let (least, n) = self.round_rtt;
        if n < JITTER_SAMPLES {
            return None; // carry on in the next round
        }
        self.round_rtt = (Duration::MAX, 0);
        let ages = core::mem::take(&mut self.ages);
        // Samples are of the packets that overtook others: they tell less than all packets do. RTprop is rarer than a round's least,
        // but a queue of others lies between the two as well.
        let mean = ages.0.checked_div(ages.1).unwrap_or_default().saturating_sub(self.held(n, ages.1));
        let beyond = mean.saturating_sub(self.rtprop.unwrap_or(mean));
        let at = self.rounds as usize % LEASTS;
        self.leasts[at] = least;
        let lowest = self.leasts.into_iter().min().filter(|_| window_limited).unwrap_or(least);
        let within = mean.saturating_sub(lowest);
        let variation = beyond.min(scale(within, tuning::BEYOND)).min(tuning::MAX_JITTER);
        self.jitter = (self.jitter * 3 + variation) / 4;
        Some(least)
    }

    /// How long the average packet waited for the others of its acknowledgement, had all arrived evenly: no delay of the path. No more than
    /// a few wait for each other; larger groups came together, and that is delay.
    fn held(&self, acks: u32, packets: u32) -> Duration {
        let apart = self.sampled.1.since(self.sampled.0).checked_div(packets.max(1)).unwrap_or_default();
        let group = (f64::from(packets) / f64::from(acks.max(1))).clamp(1.0, tuning::GROUP);
        scale(apart, (group - 1.0) / 2.0)
    }

    /// Whether capacity fell: for a while, RTTs showed a queue, delivery was well below what it was without one, and the
    /// sender was not what held it back. Then old samples are forgotten, BtlBw is what was delivered in that while, and
    /// the old BtlBw is returned, and the least RTT of that while.
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
        // Application-limited, yet sent faster than it was delivered: the queue is our own.
        let pushing = !rs.app_limited || rs.ack_interval > scale(rs.send_interval, 1.1);
        if rate >= limit || !pushing {
            self.fallen = None;
            return None;
        }
        let Some(f) = &mut self.fallen else {
            self.fallen = Some(Fallen { since: now, delivered, acks: 0, least: rtt });
            return None;
        };
        f.acks += 1;
        f.least = f.least.min(rtt);
        let lasted = now.since(f.since);
        if f.acks < tuning::FALLEN_ACKS || lasted < tuning::FALLEN_FOR.max(self.rtprop.unwrap_or_default()) {
            return None;
        }
        let measured = delivered.saturating_sub(f.delivered) as f64 / lasted.as_secs_f64();
        if measured >= limit {
            // Samples were low for a gap before all this: delay grew, capacity did not fall.
            return None;
        }
        let (since, least) = (f.since, f.least);
        self.fresh_from = since;
        self.fallen = None;
        self.jitter = Duration::ZERO;
        self.btl_bw.reset(self.rounds, measured);
        Some((core::mem::take(&mut self.clear_bw), least))
    }

    /// What was sent beyond `bw` got lost: no more than this from here on.
    pub(super) fn bound_bandwidth(&mut self, now: Time, bw: f64) {
        if bw < self.bw() {
            self.fresh_from = now;
            self.btl_bw.reset(self.rounds, bw);
            self.clear_bw = self.clear_bw.min(bw);
        }
    }

    /// Capacity had not fallen after all.
    pub(super) fn restore_bandwidth(&mut self, bw: f64) {
        if bw > self.bw() {
            self.btl_bw.reset(self.rounds, bw);
        }
    }
}

/// The unit windows and rates are counted in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    pub(super) packets: bool,
    pub(super) mtu: u16,
}

impl Units {
    pub(super) fn of(&self, a: Amount) -> u64 {
        if self.packets { a.packets } else { a.bytes }
    }

    /// One full packet.
    pub(super) fn packet(&self) -> u64 {
        if self.packets { 1 } else { u64::from(self.mtu.max(1)) }
    }

    pub(super) fn rate(&self, rs: &RateSample) -> f64 {
        if self.packets { rs.packets_per_sec } else { rs.rate.bytes_per_sec() }
    }

    /// Bytes in one unit.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Jitter after rounds of eight acknowledgements, each of packets that took as long as `ages` says, in milliseconds.
    fn jitter(ages: &[u64]) -> Duration {
        let ms = Duration::from_millis;
        let mut path = PathModel::new();
        path.set_rtprop(Time::ZERO, ms(20));
        let mut now = Time::ZERO;
        for _ in 0..40 {
            for _ in 0..8 {
                now += ms(ages.len() as u64 * 2);
                path.on_rtt(now, ms(20));
                ages.iter().for_each(|age| path.on_ages((ms(*age), 1)));
            }
            path.on_round_end(false);
        }
        path.jitter
    }

    #[test]
    fn variation_from_round_to_round_counts_where_the_window_is_full() {
        let ms = Duration::from_millis;
        for (full, most) in [(false, ms(1)), (true, ms(20))] {
            let mut path = PathModel::new();
            path.set_rtprop(Time::ZERO, ms(20));
            for round in 0..40 {
                let age = ms(20 + round % 4 * 8);
                for ack in 0..8 {
                    path.on_rtt(Time::from_millis(round * 40 + ack * 4), age);
                    path.on_ages((age, 1));
                }
                path.on_round_end(full);
            }
            assert!(path.jitter <= most && (!full || path.jitter > ms(8)), "{full}: {:?}", path.jitter);
        }
    }

    #[test]
    fn packets_that_wait_for_a_shared_acknowledgement_are_no_jitter() {
        // One each 2 ms.
        assert_eq!(jitter(&[20]), Duration::ZERO);
        assert!(jitter(&[22, 20]) < Duration::from_micros(200), "{:?}", jitter(&[22, 20]));
        assert!(jitter(&[26, 24, 22, 20]) < Duration::from_micros(400), "{:?}", jitter(&[26, 24, 22, 20]));
        // The same groups, later than that.
        assert!(jitter(&[32, 30]) > Duration::from_millis(8));
    }
}
