use crate::Clock;
use crate::app::{App, Core, Handle, Job, handle};
use crate::net::Net;
use crate::poller::{Poller, Source};
use mpdccp_proto::Endpoint;
use mpdccp_units::Time;
use rustix::fd::BorrowedFd;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

/// The loop of the data plane. In each turn it reads the sockets and the application's descriptors, handles
/// timeouts, delivers data, lets the endpoint write packets, sends them, and sets the timer.
pub struct Driver<A> {
    core: Core,
    app: A,
    jobs: Receiver<Job<A>>,
    handle: Handle<A>,
    ready: Vec<Source>,
    /// The latest time that the endpoint has been given.
    last: Time,
    /// Whether [`App::fill`] may have more data to queue.
    filling: bool,
}

/// Result of one turn of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// More work is due. Call [`Driver::turn`] again, perhaps after other work.
    Busy,
    /// No work is due. Wait until the descriptor is readable.
    Idle,
    /// The loop has ended.
    Over,
}

/// Maximum number of times that one turn calls [`App::fill`] and sends the data.
const FILLS: usize = 32;

impl<A: App> Driver<A> {
    /// Creates a driver. `set_up` adds the sockets and returns the application.
    ///
    /// # Errors
    /// The errors of epoll, timerfd and eventfd, and the errors of `set_up`.
    pub fn new<E: From<io::Error>>(
        endpoint: Endpoint,
        set_up: impl FnOnce(&mut Core) -> Result<A, E>,
    ) -> Result<Driver<A>, E> {
        let poller = Poller::new()?;
        let (handle, jobs) = handle(poller.wake());
        let mut core = Core { endpoint, net: Net::new(), clock: Clock, poller, running: true };
        let app = set_up(&mut core)?;
        for (i, fd) in (0u32..).zip(app.fds()) {
            core.poller.add(fd, Source::App(i))?;
        }
        Ok(Driver { core, app, jobs, handle, ready: Vec::new(), last: Time::ZERO, filling: false })
    }

    /// Returns a handle for other threads.
    pub fn handle(&self) -> Handle<A> {
        self.handle.clone()
    }

