//! Threads that take work from the thread of a [`Driver`](crate::Driver).

use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Ends a [`Driver`](crate::Driver) if one of its workers panics. Also wakes the driver when there are results.
#[derive(Clone, Debug)]
pub struct Alarm {
    died: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
}

impl Alarm {
    pub(crate) fn new(wake: Arc<OwnedFd>) -> Alarm {
        Alarm { died: Arc::default(), wake }
    }

    fn wake(&self) {
        // Ignore the error: it occurs only if the counter is at its limit, and then the loop is already awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Returns an error if a worker has panicked.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.died.load(Ordering::Relaxed) {
            true => Err(io::Error::other("a worker thread panicked")),
            false => Ok(()),
        }
    }
}

impl Drop for Alarm {
    /// Every worker holds an alarm, which is dropped when the worker ends or panics.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.died.store(true, Ordering::Relaxed);
            self.wake();
        }
    }
}

/// A thread that executes jobs in order and returns them with their results. The number of waiting jobs is limited.
pub(crate) struct Worker<J> {
    jobs: Option<SyncSender<J>>,
    done: Receiver<J>,
    /// Number of jobs that have not been taken back.
    pending: usize,
    thread: Option<JoinHandle<()>>,
}

impl<J: Send + 'static> Worker<J> {
    /// Starts the thread with the privileges of the calling thread. `work` executes a job. It returns true if the
    /// result must not wait for the next turn of the loop. At most `most` jobs wait.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn start(
        name: &str,
        most: usize,
        alarm: Alarm,
        mut work: impl FnMut(&mut J) -> bool + Send + 'static,
    ) -> io::Result<Worker<J>> {
        let (jobs, waiting) = sync_channel::<J>(most);
        let (finished, done) = channel();
        let run = move || {
            let alarm = alarm;
            for mut job in waiting {
                let urgent = work(&mut job);
                // Ignore the error: at the end nobody takes the results.
                let _ = finished.send(job);
                if urgent {
                    alarm.wake();
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Worker { jobs: Some(jobs), done, pending: 0, thread: Some(thread) })
    }

    /// Whether all jobs have been taken back.
    pub(crate) fn is_idle(&self) -> bool {
        self.pending == 0
    }

    /// Adds a job. If too many jobs wait, this call waits for the thread. Returns the job if the thread died.
    pub(crate) fn put(&mut self, job: J) -> Result<(), J> {
        match self.jobs.as_ref() {
            Some(jobs) => jobs.send(job).map_err(|e| e.0)?,
            None => return Err(job),
        }
        self.pending += 1;
        Ok(())
    }

    /// Takes back the oldest remaining job if it is done.
    pub(crate) fn poll(&mut self) -> Option<J> {
        let job = self.done.try_recv().ok()?;
        self.pending -= 1;
        Some(job)
    }

    /// Like [`poll`](Self::poll), but waits until the job is done. Returns `None` if there is no job, or if the thread
    /// died.
    pub(crate) fn wait(&mut self) -> Option<J> {
        let job = (self.pending > 0).then(|| self.done.recv().ok())?;
        // If the thread died, its jobs are lost.
        self.pending = if job.is_some() { self.pending - 1 } else { 0 };
        job
    }
}

impl<J> Drop for Worker<J> {
    /// Waits until all jobs are done.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // Ignore the error: the alarm reports a panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    fn alarm() -> Alarm {
        Alarm::new(Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap()))
    }

    fn is_awake(alarm: &Alarm) -> bool {
        rustix::io::read(&alarm.wake, &mut [0; 8]).is_ok()
    }

    #[test]
    fn jobs_come_back_in_order_and_urgent_ones_wake_the_loop() {
        let alarm = alarm();
        let mut worker = Worker::start("jobs", 2, alarm.clone(), |job: &mut u32| {
            *job += 100;
            *job == 104
        })
        .unwrap();
        for job in 0..4 {
            worker.put(job).unwrap();
        }
        assert_eq!(std::iter::from_fn(|| worker.wait()).collect::<Vec<_>>(), [100, 101, 102, 103]);
        assert!(worker.is_idle() && !is_awake(&alarm));
        worker.put(4).unwrap();
        assert_eq!(worker.wait(), Some(104));
        drop(worker);
        assert!(is_awake(&alarm));
        alarm.check().unwrap();
    }

    #[test]
    fn all_jobs_are_done_before_the_worker_is_dropped() {
        let (done, results) = channel();
        let work = move |job: &mut u32| done.send(*job).is_err();
        let mut worker = Worker::start("jobs", 100, alarm(), work).unwrap();
        (0..100).for_each(|job| worker.put(job).unwrap());
        drop(worker);
        assert_eq!(results.try_iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_panic_ends_the_loop() {
        let alarm = alarm();
        let mut worker =
            Worker::start("dies", 1, alarm.clone(), |job: &mut u32| *job / (*job - *job) == 0).unwrap();
        worker.put(1).unwrap();
        assert_eq!(worker.wait(), None);
        assert!(worker.is_idle());
        assert_eq!(worker.put(2), Err(2), "the worker accepts no more jobs");
        drop(worker);
        assert!(is_awake(&alarm));
        assert_eq!(alarm.check().unwrap_err().to_string(), "a worker thread panicked");
    }
}
