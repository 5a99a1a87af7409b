use units::{Duration, Time};

/// First and largest gap between the probes of a silent path.
const PROBE_GAP: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Whether a path still answers.
///
/// Silence counts from the first packet sent that nothing valid was received after. After one retransmission timeout (RTO,
/// never under 200 ms) a Sync asks once more, since a lost acknowledgement alone shows nothing; after two the path is
/// silent. Anything valid received after a probe brings it back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Liveness {
    /// It answers, as far as we know.
    Lively {
        /// When the first packet still unanswered left.
        asked: Option<Time>,
        /// It was asked once more.
        again: bool,
    },
    /// It does not.
    Silent {
        since: Time,
        /// Packets that came before the first probe could be answered prove nothing.
        trust_after: Time,
        probe_at: Time,
        gap: Duration,
    },
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Fine,
    /// Send a Sync.
    Probe,
    /// The path has just become silent; send a Sync.
    Lost,
    /// It has just come back.
    Revived,
    /// It was silent for too long.
    Dead,
}

/// What the judgement rests on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// When something valid last arrived, or the path opened.
    pub(super) heard: Time,
    /// Retransmission timeout.
    pub(super) rto: Duration,
    /// Ask an idle path this often.
    pub(super) keepalive: Duration,
    /// Give a silent path up after this.
    pub(super) patience: Duration,
}

impl Liveness {
    pub(super) const NEW: Liveness = Liveness::Lively { asked: None, again: false };

    /// The link was reported down.
    pub(super) fn link_down(now: Time) -> Liveness {
        let probe_at = now + PROBE_GAP.0;
        Liveness::Silent { since: now, trust_after: probe_at, probe_at, gap: PROBE_GAP.0 }
    }

    /// Doubt: the path is not used until it answers a probe. The caller sends the first one.
    pub(super) fn doubt(now: Time) -> Liveness {
        Liveness::Silent { since: now, trust_after: now, probe_at: now + PROBE_GAP.0, gap: PROBE_GAP.0 }
    }

    /// How long the path has been silent; zero if it is not.
    pub(super) fn silent_for(&self, now: Time) -> Duration {
        match *self {
            Liveness::Silent { since, .. } => now.since(since),
            Liveness::Lively { .. } => Duration::ZERO,
        }
    }

    /// A packet left that the peer must answer.
    pub(super) fn on_sent(&mut self, now: Time, heard: Time) {
        if let Liveness::Lively { asked, again } = self
            && asked.is_none_or(|asked| heard > asked)
        {
            (*asked, *again) = (Some(now), false);
        }
    }

    /// When to [`check`](Self::check) again.
    pub(super) fn next(&self, e: &Evidence) -> Time {
        match *self {
            Liveness::Lively { asked, again } => match asked.filter(|asked| e.heard <= *asked) {
                Some(asked) => asked + e.rto * (1 + u32::from(again)),
                None => e.heard + e.keepalive,
            },
            Liveness::Silent { since, probe_at, .. } => probe_at.min(since + e.patience),
        }
    }

    /// Judges.
    pub(super) fn check(&mut self, now: Time, e: &Evidence) -> Verdict {
        if let Liveness::Silent { trust_after, .. } = *self
            && e.heard > trust_after
        {
            *self = Liveness::NEW;
            return Verdict::Revived;
        }
        if now < self.next(e) {
            return Verdict::Fine;
        }
        match self {
            Liveness::Lively { asked, again } => {
                if asked.is_none_or(|asked| e.heard > asked) {
                    (*asked, *again) = (Some(now), false);
                    Verdict::Probe
                } else if !*again {
                    *again = true;
                    Verdict::Probe
                } else {
                    *self = Liveness::doubt(now);
                    Verdict::Lost
                }
            }
            Liveness::Silent { since, probe_at, gap, .. } => {
                if now >= *since + e.patience {
                    return Verdict::Dead;
                }
                *gap = (*gap * 2).min(PROBE_GAP.1);
                *probe_at = now + *gap;
                Verdict::Probe
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn heard(at: u64) -> Evidence {
        Evidence {
            heard: ms(at),
            rto: Duration::from_millis(200),
            keepalive: Duration::from_secs(12),
            patience: Duration::from_secs(20),
        }
    }

    #[test]
    fn silence_is_asked_once_more_then_believed() {
        let mut l = Liveness::NEW;
        l.on_sent(ms(1000), ms(990));
        l.on_sent(ms(1100), ms(990));
        let e = heard(990);
        assert_eq!(l.next(&e), ms(1200), "the first unanswered packet counts");
        assert_eq!(l.check(ms(1199), &e), Verdict::Fine);
        assert_eq!(l.check(ms(1200), &e), Verdict::Probe);
        assert_eq!(l.check(ms(1200), &e), Verdict::Fine);
        assert_eq!(l.next(&e), ms(1400));
        assert_eq!(l.check(ms(1400), &e), Verdict::Lost);
        let mut gaps = alloc::vec::Vec::new();
        let mut last = 1400;
        while gaps.len() < 7 {
            let at = l.next(&e).as_nanos() / 1_000_000;
            gaps.push(at - last);
            last = at;
            assert_eq!(l.check(ms(at), &e), Verdict::Probe);
        }
        assert_eq!(gaps, [100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(l.check(ms(1400 + 20_000), &e), Verdict::Dead);
    }

    #[test]
    fn an_answer_ends_the_wait() {
        let mut l = Liveness::NEW;
        l.on_sent(ms(1000), ms(990));
        assert_eq!(l.next(&heard(1010)), ms(13_010), "idle from here");
        l.on_sent(ms(2000), ms(1010));
        assert_eq!(l.next(&heard(1010)), ms(2200));
    }

    #[test]
    fn an_idle_path_is_asked_and_found_dead() {
        let mut l = Liveness::NEW;
        assert_eq!(l.check(ms(12_000), &heard(0)), Verdict::Probe);
        assert_eq!(l.check(ms(12_200), &heard(0)), Verdict::Probe);
        assert_eq!(l.check(ms(12_400), &heard(0)), Verdict::Lost);
        assert_eq!(l.check(ms(12_450), &heard(12_400)), Verdict::Fine, "came before the probe left");
        assert_eq!(l.check(ms(12_450), &heard(12_450)), Verdict::Revived);
    }

    #[test]
    fn after_link_down_only_an_answer_to_a_probe_counts() {
        let mut l = Liveness::link_down(ms(1000));
        assert_eq!(l.check(ms(1050), &heard(1050)), Verdict::Fine, "was still under way");
        assert_eq!(l.check(ms(1100), &heard(1050)), Verdict::Probe);
        assert_eq!(l.check(ms(1150), &heard(1150)), Verdict::Revived);
    }
}
