//! TCP connections of hosts, carried as streams of sessions (docs/tcp.md).

mod announce;
mod flows;
mod transfer;

pub use flows::Divert;
pub(crate) use flows::{Flows, Routes};
