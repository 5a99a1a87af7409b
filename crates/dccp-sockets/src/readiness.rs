//! Reports which operations of a connection would not block, also through a descriptor for an event loop.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::{Arc, OnceLock};

/// Operations that would not block; see [`Connection::ready`](crate::Connection::ready).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ready {
    /// Whether a datagram is available, or no more will arrive.
    pub readable: bool,
    /// Whether there is room in the send queue, or sending has ended.
    pub writable: bool,
    /// Whether an event is available.
    pub event: bool,
    /// Whether a stream opened by the peer is waiting to be accepted.
    pub stream: bool,
    /// Whether the connection has ended. Datagrams that arrived earlier may still be available.
    pub closed: bool,
}

/// The descriptor that a handle shows to event loops. It is closed with the handle, so that it disappears
/// from them, although the data thread may keep the state for longer.
#[derive(Debug, Default)]
pub(crate) struct Shown(OnceLock<Arc<OwnedFd>>);

impl Shown {
    /// Returns the descriptor, which `open` opens at the first call.
    ///
    /// # Errors
    /// The errors of `open`.
    pub(crate) fn get(&self, open: impl FnOnce() -> io::Result<Arc<OwnedFd>>) -> io::Result<BorrowedFd<'_>> {
        if self.0.get().is_none() {
            let _ = self.0.set(open()?);
        }
        self.0.get().map(|fd| fd.as_fd()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// An eventfd that is readable while there is something to report. It is opened at its first use.
#[derive(Debug, Default)]
pub(crate) struct Descriptor {
    fd: Option<Arc<OwnedFd>>,
    readable: bool,
}

impl Descriptor {
    /// Opens the descriptor, or returns it if it is already open.
    ///
    /// # Errors
    /// A system error, such as too many open files.
    pub(crate) fn open(&mut self) -> io::Result<Arc<OwnedFd>> {
        if let Some(fd) = &self.fd {
            return Ok(fd.clone());
        }
        let fd = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        Ok(self.fd.insert(fd).clone())
    }

    /// Makes the descriptor readable. If it is already readable, creates a new edge, so that an
    /// edge-triggered event loop that has left data unread is notified again.
    pub(crate) fn tell(&mut self) {
        self.readable = false;
        self.show(true);
    }

    /// Makes the descriptor readable or unreadable, with a system call only if this changes its state.
    pub(crate) fn show(&mut self, readable: bool) {
        let Some(fd) = self.fd.as_ref().filter(|_| self.readable != readable) else { return };
        // Ignore errors: the counter is far from its limit.
        let _ = match readable {
            true => rustix::io::write(fd, &1u64.to_ne_bytes()),
            false => rustix::io::read(fd, &mut [0; 8]),
        };
        self.readable = readable;
    }
}
