//! Quantities with units, as written in scenario files and on command lines.

use core::time::Duration;

use mpdccp_linkem::Limit;
use mpdccp_units::Rate;
use serde::{Deserialize, Deserializer, de};

/// The limit of a queue, such as `"125000 B"` or `"100 packets"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Bytes of outer IP packets.
    Bytes(u64),
    /// Packets.
    Packets(u64),
}

impl Default for QueueLimit {
    /// Returns a limit of 0 packets, so that validation reports the missing limit.
    fn default() -> QueueLimit {
        QueueLimit::Packets(0)
    }
}

impl QueueLimit {
    /// Returns the limit for the emulator.
    pub fn limit(self) -> Limit {
        match self {
            QueueLimit::Bytes(n) => Limit::Bytes(n),
            QueueLimit::Packets(n) => Limit::Packets(n),
        }
    }

    /// Returns the number without its unit.
    pub fn number(self) -> u64 {
        let (QueueLimit::Bytes(n) | QueueLimit::Packets(n)) = self;
        n
    }

    /// Returns the limit as text with its unit.
    pub fn text(self) -> String {
        match self {
            QueueLimit::Bytes(n) => format!("{n} B"),
            QueueLimit::Packets(n) => format!("{n} packets"),
        }
    }
}

/// The limit of a link's queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueSize {
    /// `"125000 B"` or `"100 packets"`.
    Limit(QueueLimit),
    /// A number of bandwidth-delay products, such as `"1 BDP"`.
    Bdp(f64),
}

impl QueueSize {
    /// Returns the limit for a link with this rate and one-way delay. The round-trip time is taken as twice
    /// that delay, but at least 20 ms.
    pub fn limit(self, rate: Rate, delay: Duration) -> QueueLimit {
        match self {
            QueueSize::Limit(limit) => limit,
            QueueSize::Bdp(n) => {
                let round_trip = (2.0 * delay.as_secs_f64()).max(0.02);
                QueueLimit::Bytes((n * rate.bps() as f64 / 8.0 * round_trip).round() as u64)
            }
        }
    }
}

impl From<Limit> for QueueLimit {
    fn from(limit: Limit) -> QueueLimit {
        match limit {
            Limit::Bytes(n) => QueueLimit::Bytes(n),
            Limit::Packets(n) => QueueLimit::Packets(n),
        }
    }
}

fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let unit = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    Some((number.parse().ok()?, unit.trim()))
}

fn scaled(text: &str, what: &str, scales: &[(&str, f64)]) -> Result<f64, String> {
    let allowed = || {
        let units: Vec<&str> = scales.iter().map(|(unit, _)| *unit).collect();
        format!(
            "`{text}` is not a {what}; expected a number and one of {}, such as \"10 {}\"",
            units.join(", "),
            units[0]
        )
    };
    let (number, unit) = split(text).ok_or_else(allowed)?;
    let (_, scale) = scales.iter().find(|(name, _)| *name == unit).ok_or_else(allowed)?;
    Ok(number * scale)
}

/// Parses a rate with its unit: `10 Mbit/s`, or `10M` for short.
///
/// # Errors
/// The error describes the expected form.
pub fn parse_rate(text: &str) -> Result<Rate, String> {
    let has_unit = text.trim_end().ends_with(char::is_alphabetic);
    let rate = text.parse().ok().filter(|_| has_unit);
    rate.ok_or_else(|| format!("`{text}` is not a rate; expected a number and a unit, such as \"10 Mbit/s\""))
}

/// Parses a time with its unit.
///
/// # Errors
/// The error describes the expected form.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    scaled(text, "time", &[("ms", 1e-3), ("us", 1e-6), ("s", 1.0)])
        .and_then(|s| Duration::try_from_secs_f64(s).map_err(|e| format!("`{text}`: {e}")))
}

/// Parses the limit of a queue.
///
/// # Errors
/// The error describes the expected form.
pub fn parse_queue(text: &str) -> Result<QueueLimit, String> {
    match split(text) {
        Some((n, "packets")) => Ok(QueueLimit::Packets(n as u64)),
        _ => scaled(text, "queue limit", &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("packets", 0.0)])
            .map(|bytes| QueueLimit::Bytes(bytes.round() as u64)),
    }
}

