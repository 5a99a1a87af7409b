//! Tables of handles. A handle is a number that C programs see as a pointer. Each kind of handle has its own
//! pointer type, so that the C compiler can tell the kinds apart. A number is never used twice.

use crate::errno::{Outcome, failure, invalid};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The number of the next handle. Handles of all kinds take their numbers from here, so a handle of one kind
/// is never found in the table of another kind.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// The objects of one kind, by handle number.
pub(crate) struct Table<T>(RwLock<BTreeMap<usize, Arc<T>>>);

impl<T> Table<T> {
    pub(crate) const fn new() -> Table<T> {
        Table(RwLock::new(BTreeMap::new()))
    }

    pub(crate) fn get<H>(&self, handle: *const H) -> Outcome<Arc<T>> {
        if handle.is_null() {
            return Err(invalid("the handle is null"));
        }
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        entries.get(&handle.addr()).cloned().ok_or_else(stale)
    }

    /// Returns `otherwise`, or ECONNABORTED if another thread has closed the object meanwhile.
    pub(crate) fn unless_closed<H>(
        &self,
        handle: *const H,
        otherwise: crate::errno::Failure,
    ) -> crate::errno::Failure {
        match self.get(handle) {
            Ok(_) => otherwise,
            Err(_) => failure(Errno::CONNABORTED, "another thread closed the handle"),
        }
    }

    /// Stores an object and writes its handle to `into`.
    ///
    /// # Safety
    /// `into` must be writable.
    pub(crate) unsafe fn put<H>(&self, object: T, into: *mut *mut H) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entries.insert(number, Arc::new(object));
        // SAFETY: the caller guarantees this.
        unsafe { into.write(std::ptr::without_provenance_mut(number)) };
    }

    pub(crate) fn remove<H>(&self, handle: *const H) -> Outcome<Arc<T>> {
        if handle.is_null() {
            return Err(invalid("the handle is null"));
        }
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entries.remove(&handle.addr()).ok_or_else(stale)
    }
}

fn stale() -> crate::errno::Failure {
    failure(Errno::BADF, "no such handle: it was closed, or is of another kind")
}

/// Checks that the pointer to which a new handle will be written is not null.
pub(crate) fn output<H>(into: *mut *mut H) -> Outcome<()> {
    if into.is_null() {
        Err(invalid("the last argument, which receives the handle, is null"))
    } else {
        Ok(())
    }
}
