#[cfg(feature = "tokio")]
use std::sync::atomic::AtomicU64;
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
    /// The waiting tasks, each with the number of its call of `wait_async`, or 0 for `poll`.
    tasks: Mutex<Vec<(u64, Waker)>>,
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
        tasks.into_iter().for_each(|(_, task)| task.wake());
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
        self.register(0, cx);
        // A change before the registration has not woken the task, so try again.
        attempt(&mut lock(state)).map_or(Poll::Pending, Poll::Ready)
    }

    fn register(&self, call: u64, cx: &Context<'_>) {
        let mut tasks = lock(&self.tasks);
        // Register each task only once.
        if !tasks.iter().any(|(other, task)| *other == call && task.will_wake(cx.waker())) {
            tasks.push((call, cx.waker().clone()));
        }
    }

    /// Waits until `attempt` returns a result.
    #[cfg(feature = "tokio")]
    pub(crate) async fn wait_async<S, T>(
        &self,
        state: &Mutex<S>,
        mut attempt: impl FnMut(&mut S) -> Option<T>,
    ) -> T {
        static CALLS: AtomicU64 = AtomicU64::new(1);
        let mut waiting = None;
        std::future::poll_fn(|cx| {
            if let Some(result) = attempt(&mut lock(state)) {
                return Poll::Ready(result);
            }
            let Waiting(_, call) =
                waiting.get_or_insert_with(|| Waiting(self, CALLS.fetch_add(1, Ordering::Relaxed)));
            self.register(*call, cx);
            attempt(&mut lock(state)).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// A call of `wait_async` that has registered its task. The end of the call removes the task, which may have
/// ended and would otherwise stay in memory until the next change.
#[cfg(feature = "tokio")]
struct Waiting<'a>(&'a Signal, u64);

#[cfg(feature = "tokio")]
impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut tasks = lock(&self.0.tasks);
        let own: Vec<_> = tasks.extract_if(.., |(call, _)| *call == self.1).collect();
        // The drop of a task can run code that uses this signal.
        drop(tasks);
        drop(own);
    }
}

#[cfg(all(test, feature = "tokio"))]
mod tests {
    use super::*;
    use std::pin::pin;

    #[test]
    fn a_dropped_call_leaves_no_task_behind() {
        let (signal, state) = (Signal::default(), Mutex::new(()));
        {
            let mut call = pin!(signal.wait_async(&state, |_: &mut ()| None::<()>));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(call.as_mut().poll(&mut cx).is_pending() && call.as_mut().poll(&mut cx).is_pending());
            assert_eq!(lock(&signal.tasks).len(), 1);
        }
        assert!(lock(&signal.tasks).is_empty());
    }
}
