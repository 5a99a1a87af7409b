use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
#[cfg(feature = "tokio")]
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Wakes those who wait for a state to change: threads, and tasks.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    changed: Condvar,
    #[cfg(feature = "tokio")]
    tasks: Mutex<Vec<Waker>>,
}

/// A panic of another thread leaves no state that could not be used: every change is made at once.
pub(crate) fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Signal {
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
        #[cfg(feature = "tokio")]
        {
            let tasks = std::mem::take(&mut *lock(&self.tasks));
            tasks.into_iter().for_each(Waker::wake);
        }
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

    /// Tries; without a result, the task is woken by the next change.
    #[cfg(feature = "tokio")]
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
            // Each task once, however often it asks.
            let mut tasks = lock(&self.tasks);
            if !tasks.iter().any(|task| task.will_wake(cx.waker())) {
                tasks.push(cx.waker().clone());
            }
        }
        // What changed before the waker was there woke nobody.
        attempt(&mut lock(state)).map_or(Poll::Pending, Poll::Ready)
    }

    /// Tries until there is a result.
    #[cfg(feature = "tokio")]
    pub(crate) async fn wait_async<S, T>(
        &self,
        state: &Mutex<S>,
        mut attempt: impl FnMut(&mut S) -> Option<T>,
    ) -> T {
        std::future::poll_fn(|cx| self.poll(state, cx, &mut attempt)).await
    }
}
