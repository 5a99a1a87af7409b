//! One DCCP connection as a sans-IO state machine (RFC 4340): handshake, feature negotiation, sequence validity, the two
//! half-connections with their CCIDs, close. No clock, no socket, no thread; randomness comes from a seed.
//!
//! Enums and structs that tell what happened ([`Event`], [`CloseReason`], [`ConnectionStats`], ...) may grow, and are `#[non_exhaustive]`.
//! Those that owners fill in ([`Config`], [`Route`], [`Ports`]) are not, so that they can be written with `..Default::default()`; nor is
//! [`State`], of which RFC 4340 has all there are. [`Gate`] and [`Why`] are exhaustive: an owner that did not know a reason to wait would wait
//! for the wrong thing, so the compiler is to tell it of a new one.
//!
//! A subscriber of `tracing` is told of each state that a connection enters, at level `debug`.
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
/// The harness of `tests/all/common` names the crate from outside.
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
