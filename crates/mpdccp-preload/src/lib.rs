//! A library for LD_PRELOAD. With it, `socket(AF_INET, SOCK_DCCP, IPPROTO_DCCP)` and later calls work as with
//! the DCCP of the Linux kernel. The daemon `mpdccp socketd` provides the sockets.
//!
//! A DCCP socket is a Unix socket whose other end is in the daemon, so the kernel carries its data. This
//! library replaces only the calls that behave differently on a Unix socket. These are the calls for
//! addresses and options, accept, reads at the end of a connection, and writes of datagrams that are too
//! long. The library stores no state per descriptor. It recognises a DCCP socket by the name of its peer, so
//! this also works after dup, fork and exec.
//!
//! Two kinds of programs do not load this library: set-user-ID programs, and programs that do not use libc,
//! such as static programs and Go programs.
#![allow(unsafe_code, reason = "a C API takes the caller's pointers")]

mod address;
mod ask;
mod data;
mod sockets;
