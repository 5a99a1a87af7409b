//! Detects competing flows that respond to losses, and yields to them.
//!
//! BBR keeps its bandwidth estimate when packets are lost, so a competing TCP starves if the queue holds a
//! bandwidth-delay product or less. Losses and marks reveal competitors if they coincide with a queue that
//! this flow did not build. Such losses are more frequent while the round-trip time is long. Random losses of
//! the path are not. After a detection, a CUBIC window runs alongside BBR's model and responds to these
//! losses; the smaller of the two windows limits sending. Flows that respond to losses cause only moderate
//! losses. If losses are higher, yielding does not help, so only the model's window applies.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::tuning::MINUTE;
use crate::cubic::BETA;
use crate::jitter::CYCLE_ROUNDS;
use crate::losses::{CHANCE, LOSS_THRESH, MANY, MANY_LOST};
use crate::{AckEvent, CcConfig, Controller, Cubic, Lost, Part};
use mpdccp_units::{Duration, Time};

/// Smoothed mean and mean deviation of the round-trip time, in seconds.
#[derive(Clone, Copy, Debug)]
struct Usual {
    mean: f64,
    deviation: f64,
}

impl Usual {
    /// Returns the round-trip time above which a round trip counts as long.
    fn long(&self) -> f64 {
        self.mean + self.deviation
    }

    /// Includes the values of a new round in the averages, with the weights of RFC 6298 section 2.
    fn on_round(&mut self, mean: f64, deviation: f64) {
        self.deviation += (deviation - self.deviation) / 4.0;
        self.mean += (mean - self.mean) / 8.0;
    }
}

/// Number of packets delivered, and number of rounds with losses. Each array counts short round trips in its
/// first element and long ones in its second.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    packets: [f64; 2],
    /// A round that lost packets in both short and long round trips adds a fraction to each element.
    losses: [f64; 2],
}

impl Counts {
    /// Returns whether losses coincide with long round trips more often than chance explains.
    fn prefer_long(&self) -> bool {
        let all = self.packets[0] + self.packets[1];
        let share = if all > 0.0 { self.packets[1] / all } else { 1.0 };
        let n = self.losses[0] + self.losses[1];
        let deviation = libm::sqrt(n * share * (1.0 - share));
        self.losses[1] - n * share > CHANCE * deviation.max(1.0)
    }
}

/// The phase in which the model neither probes nor drains.
#[derive(Clone, Copy, Debug)]
struct Cruise {
    begin: Time,
    /// End of the phase, or [`Time::MAX`] while the phase lasts.
    end: Time,
    least: Duration,
}

/// Counts of all packets and of lost packets, weighted towards recent ones.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    all: f64,
    lost: f64,
}

impl Share {
    fn add(&mut self, all: f64, lost: f64) {
        if self.all > MANY {
            (self.all, self.lost) = (self.all / 2.0, self.lost / 2.0);
        }
        (self.all, self.lost) = (self.all + all, self.lost + lost);
    }

    fn get(&self) -> f64 {
        if self.all > 0.0 { self.lost / self.all } else { 0.0 }
    }
}

/// Whether the round trips of recently sent packets were long. Consecutive packets with the same answer form
/// a run, which is stored under the send time of its newest packet.
#[derive(Debug, Default)]
struct Ranks(VecDeque<(Time, bool)>);

impl Ranks {
    const MOST: usize = 256;

    fn add(&mut self, sent_at: Time, long: bool) {
        match self.0.back_mut() {
            Some((newest, _)) if sent_at < *newest => {}
            Some((newest, last)) if *last == long => *newest = sent_at,
            _ => self.0.push_back((sent_at, long)),
        }
        if self.0.len() > Self::MOST {
            self.0.pop_front();
        }
    }

    /// Returns whether the packet sent at `sent_at` had a long round trip, or `None` if this is no longer
    /// known. For a lost packet, the answer is that of the next packet with a round-trip time: packets sent
    /// close together meet the same queue.
    fn of(&self, sent_at: Time) -> Option<bool> {
        let at = self.0.partition_point(|(newest, _)| *newest < sent_at).min(self.0.len().checked_sub(1)?);
        let known = at > 0 || self.0.len() < Self::MOST;
        known.then(|| self.0[at].1)
    }
}

/// Losses of one round. Until the round is settled, some of them may turn out to be reordering.
#[derive(Clone, Copy, Debug, Default)]
struct Lossy {
    begin: Time,
    /// Packets lost in short round trips and in long ones.
    lost: [u32; 2],
    /// Whether at least one of the lost packets has arrived late. If so, others may follow, so the round does
    /// not count.
    late: bool,
}

