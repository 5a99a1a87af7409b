//! All external tests of the crate, in one program.

mod advertised;
mod caps;
mod close;
mod common;
mod confirm;
mod congestion;
mod families;
mod faults;
mod flood;
mod handshake;
mod interleavings;
mod model;
mod mtu;
mod options;
mod paths;
mod policy;
mod priorities;
mod rendezvous;
mod reordering;
mod repair;
mod robust;
mod streams;
mod tracing;
mod worlds;
