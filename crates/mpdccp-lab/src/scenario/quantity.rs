//! Quantities in scenario files.

use core::time::Duration;

use linkem_net::quantity::{QueueLimit, parse_bytes, parse_queue, parse_rate, parse_share, parse_time};
use mpdccp_units::Rate;
use serde::{Deserialize, Deserializer, de};

/// What was written, a number without quotation marks too: then the reader says which units there are.
fn written<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    Ok(match toml::Value::deserialize(d)? {
        toml::Value::String(text) => text,
        other => other.to_string(),
    })
}

/// `deserialize_with` functions for a quantity and for one that may be absent.
macro_rules! quantity {
    ($name:ident, $opt:ident, $type:ty, $parse:ident) => {
        pub(super) fn $name<'de, D: Deserializer<'de>>(d: D) -> Result<$type, D::Error> {
            $parse(&written(d)?).map_err(de::Error::custom)
        }
        pub(super) fn $opt<'de, D: Deserializer<'de>>(d: D) -> Result<Option<$type>, D::Error> {
            $name(d).map(Some)
        }
    };
}
quantity!(rate, opt_rate, Rate, parse_rate);
quantity!(time, opt_time, Duration, parse_time);
quantity!(queue, opt_queue, QueueLimit, parse_queue);
quantity!(share, opt_share, f64, parse_share);
quantity!(bytes, opt_bytes, u32, parse_bytes);

/// A number of seconds, at most a day.
pub(super) fn seconds<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    let s = f64::deserialize(d)?;
    if (0.0..=86_400.0).contains(&s) {
        return Ok(Duration::from_secs_f64(s));
    }
    Err(de::Error::custom(format!("`{s}` is not a number of seconds from 0 to 86400")))
}

/// Bytes of short flows, each as likely.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes(pub Vec<u32>);

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Sizes, D::Error> {
        let sizes = Vec::<String>::deserialize(d)?;
        let sizes: Result<_, String> = sizes.iter().map(|text| parse_bytes(text)).collect();
        sizes.map(Sizes).map_err(de::Error::custom)
    }
}
