//! Median over several runs, with its confidence interval.

use serde::{Deserialize, Serialize};

/// Coverage that confidence intervals must have if there are six or more runs.
const WANTED: f64 = 0.95;
/// Minimum number of runs for an interval.
const LEAST: usize = 3;

/// The median of a metric over runs with different seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Number of runs for which the metric has a value.
    pub n: usize,
    /// Median over these runs.
    pub median: f64,
    /// Confidence interval of the median, or `None` for fewer than three runs.
    pub interval: Option<Interval>,
}

/// A distribution-free confidence interval, bounded by two order statistics.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Probability that the interval contains the true median: at least 0.95 for six or more runs, 0.75 for
    /// three.
    pub coverage: f64,
}

impl Interval {
    /// Returns the narrowest interval with at least 95 % coverage or, if there are too few values for that,
    /// the range of all `sorted` values. The interval goes from the k-th smallest to the k-th largest of n
    /// values. It misses the true median if fewer than k values lie on one side of the median. The
    /// probability of this is 2 P(B < k), where B is binomial with n trials of probability 1/2.
    fn of(sorted: &[f64]) -> Option<Interval> {
        let n = sorted.len();
        if n < LEAST {
            return None;
        }
        let coverage = |k: usize| 1.0 - 2.0 * (0..k).map(|below| binomial(n, below)).sum::<f64>();
        let k = (1..=n / 2).take_while(|k| coverage(*k) >= WANTED).last().unwrap_or(1);
        Some(Interval { low: sorted[k - 1], high: sorted[n - k], coverage: coverage(k) })
    }
}

/// Returns the probability of `heads` heads in `n` tosses of a fair coin.
fn binomial(n: usize, heads: usize) -> f64 {
    let ways = (0..heads).map(|i| libm::log2((n - i) as f64 / (i + 1) as f64)).sum::<f64>();
    libm::exp2(ways - n as f64)
}

/// Returns the values in ascending order.
pub(crate) fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the median of sorted values, or `None` if there are none.
pub(crate) fn middle(sorted: &[f64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some((sorted[last / 2] + sorted[last.div_ceil(2)]) / 2.0)
}

/// Returns the nearest-rank percentile of sorted values, or `None` if there are none. This is the smallest
/// value such that at least `percent` per cent of the values are not above it.
pub(crate) fn percentile<T: Copy>(sorted: &[T], percent: f64) -> Option<T> {
    let rank = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

impl Estimate {
    /// Returns the estimate from these values, or `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        let sorted = sorted(values.iter().copied());
        Some(Estimate { n: sorted.len(), median: middle(&sorted)?, interval: Interval::of(&sorted) })
    }

    /// Returns the estimate from a single run.
    pub fn single(value: f64) -> Estimate {
        Estimate { n: 1, median: value, interval: None }
    }

    /// Returns the interval's limits, both equal to the median if there is no interval.
    pub fn range(&self) -> (f64, f64) {
        self.interval.map_or((self.median, self.median), |i| (i.low, i.high))
    }

    /// Returns the median and its interval as text for a table.
    pub fn text(&self) -> String {
        self.text_of(self.n)
    }

    /// Like [`text`](Self::text), but if only some of `runs` runs have the metric, the text says how many.
    pub(crate) fn text_of(&self, runs: usize) -> String {
        let number = |v| number(Some(v));
        let mut more = Vec::new();
        if let Some(Interval { low, high, coverage }) = self.interval {
            more.push(format!("{} to {}", number(low), number(high)));
            // Show the coverage only if it is below 95 %.
            more.extend((coverage < WANTED).then(|| format!("{:.0} %", coverage * 100.0)));
        }
        more.extend((self.n < runs).then(|| format!("{} of {runs} runs", self.n)));
        let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(", ")) };
        number(self.median) + &more
    }
}

/// Formats a value for tables.
pub fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(v) if v == 0.0 || v.abs() >= 99.95 => format!("{v:.0}"),
        Some(v) if v.abs() >= 9.995 => format!("{v:.1}"),
        Some(v) if v.abs() >= 0.1 => format!("{v:.2}"),
        Some(v) => format!("{v:.3}"),
    }
}

