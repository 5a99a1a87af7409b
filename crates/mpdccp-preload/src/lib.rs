//! A library for LD_PRELOAD. `socket(AF_INET, SOCK_DCCP, IPPROTO_DCCP)` and later calls work as with the
//! Linux kernel's DCCP. The daemon `mpdccp socketd` provides the sockets.
//!
//! A DCCP socket is a Unix socket whose other end is in the daemon, so the kernel carries its data. This
//! library replaces only calls that a Unix socket would handle differently: addresses and options, accept,
//! reads that return a connection's error, and writes of datagrams that are too long. It keeps no state per
//! descriptor. It recognises a socket by the name of its peer, even after dup, fork and exec.
//!
//! Set-user-ID programs and programs without libc (static programs, Go) do not load this library.
#![allow(unsafe_code, reason = "a C API takes the caller's pointers")]

mod address;
mod ask;
mod data;
mod sockets;
