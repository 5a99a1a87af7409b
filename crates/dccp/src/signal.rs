use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Wakes those who wait for a state to change: threads, and tasks of tokio.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    changed: Condvar,
    #[cfg(feature = "tokio")]
    tasks: tokio::sync::Notify,
}

/// A panic of another thread leaves no state that could not be used: every change is made at once.
pub(crate) fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Signal {
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
        #[cfg(feature = "tokio")]
        self.tasks.notify_waiters();
    }

    /// Tries until there is a result; `None` once the time is over.
    pub(crate) fn wait<S, T>(
        &self,
        state: &Mutex<S>,
        until: Option<Instant>,
        mut attempt: impl FnMut(&mut S) -> Option<T>,
    ) -> Option<T> {
        let mut guard = lock(state);
        loop {
            if let Some(result) = attempt(&mut guard) {
                return Some(result);
            }
            let Some(until) = until else {
                guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
            (guard, _) = self.changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Tries until there is a result.
    #[cfg(feature = "tokio")]
    pub(crate) async fn wait_async<S, T>(
        &self,
        state: &Mutex<S>,
        mut attempt: impl FnMut(&mut S) -> Option<T>,
    ) -> T {
        loop {
            // Before the state is looked at: no change after that is missed.
            let mut changed = std::pin::pin!(self.tasks.notified());
            changed.as_mut().enable();
            if let Some(result) = attempt(&mut lock(state)) {
                return result;
            }
            changed.await;
        }
    }
}
