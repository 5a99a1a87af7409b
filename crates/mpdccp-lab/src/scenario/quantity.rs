//! Parses quantities in scenario files.

use core::time::Duration;

use linkem_net::quantity::parse_bytes;
pub(super) use linkem_net::quantity::{opt_rate, opt_time, rate, time};
use serde::{Deserialize, Deserializer, de};

/// Parses a number of seconds, which is at most a day.
pub(super) fn seconds<'de, D: Deserializer<'de>>(d: D) -> Result<Duration, D::Error> {
    let s = f64::deserialize(d)?;
    if (0.0..=86_400.0).contains(&s) {
        return Ok(Duration::from_secs_f64(s));
    }
    Err(de::Error::custom(format!("`{s}` is not a number of seconds from 0 to 86400")))
}

/// Sizes of short flows in bytes, all equally likely.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes(pub Vec<u32>);

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Sizes, D::Error> {
        let sizes = Vec::<String>::deserialize(d)?;
        let sizes: Result<_, String> = sizes.iter().map(|text| parse_bytes(text)).collect();
        sizes.map(Sizes).map_err(de::Error::custom)
    }
}
