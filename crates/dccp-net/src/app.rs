//! The application that the loop runs, the resources that this application uses, and a handle for other
//! threads.

use crate::channels::ChannelEvent;
use crate::net::{LinuxSocket, Net};
use crate::poller::Poller;
use crate::shards::{Mail, Neighbours, Post};
use crate::{Clock, LinkChange};
use mpdccp_proto::{Endpoint, SessionEvent, SessionId};
use mpdccp_units::Time;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{fmt, io};

/// The resources used by an application of the loop, such as a tunnel or a traffic generator: the endpoint,
/// its sockets and the clock.
pub struct Core {
    /// All sessions.
    pub endpoint: Endpoint,
    /// The sockets.
    pub net: Net,
    /// The clock to which all time arguments refer.
    pub clock: Clock,
    pub(crate) poller: Poller,
    pub(crate) running: bool,
}

impl Core {
    /// Adds a socket. Returns its number, which goes into [`dccp_proto::Route::socket`].
    ///
    /// # Errors
    /// The error of the system.
    pub fn add_socket<C>(&mut self, encapsulation: C) -> io::Result<u32>
    where
        C: crate::Encapsulation + rustix::fd::AsFd + 'static,
    {
        let encapsulation: Box<dyn LinuxSocket> = Box::new(encapsulation);
        self.net.add(&self.poller, encapsulation)
    }

    /// Returns a random port from the ephemeral range (RFC 6335 section 6).
    pub fn ephemeral_port(&self) -> u16 {
        // If the system has no random numbers, use a fixed port instead of failing.
        let seed = crate::random_seed().unwrap_or_default();
        49_152 | u16::from_be_bytes([seed[0], seed[1]])
    }

    /// Makes this driver one of several shards of a server, each of which has its own sessions. `all` has the
    /// handles of all shards by number, including this one. A shard hands over packets that belong to another
    /// shard; see `Channels::share`.
    pub fn share<A: App + 'static>(&mut self, all: &[Handle<A>]) {
        let post = |handle: &Handle<A>| -> Post {
            let handle = handle.clone();
            Box::new(move |mail| handle.offer(move |core, _| core.take(mail)))
        };
        self.net.neighbours = Neighbours::new(all.iter().map(post).collect());
    }

    /// Handles packets for this shard that arrived at another shard.
    fn take(&mut self, mail: Vec<Mail>) {
        let now = self.clock.now();
        self.net.take(now, mail, &mut self.endpoint);
    }

    /// Sends the packets that the endpoint has ready, without waiting for the end of the turn.
    pub fn transmit(&mut self, now: Time) {
        self.endpoint.poll_transmit(now, &mut self.net.batch);
        self.net.flush(now);
    }

    /// Ends the loop after the packets of this turn have been sent.
    pub fn stop(&mut self) {
        self.running = false;
    }
}

/// The application that the loop runs. The loop calls all methods on the thread of
/// [`Driver::run`](crate::Driver::run).
pub trait App {
    /// Returns the descriptors on which the loop waits. The loop calls this once, at the start, and the
    /// descriptors must stay open until the loop ends.
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Called when descriptor `index` of [`fds`](Self::fds) is readable. Read only a limited number of
    /// packets: if more are available, the loop calls again.
    fn on_readable(&mut self, core: &mut Core, now: Time, index: u32) {
        let _ = (core, now, index);
    }

    /// Called when a datagram arrived.
    fn on_deliver(&mut self, core: &mut Core, now: Time, session: SessionId, data: Vec<u8>);

    /// Called when all datagrams that have arrived have been delivered.
    fn on_delivered(&mut self, core: &mut Core, now: Time) {
        let _ = (core, now);
    }

    /// Called for each event of a session.
    fn on_event(&mut self, core: &mut Core, now: Time, session: SessionId, event: SessionEvent) {
        let _ = (core, now, session, event);
    }

    /// Called when sending on a link has stopped working, or works again. The endpoint already knows about
    /// the change.
    fn on_link(&mut self, core: &mut Core, change: &LinkChange) {
        let _ = (core, change);
    }

    /// Called for each event of a channel.
    fn on_channel(&mut self, core: &mut Core, event: ChannelEvent) {
        let _ = (core, event);
    }

    /// Called to refill the queues of sessions. Returns whether the application has queued data. If so, the
    /// loop sends the data and calls again.
    fn fill(&mut self, core: &mut Core, now: Time) -> bool {
        let _ = (core, now);
        false
    }

    /// Returns when the loop should call [`on_timeout`](Self::on_timeout) next.
    fn next_timeout(&self) -> Option<Time> {
        None
    }

    /// Called when the deadline of [`next_timeout`](Self::next_timeout) has passed.
    fn on_timeout(&mut self, core: &mut Core, now: Time) {
        let _ = (core, now);
    }
}

/// A closure to run on the loop's thread.
pub(crate) type Job<A> = Box<dyn FnOnce(&mut Core, &mut A) + Send>;

/// Maximum number of jobs from [`Handle::offer`] that may be waiting at the same time.
const MOST_WAITING: usize = 64;

/// Gives other threads access to a running [`crate::Driver`]. Their closures run between two turns of the
/// loop.
pub struct Handle<A> {
    jobs: Sender<Job<A>>,
    wake: Arc<OwnedFd>,
    /// Whether the loop has been woken but has not read the jobs yet. If so, another job need not wake it.
    pub(crate) woken: Arc<AtomicBool>,
    /// Number of jobs from [`offer`](Self::offer) that have not run yet.
    waiting: Arc<AtomicUsize>,
}

impl<A> Clone for Handle<A> {
    fn clone(&self) -> Handle<A> {
        Handle {
            jobs: self.jobs.clone(),
            wake: self.wake.clone(),
            woken: self.woken.clone(),
            waiting: self.waiting.clone(),
        }
    }
}

impl<A> fmt::Debug for Handle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}

pub(crate) fn handle<A>(wake: Arc<OwnedFd>) -> (Handle<A>, Receiver<Job<A>>) {
    let (jobs, receiver) = channel();
    (Handle { jobs, wake, woken: Arc::default(), waiting: Arc::default() }, receiver)
}

impl<A> Handle<A> {
    /// Runs `job` on the loop's thread soon. Returns false if the driver has ended.
    pub fn run(&self, job: impl FnOnce(&mut Core, &mut A) + Send + 'static) -> bool {
        let sent = self.jobs.send(Box::new(job)).is_ok();
        if !self.woken.swap(true, Ordering::SeqCst) {
            // Ignore the error: if the counter is at its limit, the loop is already awake.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
        sent
    }

    /// Runs `job` like [`run`](Self::run), but drops it if too many offered jobs are pending. Use it for jobs
    /// that may arrive faster than they run.
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

    /// Runs `job` on the loop's thread and waits for its result. Returns `None` if the driver has ended.
    pub fn call<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Core, &mut A) -> R + Send + 'static,
    ) -> Option<R> {
        let (answer, receiver) = channel();
        self.run(move |core, app| {
            // Ignore the error: the caller may have stopped waiting.
            let _ = answer.send(job(core, app));
        });
        receiver.recv().ok()
    }
}
