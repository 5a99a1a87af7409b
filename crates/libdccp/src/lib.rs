//! DCCP sockets for C. `dccp.h`, which is generated from this crate, is the reference; docs/c.md is the
//! guide.
//!
//! Every function looks up its handle in a table. So a closed or invalid handle causes an error, never an
//! access to foreign memory. The caller is responsible only for the pointers to its own memory.
#![allow(unsafe_code, reason = "a C API takes the caller's pointers")]
#![allow(non_camel_case_types, reason = "C naming conventions")]
#![allow(clippy::missing_safety_doc, reason = "the head of dccp.h states the rules for all functions once")]

pub mod connection;
pub mod endpoint;
pub mod errno;
mod handles;
pub mod listener;
mod memory;
pub mod observe;
pub mod options;
pub mod stream;
