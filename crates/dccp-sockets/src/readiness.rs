//! Readiness of a connection, and a descriptor that reports it to an event loop.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;

/// The operations that would not block; see [`Connection::ready`](crate::Connection::ready).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ready {
    /// A datagram waits, or no more will come.
    pub readable: bool,
    /// There is room in the send queue, or sending has ended.
    pub writable: bool,
    /// An event waits.
    pub event: bool,
    /// A stream that the peer opened waits to be accepted.
    pub stream: bool,
    /// The connection is over. Datagrams that arrived before may still wait.
    pub closed: bool,
}

/// An eventfd that is readable while there is news. It is opened on first use.
#[derive(Debug, Default)]
pub(crate) struct Descriptor {
    fd: Option<Arc<OwnedFd>>,
    readable: bool,
}

impl Descriptor {
    /// Opens the descriptor, or returns the open one.
    ///
    /// # Errors
    /// The system's error: too many open files.
    pub(crate) fn open(&mut self, readable: bool) -> io::Result<Arc<OwnedFd>> {
        let fd = match &self.fd {
            Some(fd) => fd.clone(),
            None => {
                let fd = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
                self.fd.insert(fd).clone()
            }
        };
        self.show(readable);
        Ok(fd)
    }

    /// Makes the descriptor readable, with a new edge if it already is: an edge-triggered event loop that
    /// leaves data unread is notified again.
    pub(crate) fn tell(&mut self) {
        self.readable = false;
        self.show(true);
    }

    /// Makes the descriptor readable or not. A system call is made only if the state changes.
    pub(crate) fn show(&mut self, readable: bool) {
        let Some(fd) = self.fd.as_ref().filter(|_| self.readable != readable) else { return };
        // Neither call can fail: the counter is far from its limit.
        let _ = match readable {
            true => rustix::io::write(fd, &1u64.to_ne_bytes()),
            false => rustix::io::read(fd, &mut [0; 8]),
        };
        self.readable = readable;
    }
}
