//! DCCP sockets for C. `dccp.h`, which is generated from this crate, has the manual; docs/c.md is the guide.
//!
//! Every function looks its handle up in a table, so that a stale or wrong one is an error and never memory of somebody else. What remains to
//! the caller's honesty are the pointers to its own memory.
#![allow(unsafe_code, reason = "the functions of a C library take the caller's pointers")]
#![allow(non_camel_case_types, reason = "the names are those of C")]
#![allow(clippy::missing_safety_doc, reason = "the header says once what holds for all of them")]

pub mod connection;
pub mod endpoint;
pub mod errno;
mod handles;
pub mod listener;
mod memory;
pub mod observe;
pub mod options;
pub mod stream;
