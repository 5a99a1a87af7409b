//! Distinguishes the path's own losses from losses due to sending too much.
//!
//! A path with random losses loses the same share at any rate, whereas a full queue or a policer drops only
//! what exceeds its rate. Losses of packets sent in phases of a low rate are therefore the path's own. As in
//! BBRv3, losses count as congestion if they exceed this share by more than 2 % of the packets.

use mpdccp_units::Time;

/// BBR.LossThresh (draft-ietf-ccwg-bbr-06 section 2.6): the tolerated share of losses in addition to the
/// path's own.
pub(crate) const LOSS_THRESH: f64 = 0.02;
/// Upper limit of the path's own losses. If a path lost more, a probe at 5/4 of the rate would deliver less
/// than the rate before the probe, so BBR could not hold any rate. If a phase below the estimated rate loses
/// more than this limit, even its rate exceeds the path's rate.
const MOST_OWN: f64 = 1.0 - 1.0 / 1.25;
/// Minimum number of packets for the judgement that there was no congestion, and for the measurement of the
/// path's own losses: 50, of which the tolerated share is a single packet. Until then, consecutive rounds, or
/// consecutive phases at a low rate, are counted together.
const FEW: f64 = 1.0 / LOSS_THRESH;
/// Number of standard deviations by which a count exceeds its mean by chance in 0.1 % of cases.
pub(crate) const CHANCE: f64 = 3.0;
/// Number of packets that suffices to measure the path's own losses: if a path loses the tolerated share,
/// chance changes the measured share by at most as much.
const ENOUGH: f64 = CHANCE * CHANCE / LOSS_THRESH;
/// Number of separate losses, in rounds judged together, that indicates congestion. A rate that is too high
/// causes losses repeatedly, not just once.
const TIMES: u32 = 2;
/// Number of losses after which counts are halved, so that recent losses weigh more.
pub(crate) const MANY_LOST: f64 = FEW;
/// Number of packets after which counts are halved. At the tolerated share of losses, this many packets
/// include [`MANY_LOST`] losses.
pub(crate) const MANY: f64 = MANY_LOST / LOSS_THRESH;

/// Counts of packets delivered and lost.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    all: f64,
    lost: f64,
}

impl Counts {
    fn share(&self) -> f64 {
        if self.all > 0.0 { self.lost / self.all } else { 0.0 }
    }
}

/// A stretch of rounds that are judged together: packets delivered, lost and marked since it began.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    since: Time,
    counts: Counts,
    /// Number of separate losses. A burst counts once.
    times: u32,
    marked: f64,
    delivered: u64,
}

/// Losses of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    /// Start and end of the last low phase, which is the time in which the rate is below the estimate.
    low: Option<(Time, Time)>,
    /// Counts of the packets that left in low phases.
    own: Counts,
    /// Counts of the newest low phases, which have not been judged yet.
    recent: Counts,
    /// Number of packets added to `own` since [`Self::measure_again`].
    measured: f64,
    /// Whether the newest delivered packet met a queue.
    queue: bool,
    stretch: Option<Stretch>,
    /// Time of the last acknowledgement.
    heard: Time,
    bursts: Bursts,
    /// Packets and losses of the last stretch that had congestion.
    congested: Counts,
    /// Whether losses alone made that stretch congested. If not, packets were marked.
    by_losses: bool,
}

/// Statistics of loss bursts. If losses come in bursts, chance explains a larger excess than with independent
/// losses.
#[derive(Clone, Copy, Debug, Default)]
struct Bursts {
    lost: f64,
    times: f64,
    /// Send time of the last burst's first packet, and the burst's size.
    burst: Option<(Time, f64)>,
}

