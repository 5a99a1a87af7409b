//! A library to preload (LD_PRELOAD): `socket(AF_INET, SOCK_DCCP, IPPROTO_DCCP)` and what follows work as with the Linux kernel's DCCP, by
//! the daemon `mpdccp socketd`.
//!
//! A DCCP socket is a Unix socket whose other end the daemon has, so data needs no help from here. This library only replaces the calls that
//! a Unix socket answers otherwise: those about addresses and options, accepting, and at the edges reading (the cause of an end) and writing
//! (datagrams that are too long). It keeps nothing by descriptor: a socket is known by the name of its other end, also after dup, fork and exec.
//!
//! Programs with set-user-ID and programs without libc (static ones, Go) do not load it.
#![allow(unsafe_code, reason = "the functions of a C library take the caller's pointers")]

mod address;
mod ask;
mod data;
mod sockets;
