use core::fmt;

/// A 48-bit sequence number with circular arithmetic (RFC 4340 section 3.1). MP_SEQ uses it too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(u64);

impl Seq {
    /// Number of distinct values, 2^48.
    pub const MODULUS: u64 = 1 << 48;

    /// Creates a number from the low 48 bits of `value`.
    pub const fn new(value: u64) -> Seq {
        Seq(value & (Self::MODULUS - 1))
    }

    /// Creates the first number of a connection or a session from random bits (RFC 4340 section 7.2).
    pub const fn initial(random: u64) -> Seq {
        // In tests of the whole stack, this feature makes the numbers wrap within 64 packets.
        if cfg!(feature = "near-wrap") { Seq::new(random | !0x3f) } else { Seq::new(random) }
    }

    /// Returns the number, below 2^48.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// Returns the number after this one.
    #[must_use]
    pub const fn next(self) -> Seq {
        self.add(1)
    }

    /// Returns this number plus `n`, circular.
    #[must_use]
    #[allow(clippy::should_implement_trait)]
    pub const fn add(self, n: u64) -> Seq {
        Seq::new(self.0.wrapping_add(n))
    }

    /// Returns this number minus `n`, circular.
    #[must_use]
    #[allow(clippy::should_implement_trait)]
    pub const fn sub(self, n: u64) -> Seq {
        Seq::new(self.0.wrapping_sub(n))
    }

    /// Returns the signed circular distance `self - other`, in -2^47 .. 2^47.
    pub const fn diff(self, other: Seq) -> i64 {
        ((self.0.wrapping_sub(other.0) << 16) as i64) >> 16
    }

    /// Returns whether this number is circularly later than `other`.
    pub const fn after(self, other: Seq) -> bool {
        self.diff(other) > 0
    }

    /// Returns whether this number is circularly earlier than `other`.
    pub const fn before(self, other: Seq) -> bool {
        self.diff(other) < 0
    }

    /// Returns whether this number is circularly within `low..=high`.
    pub const fn within(self, low: Seq, high: Seq) -> bool {
        self.diff(low) >= 0 && self.diff(high) <= 0
    }

    /// Returns the full number nearest to `reference` whose low 24 bits are `short` (RFC 4340 section 7.6).
    pub const fn extend(short: u32, reference: Seq) -> Seq {
        let low = reference.0 as u32 & 0xff_ffff;
        let ahead = short.wrapping_sub(low) & 0xff_ffff;
        // If two numbers are equally near, the pseudocode of section 7.6 chooses the one outside the
        // reference's block of 2^24 numbers.
        let up = ahead < 1 << 23 || ahead == 1 << 23 && short < low;
        let delta = if up { ahead as u64 } else { (ahead as u64).wrapping_sub(1 << 24) };
        Seq::new(reference.0.wrapping_add(delta))
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_at_48_bits() {
        let last = Seq::new(Seq::MODULUS - 1);
        assert_eq!(last.next(), Seq::new(0));
        assert!(Seq::new(0).after(last));
        assert_eq!(Seq::new(3).diff(last), 4);
        assert!(Seq::new(1).within(last, Seq::new(2)));
    }

    #[test]
    fn extends_to_the_nearest() {
        for reference in [0u64, 5, 0xff_fffe, 0x100_0003, 0xffff_ffff_fffe] {
            for d in [-1000i64, -1, 0, 1, 1000] {
                let full = Seq::new(reference.wrapping_add(d as u64));
                assert_eq!(Seq::extend(full.value() as u32 & 0xff_ffff, Seq::new(reference)), full);
            }
        }
    }
}
