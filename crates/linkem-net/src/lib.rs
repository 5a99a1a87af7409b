//! Emulated links in real time. A [`Cable`] carries packets between two TUN devices through
//! [`mpdccp_linkem`]; `mpdccp link` and the lab's paths in network namespaces are built on it. The crate also
//! contains what both need: network namespaces, thread priorities, and parsing of quantities.
#![forbid(unsafe_code)]

extern crate self as linkem_net;

mod cable;
pub mod keys;
mod model;
mod namespace;
mod parts;
mod priority;
pub mod quantity;

pub use mpdccp_linkem::Trace;
pub use mpdccp_units::Rate;

pub use cable::{Cable, Delivered, Recorder, Strand};
pub use namespace::Entrance;
pub use priority::{Urgency, hurry};
