//! What several runs say together: the median and how sure it is.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};

/// Resamples of the bootstrap.
const RESAMPLES: usize = 2_000;

/// The median of a figure over runs that differ in their seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Runs that have the figure.
    pub n: usize,
    /// Their median: the one in the middle, or the mean of the two there.
    pub median: f64,
    /// The 95 % interval of the median by percentile bootstrap; none of fewer than three runs, which say nothing about their spread.
    pub interval: Option<(f64, f64)>,
}

/// The median of sorted values.
fn middle(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

/// The bounds between which 95 % of `resampled` lie.
fn bounds(mut resampled: Vec<f64>) -> (f64, f64) {
    resampled.sort_by(f64::total_cmp);
    let at = |share: f64| resampled[((resampled.len() - 1) as f64 * share).round() as usize];
    (at(0.025), at(0.975))
}

impl Estimate {
    /// Of these values; none of none.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let resample = |rng: &mut ChaCha8Rng| {
            let mut drawn: Vec<f64> = (0..n).map(|_| sorted[(rng.next_u64() % n as u64) as usize]).collect();
            drawn.sort_by(f64::total_cmp);
            middle(&drawn)
        };
        (n > 0).then(|| Estimate {
            n,
            median: middle(&sorted),
            interval: (n >= 3).then(|| {
                // Always the same draws: the same runs give the same interval.
                let mut rng = ChaCha8Rng::seed_from_u64(n as u64);
                bounds((0..RESAMPLES).map(|_| resample(&mut rng)).collect())
            }),
        })
    }

    /// The median alone, of a single run.
    pub fn single(value: f64) -> Estimate {
        Estimate { n: 1, median: value, interval: None }
    }

    /// Least and greatest value that the runs leave possible.
    pub fn range(&self) -> (f64, f64) {
        self.interval.unwrap_or((self.median, self.median))
    }

    /// Whether the figure lies between `min` and `max`.
    pub fn reaches(&self, min: Option<f64>, max: Option<f64>) -> Verdict {
        let (low, high) = self.range();
        let inside = |v: f64| min.is_none_or(|min| v >= min) && max.is_none_or(|max| v <= max);
        match (inside(low), inside(high), inside(self.median)) {
            (true, true, _) => Verdict::Met,
            (_, _, true) => Verdict::Open,
            (..) => Verdict::Missed,
        }
    }

    /// Median and interval for a table.
    pub fn text(&self) -> String {
        let number = |v| number(Some(v));
        match self.interval {
            None => number(self.median),
            Some((low, high)) => format!("{} ({} to {})", number(self.median), number(low), number(high)),
        }
    }
}

/// A value as tables show it.
pub fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(v) if v == 0.0 || v.abs() >= 99.95 => format!("{v:.0}"),
        Some(v) if v.abs() >= 9.995 => format!("{v:.1}"),
        Some(v) if v.abs() >= 0.1 => format!("{v:.2}"),
        Some(v) => format!("{v:.3}"),
    }
}

/// What becomes of an aim; the worse, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The whole interval lies where it should.
    Met,
    /// The median does, but not the whole interval.
    Open,
    /// The median does not.
    Missed,
}

impl Verdict {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::Open => "open",
            Verdict::Missed => "missed",
        }
    }
}

/// How much `first` lies above `second`, pair by pair (runs of the same seed): the median difference with its interval. Only if zero
/// lies outside the interval do the two differ.
pub fn paired(first: &[f64], second: &[f64]) -> Option<Estimate> {
    let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
    Estimate::of(&differences)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_lies_around_the_median_and_narrows_with_more_runs() {
        let e = Estimate::of(&[5.0, 1.0, 3.0, 2.0, 4.0]).unwrap();
        assert_eq!((e.n, e.median), (5, 3.0));
        let (low, high) = e.interval.unwrap();
        assert!((1.0..=2.0).contains(&low) && (4.0..=5.0).contains(&high), "{e:?}");
        let many: Vec<f64> = (0..200).map(|i| f64::from(i % 5) + 1.0).collect();
        let (l, h) = Estimate::of(&many).unwrap().interval.unwrap();
        assert!(h - l < high - low, "{l} {h}");
        assert_eq!(Estimate::of(&[2.0, 4.0]).unwrap(), Estimate { n: 2, median: 3.0, interval: None });
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn an_aim_is_met_only_by_the_whole_interval() {
        let e = Estimate { n: 5, median: 10.0, interval: Some((9.0, 12.0)) };
        assert_eq!(e.reaches(Some(9.0), None), Verdict::Met);
        assert_eq!(e.reaches(Some(9.5), None), Verdict::Open);
        assert_eq!(e.reaches(None, Some(11.0)), Verdict::Open);
        assert_eq!(e.reaches(Some(10.5), None), Verdict::Missed);
        assert_eq!(Estimate::single(10.0).reaches(Some(10.0), Some(10.0)), Verdict::Met);
    }

    #[test]
    fn pairs_show_a_difference_that_their_spread_hides() {
        let base = [10.0, 50.0, 30.0, 90.0, 70.0];
        let above: Vec<f64> = base.iter().map(|v| v + 1.0).collect();
        let (low, high) = paired(&above, &base).unwrap().interval.unwrap();
        assert!(low > 0.0 && high < 2.0, "{low} {high}");
    }
}
