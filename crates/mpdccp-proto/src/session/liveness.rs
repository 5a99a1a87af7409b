use mpdccp_units::{Duration, Time};

/// Interval between the probes of a silent path: a quarter of the time it has been silent, within these
/// limits.
const PROBE_GAP: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(300));
/// If data stops arriving, a path is probed after two answer times, but no sooner than this.
const QUIET: Duration = Duration::from_millis(100);

/// Whether a path answers, and when to probe it.
///
/// Silence begins with the first packet sent since an acknowledgement last covered a new packet. If no answer
/// arrives within the answer time, a Sync asks again, because a single lost acknowledgement proves nothing.
/// If the Sync is not answered in time either, the path becomes suspect. An answer to a probe brings the path
/// back.
///
/// Other packets from the peer do not count as an answer, because they keep arriving if only the direction
/// towards the peer is dead. They only postpone the probe of an idle path, and trigger an early probe of a
/// silent one.
///
/// A path on which data stops arriving is probed too. Otherwise, a pure receiver would notice a dead path or
/// a lost NAT binding only as late as on an idle path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Liveness {
    /// The path answers, as far as is known.
    Answering {
        /// Time at which the first unanswered packet was sent.
        asked: Option<Time>,
        /// Time at which the repeated question (a Sync) was sent, if it was.
        again: Option<Time>,
        /// Time at which the path was last probed because data stopped arriving.
        checked: Time,
    },
    /// The path does not answer.
    Suspect {
        since: Time,
        /// Time at which the first unanswered packet was sent.
        asked: Time,
        /// Acknowledgements that arrive before this time cannot be answers to a probe, so they prove nothing.
        trust_after: Time,
        /// Time at which the path was last probed.
        probed: Time,
        probe_at: Time,
    },
}

/// The action that a check of the path requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Do nothing.
    Nothing,
    /// Send a Sync.
    Probe,
    /// The path becomes suspect. Send a Sync.
    Suspect,
    /// The path is up again.
    Up,
    /// The path has been suspect for too long. Close it.
    Down,
}

/// The input of a check of the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Time at which a valid packet last arrived or, if none has, at which the path opened.
    pub(super) heard: Time,
    /// Time at which the peer's acknowledgements last covered a new packet or, if they have not yet, at which
    /// the path opened.
    pub(super) answered: Time,
    /// Time at which data last arrived.
    pub(super) data: Time,
    /// Time within which an answer must arrive.
    pub(super) answer: Duration,
    /// Interval between probes of an idle path.
    pub(super) keepalive: Duration,
    /// Time after which a silent path is closed.
    pub(super) patience: Duration,
}

impl Liveness {
    pub(super) const NEW: Liveness = Liveness::Answering { asked: None, again: None, checked: Time::ZERO };

    /// Returns the state to enter when the link is reported down.
    pub(super) fn link_down(now: Time) -> Liveness {
        let probe_at = now + PROBE_GAP.0;
        Liveness::Suspect { since: now, asked: now, trust_after: probe_at, probed: now, probe_at }
    }

    /// Returns the state of a path that must answer a probe before it is used. The caller must send the first
    /// probe.
    pub(super) fn suspect(now: Time) -> Liveness {
        Liveness::suspect_since(now, now)
    }

    fn suspect_since(now: Time, asked: Time) -> Liveness {
        Liveness::Suspect { since: now, asked, trust_after: now, probed: now, probe_at: now + PROBE_GAP.0 }
    }

    /// If an answer is overdue, returns when the first unanswered packet was sent; otherwise returns `None`.
    pub(super) fn unanswered_since(&self, answered: Time) -> Option<Time> {
        match *self {
            Liveness::Suspect { asked, .. } => Some(asked),
            Liveness::Answering { asked, again, .. } => asked.filter(|at| again.is_some() && answered <= *at),
        }
    }

    /// Returns how long the path has been silent, or zero if the path answers.
    pub(super) fn silent_for(&self, now: Time) -> Duration {
        match *self {
            Liveness::Suspect { since, .. } => now.since(since),
            Liveness::Answering { .. } => Duration::ZERO,
        }
    }

    /// Returns the approximate time at which a packet that the peer must answer was last sent. Probes do not
    /// count, because otherwise each probe would cause the next one.
    pub(super) fn asked(&self) -> Time {
        match *self {
            Liveness::Answering { asked, checked, .. } => {
                asked.filter(|asked| *asked != checked).unwrap_or(Time::ZERO)
            }
            Liveness::Suspect { since, .. } => since,
        }
    }