impl Bursts {
    /// Records a loss. `packets` is the number of packets that leave per second. A loss continues a burst if
    /// at least every other packet since the burst's start was lost. Returns whether this loss begins a new
    /// burst.
    fn on_lost(&mut self, sent_at: Time, packets: f64) -> bool {
        if self.lost > MANY_LOST {
            (self.lost, self.times) = (self.lost / 2.0, self.times / 2.0);
        }
        self.lost += 1.0;
        if let Some((begin, lost)) = &mut self.burst {
            let left = sent_at.since(*begin).as_secs_f64() * packets;
            if *lost + 1.0 >= left / 2.0 {
                *lost += 1.0;
                return false;
            }
        }
        self.burst = Some((sent_at, 1.0));
        self.times += 1.0;
        true
    }

    /// Returns the variance of the number of losses, relative to independent losses. Burst lengths are
    /// assumed to be geometrically distributed.
    fn spread(&self) -> f64 {
        let mean = if self.times > 0.0 { self.lost / self.times } else { 1.0 };
        2.0 * mean - 1.0
    }
}

impl Losses {
    /// Records whether the rate is below the estimate from `now` on.
    pub(crate) fn on_gain(&mut self, now: Time, low: bool) {
        self.heard = now;
        match &mut self.low {
            Some((_, end)) if *end == Time::MAX && !low => *end = now,
            Some((_, end)) if *end == Time::MAX => {}
            _ if low => self.low = Some((now, Time::MAX)),
            _ => {}
        }
    }

    fn is_low(&self, sent_at: Time) -> bool {
        self.low.is_some_and(|(begin, end)| (begin..end).contains(&sent_at))
    }

    /// A packet was declared lost. About `packets` packets leave per second.
    pub(crate) fn on_lost(&mut self, sent_at: Time, packets: f64) {
        let another = self.bursts.on_lost(sent_at, packets);
        if self.is_low(sent_at) && !self.queue {
            self.recent.all += 1.0;
            self.recent.lost += 1.0;
        }
        if let Some(s) = &mut self.stretch {
            s.counts.all += 1.0;
            s.counts.lost += 1.0;
            s.times += u32::from(another);
        }
    }

    /// A packet that was declared lost at `declared` arrived after all.
    pub(crate) fn on_late(&mut self, declared: Time) {
        if let Some(s) = self.stretch.as_mut().filter(|s| s.since <= declared) {
            s.counts.lost = (s.counts.lost - 1.0).max(0.0);
        }
    }

    /// Packets were delivered. Their amount is `units` in the controller's unit. The newest of the packets
    /// left at `sent_at`, and `ce` of them were marked. `queue` says whether they met a queue.
    pub(crate) fn on_delivered(
        &mut self,
        sent_at: Option<Time>,
        packets: u64,
        units: u64,
        ce: u64,
        queue: bool,
    ) {
        self.queue = queue;
        if sent_at.is_some_and(|at| self.is_low(at)) && !queue {
            self.recent.all += packets as f64;
            if self.recent.all >= FEW {
                self.judge_low_phases();
            }
        }
        if let Some(s) = &mut self.stretch {
            s.counts.all += packets as f64;
            s.marked += ce as f64;
            s.delivered += units;
        }
    }

    fn judge_low_phases(&mut self) {
        let Counts { all, lost } = core::mem::take(&mut self.recent);
        if lost > MOST_OWN * all {
            return;
        }
        self.measured += all;
        self.own.all += all;
        self.own.lost += lost;
        if self.own.all > MANY {
            self.own.all /= 2.0;
            self.own.lost /= 2.0;
        }
    }

    /// Returns the number of losses in the last stretch in which more packets were lost than the path's own
    /// losses explain.
    pub(crate) fn lost(&self) -> f64 {
        self.congested.lost
    }

    /// Returns whether losses alone, without marks, made the last congested stretch so.
    pub(crate) fn by_losses(&self) -> bool {
        self.by_losses
    }

    /// Returns whether the path's own losses, measured since, explain the losses of the last stretch that had
    /// congestion.
    pub(crate) fn own_explain_last(&self) -> bool {
        self.measured > 0.0 && self.congested.lost <= self.bound(self.congested.all)
    }

