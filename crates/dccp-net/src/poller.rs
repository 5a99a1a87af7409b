use mpdccp_units::{Duration, Time};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::sync::Arc;

/// A source of events on which the loop waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Timer,
    Wake,
    Socket(u32),
    App(u32),
}

impl Source {
    fn data(self) -> EventData {
        let (kind, index) = match self {
            Source::Timer => (0, 0),
            Source::Wake => (1, 0),
            Source::Socket(i) => (2, i),
            Source::App(i) => (3, i),
        };
        EventData::new_u64(kind << 32 | u64::from(index))
    }

    fn of(data: EventData) -> Source {
        let index = data.u64() as u32;
        match data.u64() >> 32 {
            0 => Source::Timer,
            1 => Source::Wake,
            2 => Source::Socket(index),
            _ => Source::App(index),
        }
    }
}

/// A deadline nearer than this may belong to a pacer, so the timer must be exact.
const FAR: Duration = Duration::from_millis(1);

/// An epoll instance with a timer, and with an eventfd through which other threads wake the loop.
pub(crate) struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    wake: Arc<OwnedFd>,
    armed: Option<Time>,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Poller> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let poller = Poller { epoll, timer, wake, armed: None };
        poller.add(poller.timer.as_fd(), Source::Timer)?;
        poller.add(poller.wake.as_fd(), Source::Wake)?;
        Ok(poller)
    }

    /// Returns the epoll descriptor itself.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Returns the eventfd. Writing to it makes [`Source::Wake`] readable.
    pub(crate) fn wake(&self) -> Arc<OwnedFd> {
        self.wake.clone()
    }

    /// Watches a descriptor until it is closed. Has no effect if the descriptor is already watched.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, source: Source) -> io::Result<()> {
        match epoll::add(&self.epoll, fd, source.data(), EventFlags::IN) {
            Err(Errno::EXIST) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Waits until a descriptor is readable or `deadline` has passed. Adds the readable sources to `ready`.
    pub(crate) fn wait(
        &mut self,
        now: Time,
        deadline: Option<Time>,
        ready: &mut Vec<Source>,
    ) -> io::Result<()> {
        ready.clear();
        let poll_only = deadline.is_some_and(|t| t <= now);
        if !poll_only {
            self.arm(now, deadline)?;
        }
        self.collect(poll_only, ready)
    }

    /// Sets the timer, which makes the epoll descriptor readable at `deadline`.
    pub(crate) fn arm(&mut self, now: Time, deadline: Option<Time>) -> io::Result<()> {
        // If the timer is set to a distant time and the new deadline is even later, leave the timer alone:
        // one unnecessary wakeup costs less than setting the timer every time.
        let far = |armed: Time| armed > now + FAR && deadline.is_some_and(|deadline| deadline >= armed);
        if deadline != self.armed && !self.armed.is_some_and(far) {
            // Zero stops the timer.
            let ns = deadline.map_or(0, Time::as_nanos);
            let at = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ };
            let never = Timespec { tv_sec: 0, tv_nsec: 0 };
            let setting = Itimerspec { it_interval: never, it_value: at };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
            self.armed = deadline;
        }
        Ok(())
    }

    fn collect(&mut self, poll_only: bool, ready: &mut Vec<Source>) -> io::Result<()> {
        let mut events: [Event; 32] = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 32];
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let n = match epoll::wait(&self.epoll, &mut events[..], poll_only.then_some(&zero)) {
            Err(Errno::INTR) => 0,
            other => other?,
        };
        for event in &events[..n] {
            let source = Source::of(event.data);
            match source {
                Source::Timer => {
                    drain(&self.timer);
                    self.armed = None;
                }
                Source::Wake => drain(&self.wake),
                _ => {}
            }
            ready.push(source);
        }
        Ok(())
    }
}

/// Reads the counter of a timer or an eventfd, so that the descriptor is no longer readable.
fn drain(fd: &OwnedFd) {
    let mut counter = [0; 8];
    // Ignore the error: there may be nothing to read.
    let _ = rustix::io::read(fd, &mut counter);
}
