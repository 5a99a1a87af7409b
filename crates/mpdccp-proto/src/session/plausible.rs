use dccp_wire::Seq;

/// Maximum plausible distance from the newest MP_SEQ. The reorderer remembers this range.
const MAX_JUMP: u64 = 1 << 16;
/// Once this many consecutive packets fit each other but not the earlier ones, their numbers are accepted.
const PROOF: u32 = 8;

/// Filter for implausible MP_SEQ numbers. Without it, a single wrong number far ahead would make all later
/// packets look like duplicates.
#[derive(Debug, Default)]
pub(super) struct Plausible {
    newest: Option<Seq>,
    /// The newest implausible number, and how many consecutive implausible packets fit it.
    other: Option<(Seq, u32)>,
}

/// Whether an MP_SEQ is plausible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Fits,
    Doubtful,
    /// The peer's numbers have jumped, and continue from the new value.
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
        assert_eq!(judge(&mut p, 6 + 99 + MAX_JUMP), Fits, "an outage may skip this many numbers");
        assert_eq!(judge(&mut p, 50), Doubtful);
    }

    #[test]
    fn many_that_fit_each_other_are() {
        let mut p = Plausible::default();
        assert_eq!(judge(&mut p, 1 << 40), Fits, "the first number is always plausible");
        for n in 0..u64::from(PROOF) - 1 {
            assert_eq!(judge(&mut p, 5 + n), Doubtful);
        }
        assert_eq!(judge(&mut p, 30), Moved);
        assert_eq!(judge(&mut p, 29), Fits);
        let scattered = |n: u64| (n + 1) << 30;
        assert!(
            (0..100).all(|n| judge(&mut p, scattered(n)) == Doubtful),
            "numbers that do not fit each other must not be accepted"
        );
    }
}
