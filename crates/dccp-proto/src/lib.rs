//! One DCCP connection as a sans-IO state machine (RFC 4340): handshake, feature negotiation, sequence validity, the two
//! half-connections with their CCIDs, close. No clock, no socket, no thread; randomness comes from a seed.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;
/// The harness of `tests/common` names the crate from outside.
#[cfg(test)]
extern crate self as dccp_proto;

pub mod ccid;
mod config;
mod connection;
pub mod features;
mod route;
mod service_code;

pub use config::{CcOptions, Config, Experiment};
pub use connection::{
    CloseReason, Connection, ConnectionStats, DropCode, DropReason, Event, Extra, Outcome, Ports, Received,
    State, Timer, refuse,
};
pub use route::{Ecn, Gate, Route, Sink, Why};
pub use service_code::{BadServiceCode, ServiceCode};