    /// A packet that the peer must answer was sent.
    pub(super) fn on_sent(&mut self, now: Time, answered: Time) {
        if let Liveness::Answering { asked, again, .. } = self
            && asked.is_none_or(|asked| answered > asked)
        {
            (*asked, *again) = (Some(now), None);
        }
    }

    /// Returns whether a packet has just arrived and no answer is outstanding. In this case
    /// [`check`](Self::check) would have nothing to do.
    pub(super) fn is_answered(&self, now: Time, heard: Time, answered: Time) -> bool {
        matches!(*self, Liveness::Answering { asked, .. } if heard == now && asked.is_none_or(|asked| asked < answered))
    }

    /// Returns when to [`check`](Self::check) again.
    pub(super) fn next(&self, e: &Evidence) -> Time {
        match *self {
            Liveness::Answering { asked, again, checked } => {
                match (asked.filter(|asked| e.answered <= *asked), again) {
                    (Some(asked), again) => again.unwrap_or(asked) + e.answer,
                    (None, _) if e.data > checked => e.heard + (e.answer * 2).max(QUIET).min(e.keepalive),
                    (None, _) => e.heard + e.keepalive,
                }
            }
            Liveness::Suspect { since, probed, probe_at, .. } => {
                let probe_at = if e.heard > probed { probe_at.min(probed + PROBE_GAP.0) } else { probe_at };
                probe_at.min(since + e.patience)
            }
        }
    }

