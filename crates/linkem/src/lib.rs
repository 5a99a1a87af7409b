//! A link emulator without clock or sockets: rate, delay, queue, loss. The simulator runs it in virtual time, the lab and
//! `mpdccp link` in real time.
//!
//! One [`Link`] is one direction. Hand packets in with [`Link::push`], take them out with [`Link::pop`] no earlier than
//! [`Link::next_event`]. A packet meets, in this order:
//!
//! 1. the queue ([`QueueConfig`]), which may refuse it, drop it later or mark it;
//! 2. the transmitter ([`RateModel`]), one packet at a time;
//! 3. loss on the wire ([`LossModel`]): a lost packet has used its share of the rate, as on a real link;
//! 4. propagation: fixed delay and [`Jitter`].
//!
//! Everything inside happens at exact emulated times, so the outcome does not depend on how often or how late a driver polls:
//! same configuration, seed and pushes give the same deliveries.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod config;
mod jitter;
mod link;
mod loss;
mod queue;
mod random;
mod rate;
mod server;
mod stats;

pub use config::{ConfigError, LinkConfig};
pub use jitter::{Jitter, Spread};
pub use link::{Delivered, Link, Meta};
pub use loss::LossModel;
pub use queue::{Limit, QueueConfig, QueueKind, QueueLen};
pub use rate::RateModel;
pub use stats::{Count, DropReason, Stats, Verdict};
pub use units::Ecn;