mpdccp_units::named! {
    /// Verdict on an aim, best first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Verdict {
        /// The whole interval meets the aim.
        Met = "met",
        /// The median meets the aim, but a part of the interval does not. Or some runs lack the metric, and
        /// the others do not miss the aim.
        Open = "open",
        /// The median misses the aim.
        Missed = "missed",
    }
}

/// Returns the word for a verdict, or for there being none because the metric has no value or because the
/// variant to compare with was not run.
pub(crate) fn word(verdict: Option<Verdict>) -> &'static str {
    verdict.map_or("not judged", Verdict::name)
}

/// Returns the worst of several verdicts, some of which may be missing. A missed aim decides, even if another
/// cannot be judged.
pub(crate) fn worst(verdicts: &[Option<Verdict>]) -> Option<Verdict> {
    let missed = verdicts.contains(&Some(Verdict::Missed)).then_some(Verdict::Missed);
    missed.or_else(|| verdicts.iter().copied().collect::<Option<Vec<_>>>()?.into_iter().max())
}

/// Returns the verdict on `of` runs, given the verdict on the `n` runs that have the metric. A run without
/// the metric, such as one whose flow never converged, does not meet an aim.
pub(crate) fn over_all(verdict: Option<Verdict>, n: usize, of: usize) -> Option<Verdict> {
    if n < of { verdict.map(|verdict| verdict.max(Verdict::Open)) } else { verdict }
}

/// Returns the median of the pairs' differences with its interval. Both values of a pair come from runs with
/// the same seed. If the interval contains zero, the runs show no difference between the two measurements.
pub(crate) fn difference(pairs: &[(f64, f64)]) -> Option<Estimate> {
    Estimate::of(&pairs.iter().map(|(a, b)| a - b).collect::<Vec<_>>())
}

/// Returns the pairs of values with the same seed.
pub(crate) fn paired(first: &[(u64, f64)], second: &[(u64, f64)]) -> Vec<(f64, f64)> {
    let other = |seed| second.iter().find(|(s, _)| *s == seed).map(|(_, v)| *v);
    first.iter().filter_map(|(seed, v)| Some((*v, other(*seed)?))).collect()
}

mpdccp_units::named! {
    /// Whether two measurements agree.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Agreement {
        /// With 95 % confidence, the measurements differ by at most the allowed difference.
        Within = "within",
        /// There are too few runs, or they vary too much, for a conclusion.
        Open = "open",
        /// With 95 % confidence, the measurements differ by more than the allowed difference.
        Apart = "apart",
    }
}

