//! Bounds for a metric's value, and the verdict on a value.

use serde::Deserialize;

use crate::estimate::{Estimate, Verdict};

/// Bounds for a metric's value. A value without bounds is reported but not judged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Smallest acceptable value.
    pub min: Option<f64>,
    /// Largest acceptable value.
    pub max: Option<f64>,
}

impl Bounds {
    /// Returns the verdict on the runs that `value` was estimated from.
    pub fn judge(self, value: Estimate) -> Verdict {
        let (low, high) = value.range();
        let inside = |v: f64| self.min.is_none_or(|min| v >= min) && self.max.is_none_or(|max| v <= max);
        match (inside(low), inside(high), inside(value.median)) {
            (true, true, _) => Verdict::Met,
            (_, _, true) => Verdict::Open,
            (..) => Verdict::Missed,
        }
    }

    /// Returns whether there is a bound.
    pub fn any(self) -> bool {
        self.min.or(self.max).is_some()
    }

    /// Returns the bounds in words.
    pub fn text(self) -> String {
        match (self.min, self.max) {
            (Some(min), Some(max)) => format!("{min} to {max}"),
            (Some(min), None) => format!("≥ {min}"),
            (None, Some(max)) => format!("≤ {max}"),
            (None, None) => String::new(),
        }
    }
}

/// Allowed difference between two values of a metric.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tolerance {
    /// Allowed difference, in per cent of the value that is compared with.
    percent: f64,
    /// Allowed difference in the metric's unit. The larger of `percent` and `least` applies.
    #[serde(default)]
    least: f64,
}

impl Tolerance {
    /// Returns the allowed difference between a value and the value `theirs`, with which it is compared.
    pub(crate) fn of(self, theirs: f64) -> f64 {
        self.least.max(theirs.abs() * self.percent / 100.0)
    }

    /// Returns the tolerance in words.
    pub(crate) fn text(self) -> String {
        let least = if self.least > 0.0 { format!(" or {}", self.least) } else { String::new() };
        format!("{} %{least}", self.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Interval;

    #[test]
    fn an_aim_is_met_only_by_the_whole_interval() {
        let e = Estimate {
            n: 6,
            median: 10.0,
            interval: Some(Interval { low: 9.0, high: 12.0, coverage: 0.97 }),
        };
        let judge = |min, max| Bounds { min, max }.judge(e);
        assert_eq!(judge(Some(9.0), None), Verdict::Met);
        assert_eq!(judge(Some(9.5), None), Verdict::Open);
        assert_eq!(judge(None, Some(11.0)), Verdict::Open);
        assert_eq!(judge(Some(10.5), None), Verdict::Missed);
        let one = Bounds { min: Some(10.0), max: Some(10.0) };
        assert_eq!(one.judge(Estimate::single(10.0)), Verdict::Met);
        assert_eq!((one.text().as_str(), Bounds::default().any()), ("10 to 10", false));
    }
}
