//! What the proxy's thread is told, and what it tells.

use crate::segment::Tuple;
use crate::table::{Flow, Request};
use dccp_net::Tun;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// What the proxy's thread is asked to do.
#[derive(Debug)]
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
    /// The host of the other end wants to know whether this one lives.
    Keepalive(Flow, Duration),
    /// End the thread.
    Stop,
}

/// What happened at the sockets.
#[derive(Debug)]
pub enum Event {
    /// The connection is established: a host of this end completed its handshake, or a far one accepted.
    Connected(Flow),
    /// It could not be established; whether a host refused it.
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

/// A way to the proxy's thread.
#[derive(Clone)]
pub struct SocketsHandle {
    pub(crate) commands: Sender<Command>,
    pub(crate) wake: Arc<OwnedFd>,
    pub(crate) tun: Tun,
}

impl SocketsHandle {
    /// Sends commands; false if the thread has ended.
    pub fn send(&self, commands: impl IntoIterator<Item = Command>) -> bool {
        let alive = commands.into_iter().all(|command| self.commands.send(command).is_ok());
        // A counter that is full wakes it just as well.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        alive
    }

    /// The device of the private namespace, to which packets of proxied flows are written.
    pub fn tun(&self) -> &Tun {
        &self.tun
    }
}
