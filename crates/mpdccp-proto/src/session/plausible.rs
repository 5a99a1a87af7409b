use dccp_wire::Seq;

/// Furthest from the newest MP_SEQ that another one is believed: what the reorderer remembers.
const MAX_JUMP: u64 = 1 << 16;
/// So many packets in a row that fit each other, and not what came before them, are the truth.
const PROOF: u32 = 8;

/// Which MP_SEQ are believed: a single wrong one far ahead must not make everything after it a duplicate.
#[derive(Debug, Default)]
pub(super) struct Plausible {
    newest: Option<Seq>,
    /// The newest of those that do not fit, and how many there were without one that does.
    other: Option<(Seq, u32)>,
}

/// Whether an MP_SEQ is plausible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Fits,
    Doubtful,
    /// The peer counts from elsewhere than we thought.
    Moved,
}

fn near(a: Seq, b: Seq) -> bool {
    a.diff(b).unsigned_abs() <= MAX_JUMP
}

impl Plausible {
    pub(super) fn judge(&mut self, seq: Seq) -> Judgement {
        let newest = *self.newest.get_or_insert(seq);
        if near(seq, newest) {
            self.newest = Some(if seq.after(newest) { seq } else { newest });
            self.other = None;
            return Judgement::Fits;
        }
        let count = match self.other {
            Some((other, count)) if near(seq, other) => count + 1,
            _ => 1,
        };
        if count < PROOF {
            self.other = Some((seq, count));
            return Judgement::Doubtful;
        }
        (self.newest, self.other) = (Some(seq), None);
        Judgement::Moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Judgement::*;

    fn judge(p: &mut Plausible, seq: u64) -> Judgement {
        p.judge(Seq::new(seq))
    }

    #[test]
    fn a_wrong_number_is_not_believed() {
        let mut p = Plausible::default();
        assert_eq!(judge(&mut p, 5), Fits);
        for n in 0..100 {
            assert_eq!(judge(&mut p, (1 << 31) + n), Doubtful);
            assert_eq!(judge(&mut p, 6 + n), Fits);
        }
        assert_eq!(judge(&mut p, 6 + 99 + MAX_JUMP), Fits, "an outage");
        assert_eq!(judge(&mut p, 50), Doubtful);
    }

    #[test]
    fn many_that_fit_each_other_are() {
        let mut p = Plausible::default();
        assert_eq!(judge(&mut p, 1 << 40), Fits, "nothing is known to doubt it");
        for n in 0..u64::from(PROOF) - 1 {
            assert_eq!(judge(&mut p, 5 + n), Doubtful);
        }
        assert_eq!(judge(&mut p, 30), Moved);
        assert_eq!(judge(&mut p, 29), Fits);
        let scattered = |n: u64| (n + 1) << 30;
        assert!((0..100).all(|n| judge(&mut p, scattered(n)) == Doubtful), "and not each other");
    }
}
