use crate::Ecn;
use crate::ccid::Arrival;
use dccp_wire::Seq;

/// Number of later packets of the peer that must arrive before a missing packet counts as lost
/// (RFC 4341 section 6.1.1).
const NUM_DUP_ACK: usize = 3;
/// Upper limit of `patience`, below `LOOKBACK` so that every packet is judged before it is forgotten.
const MAX_PATIENCE: usize = 64;
/// Number of acknowledgements that a sender needs per window if its controller needs many
/// ([`dccp_cc::Controller::clocked`]), and its highest Ack Ratio.
const CLOCKED: (u64, u64) = (64, 16);
/// Number of acknowledgements that any other sender needs per window, and its highest Ack Ratio. Such a
/// sender paces.
const PACED: (u64, u64) = (16, 64);
/// For the packets in flight beyond the first 16, such a sender needs only 4 acknowledgements.
const BEYOND: (u64, u64) = (16, 4);
/// Maximum number of recent packets of the peer that are remembered.
const LOOKBACK: u32 = u128::BITS;

/// Rule for choosing the Ack Ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RatioRule {
    /// Follows lost and marked acknowledgements (RFC 4341 section 6.1.2). CCID 2 uses this rule.
    AckCongestion,
    /// Follows the controller's need for feedback: 64 acknowledgements per window if they clock out packets
    /// or the controller is Prague, and 16 otherwise. Instead of 16, as few as 4 are enough with a large
    /// amount in flight, so that a slow return path does not limit the rate. Lost acknowledgements have no
    /// effect, because in a tunnel most packets of the peer are data, and lost data looks the same as a lost
    /// acknowledgement.
    Window,
    /// Like [`RatioRule::Window`], but a large amount in flight does not reduce the 16 acknowledgements.
    /// Draft variants of CCIDs other than 2 use this rule, because the queue of the BBR draft at the
    /// bottleneck depends on the ratio.
    Draft,
}

impl RatioRule {
    pub(crate) fn of(strict: bool, draft: bool) -> RatioRule {
        match (strict, draft) {
            (true, _) => RatioRule::AckCongestion,
            (false, true) => RatioRule::Draft,
            (false, false) => RatioRule::Window,
        }
    }
}

/// Congestion control of the peer's acknowledgements (RFC 4341 section 6.1).
#[derive(Debug)]
pub(crate) struct AckRatio {
    rule: RatioRule,
    ratio: u16,
    newest: Option<Seq>,
    /// Bit i says whether the packet with the newest number minus i has arrived.
    arrived: u128,
    /// Number of later packets that must arrive before a missing packet counts as lost. The number grows if
    /// the peer's packets are reordered.
    patience: usize,
    /// Packets at least this far behind the newest are judged as received or lost.
    judged: u32,
    /// Whether an acknowledgement was lost, or arrived with a mark, in this window of data.
    congested: bool,
    /// Number of windows since the last congested one, or since the last change of the ratio.
    clean: u64,
}

impl AckRatio {
    pub(crate) fn new(rule: RatioRule) -> AckRatio {
        AckRatio {
            rule,
            // RFC 4340 section 11.3: connections start with an Ack Ratio of 2.
            ratio: 2,
            newest: None,
            arrived: 0,
            patience: NUM_DUP_ACK,
            judged: 0,
            congested: false,
            clean: 0,
        }
    }

    /// Returns the Ack Ratio that should be in force.
    pub(crate) fn wanted(&self) -> u16 {
        self.ratio
    }

    /// Looks for lost and marked acknowledgements. Every lost packet of the peer counts as a lost
    /// acknowledgement (RFC 4341 section 6.1.1).
    pub(crate) fn on_packet(&mut self, arrival: &Arrival) {
        self.congested |= arrival.ecn == Ecn::Ce && !arrival.data;
        self.note_arrival(arrival.seq);
        self.judge();
    }

