//! A link emulator without clock or sockets: rate, delay, queue, loss. The simulator runs it in virtual time, the lab and
//! `mpdccp link` in real time.
//!
//! One [`Link`] is one direction. Hand packets in with [`Link::push`], take them out with [`Link::pop`] no earlier than
//! [`Link::next_event`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
