use core::ops::Range;
use mpdccp_units::{Duration, Time};

/// Number of later packets that must arrive before a missing packet counts as lost (NUMDUPACK,
/// RFC 4341 section 5).
const NUM_DUP_ACK: usize = 3;
/// The minimum reordering window of the adaptive rule is the minimum round-trip time divided by this number
/// (RFC 8985 section 6.2.4).
const WINDOW_PART: u32 = 4;
/// The reordering window is this many quarters of the remembered lateness, unless its minimum or maximum
/// applies.
const MARGIN_QUARTERS: u32 = 5;
/// At the end of a round, the remembered lateness loses 1/`FORGET_PART`. If rounds are shorter than the
/// lateness, it decays at most once in a time equal to the lateness.
const FORGET_PART: u32 = 32;
/// Reordering is considered over after this many rounds that have genuine losses but no late packets
/// (RFC 8985 section 6.2.4 uses 16).
const TRUE_LOSS_ROUNDS: u32 = 16;

/// Rule that decides whether a missing packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A packet is lost after three later packets arrived (strict RFC 4341 section 5).
    ThreeLater,
    /// Like `ThreeLater` until reordering is detected. From then on, time decides whether a packet is lost,
    /// as in RACK (RFC 8985), with a window that follows the observed lateness. RFC 4341 takes the number
    /// three from TCP "as is currently the case", but TCP has changed this rule since then.
    Adaptive,
}

/// Judgement on a missing packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Lost,
    /// The packet is lost unless it arrives by this time.
    Wait(Time),
    /// The packet is not lost yet, because too few later packets have arrived.
    Open,
}

/// Decides which missing packets are lost. It proceeds in sequence order, so that no packet is examined
/// twice; see [`LossDetector::judged`].
#[derive(Debug)]
pub(crate) struct LossDetector {
    rule: Rule,
    /// The three newest indices received, newest first. Each is stored plus one, so that zero means none.
    newest: [u64; NUM_DUP_ACK],
    /// All packets below this index that are still open are lost.
    judged: u64,
    /// Send time of the newest data packet received, and the time until its acknowledgement arrived.
    reference: Option<(Time, Duration)>,
    reordered: bool,
    /// Largest extra delay of a packet that arrived after a later one. The value decays.
    lateness: Duration,
    /// Time at which `lateness` last decayed.
    faded: Time,
    true_rounds: u32,
    due: Option<Time>,
}

impl LossDetector {
    pub(crate) fn new(rule: Rule) -> LossDetector {
        LossDetector {
            rule,
            newest: [0; NUM_DUP_ACK],
            judged: 0,
            reference: None,
            reordered: false,
            lateness: Duration::ZERO,
            faded: Time::ZERO,
            true_rounds: 0,
            due: None,
        }
    }

    /// Returns the index at which judging continues.
    pub(crate) fn judged(&self) -> u64 {
        self.judged
    }

    /// Records that all packets before `index` have been judged. The packet at `index` is judged again at
    /// `due`.
    pub(crate) fn set_judged(&mut self, index: u64, due: Option<Time>) {
        self.judged = self.judged.max(index);
        self.due = due;
    }

    /// Returns when to judge again if no acknowledgement arrives.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Returns the first index that cannot be lost yet. Later ones cannot be lost yet either.
    pub(crate) fn limit(&self) -> u64 {
        match self.rule {
            Rule::ThreeLater => self.newest[NUM_DUP_ACK - 1].saturating_sub(1),
            Rule::Adaptive => self.newest[0].saturating_sub(1),
        }
    }

    /// Records packets newly reported as received, none of which had been declared lost.
    pub(crate) fn on_received(&mut self, range: &Range<u64>) {
        let first = range.start.max(range.end.saturating_sub(NUM_DUP_ACK as u64));
        for index in first..range.end {
            let mut moving = index + 1;
            for place in &mut self.newest {
                if moving > *place {
                    core::mem::swap(place, &mut moving);
                }
            }
        }
    }

    /// A data packet sent at `sent_at` was acknowledged at `now`, when a packet sent later had already been
    /// acknowledged. The late packet may already have been declared lost. Returns its extra delay compared
    /// with the newest packet.
    pub(crate) fn on_late(&mut self, now: Time, sent_at: Time) -> Option<Duration> {
        self.reordered = true;
        self.true_rounds = 0;
        let (_, took) = self.reference?;
        let late = now.since(sent_at).saturating_sub(took);
        self.lateness = self.lateness.max(late);
        Some(late)
    }

    pub(crate) fn on_round(&mut self, now: Time) {
        // With reordering, a round lasts only as long as the round trip of the fastest packets, so the decay
        // is also limited by time.
        if now.since(self.faded) >= self.lateness {
            self.faded = now;
            self.lateness -= self.lateness / FORGET_PART;
        }
    }

    /// A data packet was newly reported received at `now`.
    pub(crate) fn on_data_received(&mut self, now: Time, sent_at: Time) {
        if self.reference.is_none_or(|(newest, _)| sent_at >= newest) {
            self.reference = Some((sent_at, now.since(sent_at)));
        }
    }

