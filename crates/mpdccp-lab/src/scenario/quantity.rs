//! Quantities in scenario files.

use core::time::Duration;

use linkem_net::quantity::{QueueLimit, parse_bytes, parse_queue, parse_rate, parse_share, parse_time};
use serde::{Deserialize, Deserializer, de};
use units::Rate;

/// `deserialize_with` functions for a quantity and for one that may be absent.
macro_rules! quantity {
    ($name:ident, $opt:ident, $type:ty, $parse:ident) => {
        pub(super) fn $name<'de, D: Deserializer<'de>>(d: D) -> Result<$type, D::Error> {
            $parse(&String::deserialize(d)?).map_err(de::Error::custom)
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
