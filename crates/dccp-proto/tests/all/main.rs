//! All integration tests of the crate, in one program.

mod adding_a_ccid;
mod captures;
mod ccid2;
mod change_ccid;
mod close;
mod common;
mod data;
mod exhaustive;
mod halves;
mod handshake;
mod hostile;
mod l4s;
mod negotiation;
mod optional;
mod probes;
mod rough_network;
mod rules;
mod signals;
mod skipped;
mod tfrc;
mod tracing;
mod validity;
