use std::sync::atomic::{AtomicUsize, Ordering};

/// A bound on the received bytes that wait in all connections of a data thread.
#[derive(Debug)]
pub(crate) struct Budget {
    most: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Budget {
        Budget { most, used: AtomicUsize::new(0) }
    }

    /// Takes room for `more` bytes, if a connection that has `own` already may. None has more than what is left for all others, so that
    /// those that do not read leave room for those that do.
    pub(crate) fn take(&self, own: usize, more: usize) -> bool {
        let free = self.most.saturating_sub(self.used.load(Ordering::Relaxed));
        let allowed = own + more <= free;
        if allowed {
            // The data thread alone takes; others give back.
            self.used.fetch_add(more, Ordering::Relaxed);
        }
        allowed
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}
