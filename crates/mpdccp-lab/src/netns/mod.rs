//! The namespace backend: the real program and the real kernel over links this process emulates.
//!
//! There are two namespaces, client and server. Each path is a pair of TUN devices, one in each namespace; a
//! thread of this process runs [`mpdccp_linkem`] between them in real time. Both tunnel ends are processes of
//! the program itself; traffic comes from threads inside the namespaces. All times are on CLOCK_MONOTONIC, so
//! they are comparable.

mod baseline;
mod command;
mod direct;
mod environment;
mod flow;
mod link;
mod model;
mod process;
mod programs;
mod reaper;
mod run;
mod short;
mod stop;
mod tag;
mod tap;
mod tcp;
mod traffic;
mod tunnel;
mod udp;
mod world;

pub use environment::check as check_environment;
pub(crate) use reaper::Reaper;
pub use run::Netns;
pub(crate) use stop::check as check_stop;
pub use stop::{install_handler, interrupt, resume};
pub(crate) use world::{orphans, scratch};
