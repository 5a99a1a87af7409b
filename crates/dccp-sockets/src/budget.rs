use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that a datagram takes up in addition to its data: its place in the queue, and what the allocator
/// adds. Otherwise, a peer that sends tiny datagrams could exceed the limit many times over.
const OVERHEAD: usize = 64;

/// Returns the number of bytes to reserve for a datagram of `len` bytes.
pub(crate) const fn cost(len: usize) -> usize {
    len + OVERHEAD
}

/// Limits the number of received bytes that applications have not read yet, over all connections of a data
/// thread.
#[derive(Debug)]
pub(crate) struct Budget {
    most: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Budget {
        Budget { most, used: AtomicUsize::new(0) }
    }

    /// Reserves `more` bytes for a connection that has already reserved `own` bytes. Returns whether the
    /// limit allows it. A connection may hold at most as many bytes as remain free, so that slow readers
    /// leave memory for others.
    pub(crate) fn take(&self, own: usize, more: usize) -> bool {
        let free = self.most.saturating_sub(self.used.load(Ordering::Relaxed));
        let allowed = own + more <= free;
        if allowed {
            // Only the data thread reserves bytes, while other threads only release them, so the limit cannot
            // be exceeded between the two accesses.
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
