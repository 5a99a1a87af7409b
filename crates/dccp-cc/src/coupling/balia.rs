//! BALIA, the balanced linked adaptation of Peng, Walid, Hwang and Low ("Multipath TCP: Analysis, Design, and
//! Implementation", 2016; draft-walid-mptcp-congestion-control-04). This module computes BALIA's increase and
//! decrease, relative to those of a single flow.

use super::part::Part;

/// Upper limit for the size of a reduction, relative to that of a single flow.
const MOST_DECREASE: f64 = 1.5;

/// Returns the part of a subflow with rate `own` if the subflows with rates `others` share its bottleneck.
pub(super) fn part(own: f64, others: &[f64]) -> Part {
    let all: f64 = own + others.iter().sum::<f64>();
    let most = others.iter().fold(own, |most, rate| most.max(*rate));
    let (share, alpha) = (own / all, most / own);
    Part {
        increase: (share * share * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0).min(1.0),
        decrease: alpha.min(MOST_DECREASE),
        weight: share.max(1.0 / (others.len() + 1) as f64),
        probe_rtt: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_those_of_the_paper() {
        // A single subflow behaves like Reno.
        assert_eq!(part(7.0, &[]), Part::ALONE);
        // Each of n equal subflows grows by 1/n^2 of a single flow's increase, so together they grow by 1/n
        // of it. A reduction halves the subflow's window.
        let of_two = part(5.0, &[5.0]);
        assert_eq!((of_two.increase, of_two.decrease, of_two.weight), (0.25, 1.0, 0.5));
        let of_four = part(5.0, &[5.0; 3]);
        assert_eq!((of_four.increase, of_four.weight), (0.0625, 0.25));
        // For rates of 3 : 1, the slower subflow has alpha = 3. Its increase is (1/4)^2 * 2 * 7/5.
        let slow = part(1.0, &[3.0]);
        assert!((slow.increase - 0.175).abs() < 1e-12, "{slow:?}");
        assert_eq!((slow.decrease, slow.weight), (1.5, 0.5));
        let fast = part(3.0, &[1.0]);
        assert_eq!((fast.increase, fast.decrease, fast.weight), (0.5625, 1.0, 0.75));
    }

    #[test]
    fn never_more_than_alone() {
        for own in [1e-3, 1.0, 1e3, 1e9] {
            for others in [[1.0, 1e6], [1e-3, 1e-3], [1e9, 1e9]] {
                let p = part(own, &others);
                assert!(p.increase > 0.0 && p.increase <= 1.0 && p.decrease >= 1.0, "{p:?}");
                assert!((1.0 / 3.0..=1.0).contains(&p.weight), "{p:?}");
            }
        }
    }
}
