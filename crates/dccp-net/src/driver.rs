use crate::handle::{Handle, Job, handle};
use crate::net::{LinuxSocket, Net};
use crate::poller::{Poller, Source};
use crate::shards::{Mail, Neighbours};
use crate::{Clock, LinkChange};
use mpdccp_proto::{Endpoint, SessionEvent, SessionId};
use mpdccp_units::Time;
use rustix::fd::BorrowedFd;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::Receiver;

/// What an application of the loop (tunnel, traffic generator) gets to use: the endpoint, its sockets, the clock.
pub struct Core {
    /// All sessions.
    pub endpoint: Endpoint,
    /// Sockets.
    pub net: Net,
    /// The time of all calls.
    pub clock: Clock,
    poller: Poller,
    running: bool,
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
        self.net.neighbours = Neighbours::new(all);
    }

    /// What came in at another shard.
    pub(crate) fn take(&mut self, mail: Vec<Mail>) {
        let now = self.clock.now();
        self.net.take(now, mail, &mut self.endpoint);
    }

    /// Ends the loop once this turn's packets have left.
    pub fn stop(&mut self) {
        self.running = false;
    }
}

/// What runs on top of the loop. All methods are called on the thread of [`Driver::run`].
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

/// The data-plane loop. One turn: read sockets and the application's descriptors, handle timeouts, let the endpoint write,
/// send, deliver, arm the timer.
pub struct Driver<A> {
    core: Core,
    app: A,
    jobs: Receiver<Job<A>>,
    handle: Handle<A>,
    ready: Vec<Source>,
    /// The latest time the endpoint has seen.
    last: Time,
    /// [`App::fill`] may have more.
    filling: bool,
}

/// Most rounds of filling and sending in one turn.
const FILLS: usize = 32;

impl<A: App> Driver<A> {
    /// With sockets still to be added by `set_up`, which makes the application.
    ///
    /// # Errors
    /// What the system says to epoll, timerfd and eventfd, and what `set_up` says.
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

    /// For other threads.
    pub fn handle(&self) -> Handle<A> {
        self.handle.clone()
    }

    /// Runs until [`Core::stop`], and gives the application back.
    ///
    /// # Errors
    /// Only what makes going on impossible: epoll or the timer fail.
    pub fn run(mut self) -> io::Result<A> {
        // Wakes on time rather than when it suits the scheduler; a hint, so a refusal does not matter.
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

    /// The time now; never before what the endpoint has seen.
    fn now(&mut self) -> Time {
        self.last = self.core.clock.now().max(self.last);
        self.last
    }

    fn input(&mut self, ready: &[Source]) {
        // Acknowledgements first: they open windows for what the application reads.
        for source in ready {
            if let Source::Socket(socket) = *source {
                let now = self.core.clock.now();
                self.core.net.receive(socket, now, &mut self.last, &mut self.core.endpoint);
            }
        }
        for source in ready {
            let now = self.now();
            match *source {
                Source::App(index) => self.app.on_readable(&mut self.core, now, index),
                Source::Wake => {
                    while let Ok(job) = self.jobs.try_recv() {
                        job(&mut self.core, &mut self.app);
                    }
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
        // First what came, then what leaves: a datagram does not wait for the acknowledgements of others, and what the application has to say to
        // it, which it may read in `on_delivered`, leaves together with its acknowledgement.
        let mut delivered = false;
        while let Some((session, data)) = core.endpoint.poll_deliver() {
            self.app.on_deliver(core, now, session, data);
            delivered = true;
        }
        if delivered {
            self.app.on_delivered(core, now);
        }
        self.transmit(now);
        let core = &mut self.core;
        for change in core.net.take_changes() {
            for (session, path) in core.endpoint.paths_over(change.socket, change.remote) {
                core.endpoint.set_link(now, session, path, change.up);
            }
            self.app.on_link(core, &change);
        }
        if let Some(qlog) = &mut core.net.qlog {
            qlog.look(now, &core.endpoint);
        }
        for (socket, remote) in core.net.take_moves() {
            self.app.on_moved(core, socket, remote);
        }
        let mut happened = false;
        while let Some((session, event)) = core.endpoint.poll_event() {
            if let Some(qlog) = &mut core.net.qlog {
                qlog.happened(now, &core.endpoint, session, &event);
            }
            self.app.on_event(core, now, session, event);
            happened = true;
        }
        // What the application did on an event, a session close above all, must not wait for the next turn.
        if happened {
            self.transmit(now);
        }
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
