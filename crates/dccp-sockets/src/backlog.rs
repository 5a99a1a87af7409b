use crate::readiness::Descriptor;
use crate::signal::{Signal, lock};
use crate::stream::Stream;
use mpdccp_proto::SessionId;
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

/// Connections waiting for the application to accept them.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) state: Mutex<BacklogState>,
    pub(crate) arrived: Signal,
    descriptor: OnceLock<Arc<OwnedFd>>,
}

impl Backlog {
    /// Returns a descriptor that is readable while a connection can be accepted.
    pub(crate) fn descriptor(&self) -> io::Result<&OwnedFd> {
        if self.descriptor.get().is_none() {
            let mut state = lock(&self.state);
            let fd = state.descriptor.open(false)?;
            state.show();
            let _ = self.descriptor.set(fd);
        }
        self.descriptor.get().map(Arc::as_ref).ok_or_else(|| io::ErrorKind::NotFound.into())
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
