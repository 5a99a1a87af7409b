use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Wakes threads and tasks that are waiting for a state to change.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    changed: Condvar,
    /// Number of waiting threads. If it is 0, a notification makes no system call.
    threads: AtomicUsize,
    tasks: Mutex<Vec<Waker>>,
}

/// Locks a state. Ignores poisoning: each change is a single step, so the state is valid even if another
/// thread has panicked.
pub(crate) fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Signal {
    pub(crate) fn notify(&self) {
        // Waiting threads increase the number while they hold the state's lock. The change was made under the
        // same lock, so the number is up to date.
        if self.threads.load(Ordering::Relaxed) > 0 {
            self.changed.notify_all();
        }
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        tasks.into_iter().for_each(Waker::wake);
    }

    /// Waits until `attempt` returns a result. Returns `None` once the time limit has passed.
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
            let left = match until {
                Some(until) => {
                    Some(until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?)
                }
                None => None,
            };
            self.threads.fetch_add(1, Ordering::Relaxed);
            guard = match left {
                None => self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    self.changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
            self.threads.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Calls `attempt` once. If it returns no result, the next change wakes the task.
    pub(crate) fn poll<S, T>(
        &self,
        state: &Mutex<S>,
        cx: &Context<'_>,
        mut attempt: impl FnMut(&mut S) -> Option<T>,
    ) -> Poll<T> {
        if let Some(result) = attempt(&mut lock(state)) {
            return Poll::Ready(result);
        }
        {
            // Register each task only once.
            let mut tasks = lock(&self.tasks);
            if !tasks.iter().any(|task| task.will_wake(cx.waker())) {
                tasks.push(cx.waker().clone());
            }
        }
        // A change before the registration has not woken the task, so try again.
        attempt(&mut lock(state)).map_or(Poll::Pending, Poll::Ready)
    }

    /// Waits until `attempt` returns a result.
    #[cfg(feature = "tokio")]
    pub(crate) async fn wait_async<S, T>(
        &self,
        state: &Mutex<S>,
        mut attempt: impl FnMut(&mut S) -> Option<T>,
    ) -> T {
        std::future::poll_fn(|cx| self.poll(state, cx, &mut attempt)).await
    }
}
