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
        let fd = state.descriptor.open()?;
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
    /// Whether the log says that the backlog is full.
    told: bool,
    descriptor: Descriptor,
}

impl BacklogState {
    /// Returns whether to log that the backlog is full. Any client can fill it, so the next time is only
    /// after the application has accepted all connections.
    pub(crate) fn is_news(&mut self) -> bool {
        !std::mem::replace(&mut self.told, true)
    }

    /// Call this after a change: updates whether the descriptor is readable.
    pub(crate) fn show(&mut self) {
        self.told &= !self.waiting.is_empty();
        let readable = self.over || !self.waiting.is_empty();
        self.descriptor.show(readable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::budget::Budget;

    #[test]
    fn clients_that_fill_the_backlog_do_not_fill_the_log() {
        let mut state = BacklogState::default();
        let stream = Arc::new(Stream::new(&Options::default(), &Arc::new(Budget::new(0))));
        state.waiting.extend([(SessionId(1), stream.clone()), (SessionId(2), stream)]);
        state.show();
        assert!(state.is_news() && !state.is_news());
        state.waiting.pop_front();
        state.show();
        assert!(!state.is_news(), "the application has not caught up");
        state.waiting.clear();
        state.show();
        assert!(state.is_news());
    }
}
