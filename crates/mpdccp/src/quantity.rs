//! Quantities on the command line that several commands read.

use linkem_net::quantity::parse_rate;
use units::Rate;

/// Reads a rate as scenario files have it, `10 Mbit/s` or `10M`; without a unit it is bit/s.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    let rate = match text.parse::<u64>() {
        Ok(bps) => Ok(Rate::from_bps(bps)),
        Err(_) => parse_rate(text),
    };
    let possible = |rate: &Rate| (1..=1_000_000_000_000).contains(&rate.bps());
    rate.ok()
        .filter(possible)
        .ok_or_else(|| format!("`{text}` is no rate, expected such as \"10 Mbit/s\", 10M or 500k"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(rate("12.5M"), Ok(Rate::from_bps(12_500_000)));
        assert_eq!(rate("12.5 Mbit/s"), Ok(Rate::from_bps(12_500_000)));
        assert_eq!(rate("800"), Ok(Rate::from_bps(800)));
        for wrong in ["", "M", "-1M", "0", "1T", "1e20", "NaN"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