    /// A round with losses ended, and none of the losses proved spurious.
    pub(crate) fn on_true_losses(&mut self) {
        self.true_rounds += 1;
        if self.true_rounds >= TRUE_LOSS_ROUNDS {
            self.true_rounds = 0;
            self.reordered = false;
            self.lateness = Duration::ZERO;
        }
    }

    /// Returns the reordering window: a packet that is late by at most this time is not lost. The window does
    /// not exceed the retransmission timeout, which would otherwise expire first.
    pub(crate) fn window(&self, min_rtt: Duration, timeout: Duration) -> Duration {
        (self.lateness * MARGIN_QUARTERS / 4).max(min_rtt / WINDOW_PART).min(timeout)
    }

    /// Returns whether a reduction stays in force even if its losses prove spurious.
    pub(crate) fn is_final(&self) -> bool {
        self.rule == Rule::ThreeLater
    }

    /// Judges the open packet `index`, sent at `sent_at`.
    pub(crate) fn judge(&self, now: Time, index: u64, sent_at: Time, window: Duration) -> Verdict {
        let three_later = index < self.newest[NUM_DUP_ACK - 1].saturating_sub(1);
        if three_later && (self.rule == Rule::ThreeLater || !self.reordered) {
            return Verdict::Lost;
        }
        match self.reference {
            Some((newest, took))
                if self.rule == Rule::Adaptive && index < self.newest[0] && sent_at <= newest =>
            {
                let due = sent_at + took + window;
                if due <= now { Verdict::Lost } else { Verdict::Wait(due) }
            }
            _ => Verdict::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn strict_rule_needs_three_later() {
        let mut loss = LossDetector::new(Rule::ThreeLater);
        loss.on_received(&(5..6));
        loss.on_received(&(8..9));
        assert_eq!(loss.limit(), 0);
        assert_eq!(loss.judge(Time::MAX, 4, Time::ZERO, MS), Verdict::Open);
        loss.on_received(&(6..7));
        // 5, 6 and 8 arrived: 4 is lost, 7 is not.
        assert_eq!(loss.limit(), 5);
        assert_eq!(loss.judge(Time::ZERO, 4, Time::ZERO, MS), Verdict::Lost);
        assert_eq!(loss.judge(Time::MAX, 7, Time::ZERO, MS), Verdict::Open);
        loss.on_received(&(9..100));
        assert_eq!(loss.limit(), 97);
    }

    #[test]
    fn adaptive_rule_waits_once_reordering_was_seen() {
        let mut loss = LossDetector::new(Rule::Adaptive);
        let sent = |i: u64| Time::from_millis(i);
        let now = Time::from_millis(110);
        loss.on_received(&(6..7));
        loss.on_data_received(now, sent(6));
        // One later packet arrived. The missing packet is lost only after another quarter of the minimum
        // round-trip time.
        assert_eq!(loss.judge(now, 5, sent(5), 25 * MS), Verdict::Wait(Time::from_millis(5 + 104 + 25)));
        assert_eq!(loss.judge(Time::from_millis(134), 5, sent(5), 25 * MS), Verdict::Lost);
        // Until reordering is detected, a packet is lost after three later packets.
        loss.on_received(&(7..9));
        assert_eq!(loss.judge(now, 5, sent(5), 25 * MS), Verdict::Lost);
        loss.on_late(now, sent(5));
        assert!(matches!(loss.judge(now, 5, sent(5), 25 * MS), Verdict::Wait(_)));
        assert_eq!(loss.judge(now, 8, sent(8), 25 * MS), Verdict::Open);
    }

    #[test]
    fn window_follows_lateness_and_forgets_it() {
        let mut loss = LossDetector::new(Rule::Adaptive);
        assert_eq!(loss.window(40 * MS, 1000 * MS), 10 * MS);
        // The newest packet was sent 2 ms after the late one, and took 50 ms.
        loss.on_data_received(Time::from_millis(152), Time::from_millis(102));
        loss.on_late(Time::from_millis(230), Time::from_millis(100));
        assert_eq!(loss.window(40 * MS, 1000 * MS), 100 * MS);
        loss.on_late(Time::from_millis(160), Time::from_millis(100));
        assert_eq!(loss.window(40 * MS, 1000 * MS), 100 * MS);
        assert_eq!(loss.window(40 * MS, 70 * MS), 70 * MS);
        // 400 rounds of a millisecond cause little decay.
        (0..400).for_each(|i| loss.on_round(Time::from_millis(200 + i)));
        assert!(loss.window(40 * MS, 1000 * MS) > 80 * MS);
        (1..400).for_each(|i| loss.on_round(Time::from_millis(600 + 100 * i)));
        assert_eq!(loss.window(40 * MS, 1000 * MS), 10 * MS);
        // Reordering is considered over after many rounds with losses and no late packet. A late packet
        // restarts the count.
        for _ in 1..TRUE_LOSS_ROUNDS {
            loss.on_true_losses();
        }
        loss.on_late(Time::from_millis(160), Time::from_millis(100));
        loss.on_true_losses();
        assert!(loss.reordered);
        for _ in 1..TRUE_LOSS_ROUNDS {
            loss.on_true_losses();
        }
        assert!(!loss.reordered);
    }
}
