//! Handles are numbers in the disguise of pointers, so that C's compiler tells their kinds apart. No number is used twice.

use crate::errno::{Outcome, failure, invalid};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Of all kinds together: a handle of one kind is in no other kind's table.
static NEXT: AtomicUsize = AtomicUsize::new(1);

/// The objects of one kind.
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

    /// What a call gives that failed, unless another thread closed its object meanwhile.
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

    /// Puts an object in and writes its handle to where the caller wants it.
    ///
    /// # Safety
    /// `into` can be written.
    pub(crate) unsafe fn put<H>(&self, object: T, into: *mut *mut H) {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entries.insert(number, Arc::new(object));
        // SAFETY: the caller says so.
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

/// Where a new handle is to be written.
pub(crate) fn output<H>(into: *mut *mut H) -> Outcome<()> {
    if into.is_null() {
        Err(invalid("there is no room for the handle: the last argument is null"))
    } else {
        Ok(())
    }
}
