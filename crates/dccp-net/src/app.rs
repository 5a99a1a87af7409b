//! An application of the loop, what it gets to use, and how other threads reach it.

use crate::net::{LinuxSocket, Net};
use crate::poller::Poller;
use crate::shards::{Mail, Neighbours, Post};
use crate::{Clock, LinkChange};
use mpdccp_proto::{Endpoint, SessionEvent, SessionId};
use mpdccp_units::Time;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{fmt, io};

/// What an application of the loop (tunnel, traffic generator) gets to use: the endpoint, its sockets, the clock.
pub struct Core {
    /// All sessions.
    pub endpoint: Endpoint,
    /// Sockets.
    pub net: Net,
    /// The time of all calls.
    pub clock: Clock,
    pub(crate) poller: Poller,
    pub(crate) running: bool,
}

impl Core {
    /// Adds a socket; its number goes into [`dccp_proto::Route::socket`].
    ///
    /// # Errors
    /// What the system says.
    pub fn add_socket<C>(&mut self, encapsulation: C) -> io::Result<u32>
    where
        C: crate::Encapsulation + rustix::fd::AsFd + 'static,
    {
        let encapsulation: Box<dyn LinuxSocket> = Box::new(encapsulation);
        self.net.add(&self.poller, encapsulation)
    }

    /// A random port of the range for short-lived use (RFC 6335 section 6).
    pub fn ephemeral_port(&self) -> u16 {
        // The low bits of the clock would do; randomness that cannot be had is no reason to stop.
        let seed = crate::random_seed().unwrap_or_default();
        49_152 | u16::from_be_bytes([seed[0], seed[1]])
    }

    /// This driver is one of several of the same server, each with its own sessions: `all` by the numbers of their shards, this one among
    /// them. What comes in here and is for another is handed over; [`dccp_secure::Channels::share`] says what is.
    pub fn share<A: App + 'static>(&mut self, all: &[Handle<A>]) {
        let post = |handle: &Handle<A>| -> Post {
            let handle = handle.clone();
            Box::new(move |mail| handle.offer(move |core, _| core.take(mail)))
        };
        self.net.neighbours = Neighbours::new(all.iter().map(post).collect());
    }

    /// What came in at another shard.
    fn take(&mut self, mail: Vec<Mail>) {
        let now = self.clock.now();
        self.net.take(now, mail, &mut self.endpoint);
    }

    /// Ends the loop once this turn's packets have left.
    pub fn stop(&mut self) {
        self.running = false;
    }
}

/// What runs on top of the loop. All methods are called on the thread of [`Driver::run`](crate::Driver::run).
pub trait App {
    /// Descriptors to wait on, asked once at the start; they stay open until the loop ends.
    fn fds(&self) -> Vec<BorrowedFd<'_>>;

    /// Descriptor `index` of [`fds`](Self::fds) is readable. Read a bounded number of packets; what is left brings
    /// another call.
    fn on_readable(&mut self, core: &mut Core, now: Time, index: u32);

    /// A datagram arrived.
    fn on_deliver(&mut self, core: &mut Core, now: Time, session: SessionId, data: Vec<u8>);

    /// All datagrams of this turn were delivered.
    fn on_delivered(&mut self, core: &mut Core, now: Time) {
        let _ = (core, now);
    }

    /// Something happened to a session.
    fn on_event(&mut self, core: &mut Core, now: Time, session: SessionId, event: SessionEvent);

    /// Sending on a link stopped or started to work; the endpoint has been told.
    fn on_link(&mut self, core: &mut Core, change: &LinkChange) {
        let _ = (core, change);
    }

    /// The peer at the other end of a channel, a socket by this number, is at another address now.
    fn on_moved(&mut self, core: &mut Core, socket: u32, remote: SocketAddr) {
        let _ = (core, socket, remote);
    }

    /// A source that fills the sessions' queues as they empty does it here; true if it queued something, to be asked again
    /// once that was sent.
    fn fill(&mut self, core: &mut Core, now: Time) -> bool {
        let _ = (core, now);
        false
    }

    /// When to call [`on_timeout`](Self::on_timeout).
    fn next_timeout(&self) -> Option<Time>;

    /// The time of [`next_timeout`](Self::next_timeout) has come.
    fn on_timeout(&mut self, core: &mut Core, now: Time);
}

/// Something to run on the data thread.
pub(crate) type Job<A> = Box<dyn FnOnce(&mut Core, &mut A) + Send>;

/// Most jobs that [`Handle::offer`] lets wait.
const MOST_WAITING: usize = 64;

/// Reaches into a running [`crate::Driver`] from other threads: closures run between two turns of its loop.
pub struct Handle<A> {
    jobs: Sender<Job<A>>,
    wake: Arc<OwnedFd>,
    /// The loop was woken and has not looked at the jobs since: those that come meanwhile need not wake it again.
    pub(crate) woken: Arc<AtomicBool>,
    /// Jobs offered that have not run yet.
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
    /// Runs `job` on the data thread, soon; false if the driver is gone.
    pub fn run(&self, job: impl FnOnce(&mut Core, &mut A) + Send + 'static) -> bool {
        let sent = self.jobs.send(Box::new(job)).is_ok();
        if !self.woken.swap(true, Ordering::SeqCst) {
            // Fails only when the counter is at its top, and then the loop is awake.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
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
