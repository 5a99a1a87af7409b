//! A conformance suite for any implementation of DCCP (RFC 4340) and Multipath DCCP (RFC 9897).
//!
//! Each test is a script of `scripts/`: packets to send, and packets that must come back. The suite has no connection state machine:
//! a script decides every packet. `docs/conformance.md` describes the language, the command and the service that a target offers.
//!
//! [`script`] reads scripts, [`run`] plays one over a [`run::Net`], [`net`] is that over sockets, [`suite`] plays many at once, [`report`]
//! writes the outcomes.
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
