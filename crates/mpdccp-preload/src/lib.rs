//! A library for LD_PRELOAD that makes `socket(AF_INET, SOCK_DCCP, IPPROTO_DCCP)` and subsequent calls work
//! as with the Linux kernel's DCCP. The sockets are provided by the daemon `mpdccp socketd`.
//!
//! A DCCP socket is a Unix socket whose other end is in the daemon, so the kernel carries its data. This
//! library replaces only the calls that behave differently on a Unix socket: those for addresses and options,
//! accept, reads at the end of a connection, and writes of datagrams that are too long. The library keeps no
//! state per descriptor: it recognises a DCCP socket by its peer's name, which also works after dup, fork and
//! exec.
//!
//! Two kinds of programs do not load this library: set-user-ID programs, and programs without libc, such as
//! static programs and Go programs.
#![allow(unsafe_code, reason = "a C API takes the caller's pointers")]

mod address;
mod ask;
mod data;
mod sockets;
