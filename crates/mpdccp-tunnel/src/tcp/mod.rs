//! TCP connections of hosts, carried as streams of sessions (docs/tcp.md).

mod announce;
mod flows;

pub(crate) use flows::{Divert, Flows, Routes};