    /// Returns whether the losses of the running stretch would be congestion if the path had no losses of its
    /// own.
    pub(crate) fn only_own_explain(&self) -> bool {
        self.stretch.is_some_and(|s| {
            s.times >= TIMES && s.counts.lost > self.bound_with(Counts::default(), s.counts.all)
        })
    }

    /// Halves the weight of the known own losses, because they are about to be measured again.
    pub(crate) fn measure_again(&mut self) {
        self.own.all /= 2.0;
        self.own.lost /= 2.0;
        self.measured = 0.0;
    }

    /// Returns whether enough packets have been measured since the last call of [`Self::measure_again`].
    pub(crate) fn measured(&self) -> bool {
        self.measured >= ENOUGH
    }

    /// Ends a round. If more packets were lost than the path's own losses explain, returns the rate of the
    /// delivered packets, units per second.
    pub(crate) fn on_round_end(&mut self, now: Time) -> Option<f64> {
        let Some(s) = self.stretch else {
            self.restart(now);
            return None;
        };
        let n = s.counts.all;
        let lost = s.times >= TIMES && s.counts.lost > self.bound(n);
        let marked = s.marked > (LOSS_THRESH * n).max(1.0);
        let lasted = now.since(s.since).as_secs_f64();
        if lost || marked {
            (self.congested, self.by_losses) = (s.counts, !marked);
            self.restart(now);
            return (lasted > 0.0).then(|| s.delivered as f64 / lasted);
        }
        // The stretch ends here if it has enough packets and no more losses than tolerated. Otherwise there
        // is no judgement yet, and the stretch continues.
        if n >= FEW && s.counts.lost <= (LOSS_THRESH + self.own_share()) * n {
            self.restart(now);
        }
        None
    }

    /// Returns the share of packets that the path loses regardless of the sending rate.
    pub(crate) fn own_share(&self) -> f64 {
        self.own.share()
    }

    /// Returns the largest number of losses among `n` packets that is not congestion: the path's expected own
    /// losses, the tolerated share, and three standard deviations.
    pub(crate) fn bound(&self, n: f64) -> f64 {
        self.bound_with(self.own, n)
    }

    /// Like [`Self::bound`], but with `own` as the path's own losses.
    fn bound_with(&self, own: Counts, n: f64) -> f64 {
        let expected = own.share() * n;
        // The estimate of the path's own losses varies as much as the losses themselves.
        let variance = if expected > 0.0 { expected * (1.0 + n / own.all) } else { 0.0 };
        LOSS_THRESH * n + expected + CHANCE * libm::sqrt((variance + 1.0) * self.bursts.spread())
    }

    /// Idle time is over. It is not part of the stretch, whose rate it would lower.
    pub(crate) fn on_idle_restart(&mut self, now: Time) {
        self.stretch.iter_mut().for_each(|s| s.since += now.since(self.heard.max(s.since)));
    }

    /// A timeout declared everything in flight lost, whatever the cause. Forgets these losses.
    pub(crate) fn on_timeout(&mut self, now: Time) {
        (self.recent, self.bursts) = (Counts::default(), Bursts::default());
        self.restart(now);
    }

