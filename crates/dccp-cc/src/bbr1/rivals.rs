//! Modesty beside flows that fill the queue.
//!
//! BBR keeps to its estimate whatever others lose, so on a queue of a bandwidth-delay product or less, TCP starves beside it. Others show by a
//! queue that stands, or by losses, when nothing is probed. Losses that come of a queue come when round trips are long; those of the path come
//! at any time. Once they clearly prefer long ones, or keep coming in a queue that never empties, a CUBIC runs beside the model, told of these
//! losses alone: where its window is below what the model asks for, it rules.

use crate::cubic::BETA;
use crate::{AckEvent, CcConfig, Controller, Cubic, Lost, Part};
use units::{Duration, Time};

/// Deviations of chance by which losses must prefer long round trips.
const CHANCE: f64 = 3.0;
/// So many more rounds with losses while a queue stood than while none did are others' doing.
const STANDING: u32 = 6;
/// Rounds with losses that are remembered in full.
const REMEMBERED: f64 = 64.0;
/// After so long others have to show again.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// Weight of a round in what is usual.
const WEIGHT: f64 = 1.0 / 16.0;

/// Round-trip times as they usually are, s.
#[derive(Clone, Copy, Debug)]
struct Usual {
    mean: f64,
    deviation: f64,
    most: f64,
}

impl Usual {
    /// Longer ones are the longest quarter or so, also where most are near the most.
    fn long(&self) -> f64 {
        (self.mean + self.deviation).min((self.mean + self.most) / 2.0)
    }

    /// Most are near the most, as in a queue that is nearly always full. What a path's delay varies by has no such ceiling.
    fn at_ceiling(&self) -> bool {
        self.most - self.mean < 2.0 * self.deviation
    }

    fn on_round(&mut self, mean: f64, deviation: f64) {
        self.mean += (mean - self.mean) * WEIGHT;
        self.deviation += (deviation - self.deviation) * WEIGHT;
        self.most += (self.mean - self.most) * WEIGHT / 4.0;
    }
}

/// Packets delivered, and rounds with losses; of each those of long round trips last.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    packets: [f64; 2],
    losses: [f64; 2],
}

impl Counts {
    /// Whether losses prefer long round trips beyond what chance brings.
    fn prefer_long(&self) -> bool {
        let all = self.packets[0] + self.packets[1];
        let share = if all > 0.0 { self.packets[1] / all } else { 1.0 };
        let n = self.losses[0] + self.losses[1];
        let deviation = libm::sqrt(n * share * (1.0 - share));
        self.losses[1] - n * share > CHANCE * deviation.max(1.0)
    }
}

/// The phase in which the model probes and drains nothing.
#[derive(Clone, Copy, Debug)]
struct Cruise {
    begin: Time,
    /// [`Time::MAX`] while it lasts.
    end: Time,
    least: Duration,
}

/// What is known of others in the queue.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    usual: Option<Usual>,
    /// Of the running round: round-trip times and their deviations from the mean, added up, s, and how many.
    round: (f64, f64, u32),
    /// Losses in the running round, as in [`Counts`].
    lost: [bool; 2],
    /// The least round-trip time of the running round, and whether all of it was cruised.
    least: Option<Duration>,
    cruised: bool,
    /// Rounds with losses that were cruised while a queue stood all through them, near its most as ever, less others.
    standing: u32,
    /// The newest round trip is long, and above the mean.
    long: bool,
    above: bool,
    /// The newest one.
    cruise: Option<Cruise>,
    /// A queue stood through the last one that ended: it was not ours.
    stood: bool,
    counts: Counts,
    window: Option<Cubic>,
    /// `None`: all of it.
    part: Option<Part>,
    /// It is below what the model asks for.
    rules: bool,
    until: Time,
    /// Losses say nothing before this.
    not_before: Time,
    /// A loss since the last reduction, and when that was.
    hit: bool,
    reduced_at: Time,
}

