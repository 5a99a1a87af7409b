use crate::readiness::Descriptor;
use crate::signal::{Signal, lock};
use crate::stream::Stream;
use mpdccp_proto::SessionId;
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

/// Connections waiting for the application to accept them.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) state: Mutex<BacklogState>,
    pub(crate) arrived: Signal,
}

impl Backlog {
    /// Opens a descriptor that is readable while a connection can be accepted, unless it is open already.
    pub(crate) fn open_descriptor(&self) -> io::Result<Arc<OwnedFd>> {
        let mut state = lock(&self.state);
        let fd = state.descriptor.open(false)?;
        state.show();
        Ok(fd)
    }

    /// Releases the descriptor, because the handle that shows it is gone.
    pub(crate) fn release_descriptor(&self) {
        lock(&self.state).descriptor = Descriptor::default();
    }
}

#[derive(Debug, Default)]
pub(crate) struct BacklogState {
    pub(crate) waiting: VecDeque<(SessionId, Arc<Stream>)>,
    /// Whether no further connections will arrive.
    pub(crate) over: bool,
    descriptor: Descriptor,
}

impl BacklogState {
    /// Updates whether the descriptor is readable.
    pub(crate) fn show(&mut self) {
        let readable = self.over || !self.waiting.is_empty();
        self.descriptor.show(readable);
    }
}
