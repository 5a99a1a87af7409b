//! Measures on-time delivery: the share of packets that arrive within their deadline.

use core::time::Duration;

use super::arrivals::Delivery;

/// Default deadline: the one-way delay that most applications tolerate (ITU-T G.114).
pub(super) const DEADLINE: Duration = Duration::from_millis(150);

/// Returns the percentage of `sent` packets whose first copy arrived within `deadline` of sending.
pub(super) fn on_time_pct(first: &[Delivery], sent: usize, deadline: Duration) -> Option<f64> {
    let limit = deadline.as_secs_f64() * 1e3;
    let in_time = first.iter().filter(|d| d.latency_ms.is_some_and(|ms| ms <= limit)).count();
    (sent > 0).then(|| in_time as f64 * 100.0 / sent as f64)
}

#[cfg(test)]
mod tests {
    use super::super::arrivals::with_latencies;
    use super::*;

    #[test]
    fn late_and_lost_packets_are_alike() {
        // Of five packets, one was lost and one arrived after 151 ms.
        let first = with_latencies(&[20.0, 150.0, 151.0, 30.0]);
        assert_eq!(on_time_pct(&first, 5, DEADLINE), Some(60.0));
        assert_eq!(on_time_pct(&first, 5, Duration::from_millis(25)), Some(20.0));
        assert_eq!(on_time_pct(&[], 0, DEADLINE), None);
    }
}