impl Rivals {
    /// Whether the model `cruises` from `now` on; `empty` is what the round-trip time is up to without a queue.
    pub(super) fn on_phase(&mut self, now: Time, cruises: bool, empty: Duration) {
        match (&mut self.cruise, cruises) {
            (Some(c), true) if c.end == Time::MAX => {}
            (Some(c), false) if c.end == Time::MAX => {
                c.end = now;
                self.cruised = false;
                self.stood = c.least != Duration::MAX && c.least > empty;
            }
            (_, true) => self.cruise = Some(Cruise { begin: now, end: Time::MAX, least: Duration::MAX }),
            (_, false) => {}
        }
    }

    /// Whether a loss or delivery of what was sent then says something of others. Where only our own probes fill the queue, it does not.
    fn tells(&self, sent_at: Time) -> bool {
        self.stood || self.rules() || self.cruise.is_some_and(|c| (c.begin..c.end).contains(&sent_at))
    }

    /// A packet was declared lost.
    pub(super) fn on_lost(&mut self, pkt: &Lost<'_>) {
        let sent_at = pkt.snapshot.sent_at;
        if self.tells(sent_at) {
            self.lost[usize::from(self.long)] = true;
        }
        self.hit |= self.above && sent_at >= self.reduced_at;
    }

    /// An acknowledgement, while the model asks for a window of `target` bytes.
    /// `empty` is what the round-trip time is up to without a queue.
    pub(super) fn on_ack(&mut self, ev: &AckEvent<'_>, mtu: u16, target: u64, empty: Duration) {
        if let Some(rtt) = ev.rtt {
            self.on_rtt(rtt, rtt > empty);
        }
        if ev.rate.as_ref().is_some_and(|rs| self.tells(rs.sent_at)) {
            self.counts.packets[usize::from(self.long)] += ev.acked.packets as f64;
        }
        if ev.round_end {
            self.on_round_end(empty);
            if self.window.is_none() && ev.now >= self.not_before && self.others() {
                let cfg = CcConfig { mtu, packets: false, draft: false, seed: 0 };
                let mut cubic = Cubic::beside(&cfg, ev.inflight_before.bytes);
                cubic.couple(&self.part.unwrap_or(Part::ALONE));
                self.window = Some(cubic);
                self.until = ev.now + LOOK_AGAIN;
                self.hit = true;
            }
        }
        let hit = core::mem::take(&mut self.hit);
        let Some(cubic) = &mut self.window else { return };
        if ev.now > self.until {
            self.forget();
            return;
        }
        if hit {
            self.reduced_at = ev.now;
        }
        cubic.on_ack(&AckEvent { congestion: hit, app_limited: false, ..*ev });
        // What is not used is not validated; one reduction leaves what the model asks for.
        cubic.cap(target as f64 / BETA);
        self.rules = cubic.limits().cwnd.bytes(mtu) < target;
    }

    fn on_rtt(&mut self, rtt: Duration, queue: bool) {
        if let Some(cruise) = &mut self.cruise {
            cruise.least = cruise.least.min(rtt);
        }
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        let rtt = rtt.as_secs_f64();
        let usual = self.usual.get_or_insert(Usual { mean: rtt, deviation: 0.0, most: rtt });
        usual.most = usual.most.max(rtt);
        self.long = queue && rtt > usual.long();
        self.above = queue && rtt > usual.mean;
        let (sum, deviations, n) = self.round;
        self.round = (sum + rtt, deviations + (rtt - usual.mean).abs(), n + 1);
    }

