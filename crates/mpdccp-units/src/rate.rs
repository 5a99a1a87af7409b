use core::fmt;
use core::iter::Sum;
use core::str::FromStr;
use core::time::Duration;

/// A data rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// No data at all.
    pub const ZERO: Rate = Rate(0);
    /// A rate faster than that of any link.
    pub const MAX: Rate = Rate(u64::MAX);

    /// Returns a rate of `bps` bits per second.
    #[inline]
    pub const fn from_bps(bps: u64) -> Rate {
        Rate(bps)
    }

    /// Returns a rate of `mbps` million bits per second, or zero if `mbps` is negative or not finite.
    #[inline]
    pub fn from_mbps(mbps: f64) -> Rate {
        Rate((mbps * 1e6) as u64)
    }

    /// Returns the rate that transfers `bytes` in `d`, or [`Rate::MAX`] if `d` is zero.
    #[inline]
    pub fn from_bytes_per(bytes: u64, d: Duration) -> Rate {
        let ns = d.as_nanos();
        if ns == 0 {
            return Rate::MAX;
        }
        // Here and below, use 64-bit arithmetic if the values fit, because a 128-bit division takes several
        // times as long.
        match (bytes.checked_mul(8_000_000_000), u64::try_from(ns)) {
            (Some(bits), Ok(ns)) => Rate(bits / ns),
            _ => Rate(u64::try_from(u128::from(bytes) * 8_000_000_000 / ns).unwrap_or(u64::MAX)),
        }
    }

    /// Returns the rate in bits per second.
    #[inline]
    pub const fn bps(self) -> u64 {
        self.0
    }

    /// Returns the rate in million bits per second.
    #[inline]
    pub fn mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the rate in bytes per second.
    #[inline]
    pub fn bytes_per_sec(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// Returns the time that `bytes` take at this rate, rounded up to a nanosecond; [`Duration::MAX`] at rate
    /// zero.
    #[inline]
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let ns = bytes.checked_mul(8_000_000_000).map(|bits| bits.div_ceil(self.0)).unwrap_or_else(|| {
            let ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0));
            u64::try_from(ns).unwrap_or(u64::MAX)
        });
        Duration::from_nanos(ns)
    }

    /// Returns the number of whole bytes that are transferred in `d`.
    #[inline]
    pub fn bytes_in(self, d: Duration) -> u64 {
        let ns = d.as_nanos();
        match u64::try_from(ns).ok().and_then(|ns| ns.checked_mul(self.0)) {
            Some(bits) => bits / 8_000_000_000,
            None => u64::try_from(u128::from(self.0).saturating_mul(ns) / 8_000_000_000).unwrap_or(u64::MAX),
        }
    }

    /// Returns this rate times `gain`.
    #[inline]
    pub fn scale(self, gain: f64) -> Rate {
        Rate((self.0 as f64 * gain) as u64)
    }
}

/// The addition saturates. It must not overflow, because a path without any measured delay has the rate
/// [`Rate::MAX`].
impl Sum for Rate {
    #[inline]
    fn sum<I: Iterator<Item = Rate>>(rates: I) -> Rate {
        rates.fold(Rate::ZERO, |sum, rate| Rate(sum.0.saturating_add(rate.0)))
    }
}

impl fmt::Debug for Rate {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}Mbit/s", self.mbps())
    }
}

/// Error for a text that is not a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRate;

impl fmt::Display for NoRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a rate up to 1 Tbit/s; examples: \"10 Mbit/s\", 10M, 500k")
    }
}

impl core::error::Error for NoRate {}

/// Parses a number with the unit bit/s, kbit/s, Mbit/s or Gbit/s, or k, M or G for short. A number without a
/// unit is in bit/s. The maximum is 1 Tbit/s.
impl FromStr for Rate {
    type Err = NoRate;

    fn from_str(text: &str) -> Result<Rate, NoRate> {
        let text = text.trim();
        let (number, unit) = text.split_at(text.find(char::is_alphabetic).unwrap_or(text.len()));
        let scale = match unit {
            "" | "bit/s" => 1.0,
            "k" | "kbit/s" => 1e3,
            "M" | "Mbit/s" => 1e6,
            "G" | "Gbit/s" => 1e9,
            _ => return Err(NoRate),
        };
        // `f64::from_str` would also accept "-1" and "inf", so check the characters.
        let plain = number.trim().chars().all(|c| c.is_ascii_digit() || c == '.');
        let bps = number.trim().parse::<f64>().ok().filter(|_| plain).map(|n| n * scale + 0.5);
        bps.filter(|bps| *bps < 1e12 + 1.0).map(|bps| Rate(bps as u64)).ok_or(NoRate)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.*} Mbit/s", f.precision().unwrap_or(3), self.mbps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_shown_in_mbit_s() {
        extern crate std;
        assert_eq!(std::format!("{0} {0:.1}", Rate::from_bps(12_345_678)), "12.346 Mbit/s 12.3 Mbit/s");
    }

    #[test]
    #[inline]
    fn time_and_bytes_agree() {
        let r = Rate::from_mbps(10.0);
        assert_eq!(r.time_for(1250), Duration::from_millis(1));
        assert_eq!(r.bytes_in(Duration::from_millis(1)), 1250);
        assert_eq!(Rate::from_bytes_per(1250, Duration::from_millis(1)), r);
        assert_eq!(Rate::ZERO.time_for(1), Duration::MAX);
        // Puts the intermediate value just below and just above its 64-bit limit.
        for bytes in [u64::MAX / 8_000_000_000, u64::MAX / 8_000_000_000 + 1] {
            assert_eq!(Rate::from_bps(8_000_000_000).time_for(bytes), Duration::from_nanos(bytes));
            assert_eq!(Rate::from_bps(8_000_000_000).bytes_in(Duration::from_nanos(bytes)), bytes);
            assert_eq!(Rate::from_bytes_per(bytes, Duration::from_nanos(bytes)).bps(), 8_000_000_000);
        }
        assert_eq!(
            Rate::from_bps(3).time_for(1),
            Duration::from_nanos(2_666_666_667),
            "the time must be rounded up"
        );
        assert_eq!(r.scale(0.5).mbps(), 5.0);
    }

    #[test]
    fn sums_end_at_the_greatest_rate() {
        assert_eq!([3, 4].map(Rate::from_bps).into_iter().sum::<Rate>(), Rate::from_bps(7));
        assert_eq!([Rate::MAX, Rate::from_bps(1)].into_iter().sum::<Rate>(), Rate::MAX);
    }
}
