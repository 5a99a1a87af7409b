//! Quantities on the command line that several commands read.

use units::Rate;

/// Reads a rate: bit/s, or with k, M or G.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    let (digits, factor) = match text.char_indices().last() {
        Some((i, 'k')) => (&text[..i], 1e3),
        Some((i, 'M')) => (&text[..i], 1e6),
        Some((i, 'G')) => (&text[..i], 1e9),
        _ => (text, 1.0),
    };
    let bps = digits.parse().ok().map(|n: f64| n * factor).filter(|bps| (1.0..=1e12).contains(bps));
    bps.map(|bps| Rate::from_bps(bps as u64)).ok_or_else(|| "expected bit/s, such as 500k or 12.5M".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(rate("12.5M"), Ok(Rate::from_bps(12_500_000)));
        assert_eq!(rate("800"), Ok(Rate::from_bps(800)));
        for wrong in ["", "M", "-1M", "0", "1T", "1e20", "NaN"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