    /// Starts a new stretch without losses.
    pub(crate) fn restart(&mut self, now: Time) {
        self.stretch =
            Some(Stretch { since: now, counts: Counts::default(), times: 0, marked: 0.0, delivered: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// Number of packets that leave per second.
    const PACKETS: f64 = 1_000.0;

    /// Simulates a round of 100 packets sent at `sent`, of which `lost` are lost. The round ends 100 ms
    /// later.
    fn round(l: &mut Losses, sent: u64, lost: u64, ce: u64) -> Option<f64> {
        (0..lost).for_each(|i| l.on_lost(ms(sent + i * 100 / lost), PACKETS));
        l.on_delivered(Some(ms(sent)), 100 - lost, 100 - lost, ce, false);
        l.on_round_end(ms(sent + 100))
    }

    #[test]
    fn losses_at_a_low_rate_are_the_paths_own() {
        let mut l = Losses::default();
        l.restart(ms(0));
        assert_eq!(round(&mut l, 0, 2, 0), None);
        // The path's own losses are not known yet, so 10 % is too much. The other 90 packets arrived in 100
        // ms.
        assert_eq!(round(&mut l, 100, 10, 0), Some(900.0));
        // A phase at a low rate has the same losses.
        l.on_gain(ms(200), true);
        round(&mut l, 200, 10, 0);
        l.on_gain(ms(300), false);
        l.restart(ms(300));
        assert_eq!(round(&mut l, 300, 10, 0), None);
        assert!(round(&mut l, 400, 40, 0).is_some());
    }

    #[test]
    fn idle_time_is_no_part_of_a_rate() {
        let mut l = Losses::default();
        l.restart(ms(0));
        l.on_gain(ms(0), false);
        l.on_idle_restart(ms(5_000));
        assert_eq!(round(&mut l, 5_000, 10, 0), Some(900.0));
    }

    #[test]
    fn losses_of_a_timeout_are_forgotten() {
        let mut l = Losses::default();
        l.on_gain(ms(0), true);
        (0..6).for_each(|i| l.on_lost(ms(i), PACKETS));
        l.on_timeout(ms(300));
        assert_eq!(l.bound(100.0), Losses::default().bound(100.0));
        l.on_delivered(Some(ms(250)), 60, 60, 0, false);
        assert_eq!(l.own_share(), 0.0);
    }

    #[test]
    fn losses_in_a_queue_are_not_the_paths_own() {
        for queue in [false, true] {
            let mut l = Losses::default();
            l.on_gain(ms(0), true);
            // The first packet shows whether there is a queue.
            l.on_delivered(Some(ms(0)), 1, 1, 0, queue);
            (1..=10).for_each(|i| l.on_lost(ms(i), PACKETS));
            l.on_delivered(Some(ms(50)), 89, 89, 0, queue);
            assert_eq!(l.own_share(), if queue { 0.0 } else { 0.1 });
        }
    }

    #[test]
    fn a_small_excess_counts_once_it_has_lasted() {
        // Each round of 100 packets loses a few: 2 are tolerated, 3 % is too much in the long run.
        for (lost, bounded) in [(2, false), (3, true)] {
            let mut l = Losses::default();
            l.restart(ms(0));
            let first = (0..20).find(|i| round(&mut l, i * 100, lost, 0).is_some());
            assert_eq!(first.is_some(), bounded, "{lost}");
            assert!(first.is_none_or(|round| round > 2), "a few rounds prove nothing");
        }
    }

    #[test]
    fn the_paths_own_losses_are_as_uncertain_as_their_measurement() {
        // A low phase of 60 packets loses 10 %. Then chance explains that 19 % of 1,000 packets are lost, but
        // after many such phases, it does not.
        let mut l = Losses::default();
        let low = |l: &mut Losses, since: u64| {
            l.on_gain(ms(since), true);
            (0..6).for_each(|i| l.on_lost(ms(since + i * 10), PACKETS));
            l.on_delivered(Some(ms(since + 50)), 54, 54, 0, false);
            l.on_gain(ms(since + 60), false);
        };
        low(&mut l, 0);
        let few = l.bound(1_000.0);
        (1..30).for_each(|i| low(&mut l, i * 100));
        let many = l.bound(1_000.0);
        assert!(few > 190.0 && many < 190.0, "{few} {many}");
    }

    #[test]
    fn the_paths_own_losses_never_explain_marks() {
        for (lost, ce) in [(10, 0), (1, 10)] {
            let mut l = Losses::default();
            l.restart(ms(0));
            assert!(round(&mut l, 0, lost, ce).is_some());
            assert_eq!(l.by_losses(), ce == 0);
        }
    }

    #[test]
    fn only_a_new_measurement_explains_losses_later() {
        let mut l = Losses::default();
        // The rate is so high that all losses are separate.
        let lose = |l: &mut Losses, begin, n| (0..n).for_each(|i| l.on_lost(ms(begin + 3 * i), 10_000.0));
        let low = |l: &mut Losses, begin, delivered, lost| {
            l.on_gain(ms(begin), true);
            lose(l, begin, lost);
            l.on_delivered(Some(ms(begin + 50)), delivered, delivered, 0, false);
            l.on_gain(ms(begin + 60), false);
        };
        low(&mut l, 0, 54, 6);
        l.restart(ms(100));
        lose(&mut l, 100, 30);
        l.on_delivered(Some(ms(150)), 70, 70, 0, false);
        assert!(l.on_round_end(ms(200)).is_some());
        // With half of the weight, the old measurement would allow 31 losses.
        l.measure_again();
        assert!(!l.own_explain_last());
        low(&mut l, 200, 41, 9);
        assert!(l.own_explain_last());
    }

    #[test]
    fn marks_are_nobodys_chance() {
        let mut l = Losses::default();
        l.restart(ms(0));
        assert_eq!(round(&mut l, 0, 0, 1), None);
        assert!(round(&mut l, 100, 0, 3).is_some());
    }

    #[test]
    fn few_packets_are_gathered_over_rounds() {
        let mut l = Losses::default();
        l.restart(ms(0));
        let mut bounds = 0;
        for i in 0..4 {
            l.on_lost(ms(i * 20), PACKETS);
            l.on_delivered(Some(ms(i * 20)), 9, 9, 0, false);
            bounds += u32::from(l.on_round_end(ms(i * 20 + 20)).is_some());
        }
        assert_eq!(bounds, 1);
    }

    #[test]
    fn losses_at_a_single_time_are_not_congestion() {
        for (every, bounded) in [(1, false), (2, false), (4, true)] {
            let mut l = Losses::default();
            l.restart(ms(0));
            (0..30).for_each(|i| l.on_lost(ms(i * every), PACKETS));
            l.on_delivered(Some(ms(0)), 30, 30, 0, false);
            assert_eq!(l.on_round_end(ms(100)).is_some(), bounded, "{every}");
        }
    }

    #[test]
    fn losses_that_come_together_say_less() {
        // Rounds have 100 packets. Every fifth round loses 8 packets, either separately or in one burst.
        let bounds = |together: bool| {
            let mut l = Losses::default();
            l.restart(ms(0));
            let mut bounds = 0;
            for i in 0..100 {
                let (sent, lost) = (i * 100, if i % 5 == 0 { 8 } else { 0 });
                for n in 0..lost {
                    l.on_lost(ms(sent + n * if together { 1 } else { 10 }), PACKETS);
                }
                l.on_delivered(Some(ms(sent)), 100 - lost, 100 - lost, 0, false);
                bounds += u32::from(l.on_round_end(ms(sent + 100)).is_some());
            }
            bounds
        };
        assert_eq!((bounds(false), bounds(true)), (20, 0));
    }

    #[test]
    fn phases_above_the_paths_rate_say_nothing_about_it() {
        // The first low phase has 60 packets and loses 50 %. The second has 60 packets and loses 10 %.
        let mut l = Losses::default();
        for (lost, share) in [(30, 0.0), (6, 0.1)] {
            l.on_gain(ms(0), true);
            (0..lost).for_each(|i| l.on_lost(ms(i), PACKETS));
            l.on_delivered(Some(ms(50)), 60 - lost, 60 - lost, 0, false);
            assert_eq!(l.own_share(), share);
        }
    }

    #[test]
    fn packets_that_arrive_late_were_not_lost() {
        for late in [0, 8] {
            let mut l = Losses::default();
            l.restart(ms(0));
            (0..10).for_each(|i| l.on_lost(ms(i * 10), PACKETS));
            l.on_delivered(Some(ms(0)), 90, 90, 0, false);
            (0..late).for_each(|i| l.on_late(ms(i * 10)));
            assert_eq!(l.on_round_end(ms(100)).is_some(), late == 0, "{late}");
        }
    }
}
