//! Commands to the proxy's thread, and events from it.

use crate::segment::Tuple;
use crate::verdict::{Flow, Request};

/// A command to the proxy's thread.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The far end is connected to the destination: pass the host's held SYN to the kernel, and accept the
    /// connection.
    Accept {
        /// The flow.
        flow: Flow,
        /// Addresses and ports of the SYN.
        tuple: Tuple,
        /// The SYN.
        syn: Vec<u8>,
    },
    /// Connect to a host, on behalf of the host at the other end.
    Connect {
        /// The flow.
        flow: Flow,
        /// Addresses, and properties of the SYN.
        request: Request,
    },
    /// Data for the host.
    Data(Flow, Vec<u8>),
    /// This many more bytes may be read from the host.
    Credit(Flow, u64),
    /// The data for the host is complete: send FIN.
    Finish(Flow),
    /// Send RST, or stop connecting.
    Reset(Flow),
    /// Start or stop probing this host with keepalives. The host at the other end asks whether this host is
    /// alive.
    Probe(Flow, bool),
    /// End the thread.
    Stop,
}

/// An event of the sockets.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The connection is established: a host of this end completed its handshake, or the destination
    /// accepted.
    Connected(Flow),
    /// The connection failed. The flag says whether the host refused it.
    Failed(Flow, bool),
    /// The host sent data.
    Data(Flow, Vec<u8>),
    /// The kernel accepted this many bytes for the host.
    Consumed(Flow, u64),
    /// The host sent FIN: its data is complete.
    Finished(Flow),
    /// The connection broke, by RST or timeout.
    Reset(Flow),
    /// Both directions ended.
    Ended(Flow),
}