    fn note_arrival(&mut self, seq: Seq) {
        let ahead = self.newest.map_or(1, |newest| seq.diff(newest));
        let Ok(ahead) = u64::try_from(ahead) else {
            // A late packet that has not been judged yet no longer counts as missing.
            let back = ahead.unsigned_abs();
            if back < u64::from(LOOKBACK) {
                let bit = 1 << back;
                if self.arrived & bit == 0 && back >= u64::from(self.judged) {
                    // The packet was judged lost, but was only late.
                    let later = (self.arrived & (bit - 1)).count_ones() as usize;
                    self.patience = self.patience.max(later + 1).min(MAX_PATIENCE);
                }
                self.arrived |= bit;
            }
            return;
        };
        if ahead == 0 {
            return;
        }
        self.judged = u32::try_from(ahead).unwrap_or(LOOKBACK).saturating_add(self.judged);
        if self.judged > LOOKBACK {
            // More packets are missing than the bitmap covers.
            self.congested |= ahead > 1;
            self.judged = LOOKBACK;
        }
        self.arrived = if ahead < u64::from(LOOKBACK) { self.arrived << ahead | 1 } else { 1 };
        self.newest = Some(seq);
    }

    fn judge(&mut self) {
        let mut rest = self.arrived;
        for _ in 1..self.patience {
            rest &= rest.wrapping_sub(1);
        }
        if rest == 0 {
            return;
        }
        // Missing packets are lost if at least `patience` later packets have arrived.
        let from = rest.trailing_zeros() + 1;
        if from >= self.judged {
            return;
        }
        let width = self.judged - from;
        let all = u128::MAX >> (LOOKBACK - width);
        self.congested |= (self.arrived >> from) & all != all;
        self.judged = from;
    }

    /// A window of `cwnd` data packets ended. `paced` is the number of packets in flight if the sender
    /// paces and does not need many acknowledgements.
    pub(crate) fn on_window(&mut self, cwnd: u64, paced: Option<u64>) {
        let r = u64::from(self.ratio);
        let congested = core::mem::take(&mut self.congested);
        let wanted = match self.rule {
            RatioRule::Window | RatioRule::Draft => {
                let (acks, most) = if paced.is_some() { PACED } else { CLOCKED };
                let under_way = paced.filter(|_| self.rule == RatioRule::Window).unwrap_or(0);
                let wanted = (cwnd / acks).max(under_way.saturating_sub(BEYOND.0) / BEYOND.1).clamp(2, most);
                // Ignore small changes, because each change needs a negotiation.
                if wanted.abs_diff(r) * 4 > r { wanted } else { r }
            }
            // RFC 4341 section 6.1.2: double after a window with lost or marked acknowledgements.
            RatioRule::AckCongestion if congested => {
                self.clean = 0;
                r * 2
            }
            // Without lost or marked acknowledgements, lower the ratio by one every cwnd / (R^2 - R) windows.
            RatioRule::AckCongestion => {
                self.clean += 1;
                if r > 2 && self.clean.saturating_mul(r * r - r) >= cwnd {
                    self.clean = 0;
                    r - 1
                } else {
                    r
                }
            }
        };
        self.set(wanted, cwnd);
    }

    /// The window changed abruptly to `cwnd`, because of a timeout or ProbeRTT.
    pub(crate) fn fit(&mut self, cwnd: u64) {
        self.set(u64::from(self.ratio), cwnd);
    }

