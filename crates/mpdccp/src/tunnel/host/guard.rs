//! Watches the routing of this host, because another program may remove the rules and routes of the tunnel.

use dccp_net::HostWatch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, PipeReader, PipeWriter};
use std::thread::JoinHandle;

/// Delay between a change and the check, so that the tunnel can complete a change that it makes itself.
const DELAY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Pause after a check, because each check starts several programs.
const PAUSE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A thread that calls a function after each change. Dropping this value waits for the thread to end.
pub(crate) struct Guard {
    thread: Option<(PipeWriter, JoinHandle<()>)>,
}

impl Guard {
    pub(crate) fn start(check: impl Fn() + Send + 'static) -> io::Result<Guard> {
        let (end, stop) = io::pipe()?;
        let watch = HostWatch::new()?;
        let serve = move || {
            while changes(&watch, &end) && !ends_within(&end, &DELAY) {
                watch.drain();
                check();
                if ends_within(&end, &PAUSE) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("routing".into()).spawn(serve)?;
        Ok(Guard { thread: Some((stop, thread)) })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// Waits for a change. Returns false if the thread must end.
fn changes(watch: &HostWatch, end: &PipeReader) -> bool {
    loop {
        let mut both = [PollFd::new(end, PollFlags::IN), PollFd::new(watch, PollFlags::IN)];
        match poll(&mut both, None) {
            Err(Errno::INTR) => {}
            Err(_) => return false,
            Ok(_) => return both[0].revents().is_empty(),
        }
    }
}

fn ends_within(end: &PipeReader, time: &Timespec) -> bool {
    let mut end = [PollFd::new(end, PollFlags::IN)];
    poll(&mut end, Some(time)).is_ok_and(|ready| ready > 0)
}
