//! Commands to the proxy's thread, and events from it.

use crate::segment::Tuple;
use crate::verdict::{Flow, Request};

/// A command to the proxy's thread.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Accept a connection from the host: pass the held SYN to the kernel, because the far end has now
    /// connected to the destination.
    Accept {
        /// The flow.
        flow: Flow,
        /// Addresses and ports of the SYN.
        tuple: Tuple,
        /// The SYN.
        syn: Vec<u8>,
    },
    /// Connect to a host at this end, on behalf of a host at the other end of the tunnel.
    Connect {
        /// The flow.
        flow: Flow,
        /// Addresses, and properties of the SYN.
        request: Request,
    },
    /// Write this data to the host.
    Data(Flow, Vec<u8>),
    /// Allow this many more bytes to be read from the host.
    Credit(Flow, u64),
    /// Send FIN to the host after all data.
    Finish(Flow),
    /// Send RST to the host, or abandon the attempt to connect to it.
    Reset(Flow),
    /// Start or stop sending keepalive probes to this host, because the host at the other end wants to know
    /// whether this one is alive.
    Probe(Flow, bool),
    /// End the thread.
    Stop,
}

/// An event of the sockets.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The connection to the host is established: either the host has completed the handshake of a connection
    /// that the proxy accepted, or it has accepted the proxy's connection.
    Connected(Flow),
    /// The connection failed. The flag is true if the host refused the connection.
    Failed(Flow, bool),
    /// The host sent data.
    Data(Flow, Vec<u8>),
    /// The kernel has accepted this many bytes for the host.
    Consumed(Flow, u64),
    /// The host has sent FIN, so no more data follows.
    Finished(Flow),
    /// The connection was reset, or it timed out.
    Reset(Flow),
    /// Both directions of the connection have ended, and the host has acknowledged all data. Until then, the
    /// host's segments belong to the private namespace.
    Ended(Flow),
}
