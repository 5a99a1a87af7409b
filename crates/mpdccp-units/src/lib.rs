//! Definitions that all crates of the stack share: time, rate, ECN marks, the source and the site of an
//! address, enums with names, and types that logs must not show.
//!
//! The protocol crates have no clock. A driver chooses an epoch and passes in [`Time`].
//!
//! ```
//! use mpdccp_units::{Duration, Rate, Time};
//!
//! let now = Time::from_millis(5);
//! let later = now + Rate::from_mbps(12.0).time_for(1500);
//! assert_eq!(later.since(now), Duration::from_millis(1));
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod ecn;
mod hidden;
mod named;
mod rate;
mod source;
mod time;

pub use core::time::Duration;
pub use ecn::Ecn;
pub use rate::{NoRate, Rate};
pub use source::{site, source};
pub use time::Time;
