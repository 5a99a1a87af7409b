//! Axis ranges and round numbers.

/// Range of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) log: bool,
}

/// Largest ratio between the ends of a logarithmic axis. Values below the lower end are drawn at this end.
const DECADES: f64 = 1e4;

/// Returns a round number at or above `wanted`.
pub(super) fn round_up(wanted: f64) -> f64 {
    let magnitude = 10f64.powf(wanted.max(1e-9).log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    steps.iter().map(|s| s * magnitude).find(|top| *top >= wanted).unwrap_or(wanted)
}

/// Returns the largest number at or below `wanted` that is 1, 2 or 5 times a power of ten.
fn round_down(wanted: f64) -> f64 {
    let magnitude = 10f64.powf(wanted.log10().floor());
    [5.0, 2.0].iter().map(|s| s * magnitude).find(|low| *low <= wanted).unwrap_or(magnitude)
}

impl Range {
    /// Returns a logarithmic range from a round number at or below `lowest` to `to`.
    pub(super) fn logarithmic(lowest: f64, to: f64) -> Range {
        let to = to.max(1e-6);
        Range { from: round_down(lowest.clamp(to / DECADES, to / 2.0)), to, log: true }
    }

    /// Returns the position of a value on the axis, from 0 to 1. Values beyond the ends are clamped.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        let share = if self.log {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        if share.is_finite() { share } else { 0.0 }
    }

    /// Returns the values at which the axis has labels. A linear axis gets about `count` labels.
    pub(super) fn ticks(&self, count: usize) -> Vec<f64> {
        if self.log {
            let decades = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
            let steps: &[f64] = match self.to / self.from {
                wide if wide > 300.0 => &[1.0],
                narrow if narrow < 4.0 => &[1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
                _ => &[1.0, 2.0, 5.0],
            };
            let all = decades.flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)));
            let slack = 1.0 + 1e-9;
            return all.filter(|v| *v * slack >= self.from && *v <= self.to * slack).collect();
        }
        let rough = (self.to - self.from) / count.max(1) as f64;
        let magnitude = 10f64.powf(rough.max(1e-12).log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
        let step = steps.iter().map(|s| s * magnitude).find(|s| *s >= rough * 0.999).unwrap_or(rough);
        let first = (self.from / step - 1e-9).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }
}

/// Returns the label of a tick, with as many decimals as the value needs.
pub(super) fn label(value: f64) -> String {
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let linear = Range { from: 0.0, to: 30.0, log: false };
        assert_eq!(linear.ticks(5), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(
            Range { to: 1.2, ..linear }.ticks(6),
            [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0, 1.2000000000000002]
        );
        assert_eq!(label(0.6000000000000001), "0.6");
        let log = Range::logarithmic(8.7, 150.0);
        assert_eq!(log.ticks(5), [5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(Range::logarithmic(14.0, 26.0).ticks(5), [10.0, 15.0, 20.0, 25.0]);
        assert_eq!(label(-0.0), "0");
    }

    #[test]
    fn a_logarithmic_axis_keeps_what_lies_below_it_at_its_end() {
        let log = Range::logarithmic(1e-9, 100.0);
        assert_eq!(log.from, 0.01);
        assert_eq!((log.place(0.0), log.place(1.0), log.place(1e9)), (0.0, 0.5, 1.0));
        assert_eq!(Range::logarithmic(100.0, 100.0).from, 50.0);
    }
}
