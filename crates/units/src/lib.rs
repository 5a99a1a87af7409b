//! Time, rate and congestion marks: what every crate of the stack hands around.
//!
//! The protocol crates own no clock: a driver chooses an epoch and hands [`Time`] in.
#![no_std]
#![forbid(unsafe_code)]

mod ecn;
mod rate;
mod time;

pub use core::time::Duration;
pub use ecn::Ecn;
pub use rate::Rate;
pub use time::Time;
