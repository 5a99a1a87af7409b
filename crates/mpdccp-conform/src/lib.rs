//! A conformance suite for any implementation of DCCP (RFC 4340) and Multipath DCCP (RFC 9897).
//!
//! Each test is a script of `scripts/`: packets to send, and packets expected in return. The suite has no
//! connection state machine: a script determines every packet. `docs/conformance.md` describes the language,
//! the command and the service that a target offers.
//!
//! [`script`] parses scripts, [`run`] runs one over a [`run::Net`], [`net`] implements that with sockets,
//! [`suite`] runs many in parallel, [`report`] writes the results.
#![forbid(unsafe_code)]

pub mod expr;
pub mod net;
pub mod option;
pub mod packet;
pub mod pattern;
pub mod report;
pub mod run;
pub mod script;
pub mod suite;
pub mod value;