/// Parses the limit of a link's queue.
///
/// # Errors
/// The error describes the expected form.
pub fn parse_queue_size(text: &str) -> Result<QueueSize, String> {
    match split(text) {
        Some((n, "BDP")) => Ok(QueueSize::Bdp(n)),
        _ => parse_queue(text).map(QueueSize::Limit).map_err(|e| e.replace("packets,", "packets, BDP,")),
    }
}

/// Parses a percentage into a fraction.
///
/// # Errors
/// The error describes the expected form.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let share = scaled(text, "share", &[("%", 0.01)])?;
    if share > 1.0 { Err(format!("`{text}` is more than 100 %")) } else { Ok(share) }
}

/// Parses a number of bytes.
///
/// # Errors
/// The error describes the expected form.
pub fn parse_bytes(text: &str) -> Result<u32, String> {
    let bytes = scaled(text, "size", &[("B", 1.0), ("kB", 1e3), ("MB", 1e6)])?;
    if bytes <= f64::from(u32::MAX) {
        Ok(bytes.round() as u32)
    } else {
        Err(format!("`{text}` is too large"))
    }
}

/// Returns the value as text. Accepts a number without a unit, so that the parser's error can list the
/// possible units.
fn written<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    Ok(match toml::Value::deserialize(d)? {
        toml::Value::String(text) => text,
        other => other.to_string(),
    })
}

/// Defines `deserialize_with` functions for a quantity, both required and optional.
macro_rules! quantity {
    ($name:ident, $opt:ident, $type:ty, $parse:ident) => {
        /// Deserializes a quantity.
        ///
        /// # Errors
        /// The error describes the expected form.
        pub fn $name<'de, D: Deserializer<'de>>(d: D) -> Result<$type, D::Error> {
            $parse(&written(d)?).map_err(de::Error::custom)
        }
        /// Deserializes an optional quantity.
        ///
        /// # Errors
        /// The error describes the expected form.
        pub fn $opt<'de, D: Deserializer<'de>>(d: D) -> Result<Option<$type>, D::Error> {
            $name(d).map(Some)
        }
    };
}
quantity!(rate, opt_rate, Rate, parse_rate);
quantity!(time, opt_time, Duration, parse_time);
quantity!(queue, opt_queue, QueueLimit, parse_queue);
quantity!(queue_size, opt_queue_size, QueueSize, parse_queue_size);
quantity!(share, opt_share, f64, parse_share);
quantity!(bytes, opt_bytes, u32, parse_bytes);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_may_be_given_in_bandwidth_delay_products() {
        let limit = |text: &str, delay| {
            parse_queue_size(text).unwrap().limit(Rate::from_mbps(8.0), Duration::from_millis(delay))
        };
        assert_eq!(limit("1 BDP", 40), QueueLimit::Bytes(80_000));
        assert_eq!(limit("0.5BDP", 40), QueueLimit::Bytes(40_000));
        assert_eq!(limit("1 BDP", 1), QueueLimit::Bytes(20_000), "of at least 20 ms");
        assert_eq!(limit("9 packets", 40), QueueLimit::Packets(9));
        assert!(parse_queue_size("9 ms").unwrap_err().contains("BDP"));
    }

    #[test]
    fn units_are_read_and_named_when_wrong() {
        assert_eq!(parse_rate("10 Mbit/s"), Ok(Rate::from_mbps(10.0)));
        assert_eq!(parse_rate("1Gbit/s"), Ok(Rate::from_bps(1_000_000_000)));
        assert_eq!(parse_rate("12.5M"), Ok(Rate::from_bps(12_500_000)));
        assert_eq!(parse_time("12.5 ms"), Ok(Duration::from_micros(12_500)));
        assert_eq!(parse_queue("125000 B"), Ok(QueueLimit::Bytes(125_000)));
        assert_eq!(parse_queue("100 packets"), Ok(QueueLimit::Packets(100)));
        assert_eq!(parse_share("0.5 %"), Ok(0.005));
        for wrong in ["10", "fast", "-1 Mbit/s", "10 MB/s", ""] {
            assert!(parse_rate(wrong).is_err_and(|e| e.contains("Mbit/s")), "{wrong}");
        }
        assert!(parse_share("120 %").is_err());
    }
}
