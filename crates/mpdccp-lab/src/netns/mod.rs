//! The namespace backend: runs the real program on the real kernel, over links emulated by this process.
//!
//! There are two namespaces, client and server. Each path is a pair of TUN devices, one in each namespace,
//! between which a thread of this process runs [`mpdccp_linkem`] in real time. Each end of the tunnel is a
//! process of the program, and threads inside the namespaces generate the traffic. All times are from
//! CLOCK_MONOTONIC, so they are comparable.

mod baseline;
mod command;
mod direct;
mod environment;
mod flow;
mod link;
mod model;
mod namespaces;
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

pub use environment::check as check_environment;
pub(crate) use namespaces::{orphans, scratch};
pub(crate) use reaper::Reaper;
pub use run::Netns;
pub(crate) use stop::check as check_stop;
pub use stop::{install_handler, interrupt, resume};