    /// RFC 4341 section 6.1.2: the ratio is at most half the window, rounded up, and at least two if the
    /// window is four or more. For windows of one or two, the ratio is 1, because some peers have no timer
    /// and always wait for Ack Ratio packets.
    fn set(&mut self, wanted: u64, cwnd: u64) {
        let most = cwnd.div_ceil(2).clamp(1, u64::from(u16::MAX));
        let least = if cwnd >= 4 { 2 } else { 1 };
        self.ratio = wanted.clamp(least, most.max(least)) as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrival(seq: u64, ecn: Ecn, data: bool) -> Arrival {
        Arrival { seq: Seq::new(seq), ecn, data, ccval: 0, ndp: None, bytes: 40, payload: 0 }
    }

    fn after(seqs: &[u64]) -> bool {
        let mut acks = AckRatio::new(RatioRule::AckCongestion);
        for &seq in seqs {
            acks.on_packet(&arrival(seq, Ecn::NotEct, false));
        }
        acks.congested
    }

    #[test]
    fn an_ack_is_lost_after_three_later_ones() {
        assert!(!after(&[1, 2, 3, 4, 5]));
        assert!(!after(&[1, 3, 4]));
        assert!(after(&[1, 3, 4, 5]));
        assert!(!after(&[1, 3, 4, 2, 5, 6]));
        assert!(after(&[1, 2, 500]));
        assert!(after(&[1, 3, 4, 5, 2]));
    }

    #[test]
    fn overtaken_acks_are_waited_for() {
        let mut acks = AckRatio::new(RatioRule::AckCongestion);
        let mut hear = |seqs: &[u64]| {
            for &seq in seqs {
                acks.on_packet(&arrival(seq, Ecn::NotEct, false));
            }
            core::mem::take(&mut acks.congested)
        };
        assert!(hear(&[1, 3, 4, 5, 6, 2]));
        // A packet that is only as late as an earlier one is not lost. A packet that is missing for longer is
        // lost.
        assert!(!hear(&[8, 9, 10, 11, 7]));
        assert!(hear(&[13, 14, 15, 16, 17]));
    }

    #[test]
    fn marks_count_on_acks_only() {
        let mut acks = AckRatio::new(RatioRule::AckCongestion);
        acks.on_packet(&arrival(1, Ecn::Ce, true));
        assert!(!acks.congested);
        acks.on_packet(&arrival(2, Ecn::Ce, false));
        assert!(acks.congested);
    }

    #[test]
    fn doubles_and_decays() {
        let mut acks = AckRatio::new(RatioRule::AckCongestion);
        for expected in [4, 8, 15, 15] {
            acks.congested = true;
            acks.on_window(30, None);
            assert_eq!(acks.wanted(), expected);
        }
        // R falls after cwnd / (R^2 - R) windows without congestion. R = 15 falls after one window, since
        // 15^2 - 15 > 30.
        acks.on_window(30, None);
        assert_eq!(acks.wanted(), 14);
        // R = 3 falls after five windows: 5 (3^2 - 3) = 30.
        while acks.wanted() > 3 {
            acks.on_window(30, None);
        }
        for expected in [3, 3, 3, 3, 2, 2, 2] {
            acks.on_window(30, None);
            assert_eq!(acks.wanted(), expected);
        }
    }

    proptest! {
        /// The three constraints of RFC 4341 section 6.1.2 always hold. The ratio is 1 only for windows below
        /// three.
        #[test]
        fn keeps_the_constraints(
            window_rule: bool,
            steps in proptest::collection::vec((any::<bool>(), 0u64..100_000), 1..100),
            seqs in proptest::collection::vec(any::<u64>(), 0..50),
        ) {
            let rule = if window_rule { RatioRule::Window } else { RatioRule::AckCongestion };
            let mut acks = AckRatio::new(rule);
            for seq in seqs {
                acks.on_packet(&arrival(seq, Ecn::NotEct, false));
            }
            for (congested, cwnd) in steps {
                let cwnd = if cwnd % 3 == 0 { cwnd % 10 } else { cwnd };
                acks.congested = congested;
                acks.on_window(cwnd, None);
                let r = u64::from(acks.wanted());
                prop_assert!(r >= 1 && (r <= cwnd.div_ceil(2) || r <= 2));
                prop_assert!(cwnd < 4 || r >= 2);
            }
        }

        /// A packet is lost if and only if it is missing and three later packets arrived.
        #[test]
        fn equals_a_naive_model(seqs in proptest::collection::vec(100u64..140, 1..60)) {
            let mut seqs = seqs;
            seqs.insert(0, 100);
            let mut lost = false;
            for n in 1..=seqs.len() {
                let seen = &seqs[..n];
                let newest = *seen.iter().max().unwrap();
                lost |= (101..newest).any(|p| {
                    let later: alloc::collections::BTreeSet<_> = seen.iter().filter(|&&s| s > p).collect();
                    !seen.contains(&p) && later.len() >= 3
                });
            }
            prop_assert_eq!(after(&seqs), lost);
        }
    }
}
