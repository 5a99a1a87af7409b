//! Feature negotiation (RFC 4340 section 6), usable without a connection. It reads and writes feature
//! options, and knows the value of every feature at both ends.

mod feature;
mod negotiator;
#[cfg(test)]
mod tests;

pub(crate) use feature::Error;
pub use feature::Side;
pub(crate) use negotiator::{Moment, Negotiator};