/// Tests whether two measurements are equivalent, using pairs of runs with the same seed. They are equivalent
/// if the whole interval of the median difference is within the difference that `allowed` returns for the
/// second measurement's median. The result is open if there are too few runs for a 95 % interval.
pub fn agreement(pairs: &[(f64, f64)], allowed: impl Fn(f64) -> f64) -> Agreement {
    let second: Vec<f64> = pairs.iter().map(|(_, theirs)| *theirs).collect();
    let Some((difference, theirs)) = difference(pairs).zip(Estimate::of(&second)) else {
        return Agreement::Open;
    };
    let Some(interval) = difference.interval.filter(|i| i.coverage >= WANTED) else { return Agreement::Open };
    let most = allowed(theirs.median);
    if -most <= interval.low && interval.high <= most {
        Agreement::Within
    } else if interval.low > most || interval.high < -most {
        Agreement::Apart
    } else {
        Agreement::Open
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::{RngCore, SeedableRng};

    use super::*;

    fn interval(values: &[f64]) -> Option<(f64, f64)> {
        Estimate::of(values)?.interval.map(|i| (i.low, i.high))
    }

    #[test]
    fn percentiles_have_the_nearest_rank() {
        let of = |n: u32, percent| percentile(&(1..=n).collect::<Vec<_>>(), percent);
        assert_eq!([1, 2, 19, 20, 21].map(|n| of(n, 95.0)), [1, 2, 19, 19, 20].map(Some));
        assert_eq!([1, 20, 21].map(|n| of(n, 5.0)), [1, 1, 2].map(Some));
        assert_eq!([0.0, 50.0, 100.0].map(|percent| of(4, percent)), [1, 2, 4].map(Some));
        assert_eq!((of(0, 95.0), middle(&[]), middle(&[1.0, 2.0, 4.0, 9.0])), (None, None, Some(3.0)));
    }

    #[test]
    fn intervals_are_order_statistics() {
        let values = |n: i32| (1..=n).rev().map(f64::from).collect::<Vec<_>>();
        assert_eq!(Estimate::of(&[2.0, 4.0]).unwrap(), Estimate { n: 2, median: 3.0, interval: None });
        assert_eq!(Estimate::of(&[]), None);
        // According to tables of the sign test, the ends of the interval are the smallest and largest value
        // for up to 8 runs, the second smallest and largest for 9, the fourth for 15, and the sixth for 20.
        let ends = [3, 5, 6, 8, 9, 15, 20].map(|n| interval(&values(n)).unwrap());
        let want = [(1, 3), (1, 5), (1, 6), (1, 8), (2, 8), (4, 12), (6, 15)]
            .map(|(l, h)| (f64::from(l), f64::from(h)));
        assert_eq!(ends, want);
        let coverage = |n| Estimate::of(&values(n)).unwrap().interval.unwrap().coverage;
        assert!(
            [(3, 0.75), (4, 0.875), (5, 0.9375), (6, 0.96875), (20, 0.9586)].iter().all(|(n, c)| (coverage(
                *n
            ) - c)
                .abs()
                < 1e-4)
        );
    }

    /// The stated coverage holds for a symmetric and for a skewed distribution. The documentation shows these
    /// results as a table.
    #[test]
    fn intervals_cover_the_median_as_often_as_they_say() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut unit = || ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        const TRIALS: usize = 20_000;
        let mut table = String::new();
        for n in 3..=20 {
            let values: Vec<f64> = (1..=n).map(f64::from).collect();
            let Interval { low, high, coverage } = Estimate::of(&values).unwrap().interval.unwrap();
            assert!(n < 6 || coverage >= 0.95);
            table += &format!("| {n} | {low} and {high} | {:.1}", coverage * 100.0);
            for skewed in [false, true] {
                let median = if skewed { core::f64::consts::LN_2 } else { 0.5 };
                let mut covered = 0;
                for _ in 0..TRIALS {
                    let draw = |_| if skewed { -libm::log(unit()) } else { unit() };
                    let e = Estimate::of(&(0..n).map(draw).collect::<Vec<_>>()).unwrap().interval.unwrap();
                    covered += usize::from(e.low <= median && median <= e.high);
                }
                let seen = covered as f64 / TRIALS as f64;
                // Allow the measured coverage to deviate by five standard deviations of a proportion over
                // these trials.
                let chance = 5.0 * libm::sqrt(coverage * (1.0 - coverage) / TRIALS as f64);
                assert!((seen - coverage).abs() < chance, "{n} runs, skewed {skewed}: {seen} of {coverage}");
                table += &format!(" | {:.1}", seen * 100.0);
            }
            table += " |\n";
        }
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sweeps.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(&table), "docs/sweeps.md needs these rows:\n{table}");
    }

    #[test]
    fn pairs_show_a_difference_that_their_spread_hides() {
        let pairs = [10.0, 50.0, 30.0, 90.0, 70.0, 20.0].map(|v| (v + 1.0, v));
        let (low, high) = difference(&pairs).unwrap().range();
        assert!(low > 0.0 && high < 2.0, "{low} {high}");
    }

    #[test]
    fn alike_only_if_the_whole_interval_of_the_differences_is_small() {
        let pairs = |differences: &[f64]| differences.iter().map(|d| (100.0 + d, 100.0)).collect::<Vec<_>>();
        let alike = |differences: &[f64]| agreement(&pairs(differences), |theirs| theirs * 0.03);
        assert_eq!(alike(&[-1.0, 0.5, 2.0, 1.0, 0.0, 2.5]), Agreement::Within);
        assert_eq!(alike(&[-1.0, 0.5, 4.0, 1.0, 0.0, 2.5]), Agreement::Open);
        assert_eq!(alike(&[4.0, 5.0, 4.0, 6.0, 3.5, 8.0]), Agreement::Apart);
        assert_eq!(alike(&[-4.0, -5.0, -4.0, -6.0, -3.5, -8.0]), Agreement::Apart);
        // The values are close, but there are too few runs for a conclusion.
        assert_eq!(alike(&[0.1, 0.2]), Agreement::Open);
        assert_eq!(alike(&[0.1, 0.2, 0.1, 0.2, 0.1]), Agreement::Open);
    }
}
