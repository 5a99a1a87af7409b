//! Gives the handles access to the driver, which runs on a thread or as a task of another event loop.

use super::Streams;
use crate::backlog::Backlog;
use crate::budget::Budget;
use crate::context::about;
use crate::signal::lock;
use crate::{ConnectError, Options};
use dccp_net::{Core, Driver, FixedDscp, Handle, Qlog};
use mpdccp_proto::Endpoint;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use rustix::process::{Pid, getpid};
use std::sync::{Arc, Mutex, Weak};
use std::{fmt, io};

/// A driver that runs as a task of another event loop instead of on a thread.
pub(crate) type Hosted = Weak<Mutex<Driver<Streams>>>;

/// Gives the handles access to the data thread. The thread ends once all handles are gone and their
/// connections have finished.
pub(crate) struct Runtime {
    handle: Handle<Streams>,
    hosted: Option<Hosted>,
    pub(crate) budget: Arc<Budget>,
    /// The process that runs the thread. A forked process does not have the thread.
    process: Pid,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runtime")
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.run(|core, streams| streams.leave(core));
    }
}

impl Runtime {
    /// Returns whether this process is a fork, because the thread runs only in the parent process.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != getpid()
    }

    /// Returns the error for a call that got no result: `ended`, unless this process is a fork.
    pub(crate) fn missing(&self, ended: ConnectError) -> ConnectError {
        if self.is_forked() { ConnectError::Forked } else { ended }
    }

    /// Returns a handle that runs jobs on the thread, for callers that must know whether the thread still
    /// exists.
    pub(crate) fn handle(&self) -> &Handle<Streams> {
        &self.handle
    }

    /// Runs `job` on the data thread soon, without waiting for it.
    pub(crate) fn run(&self, job: impl FnOnce(&mut Core, &mut Streams) + Send + 'static) {
        if !self.is_forked() {
            self.handle.run(job);
        }
    }

    /// Runs `job` on the data thread and waits for its result, which is `None` if the thread has ended.
    pub(crate) fn call<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Core, &mut Streams) -> R + Send + 'static,
    ) -> Option<R> {
        match &self.hosted {
            _ if self.is_forked() => None,
            None => self.handle.call(job),
            // The task that runs the driver may itself need this thread to make progress, so run the job
            // here.
            Some(hosted) => {
                let result = lock(&*hosted.upgrade()?).with(job);
                self.handle.run(|_, _| {});
                Some(result)
            }
        }
    }

    /// Starts the driver using `run`, which provides a thread or a task, after `set_up` has opened sockets
    /// and other resources.
    pub(crate) fn start<T>(
        options: Options,
        backlog: Option<Arc<Backlog>>,
        run: Run,
        set_up: impl FnOnce(&mut Core, &Options) -> Result<T, ConnectError>,
    ) -> Result<(Arc<Runtime>, T), ConnectError> {
        options.check()?;
        let mut result = None;
        let endpoint = Endpoint::new(dccp_net::random_seed()?);
        let budget = Arc::new(Budget::new(options.receive_memory));
        let shared = budget.clone();
        let driver = Driver::new(endpoint, |core| -> Result<Streams, ConnectError> {
            core.net.heed_refusals = true;
            if options.dscp > 0 {
                core.net.marking = Some(Box::new(FixedDscp(options.dscp)));
            }
            result = Some(set_up(core, &options)?);
            core.net.qlog = match &options.qlog {
                Some(file) => {
                    let name = format!("the qlog file {}", file.display());
                    let created = Qlog::create(file, backlog.is_some());
                    Some(created.map_err(|e| about(&name, e))?)
                }
                None => None,
            };
            Ok(Streams::new(options, shared, backlog))
        })?;
        let Some(result) = result else { return Err(ConnectError::Options("the connection was not set up")) };
        let handle = driver.handle();
        let hosted = run(driver)?;
        Ok((Arc::new(Runtime { handle, hosted, budget, process: getpid() }), result))
    }
}

/// A function that runs a driver.
pub(crate) type Run = fn(Driver<Streams>) -> io::Result<Option<Hosted>>;

/// Runs a driver on its own thread.
pub(crate) fn on_a_thread(driver: Driver<Streams>) -> io::Result<Option<Hosted>> {
    let thread = std::thread::Builder::new().name("dccp".into());
    // The thread inherits the mask. Signals are for the program's threads: one that the program blocks in
    // order to wait for it must not end the process in this thread. Faults must still reach their handlers.
    let mut signals = SigSet::all();
    for fault in [Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGSEGV] {
        signals.remove(fault);
    }
    let before = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    let spawned = thread.spawn(move || {
        // By the time this returns, the driver has dropped its streams, and their handles have been notified.
        if let Err(e) = driver.run() {
            tracing::error!("the connections ended, because their data thread failed: {e}");
        }
    });
    let _ = before.and_then(|before| before.thread_set_mask());
    spawned?;
    Ok(None)
}
