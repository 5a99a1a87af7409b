//! A conformance suite for any implementation of DCCP (RFC 4340) and Multipath DCCP (RFC 9897).
//!
//! Each test is a script in `scripts/` that lists the packets the suite sends and the packets the target must
//! send. The suite needs no connection state machine, because the script determines every packet.
//! `docs/conformance.md` describes the language, the command, and the service that the target must offer.
//!
//! [`script`] parses scripts. [`run`] runs a script over a [`run::Net`], and [`net`] implements that trait
//! with sockets. [`suite`] runs many scripts in parallel. [`report`] writes the results.
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
