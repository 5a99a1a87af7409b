//! Terminates the TCP connections of hosts, so that their bytes can travel as streams.
//!
//! At each end of a tunnel a [`FlowTable`] reads the packets of the tunnel's interface and selects the flows
//! to proxy. It holds a SYN until the far end has connected. A [`Namespace`] is a private network namespace
//! of one thread, with its own TUN device. Packets of proxied flows are written to that device, and the
//! kernel's TCP in the namespace answers them with the real addresses of both hosts. [`Sockets`] accepts and
//! connects the TCP connections there and copies their bytes.
//!
//! ```text
//! host - tunnel's interface - FlowTable - Namespace: kernel TCP - Sockets - streams
//! streams - Sockets - Namespace: kernel TCP - FlowTable - tunnel's interface - host
//! ```
//!
//! The flow table and the types of commands and events do not need Linux. Everything else does (feature
//! `linux`, on by default).
//!
//! The host's own namespace is not changed. Nothing is left when the process dies, because the private
//! namespace ends with its thread.

#![forbid(unsafe_code)]

mod commands;
#[cfg(feature = "linux")]
mod flow;
mod flow_table;
#[cfg(feature = "linux")]
mod handle;
mod journal;
#[cfg(feature = "linux")]
mod namespace;
#[cfg(feature = "linux")]
mod options;
mod refusal;
mod segment;
#[cfg(feature = "linux")]
mod sockets;
mod verdict;

pub use commands::{Command, Event};
pub use flow_table::FlowTable;
#[cfg(feature = "linux")]
pub use handle::SocketsHandle;
#[cfg(feature = "linux")]
pub use namespace::{INTERFACE, Namespace};
pub use refusal::Refusal;
pub use segment::{Icmp, Segment, Tuple};
#[cfg(feature = "linux")]
pub use sockets::Sockets;
pub use verdict::{AsPacket, Flow, Limits, Request, Verdict};
