//! The namespace backend: the real program and the real kernel over links this process emulates.
//!
//! Two namespaces, client and server. Each path is a pair of TUN devices, one in each namespace, between which a thread of this process
//! runs [`linkem`] in real time. Both tunnel ends are processes of the program itself; traffic comes from threads inside the
//! namespaces. Everything is on CLOCK_MONOTONIC, so that times of all of them compare.

mod cable;
mod direct;
mod environment;
mod flow;
mod link;
mod priority;
mod process;
mod run;
mod stop;
mod tag;
mod tap;
mod tcp;
mod tunnel;
mod udp;
mod world;

pub use cable::{Cable, Delivered, Recorder, Strand};
pub use environment::check as check_environment;
pub(crate) use environment::kernel;
pub use priority::{Urgency, hurry};
pub use run::Netns;
pub use stop::{install_handler, interrupt, resume};
pub use world::Entrance;
