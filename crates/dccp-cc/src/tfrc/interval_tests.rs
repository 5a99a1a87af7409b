use super::*;
use alloc::vec;
use proptest::prelude::*;

/// Returns intervals with these data lengths, newest first. The first interval is open.
fn of(lengths: &[u64]) -> Vec<LossInterval> {
    lengths
        .iter()
        .map(|data| LossInterval { lossy: 1, lossless: data - 1, data: *data, drops: 1, quarters: None })
        .collect()
}

fn p(lengths: &[u64], discount: bool) -> f64 {
    loss_event_rate(&of(lengths), discount, false)
}

fn close(got: f64, wanted: f64) {
    assert!((got / wanted - 1.0).abs() < 1e-12, "{got}, not {wanted}");
}

/// A literal implementation of RFC 5348 sections 5.4 and 5.5, which keeps its factors from one loss event to
/// the next. The tests compare `discount_factors` with it.
struct Literal {
    /// Interval lengths I_0 to I_n.
    i: Vec<f64>,
    /// Discount factors DF_0 to DF_n.
    df: Vec<f64>,
    general: f64,
}

impl Literal {
    fn new(first: f64) -> Literal {
        Literal { i: vec![1.0, first], df: vec![1.0; 2], general: 1.0 }
    }

    fn w(i: usize) -> f64 {
        [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2][i]
    }

    /// Sets the length of the open interval to `len`, and computes the new general factor.
    fn grow(&mut self, len: f64) {
        self.i[0] = len;
        let (mut total, mut weights) = (0.0, 0.0);
        for i in 1..self.i.len() {
            weights += Self::w(i - 1) * self.df[i];
            total += self.i[i] * Self::w(i - 1) * self.df[i];
        }
        let mean = total / weights;
        self.general = if len > 2.0 * mean { (2.0 * mean / len).max(0.25) } else { 1.0 };
    }

    fn loss_event(&mut self) {
        for i in 1..self.df.len() {
            self.df[i] *= self.general;
        }
        self.i.insert(0, 1.0);
        self.df.insert(0, 1.0);
        self.i.truncate(9);
        self.df.truncate(9);
        self.general = 1.0;
    }

    fn p(&self) -> f64 {
        let k = self.i.len() - 1;
        let (mut total0, mut total1) = (self.i[0] * Self::w(0), 0.0);
        let (mut weights0, mut weights1) = (Self::w(0), 0.0);
        for i in 1..k {
            total0 += self.i[i] * Self::w(i) * self.df[i] * self.general;
            weights0 += Self::w(i) * self.df[i] * self.general;
        }
        for i in 1..=k {
            total1 += self.i[i] * Self::w(i - 1) * self.df[i];
            weights1 += Self::w(i - 1) * self.df[i];
        }
        (weights0 / total0).min(weights1 / total1)
    }
}

#[test]
fn weights_of_the_rfc() {
    let weights: Vec<f64> = (0..8).map(weight).collect();
    for (got, wanted) in weights.into_iter().zip([1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2]) {
        assert!((got - wanted).abs() < 1e-15);
    }
}

#[test]
fn golden_averages_without_discounting() {
    // No packet has been lost yet.
    assert_eq!(
        loss_event_rate(&[LossInterval { lossless: 1000, ..LossInterval::default() }], false, false),
        0.0
    );
    assert_eq!(loss_event_rate(&[], true, true), 0.0);
    // Right after the first loss, only the synthetic interval counts.
    close(p(&[1, 400], false), 1.0 / 400.0);
    close(p(&[1, 100, 100, 100, 100, 100, 100, 100, 100], false), 1.0 / 100.0);
    // (10 + 20 + 30 + 40 + 0.8 * 50 + 0.6 * 60 + 0.4 * 70 + 0.2 * 80) / 6 = 220 / 6. The open interval is too
    // short to count.
    close(p(&[3, 10, 20, 30, 40, 50, 60, 70, 80], false), 6.0 / 220.0);
    // (200 + 10 + 20 + 30 + 0.8 * 40 + 0.6 * 50 + 0.4 * 60 + 0.2 * 70) / 6 = 360 / 6. The open interval of
    // 200 now counts.
    close(p(&[200, 10, 20, 30, 40, 50, 60, 70, 80], false), 6.0 / 360.0);
    // The ninth and later closed intervals do not count.
    close(p(&[3, 10, 20, 30, 40, 50, 60, 70, 80, 9999, 1], false), 6.0 / 220.0);
    // With fewer than eight closed intervals, the average that includes the open interval still leaves out
    // the oldest one: 200 / 1, and (200 + 100) / 2.
    close(p(&[200, 100], false), 1.0 / 200.0);
    close(p(&[200, 100, 50], false), 2.0 / 300.0);
}

