//! TCP connections of hosts that the tunnel carries as streams of its sessions (docs/tcp.md).

mod announce;
mod dead;
mod deliver;
mod flows;
mod journal;
mod probes;
mod routes;
mod sessions;
mod transfer;

pub use flows::Divert;
pub(crate) use flows::Flows;
pub(crate) use journal::LINE;
pub(crate) use routes::Routes;