/// Detection of other flows in the queue.
#[derive(Debug, Default)]
pub(super) struct Competitors {
    /// Packets delivered and lost, counting only packets for which [`Competitors::tells`] is true.
    told: Share,
    usual: Option<Usual>,
    /// Sums for the current round: the round-trip times, their deviations from the mean (both in seconds),
    /// and the number of samples.
    round: (f64, f64, u32),
    /// Losses of the running round.
    running: Lossy,
    /// Losses of earlier rounds that are not final yet.
    unsettled: VecDeque<Lossy>,
    /// Whether the newest round trip was long.
    long: bool,
    ranks: Ranks,
    /// Send times of packets declared lost since the last acknowledgement.
    fresh: Vec<Time>,
    /// The newest cruise phase.
    cruise: Option<Cruise>,
    /// Whether a queue was present throughout the last completed cruise phase. If so, other flows built it.
    stood: bool,
    counts: Counts,
    window: Option<Cubic>,
    /// The flow's part of a bottleneck that it shares with other paths of the session. `None` if the flow is
    /// not coupled with other paths.
    part: Option<Part>,
    /// Whether the CUBIC window is below the model's window and limits sending.
    rules: bool,
    until: Time,
    /// Whether a packet sent since the last reduction was marked, or was lost in a long round trip.
    hit: bool,
    /// Time of the last reduction.
    reduced_at: Time,
}

impl Competitors {
    /// Records the phase that the model is in from `now` on. `cruises` says whether the model neither probes
    /// nor drains. `empty` is the largest round-trip time that shows no queue.
    pub(super) fn on_phase(&mut self, now: Time, cruises: bool, empty: Duration) {
        match (&mut self.cruise, cruises) {
            (Some(c), true) if c.end == Time::MAX => {}
            (Some(c), false) if c.end == Time::MAX => {
                c.end = now;
                self.stood = c.least != Duration::MAX && c.least > empty;
            }
            (_, true) => self.cruise = Some(Cruise { begin: now, end: Time::MAX, least: Duration::MAX }),
            (_, false) => {}
        }
    }

    /// Returns whether the loss or delivery of a packet sent at `sent_at` says anything about other flows. It
    /// does not while this flow's own probes fill the queue.
    fn tells(&self, sent_at: Time) -> bool {
        self.stood || self.rules() || self.cruise.is_some_and(|c| (c.begin..c.end).contains(&sent_at))
    }

    /// A packet was declared lost.
    pub(super) fn on_lost(&mut self, pkt: &Lost<'_>) {
        self.fresh.push(pkt.snapshot.sent_at);
    }

    /// Handles an acknowledgement. `target` is the model's window in bytes. `empty` is the largest round-trip
    /// time without a queue.
    pub(super) fn on_ack(&mut self, ev: &AckEvent<'_>, mtu: u16, target: u64, empty: Duration) {
        if let Some(rtt) = ev.rtt {
            self.on_rtt(rtt, rtt > empty);
        }
        if let Some(rs) = &ev.rate {
            if ev.rtt.is_some() {
                self.ranks.add(rs.sent_at, self.long);
            }
            let packets = ev.acked.packets as f64;
            if let Some(long) = self.ranks.of(rs.sent_at).filter(|_| self.tells(rs.sent_at)) {
                self.counts.packets[usize::from(long)] += packets;
                self.told.add(packets, 0.0);
            }
            // A mark counts like a loss in a long round trip, because only a queue marks packets. But a mark
            // in a queue that this flow built says nothing about other flows.
            if ev.ce > 0 {
                let marks = u32::try_from(ev.ce).unwrap_or(u32::MAX);
                let min = ev.estimator.recent_min();
                let stands = ev.rtt.zip(min).is_some_and(|(rtt, min)| self.stands(rtt - rtt.min(min), min));
                if (self.rules() || stands) && self.tells(rs.sent_at) {
                    self.running.lost[1] = self.running.lost[1].saturating_add(marks);
                    self.told.add(f64::from(marks), f64::from(marks));
                }
                self.hit |= rs.sent_at >= self.reduced_at;
            }
        }
        for sent_at in core::mem::take(&mut self.fresh) {
            let Some(long) = self.ranks.of(sent_at) else { continue };
            if self.tells(sent_at) {
                self.running.lost[usize::from(long)] += 1;
                self.told.add(1.0, 1.0);
            }
            self.hit |= long && sent_at >= self.reduced_at;
        }
        if ev.round_end {
            self.on_round_end(ev.now);
            if self.window.is_none() && self.others() {
                let cfg = CcConfig { mtu, packets: false, draft: false, seed: 0 };
                let mut cubic = Cubic::competing(&cfg, ev.inflight_before.bytes);
                cubic.couple(&self.part.unwrap_or(Part::ALONE));
                self.window = Some(cubic);
                self.until = ev.now + MINUTE;
                self.hit = true;
            }
        }
        let hit = core::mem::take(&mut self.hit);
        if self.window.is_some() && (ev.now > self.until || !self.heeded()) {
            self.forget();
        }
        let Some(cubic) = &mut self.window else { return };
        if hit {
            self.reduced_at = ev.now;
        }
        cubic.on_ack(&AckEvent { congestion: hit, app_limited: false, ..*ev });
        // A CUBIC window above the model's window is not used, so nothing shows that it is too large. Cap it,
        // so that one reduction brings it down to the model's window.
        cubic.cap(target as f64 / BETA);
        self.rules = cubic.limits().cwnd.bytes(mtu) < target;
    }

