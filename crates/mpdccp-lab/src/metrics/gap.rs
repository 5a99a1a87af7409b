//! Measures the longest time without a delivery.

use super::arrivals::Delivery;

/// Returns the longest time, in milliseconds, without a delivery between the first delivery and the end of
/// the flow at `to` seconds.
pub(super) fn longest_gap_ms(first: &[Delivery], to: f64) -> Option<f64> {
    let times = || first.iter().map(|d| d.at).take_while(|t| *t < to).chain([to]);
    let gap = times().zip(times().skip(1)).map(|(a, b)| b - a).max_by(f64::total_cmp);
    gap.map(|s| s * 1e3)
}

#[cfg(test)]
mod tests {
    use super::super::arrivals::at_times;
    use super::*;

    #[test]
    fn between_deliveries_and_before_the_end() {
        let first = at_times(&[(1.0, 1), (1.25, 1), (3.0, 1), (3.5, 1)]);
        assert_eq!(longest_gap_ms(&first, 4.0), Some(1750.0));
        assert_eq!(longest_gap_ms(&first, 6.0), Some(2500.0), "the longest gap is at the end");
        assert_eq!(longest_gap_ms(&[], 6.0), None);
    }
}