#[test]
fn golden_discounting() {
    // An open interval of twice the mean of 100 is too short for a discount.
    let eight = |open| [[open, 100, 100, 100, 100, 100, 100, 100, 100]].concat();
    close(p(&eight(200), true), p(&eight(200), false));
    // An open interval of 400 is long enough: DF = 2 * 100 / 400 = 0.5. (400 + 0.5 * 5 * 100) / (1 + 0.5 * 5)
    // = 650 / 3.5.
    close(p(&eight(400), true), 3.5 / 650.0);
    // With an open interval of 10,000, DF = 0.02, which is limited to 0.25. (10,000 + 0.25 * 500) / (1 + 0.25
    // * 5) = 10,125 / 2.25.
    close(p(&eight(10_000), true), 2.25 / 10_125.0);
    // The interval of 10,000 is now closed. The older intervals keep a factor of 0.25, and the factor of the
    // interval of 10,000 is 1.
    let closed = [vec![1], eight(10_000)].concat();
    assert_eq!(discount_factors(&closed.iter().map(|l| *l as f64).collect::<Vec<_>>())[1..3], [1.0, 0.25]);
    // The result does not change: (10,000 + 0.25 * 100 * (1 + 1 + 1 + 0.8 + 0.6 + 0.4 + 0.2)) / (1 + 0.25 *
    // 5).
    close(p(&closed, true), 2.25 / 10_125.0);
}

#[test]
fn short_intervals_of_small_packets() {
    let interval =
        |data, drops, quarters| LossInterval { lossy: 10, lossless: data - 10, data, drops, quarters };
    // Eight quarters are two round trips. If an interval of 20 packets with 5 losses is no longer than that,
    // it counts as 20 / 5 = 4 packets.
    close(interval(20, 5, Some(8)).length(true), 4.0);
    close(interval(20, 5, Some(9)).length(true), 20.0);
    close(interval(20, 5, None).length(true), 20.0);
    close(interval(20, 5, Some(1)).length(false), 20.0);
    close(interval(20, 0, Some(1)).length(true), 20.0);
    // An open interval counts only if it lasts more than two round trips.
    let with_open = |quarters| [interval(900, 1, quarters), interval(100, 1, Some(99))];
    close(loss_event_rate(&with_open(Some(8)), false, true), 1.0 / 100.0);
    close(loss_event_rate(&with_open(Some(9)), false, true), 1.0 / 900.0);
    close(loss_event_rate(&with_open(Some(8)), false, false), 1.0 / 900.0);
}

proptest! {
    /// While all closed intervals are known, the recomputed factors equal those of the literal
    /// implementation.
    #[test]
    fn discounting_as_the_rfc_keeps_it(lengths in proptest::collection::vec(1..5000u64, 2..17)) {
        let mut literal = Literal::new(lengths[0] as f64);
        for (n, len) in lengths.iter().enumerate().skip(1) {
            if n > 1 {
                literal.loss_event();
            }
            literal.grow(*len as f64);
            let mut newest_first = lengths[..=n].to_vec();
            newest_first.reverse();
            let got = p(&newest_first, true);
            prop_assert!((got / literal.p() - 1.0).abs() < 1e-9, "{} {}", got, literal.p());
        }
    }

    #[test]
    fn p_is_a_rate_whatever_the_intervals(
        parts in proptest::collection::vec(
            (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<Option<u64>>()), 0..40),
        discount: bool,
        small: bool,
    ) {
        let intervals: Vec<LossInterval> = parts
            .into_iter()
            .map(|(lossy, lossless, data, drops, quarters)| LossInterval { lossy, lossless, data, drops, quarters })
            .collect();
        let p = loss_event_rate(&intervals, discount, small);
        prop_assert!((0.0..=1.0).contains(&p), "{}", p);
    }

    /// RFC 5348 section 5.4: a longer open interval can only lower p.
    #[test]
    fn a_longer_open_interval_never_raises_p(
        lengths in proptest::collection::vec(1..5000u64, 2..12), more in 1..5000u64, discount: bool,
    ) {
        let mut longer = lengths.clone();
        longer[0] += more;
        prop_assert!(p(&longer, discount) <= p(&lengths, discount) * (1.0 + 1e-12));
    }
}