    fn on_round_end(&mut self, empty: Duration) {
        let cruises = self.cruise.is_some_and(|c| c.end == Time::MAX);
        let full = self.usual.is_some_and(|usual| usual.at_ceiling());
        let stood = self.least.take().is_some_and(|least| least > empty) && full;
        if core::mem::replace(&mut self.cruised, cruises) && self.lost != [false; 2] {
            self.standing = if stood { self.standing + 1 } else { self.standing.saturating_sub(1) };
        }
        let (sum, deviations, n) = core::mem::take(&mut self.round);
        if let Some(usual) = self.usual.as_mut().filter(|_| n > 0) {
            usual.on_round(sum / f64::from(n), deviations / f64::from(n));
        }
        let Counts { packets, losses } = &mut self.counts;
        for (count, lost) in losses.iter_mut().zip(core::mem::take(&mut self.lost)) {
            *count += f64::from(u8::from(lost));
        }
        if losses[0] + losses[1] > REMEMBERED {
            packets.iter_mut().chain(losses).for_each(|n| *n /= 2.0);
        }
    }

    /// Losses show that others are there. Where the queue is nearly always full, round trips differ by no more than where in a burst they were
    /// taken, so whether losses prefer long ones says nothing; that the queue stands while nothing is probed does.
    fn others(&self) -> bool {
        self.counts.prefer_long() || self.standing >= STANDING
    }

    /// The bound rules: the model neither probes nor drains by itself.
    pub(super) fn rules(&self) -> bool {
        self.rules
    }

    /// What may be in flight, bytes.
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

    /// Losses were mere reordering: for a while they say nothing of others.
    pub(super) fn on_reordering(&mut self, now: Time) {
        self.forget();
        self.not_before = now + LOOK_AGAIN;
    }

    /// Nothing is known of others.
    pub(super) fn forget(&mut self) {
        self.window = None;
        self.rules = false;
        self.counts = Counts::default();
        self.standing = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(packets: [f64; 2], losses: [f64; 2]) -> bool {
        Counts { packets, losses }.prefer_long()
    }

    #[test]
    fn losses_that_prefer_long_round_trips_come_of_a_queue() {
        // A quarter of the packets had long ones.
        assert!(counts([7_500.0, 2_500.0], [0.0, 6.0]));
        assert!(!counts([7_500.0, 2_500.0], [0.0, 3.0]), "too few to say");
        // At random a quarter of the losses do.
        assert!(!counts([7_500.0, 2_500.0], [30.0, 10.0]));
        assert!(!counts([7_500.0, 2_500.0], [30.0, 15.0]));
        // Where all are long, nothing can be said.
        assert!(!counts([0.0, 10_000.0], [0.0, 60.0]));
    }

    #[test]
    fn losses_in_a_queue_that_never_empties_come_of_others() {
        let ms = Duration::from_millis;
        let rounds = |least: u64, most: u64, lossy: u32, cruises: bool| {
            let mut r = Rivals::default();
            r.on_phase(Time::ZERO, cruises, ms(11));
            for i in 0..100 {
                let highest = if i % 32 == 0 { most } else { 15 };
                for rtt in [least, highest] {
                    r.on_rtt(ms(rtt), rtt > 11);
                }
                // Those that tell of losses are no longer than others.
                r.lost[0] = i >= 100 - lossy;
                r.on_round_end(ms(11));
            }
            r.others()
        };
        assert!(rounds(14, 15, STANDING, true));
        assert!(!rounds(14, 15, STANDING - 1, true), "too few to say");
        assert!(!rounds(10, 15, STANDING, true), "the queue empties: the path's own losses");
        assert!(!rounds(14, 18, STANDING, true), "no ceiling: delay varies");
        assert!(!rounds(14, 15, STANDING, false), "a probe's queue is ours");
    }

    #[test]
    fn a_queue_that_stands_while_nothing_is_probed_is_not_ours() {
        let ms = Duration::from_millis;
        let mut r = Rivals::default();
        for (rtt, stood) in [(50, true), (41, false), (60, true)] {
            r.on_phase(Time::ZERO, true, ms(45));
            r.on_rtt(ms(rtt + 20), true);
            r.on_rtt(ms(rtt), rtt > 45);
            r.on_phase(Time::from_millis(300), false, ms(45));
            // What the probe adds is not seen.
            assert_eq!(r.stood, stood, "{rtt}");
        }
    }
}