    /// Updates the state and returns the action to take.
    pub(super) fn check(&mut self, now: Time, e: &Evidence) -> Step {
        if let Liveness::Suspect { trust_after, .. } = *self
            && e.answered > trust_after
        {
            *self = Liveness::NEW;
            return Step::Up;
        }
        if now < self.next(e) {
            return Step::Nothing;
        }
        match self {
            Liveness::Answering { asked, again, checked } => {
                match (asked.filter(|asked| e.answered <= *asked), *again) {
                    (None, _) => {
                        (*asked, *again, *checked) = (Some(now), None, now);
                        Step::Probe
                    }
                    (Some(_), None) => {
                        *again = Some(now);
                        Step::Probe
                    }
                    (Some(asked), Some(_)) => {
                        *self = Liveness::suspect_since(now, asked);
                        Step::Suspect
                    }
                }
            }
            Liveness::Suspect { since, probed, probe_at, .. } => {
                let silence = now.since(*since);
                if silence >= e.patience {
                    return Step::Down;
                }
                *probed = now;
                *probe_at = now + (silence / 4).clamp(PROBE_GAP.0, PROBE_GAP.1);
                Step::Probe
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
            answered: ms(at),
            data: Time::ZERO,
            answer: Duration::from_millis(40),
            keepalive: Duration::from_secs(12),
            patience: Duration::from_secs(20),
        }
    }

    #[test]
    fn an_answering_path_is_up_and_not_probed() {
        let times = [Time::ZERO, ms(900), ms(990), ms(1000)];
        let some = || times.into_iter().map(Some).chain([None]);
        let mut left = 0;
        for (asked, again) in some().flat_map(|asked| some().map(move |again| (asked, again))) {
            for (checked, data, answered) in times
                .into_iter()
                .flat_map(|c| times.into_iter().flat_map(move |d| times.into_iter().map(move |a| (c, d, a))))
            {
                let mut l = Liveness::Answering { asked, again, checked };
                assert!(!l.is_answered(ms(1000), ms(999), answered), "no packet arrived");
                if !l.is_answered(ms(1000), ms(1000), answered) {
                    continue;
                }
                left += 1;
                let keepalive = Duration::from_nanos(1);
                let e = Evidence { answered, data, answer: Duration::ZERO, keepalive, ..heard(1000) };
                assert_eq!(l.check(ms(1000), &e), Step::Nothing, "{l:?} {e:?}");
                let Liveness::Answering { asked: a, again: b, checked: c } = l else { panic!("{l:?}") };
                assert_eq!((a, b, c), (asked, again, checked));
            }
        }
        assert!(left > 0);
        assert!(
            !Liveness::suspect(ms(900)).is_answered(ms(1000), ms(1000), ms(1000)),
            "a suspect path must be checked"
        );
    }

    #[test]
    fn silence_is_asked_once_more_then_believed() {
        let mut l = Liveness::NEW;
        l.on_sent(ms(1000), ms(990));
        l.on_sent(ms(1030), ms(990));
        let e = heard(990);
        assert_eq!(l.next(&e), ms(1040), "the first unanswered packet counts");
        assert_eq!(l.check(ms(1039), &e), Step::Nothing);
        assert_eq!(l.check(ms(1050), &e), Step::Probe);
        assert_eq!(
            l.check(ms(1080), &e),
            Step::Nothing,
            "after a late timer, the probe still gets its answer time"
        );
        assert_eq!(l.next(&e), ms(1090));
        assert_eq!(l.check(ms(1090), &e), Step::Suspect);
        let mut gaps = alloc::vec::Vec::new();
        let mut last = ms(1090);
        while gaps.len() < 14 {
            let at = l.next(&e);
            gaps.push((at - last).as_millis());
            last = at;
            assert_eq!(l.check(at, &e), Step::Probe);
        }
        assert_eq!(gaps, [50, 50, 50, 50, 50, 62, 78, 97, 122, 152, 190, 238, 298, 300]);
        assert_eq!(l.check(ms(1090 + 20_000), &e), Step::Down);
    }

    #[test]
    fn an_answer_ends_the_wait() {
        let mut l = Liveness::NEW;
        l.on_sent(ms(1000), ms(990));
        assert_eq!(l.next(&heard(1010)), ms(13_010), "a path that has answered must count as idle");
        l.on_sent(ms(2000), ms(1010));
        assert_eq!(l.next(&heard(1010)), ms(2040));
    }

    #[test]
    fn an_idle_path_is_asked_and_found_dead() {
        let mut l = Liveness::NEW;
        assert_eq!(l.check(ms(12_000), &heard(0)), Step::Probe);
        assert_eq!(l.check(ms(12_039), &heard(0)), Step::Nothing);
        assert_eq!(l.check(ms(12_040), &heard(0)), Step::Probe);
        assert_eq!(l.check(ms(12_080), &heard(0)), Step::Suspect);
        assert_eq!(
            l.check(ms(12_090), &heard(12_080)),
            Step::Nothing,
            "the packet was sent before the probe"
        );
        assert_eq!(l.check(ms(12_090), &heard(12_090)), Step::Up);
    }

    #[test]
    fn a_pure_receiver_probes_when_data_stops() {
        let mut l = Liveness::NEW;
        let data = Evidence { data: ms(990), ..heard(1000) };
        assert_eq!(l.check(ms(1099), &data), Step::Nothing);
        assert_eq!(l.check(ms(1100), &data), Step::Probe);
        assert_eq!(
            l.next(&Evidence { heard: ms(1120), answered: ms(1120), ..data }),
            ms(13_120),
            "a path that has answered must count as idle"
        );
        assert_eq!(l.check(ms(1140), &data), Step::Probe);
        assert_eq!(l.check(ms(1180), &data), Step::Suspect);
    }

    #[test]
    fn after_link_down_only_an_answer_to_a_probe_counts() {
        let mut l = Liveness::link_down(ms(1000));
        assert_eq!(l.check(ms(1040), &heard(1040)), Step::Nothing, "the packet left before the probe");
        assert_eq!(l.check(ms(1050), &heard(1040)), Step::Probe);
        assert_eq!(l.check(ms(1150), &heard(1150)), Step::Up);
    }

    #[test]
    fn a_packet_without_an_acknowledgement_is_no_answer() {
        let mut l = Liveness::NEW;
        l.on_sent(ms(1000), ms(990));
        let comes = |at| Evidence { answered: ms(1000), ..heard(at) };
        l.on_sent(ms(1030), ms(1000));
        assert_eq!(
            l.check(ms(1050), &comes(1049)),
            Step::Probe,
            "silence counts from the first unanswered packet"
        );
        assert_eq!(l.check(ms(1090), &comes(1089)), Step::Suspect);
        assert_eq!(l.check(ms(1139), &comes(1138)), Step::Nothing, "the packet acknowledged nothing new");
        assert_eq!(l.check(ms(1140), &comes(1138)), Step::Probe);
        assert_eq!(l.check(ms(1160), &heard(1160)), Step::Up);
    }

    #[test]
    fn a_silent_path_that_is_heard_is_probed_soon() {
        let mut l = Liveness::suspect(ms(0));
        assert_eq!(l.check(ms(2_000), &heard(0)), Step::Probe);
        assert_eq!(l.next(&heard(0)), ms(2_300));
        let heard = Evidence { answered: ms(0), ..heard(2_010) };
        assert_eq!(l.next(&heard), ms(2_050), "probes are at least 50 ms apart");
        assert_eq!(l.check(ms(2_050), &heard), Step::Probe);
        assert_eq!(l.next(&heard), ms(2_350));
    }
}
