//! Time and rate, the two quantities every crate of the stack hands around.
//!
//! The protocol crates own no clock: a driver chooses an epoch and hands [`Time`] in.
#![no_std]
#![forbid(unsafe_code)]

mod rate;
mod time;

pub use core::time::Duration;
pub use rate::Rate;
pub use time::Time;