    /// Returns the descriptor to wait on before [`turn`](Self::turn). It is readable when something may be
    /// due.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.core.poller.descriptor()
    }

    /// Runs `job` immediately, but after the jobs that are already pending. Call [`turn`](Self::turn)
    /// afterwards.
    pub fn with<R>(&mut self, job: impl FnOnce(&mut Core, &mut A) -> R) -> R {
        self.run_jobs();
        job(&mut self.core, &mut self.app)
    }

    /// Does whatever is due, without waiting. For use in another event loop.
    ///
    /// # Errors
    /// Only fatal errors: epoll or the timer fails.
    pub fn turn(&mut self) -> io::Result<Turn> {
        if !self.core.running {
            return Ok(Turn::Over);
        }
        let mut ready = std::mem::take(&mut self.ready);
        self.core.poller.wait(self.core.clock.now(), Some(Time::ZERO), &mut ready)?;
        let due = self.deadline().is_some_and(|at| at <= self.core.clock.now());
        let mut busy = due || !ready.is_empty();
        self.input(&ready);
        self.ready = ready;
        // While the loop is busy, it reads the jobs without being woken.
        self.handle.woken.store(true, Ordering::SeqCst);
        busy |= self.run_jobs();
        if !busy {
            // From now on, a job wakes the loop. A job may have arrived just before, so check again.
            self.handle.woken.store(false, Ordering::SeqCst);
            busy = self.run_jobs();
        }
        if busy {
            self.drain();
        } else {
            let deadline = self.deadline();
            self.core.poller.arm(self.core.clock.now(), deadline)?;
        }
        Ok(if busy { Turn::Busy } else { Turn::Idle })
    }

    /// Runs the pending jobs. Returns whether there were any.
    fn run_jobs(&mut self) -> bool {
        let mut any = false;
        while let Ok(job) = self.jobs.try_recv() {
            job(&mut self.core, &mut self.app);
            any = true;
        }
        any
    }

    /// Runs the loop until [`Core::stop`], then returns the application.
    ///
    /// # Errors
    /// Only fatal errors: epoll or the timer fails.
    pub fn run(mut self) -> io::Result<A> {
        // Make the timer exact; by default it may be late by the timer slack. Ignore the error, which does no
        // harm.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        while self.core.running {
            let mut ready = std::mem::take(&mut self.ready);
            let deadline = self.deadline();
            self.core.poller.wait(self.core.clock.now(), deadline, &mut ready)?;
            self.input(&ready);
            self.ready = ready;
            self.drain();
        }
        Ok(self.app)
    }

    fn deadline(&self) -> Option<Time> {
        if self.filling {
            return Some(Time::ZERO);
        }
        let endpoint = self.core.endpoint.poll_timeout().map(|(t, _)| t);
        let net = &self.core.net;
        [endpoint, self.app.next_timeout(), net.next_retry(), net.next_timeout()].into_iter().flatten().min()
    }

    /// Returns the current time, which is never earlier than the latest time that the endpoint was given.
    fn now(&mut self) -> Time {
        self.last = self.core.clock.now().max(self.last);
        self.last
    }

    fn input(&mut self, ready: &[Source]) {
        // Read the sockets first, because acknowledgements let the application read more data.
        for source in ready {
            if let Source::Socket(socket) = *source {
                self.core.net.receive(socket, &mut self.last, &mut self.core.endpoint);
            }
        }
        for source in ready {
            let now = self.now();
            match *source {
                Source::App(index) => self.app.on_readable(&mut self.core, now, index),
                Source::Wake => {
                    // Clear the flag before reading the jobs, so that a later job wakes the loop again.
                    self.handle.woken.store(false, Ordering::SeqCst);
                    self.run_jobs();
                }
                Source::Timer | Source::Socket(_) => {}
            }
        }
    }

    fn drain(&mut self) {
        let now = self.now();
        let core = &mut self.core;
        if core.endpoint.poll_timeout().is_some_and(|(t, _)| t <= now) {
            core.endpoint.handle_timeout(now);
        }
        if self.app.next_timeout().is_some_and(|t| t <= now) {
            self.app.on_timeout(core, now);
        }
        core.net.handle_timeout(now);
        core.net.retry(now, &core.poller);
        // Deliver before sending, so that no datagram has to wait until the acknowledgements of other packets
        // are sent. If the application queues an answer in `on_delivered`, the answer also carries the
        // acknowledgement.
        self.deliver(now);
        self.transmit(now);
        let core = &mut self.core;
        core.net.tell_refused(now, &mut core.endpoint);
        for change in core.net.take_changes() {
            for (session, path) in core.endpoint.paths_over(change.socket, change.remote) {
                core.endpoint.set_link(now, session, path, change.up);
            }
            self.app.on_link(core, &change);
        }
        if let Some(qlog) = &mut core.net.qlog {
            qlog.look(now, &core.endpoint);
        }
        for event in core.net.take_channel_events() {
            self.app.on_channel(core, event);
        }
        let mut happened = false;
        loop {
            // A session that ends releases the data that it held behind missing packets, also if an event
            // handler ends it. The data comes before the event of the end.
            happened |= self.deliver(now);
            let core = &mut self.core;
            let Some((session, event)) = core.endpoint.poll_event() else { break };
            if let Some(qlog) = &mut core.net.qlog {
                qlog.happened(now, &core.endpoint, session, &event);
            }
            self.app.on_event(core, now, session, event);
            happened = true;
        }
        // Event handlers can cause packets, above all when a session closes, and these packets must not wait
        // for the next turn.
        if happened {
            self.transmit(now);
        }
    }

    /// Passes the datagrams that have arrived to the application. Returns whether there were any.
    fn deliver(&mut self, now: Time) -> bool {
        let core = &mut self.core;
        let mut delivered = false;
        while let Some((session, data)) = core.endpoint.poll_deliver() {
            self.app.on_deliver(core, now, session, data);
            delivered = true;
        }
        if delivered {
            self.app.on_delivered(core, now);
        }
        delivered
    }

    fn transmit(&mut self, now: Time) {
        let core = &mut self.core;
        core.endpoint.poll_transmit(now, &mut core.net.batch);
        self.filling = (0..FILLS).all(|_| {
            let filled = self.app.fill(core, now);
            if filled {
                core.endpoint.poll_transmit(now, &mut core.net.batch);
            }
            filled
        });
        core.net.flush(now);
    }
}
