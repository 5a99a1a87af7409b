//! One DCCP connection as a sans-IO state machine (RFC 4340): the handshake, feature negotiation, sequence
//! number checks, the two half-connections with their CCIDs, and close. The crate has no clock, sockets or
//! threads, and its randomness comes from a seed.
//!
//! Enums and structs that report something ([`Event`], [`CloseReason`], [`ConnectionStats`], ...) are
//! `#[non_exhaustive]`. Those that owners fill in ([`Config`], [`Route`], [`Ports`]) are not, so that
//! `..Default::default()` works. [`State`] is exhaustive, because RFC 4340 defines all states. [`Gate`] and
//! [`Why`] are exhaustive, so that the compiler points out every place that must handle a new reason to wait;
//! an owner that overlooked such a reason would wait for the wrong event.
//!
//! The crate reports each state change of a connection to `tracing`, at level `debug`.
//!
//! ```
//! use dccp_proto::{Config, ServiceCode};
//!
//! let service: ServiceCode = "SC:chat".parse()?;
//! let config = Config { service_code: service.0, tx_ccids: vec![5, 2], ..Config::default() };
//! assert_eq!(ServiceCode(config.service_code).to_string(), "SC:chat");
//! # Ok::<(), dccp_proto::BadServiceCode>(())
//! ```
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;
/// The harness in `tests/all/common` refers to the crate by its external name.
#[cfg(test)]
extern crate self as dccp_proto;

pub mod ccid;
mod config;
mod connection;
mod features;
mod route;
mod service_code;

pub use config::{CcOptions, Config, Experiment, PADDED_REQUEST};
pub use connection::{
    CloseReason, Connection, ConnectionStats, DropCode, DropReason, Event, Extra, Outcome, Ports, Received,
    State, Timer, refuse,
};
pub use features::Side;
pub use route::{Ecn, Gate, Outbox, Route, Sink, Why};
pub use service_code::{BadServiceCode, ServiceCode};