    /// Returns whether more than half of a queue that delays packets by `queue` has stood since the newest
    /// cruise phase began. If so, other flows built it. `min` is the lowest recent round-trip time. A queue
    /// that marks early may be too short for `stood`, and this flow fills it even without probes.
    fn stands(&self, queue: Duration, min: Duration) -> bool {
        let least = self.cruise.map_or(Duration::MAX, |cruise| cruise.least);
        least != Duration::MAX && least.saturating_sub(min) > queue / 2
    }

    fn on_rtt(&mut self, rtt: Duration, queue: bool) {
        if let Some(cruise) = &mut self.cruise {
            cruise.least = cruise.least.min(rtt);
        }
        let rtt = rtt.as_secs_f64();
        let usual = self.usual.get_or_insert(Usual { mean: rtt, deviation: 0.0 });
        self.long = queue && rtt > usual.long();
        let (sum, deviations, n) = self.round;
        self.round = (sum + rtt, deviations + (rtt - usual.mean).abs(), n + 1);
    }

    fn on_round_end(&mut self, now: Time) {
        let (sum, deviations, n) = core::mem::take(&mut self.round);
        if let Some(usual) = self.usual.as_mut().filter(|_| n > 0) {
            usual.on_round(sum / f64::from(n), deviations / f64::from(n));
        }
        let running = core::mem::replace(&mut self.running, Lossy { begin: now, ..Lossy::default() });
        self.unsettled.push_back(running);
        // Reordered packets have arrived by now, so the losses of the oldest round are final.
        if self.unsettled.len() > CYCLE_ROUNDS {
            self.unsettled.pop_front().into_iter().for_each(|round| self.settle(&round));
        }
    }

    /// Adds the losses of a round to the counts. These losses are final.
    fn settle(&mut self, round: &Lossy) {
        let [short, long] = round.lost.map(f64::from);
        if round.late || short + long == 0.0 {
            return;
        }
        let Counts { packets, losses } = &mut self.counts;
        // A round counts once, regardless of its number of losses, because a full queue drops packets in
        // groups.
        for (count, lost) in losses.iter_mut().zip([short, long]) {
            *count += lost / (short + long);
        }
        if losses[0] + losses[1] > MANY_LOST {
            packets.iter_mut().chain(losses).for_each(|n| *n /= 2.0);
        }
    }

    /// Returns whether losses indicate competing flows that respond to losses.
    fn others(&self) -> bool {
        self.heeded() && self.counts.prefer_long()
    }

    /// Returns whether losses are low enough for all competitors to be flows that respond to them. Higher
    /// losses mean that some flow ignores losses, and yielding to such a flow would never end.
    fn heeded(&self) -> bool {
        self.told.get() <= LOSS_THRESH
    }

    /// Returns whether the CUBIC window limits sending. If so, the model neither probes nor drains.
    pub(super) fn rules(&self) -> bool {
        self.rules
    }

    /// Returns the CUBIC window in bytes, or `None` while no CUBIC window runs alongside the model.
    pub(super) fn bound(&self, mtu: u16) -> Option<u64> {
        self.window.as_ref().map(|cubic| cubic.limits().cwnd.bytes(mtu))
    }

    /// See [`Controller::couple`].
    pub(super) fn couple(&mut self, part: &Part) {
        self.part = Some(*part);
        if let Some(cubic) = &mut self.window {
            cubic.couple(part);
        }
    }

    /// A packet declared lost at `declared` arrived after all.
    pub(super) fn on_late(&mut self, declared: Time) {
        let rounds = core::iter::once(&mut self.running).chain(self.unsettled.iter_mut().rev());
        if let Some(round) = rounds.into_iter().find(|round| round.begin <= declared) {
            round.late = true;
        }
    }

    /// All losses that caused the last reduction were spurious.
    pub(super) fn on_spurious_loss(&mut self, now: Time) {
        if let Some(cubic) = &mut self.window {
            cubic.on_spurious_loss(now);
        }
    }

    /// Resets the detection and removes the CUBIC window.
    pub(super) fn forget(&mut self) {
        self.window = None;
        self.rules = false;
        self.counts = Counts::default();
        self.unsettled.clear();
        self.fresh.clear();
    }
}

#[cfg(test)]
#[path = "competitors_tests.rs"]
mod tests;
