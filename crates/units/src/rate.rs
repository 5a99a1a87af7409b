use core::fmt;
use core::time::Duration;

/// A data rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// No data at all.
    pub const ZERO: Rate = Rate(0);
    /// Faster than any link.
    pub const MAX: Rate = Rate(u64::MAX);

    /// `bps` bits per second.
    #[inline]
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }

    /// `mbps` million bits per second; negative or not finite gives zero.
    #[inline]
    pub fn from_mbps(mbps: f64) -> Rate {
        Rate((mbps * 1e6) as u64)
    }

    /// The rate that moves `bytes` in `d`; [`Rate::MAX`] if `d` is zero.
    #[inline]
    pub fn from_bytes_per(bytes: u64, d: Duration) -> Rate {
        match d.as_nanos() {
            0 => Rate::MAX,
            ns => Rate(u64::try_from(u128::from(bytes) * 8_000_000_000 / ns).unwrap_or(u64::MAX)),
        }
    }

    /// Bits per second.
    #[inline]
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Million bits per second.
    #[inline]
    pub fn mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Bytes per second.
    #[inline]
    pub fn bytes_per_sec(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// How long `bytes` take at this rate, rounded up to a nanosecond; [`Duration::MAX`] at rate zero.
    #[inline]
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Whole bytes moved in `d`.
    #[inline]
    pub fn bytes_in(self, d: Duration) -> u64 {
        u64::try_from(u128::from(self.0).saturating_mul(d.as_nanos()) / 8_000_000_000).unwrap_or(u64::MAX)
    }

    /// This rate times `gain`.
    #[inline]
    pub fn scale(self, gain: f64) -> Rate {
        Rate((self.0 as f64 * gain) as u64)
    }
}

impl fmt::Debug for Rate {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}Mbit/s", self.mbps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[inline]
    fn time_and_bytes_agree() {
        let r = Rate::from_mbps(10.0);
        assert_eq!(r.time_for(1250), Duration::from_millis(1));
        assert_eq!(r.bytes_in(Duration::from_millis(1)), 1250);
        assert_eq!(Rate::from_bytes_per(1250, Duration::from_millis(1)), r);
        assert_eq!(Rate::ZERO.time_for(1), Duration::MAX);
        assert_eq!(r.scale(0.5).mbps(), 5.0);
    }
}
