use crate::Core;
use rustix::fd::OwnedFd;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Something to run on the data thread.
pub(crate) type Job<A> = Box<dyn FnOnce(&mut Core, &mut A) + Send>;

/// Most jobs that [`Handle::offer`] lets wait.
const MOST_WAITING: usize = 64;

/// Reaches into a running [`crate::Driver`] from other threads: closures run between two turns of its loop.
pub struct Handle<A> {
    jobs: Sender<Job<A>>,
    wake: Arc<OwnedFd>,
    /// Jobs offered that have not run yet.
    waiting: Arc<AtomicUsize>,
}

impl<A> Clone for Handle<A> {
    fn clone(&self) -> Handle<A> {
        Handle { jobs: self.jobs.clone(), wake: self.wake.clone(), waiting: self.waiting.clone() }
    }
}

impl<A> fmt::Debug for Handle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}

pub(crate) fn handle<A>(wake: Arc<OwnedFd>) -> (Handle<A>, Receiver<Job<A>>) {
    let (jobs, receiver) = channel();
    (Handle { jobs, wake, waiting: Arc::default() }, receiver)
}

impl<A> Handle<A> {
    /// Runs `job` on the data thread, soon; false if the driver is gone.
    pub fn run(&self, job: impl FnOnce(&mut Core, &mut A) + Send + 'static) -> bool {
        let sent = self.jobs.send(Box::new(job)).is_ok();
        // Fails only when the counter is at its top, and then the loop is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        sent
    }

    /// As [`run`](Self::run), unless too many jobs wait already that were offered: then it is dropped. For what comes faster than it may be
    /// done.
    pub fn offer(&self, job: impl FnOnce(&mut Core, &mut A) + Send + 'static) -> bool {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MOST_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let waiting = self.waiting.clone();
        self.run(move |core, app| {
            waiting.fetch_sub(1, Ordering::Relaxed);
            job(core, app);
        })
    }

    /// Runs `job` on the data thread and waits for its answer; `None` if the driver is gone.
    pub fn call<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Core, &mut A) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, receiver) = channel();
        self.run(move |core, app| {
            // Nobody may be waiting any more.
            let _ = answer.send(job(core, app));
        });
        receiver.recv().ok()
    }
}
