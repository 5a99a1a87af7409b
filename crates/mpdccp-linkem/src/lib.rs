//! A link emulator without clock or sockets. It emulates rate, delay, queue and loss. The simulator runs it
//! in virtual time; the lab's network namespaces and `mpdccp link` run it in real time.
//!
//! A [`Link`] is one direction. Pass packets in with [`Link::push`], and take them out with [`Link::pop`] at
//! the time given by [`Link::next_event`] or later. A packet passes, in this order:
//!
//! 1. the [`Policer`], if any, which may drop it;
//! 2. the queue ([`QueueConfig`]), which may refuse it, drop it later or mark it, and can drop outdated
//!    acknowledgements;
//! 3. the transmitter ([`RateModel`]), one packet at a time, or an [`Aggregation`] burst at a time;
//! 4. loss on the wire ([`LossModel`]) or duplication; a lost packet has used the transmitter, as on a real
//!    link;
//! 5. propagation: fixed delay and [`Jitter`].
//!
//! Everything happens at exact emulated times, so the result does not depend on when the caller polls. The
//! same configuration, seed and pushes always give the same deliveries.
//!
//! ```
//! use mpdccp_linkem::{Link, LinkConfig, Meta, RateModel};
//! use mpdccp_units::{Duration, Rate, Time};
//!
//! let rate = RateModel::Constant(Rate::from_mbps(10.0));
//! let config = LinkConfig { rate, delay: Duration::from_millis(5), ..LinkConfig::default() };
//! let mut link = Link::new(config, 1, Time::ZERO)?;
//! link.push(Time::ZERO, Meta { bytes: 1_250, ..Meta::default() }, "a packet");
//! // One millisecond to send 1,250 bytes, five to arrive.
//! assert_eq!(link.next_event(), Some(Time::from_millis(6)));
//! let arrived = link.pop(Time::from_millis(6)).map(|d| d.packet);
//! assert_eq!(arrived, Some("a packet"));
//! # Ok::<(), mpdccp_linkem::ConfigError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod aggregation;
mod config;
mod error;
mod in_flight;
mod jitter;
mod link;
mod loss;
mod model;
mod policer;
mod queue;
mod random;
mod rate;
mod server;
mod stats;
mod trace;

pub use aggregation::Aggregation;
pub use aqm::{CoDelConfig, FqCoDelConfig, Limit, Meta, QueueLen};
pub use config::LinkConfig;
pub use error::ConfigError;
pub use in_flight::InFlight;
pub use jitter::{Jitter, Spread};
pub use link::{Delivered, Link};
pub use loss::LossModel;
pub use model::{MODELS, Model, State, Step};
pub use mpdccp_units::Ecn;
pub use policer::Policer;
pub use queue::{DrdConfig, DualPi2Config, PieConfig, QueueConfig, QueueKind, RedConfig};
pub use rate::RateModel;
pub use stats::{Count, DropReason, Stats, Verdict};
pub use trace::{Trace, TraceError};
