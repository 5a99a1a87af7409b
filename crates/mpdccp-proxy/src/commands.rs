//! What the proxy's thread is told, and what it tells.

use crate::segment::Tuple;
use crate::verdict::{Flow, Request};

/// What the proxy's thread is asked to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// The far end is connected: let this host's SYN in, and accept.
    Accept {
        /// The flow.
        flow: Flow,
        /// As the SYN has it.
        tuple: Tuple,
        /// The SYN.
        syn: Vec<u8>,
    },
    /// Connect for the other end's host.
    Connect {
        /// The flow.
        flow: Flow,
        /// From whom to whom, and how.
        request: Request,
    },
    /// Bytes for the host.
    Data(Flow, Vec<u8>),
    /// So many bytes more may be read from the host.
    Credit(Flow, u64),
    /// No more bytes come for the host: FIN.
    Finish(Flow),
    /// RST, or no connection at all.
    Reset(Flow),
    /// Whether to have this host prove that it lives, for the host of the other end wants to know.
    Probe(Flow, bool),
    /// End the thread.
    Stop,
}

/// What happened at the sockets.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The connection is established: a host of this end completed its handshake, or a far one accepted.
    Connected(Flow),
    /// It could not be established, or not be accepted; whether a host refused it.
    Failed(Flow, bool),
    /// The host sent bytes.
    Data(Flow, Vec<u8>),
    /// The host's kernel took so many bytes.
    Consumed(Flow, u64),
    /// The host sends no more: FIN.
    Finished(Flow),
    /// The connection broke: RST or a time-out.
    Reset(Flow),
    /// Both directions ended.
    Ended(Flow),
}
