//! Terminates the TCP connections of hosts, so that their bytes can travel as streams.
//!
//! At each end of a tunnel, a [`FlowTable`] reads the packets from the tunnel's interface and selects the
//! flows to proxy. It holds a SYN until the far end has connected. A [`Namespace`] is a private network
//! namespace for one thread, with its own TUN device, to which the tunnel writes the packets of proxied
//! flows. The kernel's TCP in the namespace answers them, using the real addresses of both hosts. [`Sockets`]
//! accepts and opens the TCP connections in the namespace, and copies their bytes to and from the streams.
//!
//! ```text
//! host - tunnel's interface - FlowTable - Namespace: kernel TCP - Sockets - streams
//! streams - Sockets - Namespace: kernel TCP - FlowTable - tunnel's interface - host
//! ```
//!
//! The flow table, the size of receive buffers, the commands and the events do not need Linux. Everything
//! else needs the feature `linux`, which is on by default.
//!
//! The proxy does not change the host's own namespace. If the process dies, it leaves nothing behind, because
//! the private namespace ends with its thread.

#![forbid(unsafe_code)]

mod commands;
mod entry;
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
mod receive_buffer;
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
pub use receive_buffer::ReceiveBuffer;
pub use refusal::Refusal;
pub use segment::{Icmp, Segment, Tuple};
#[cfg(feature = "linux")]
pub use sockets::Sockets;
pub use verdict::{AsPacket, Flow, Limits, Request, Verdict};
