use alloc::vec::Vec;

/// Number of closed intervals in the average (RFC 5348 section 5.4 recommends 8 and forbids more).
pub const NINTERVAL: usize = 8;
/// Minimum discount factor (RFC 5348 section 5.5).
const THRESHOLD: f64 = 0.25;
/// An interval is short if it lasts at most two round trips. The value is in quarters of a round trip
/// (RFC 5622 section 5).
const SHORT: u64 = 8;

/// A loss interval, which begins with a lost or marked packet and ends just before the first loss of the next
/// event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossInterval {
    /// Number of packets in the lossy part, which ends with the last loss of the interval. 0 in the interval
    /// before the first loss event.
    pub lossy: u64,
    /// Number of packets after the lossy part.
    pub lossless: u64,
    /// Number of data packets in both parts (RFC 4342 section 6.1.1). 0 on a connection without losses.
    pub data: u64,
    /// Number of lost and marked packets.
    pub drops: u64,
    /// Duration in quarters of a round-trip time, or `None` if unknown.
    pub quarters: Option<u64>,
}

impl LossInterval {
    /// Returns the number of packets in both parts.
    pub fn packets(&self) -> u64 {
        self.lossy.saturating_add(self.lossless)
    }

    /// Returns whether the interval is known to last at most two round trips.
    pub fn is_short(&self) -> bool {
        self.quarters.is_some_and(|quarters| quarters <= SHORT)
    }

    /// Returns the length to use in the average.
    fn length(&self, small_packets: bool) -> f64 {
        let data = self.data.max(1) as f64;
        // RFC 5622 section 5: with small packets, the length of a short interval is divided by the number of
        // its losses.
        if small_packets && self.lossy > 0 && self.is_short() {
            data / self.drops.max(1) as f64
        } else {
            data
        }
    }
}

/// Returns the weights of RFC 5348 section 5.4: 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2.
fn weight(i: usize) -> f64 {
    let (i, n) = (i as f64, NINTERVAL as f64);
    if i < n / 2.0 { 1.0 } else { 2.0 * (n - i) / (n + 2.0) }
}

/// Lengths and weights of the closed intervals in the average, newest first.
fn weighted<'a>(lengths: &'a [f64], factors: &'a [f64]) -> impl Iterator<Item = (f64, f64)> + 'a {
    let pairs = lengths.iter().zip(factors).take(NINTERVAL).enumerate();
    pairs.map(|(i, (length, factor))| (*length, weight(i) * factor))
}

/// Returns the weighted sum and sum of weights.
fn sums(terms: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    terms.fold((0.0, 0.0), |(total, weights), (length, w)| (total + length * w, weights + w))
}

/// Returns the general discount factor while the open interval is `open` long (RFC 5348 section 5.5).
fn general_factor(open: f64, closed: &[f64], factors: &[f64]) -> f64 {
    let (total, weights) = sums(weighted(closed, factors));
    if weights > 0.0 && open > 2.0 * total / weights {
        (2.0 * total / weights / open).max(THRESHOLD)
    } else {
        1.0
    }
}

/// Returns the discount factors of intervals with these lengths, newest first. The first interval is open and
/// has factor 1 (RFC 5348 section 5.5).
///
/// The RFC keeps the factors from one loss event to the next. Since they depend only on the lengths, this
/// function recomputes them by closing the intervals one after the other. Sender and receiver thus compute
/// the same factors, and a late packet may remove a loss event, because no stored factor depends on that
/// event.
pub(crate) fn discount_factors(lengths: &[f64]) -> Vec<f64> {
    let mut factors = alloc::vec![1.0; lengths.len()];
    for closing in (1..lengths.len()).rev() {
        let (open, closed) = (lengths[closing], &lengths[closing + 1..]);
        let older = &mut factors[closing + 1..];
        let general = general_factor(open, closed, older);
        // RFC 5348 section 5.5: a long newest interval reduces the weight of older intervals.
        older.iter_mut().for_each(|factor| *factor *= general);
    }
    factors
}

/// Returns the loss event rate p for these intervals, newest first. The first interval is open. The last may
/// be the interval before the first loss. p is 0 if there was no loss. `discount` enables the optional
/// section 5.5 of RFC 5348. `small_packets` enables RFC 4828.
pub fn loss_event_rate(intervals: &[LossInterval], discount: bool, small_packets: bool) -> f64 {
    let Some(newest) = intervals.first().filter(|newest| newest.lossy > 0 || intervals.len() > 1) else {
        return 0.0;
    };
    let lengths: Vec<f64> = intervals.iter().map(|i| i.length(small_packets)).collect();
    let factors = if discount { discount_factors(&lengths) } else { alloc::vec![1.0; lengths.len()] };
    let (Some((open, closed)), Some((_, factors))) = (lengths.split_first(), factors.split_first()) else {
        return 0.0;
    };
    // RFC 5348 section 5.5: a long open interval also reduces the weight of older intervals.
    let general = if discount { general_factor(*open, closed, factors) } else { 1.0 };
    let without = sums(weighted(closed, factors));
    // This average includes the open interval, so the oldest closed interval drops out: the average has eight
    // intervals in total (RFC 5348 section 5.4).
    let most = closed.len().min(NINTERVAL).saturating_sub(1);
    let shifted = closed.iter().zip(factors).take(most).enumerate();
    let shifted = shifted.map(|(i, (length, factor))| (*length, weight(i + 1) * factor * general));
    let with = sums(core::iter::once((*open, weight(0))).chain(shifted));
    let rate = |(total, weights): (f64, f64)| if total > 0.0 { weights / total } else { f64::INFINITY };
    // RFC 5622 section 6.1: a short open interval does not count.
    if small_packets && newest.is_short() && !closed.is_empty() {
        return rate(without).min(1.0);
    }
    rate(with).min(rate(without)).min(1.0)
}

#[cfg(test)]
#[path = "interval_tests.rs"]
mod tests;
