//! Measures the time until a flow reaches its final rate.

use super::arrivals::Delivery;

/// Length, in seconds, of the windows over which rates are averaged.
const WINDOW: f64 = 1.0;
/// Time, in seconds, between the starts of consecutive windows.
const STEP: f64 = 0.1;
/// A rate within this fraction of the final rate counts as having reached it.
const NEAR: f64 = 0.1;
/// The rate must stay near the final rate for this many seconds, or to the end.
const HOLD: f64 = 3.0;
/// The final rate is the mean rate over this last fraction of the time.
const FINAL: f64 = 0.25;

/// Returns the seconds from `from` (the flow's start or the last event) until the rate is within a tenth of
/// the final rate and stays there for three seconds, or `None` if it never does. The final rate is the mean
/// over the last quarter of the time until `to`.
pub(super) fn convergence_s(first: &[Delivery], (from, to): (f64, f64)) -> Option<f64> {
    let rate = |a: f64, b: f64| {
        let begin = first.partition_point(|d| d.at < a);
        let end = first.partition_point(|d| d.at < b);
        first[begin..end.max(begin)].iter().map(|d| f64::from(d.bytes)).sum::<f64>() / (b - a)
    };
    let last = rate(to - FINAL * (to - from), to);
    let windows = ((to - from - WINDOW) / STEP + 1e-9).floor();
    if last <= 0.0 || windows < 0.0 {
        return None;
    }
    let begin = |i: usize| from + STEP * i as f64;
    let near = |i: usize| (rate(begin(i), begin(i) + WINDOW) - last).abs() <= NEAR * last;
    let all: Vec<bool> = (0..=windows as usize).map(near).collect();
    let hold = (HOLD / STEP) as usize;
    let settled = |i: &usize| all[*i..].iter().take(hold + 1).all(|near| *near);
    (0..all.len()).find(settled).map(|i| STEP * i as f64)
}

#[cfg(test)]
mod tests {
    use super::super::arrivals::at_times;
    use super::*;

    /// Returns a flow with a packet every 10 ms, whose size depends on the time.
    fn flow(secs: f64, bytes: impl Fn(f64) -> u32) -> Vec<Delivery> {
        let times = (0..(secs * 100.0) as usize).map(|i| i as f64 / 100.0 + 0.005);
        at_times(&times.map(|t| (t, bytes(t))).collect::<Vec<_>>())
    }

    #[test]
    fn a_step_is_over_when_its_window_is_nearly_full() {
        // Packets have 100 bytes until 4 s, and 1,000 bytes from then on. The rate in a window of 1 s is
        // within a tenth of the final rate if at most a tenth of the window lies before 4 s.
        let step = flow(12.0, |t| if t < 4.0 { 100 } else { 1000 });
        let s = convergence_s(&step, (0.0, 12.0)).unwrap();
        assert!((s - 3.9).abs() < 1e-6, "{s}");
        let since_event = convergence_s(&step, (4.0, 12.0)).unwrap();
        assert!(since_event.abs() < 1e-6, "{since_event}");
    }

    #[test]
    fn passing_by_is_not_arriving() {
        // Only from 2 s to 3 s is the rate below the final rate.
        let wobble = flow(12.0, |t| if (2.0..3.0).contains(&t) { 100 } else { 1000 });
        let s = convergence_s(&wobble, (0.0, 12.0)).unwrap();
        assert!((s - 2.9).abs() < 1e-6, "{s}");
        let never = flow(12.0, |t| if (t as u32).is_multiple_of(2) { 100 } else { 1000 });
        assert_eq!(convergence_s(&never, (0.0, 12.0)), None);
    }
}
