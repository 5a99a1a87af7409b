use dccp_proto::ccid::TxView;
use mpdccp_units::{Duration, Time};

/// Loss rate of a path, independent of its load: the minimum over the last samples, so that queue losses do
/// not count while the congestion control is searching for its rate. Without new samples, the value decays,
/// so that a path that was left out for its losses is tried again. Each time the losses return after that,
/// the decay slows down.
#[derive(Debug, Default)]
pub(super) struct LossRate {
    samples: [f32; SAMPLES],
    taken: usize,
    /// The value when the decay began, and the number of samples at that time.
    forgotten: Option<(f32, usize)>,
    /// Number of times in a row that the losses came back after a decay, to at least half their value before
    /// the decay.
    relapses: u32,
    /// Numbers of packets delivered and lost until the last update.
    seen: (u64, u64),
    at: Time,
}

/// A sample has at least `SAMPLE` packets or `MANY_LOST` losses, and lasts at least `LASTS`. On a fast path,
/// the congestion control loses packets until it has found its rate, but this takes less than one sample.
/// Because of `MANY_LOST`, a slow flow with heavy losses need not send `SAMPLE` packets for a sample.
const SAMPLE: u64 = 250;
const MANY_LOST: u64 = 5;
const LASTS: Duration = Duration::from_millis(250);
/// Number of samples over which the minimum is taken.
const SAMPLES: usize = 4;
/// Each time this long passes without a sample, the value decays by a quarter. Each relapse halves the decay,
/// at most `MOST_RELAPSES` times.
const FORGET: Duration = Duration::from_secs(1);
const MOST_RELAPSES: u32 = 4;

impl LossRate {
    /// Returns the share of lost packets, 0 to 1.
    pub(super) fn get(&self) -> f32 {
        // Until all samples exist, at least one of them is 0, so the loss rate is 0.
        self.samples.iter().copied().fold(1.0, f32::min)
    }

    /// Forgets the losses so far, because the path takes another route. The counts of packets continue.
    pub(super) fn restart(&mut self) {
        *self = LossRate { seen: self.seen, at: self.at, ..LossRate::default() };
    }

    pub(super) fn update(&mut self, now: Time, view: &TxView) {
        self.count(now, view.delivered.packets, view.lost.packets);
    }

    fn count(&mut self, now: Time, delivered: u64, lost: u64) {
        if delivered < self.seen.0 {
            // The counters have restarted, because the path has a new connection.
            self.seen = (0, 0);
        }
        let new = delivered - self.seen.0;
        // The count of losses may fall, because spurious losses are subtracted from it.
        let missing = lost.saturating_sub(self.seen.1);
        let enough = new + missing >= SAMPLE || missing >= MANY_LOST;
        if enough && now.since(self.at) >= LASTS {
            self.samples[self.taken % SAMPLES] = missing as f32 / (new + missing) as f32;
            self.taken += 1;
            (self.seen, self.at) = ((delivered, lost), now);
            if let Some((was, taken)) = self.forgotten
                && self.taken >= taken + SAMPLES
            {
                self.forgotten = None;
                let as_bad = was > 0.0 && self.get() >= was / 2.0;
                self.relapses = if as_bad { (self.relapses + 1).min(MOST_RELAPSES) } else { 0 };
            }
        } else if now.since(self.at) >= FORGET {
            self.forgotten.get_or_insert((self.get(), self.taken));
            let part = (4 << self.relapses) as f32;
            self.samples.iter_mut().for_each(|share| *share -= *share / part);
            self.at = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Session;
    use super::*;
    use crate::{PathConfig, PathId, SessionConfig};
    use alloc::vec::Vec;
    use dccp_proto::{Ports, Route};

    #[test]
    fn lasting_losses_count_and_are_forgotten() {
        let mut loss = LossRate::default();
        let mut now = Time::ZERO;
        let (mut delivered, mut lost) = (0, 0);
        let mut run = |loss: &mut LossRate, samples: u64, share: u64| {
            for _ in 0..samples {
                now += LASTS;
                (delivered, lost) = (delivered + SAMPLE - share, lost + share);
                loss.count(now, delivered, lost);
            }
            (now, delivered, lost)
        };
        run(&mut loss, SAMPLES as u64 - 1, 25);
        assert_eq!(loss.get(), 0.0, "a burst of losses must not count");
        run(&mut loss, 1, 25);
        assert!((loss.get() - 0.1).abs() < 1e-3, "lasting losses must count");
        run(&mut loss, 1, 0);
        assert_eq!(loss.get(), 0.0);
        let mut fast = LossRate::default();
        for ms in 0..1_000 {
            fast.count(Time::from_millis(ms), ms * SAMPLE, ms * SAMPLE / 4);
        }
        assert_eq!(fast.get(), 0.0, "losses while a fast path finds its rate must not count");
        let (now, delivered, lost) = run(&mut loss, SAMPLES as u64, 75);
        assert!((loss.get() - 0.3).abs() < 1e-3);
        for s in 1..20 {
            loss.count(now + Duration::from_secs(s), delivered, lost);
        }
        assert!(loss.get() < 0.01, "{}", loss.get());
        loss.count(now + Duration::from_secs(21), 5, 0);
        assert!(loss.get() < 0.01, "a new connection must not add losses");
    }

    #[test]
    fn losses_on_another_route_do_not_count() {
        let route = Route { socket: 0, local: None, remote: "10.0.0.1:6511".parse().unwrap() };
        let ports = Ports { local: 1, remote: 2 };
        let path = PathConfig::new(route, ports, 1500, 28);
        let mut session = Session::client(SessionConfig::default(), Time::ZERO, path, 1, [1; 32]);
        let mut now = Time::ZERO;
        for n in 1..=SAMPLES as u64 {
            now += LASTS;
            session.paths[0].loss.count(now, n * SAMPLE, n * SAMPLE);
        }
        assert_eq!(session.paths[0].loss.get(), 0.5);
        session.change_path(now, PathId(0));
        assert_eq!(session.paths[0].loss.get(), 0.0);
    }

    /// The flow sends 100 packets per second, three in ten of which are lost.
    #[test]
    fn a_slow_flow_shows_heavy_losses_within_seconds_and_they_are_retried_ever_later() {
        let mut loss = LossRate::default();
        let (mut now, mut sent) = (Time::ZERO, 0);
        let mut known_again = Vec::new();
        for _ in 0..7 {
            let begin = now;
            while loss.get() < 0.2 {
                now += Duration::from_millis(10);
                sent += 1;
                loss.count(now, sent * 7 / 10, sent - sent * 7 / 10);
            }
            assert!(now.since(begin) <= Duration::from_millis(1_500), "{:?}", now.since(begin));
            let left = now;
            while loss.get() >= 0.05 {
                now += Duration::from_millis(10);
                loss.count(now, sent * 7 / 10, sent - sent * 7 / 10);
            }
            known_again.push(now.since(left).as_secs());
        }
        assert!(
            known_again.windows(2).take(MOST_RELAPSES as usize).all(|w| w[1] > w[0] + w[0] / 2),
            "{known_again:?}"
        );
        assert_eq!(known_again[5], known_again[6]);
        // From now on, the path loses no packets.
        let lost = sent - sent * 7 / 10;
        for _ in 0..2_000 {
            now += Duration::from_millis(10);
            sent += 1;
            loss.count(now, sent - lost, lost);
        }
        assert_eq!(loss.relapses, 0);
    }
}
