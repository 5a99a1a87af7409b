use mpdccp_units::{Duration, Time};
use std::net::SocketAddr;

/// A change of a link: sending to a destination has stopped working, or works again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkChange {
    /// The socket.
    pub socket: u32,
    /// The destination.
    pub remote: SocketAddr,
    /// Whether the link works again.
    pub up: bool,
    /// Why sending fails.
    pub why: String,
}

/// Interval between checks of a destination to which sending is failing.
const RETRY: Duration = Duration::from_millis(250);
/// Longest interval between checks when sending to a destination keeps failing although the system reports
/// that the destination can be reached.
const MAX_WAIT: Duration = Duration::from_secs(8);
/// A destination that has been working again for this long is no longer listed.
const PROBATION: Duration = Duration::from_secs(10);
/// Maximum number of listed destinations, because peers can invent addresses and these must not fill the
/// memory.
const MAX_BROKEN: usize = 64;

/// A destination to which sending is failing, or failed recently.
#[derive(Debug)]
struct Broken {
    socket: u32,
    remote: SocketAddr,
    /// Time of the next check; `None` while the destination is working.
    retry_at: Option<Time>,
    wait: Duration,
    mended: Time,
}

/// Destinations to which sending failed.
#[derive(Debug, Default)]
pub(crate) struct Links {
    broken: Vec<Broken>,
    changes: Vec<LinkChange>,
}

impl Links {
    /// Records that sending to a destination is failing, and why.
    pub(crate) fn mark(&mut self, now: Time, socket: u32, remote: SocketAddr, why: String) {
        let known = self.broken.iter().position(|b| b.socket == socket && b.remote == remote);
        match known {
            Some(i) if self.broken[i].retry_at.is_none() => {
                let broken = &mut self.broken[i];
                broken.wait = (broken.wait * 2).min(MAX_WAIT);
                broken.retry_at = Some(now + broken.wait);
                self.changes.push(LinkChange { socket, remote, up: false, why });
            }
            None if self.broken.len() < MAX_BROKEN => {
                let retry_at = Some(now + RETRY);
                self.broken.push(Broken { socket, remote, retry_at, wait: RETRY, mended: now });
                self.changes.push(LinkChange { socket, remote, up: false, why });
            }
            // The destination is already known to fail.
            _ => {}
        }
    }

    fn mend(&mut self, now: Time, i: usize) {
        let broken = &mut self.broken[i];
        broken.retry_at = None;
        broken.mended = now;
        let (socket, remote) = (broken.socket, broken.remote);
        self.changes.push(LinkChange { socket, remote, up: true, why: String::new() });
    }

    /// Returns when to call [`retry`](Self::retry) next.
    pub(crate) fn next_retry(&self) -> Option<Time> {
        self.broken.iter().filter_map(|b| b.retry_at).min()
    }

    /// Checks the destinations that are due. `works` returns whether a destination can be reached again.
    pub(crate) fn retry(&mut self, now: Time, mut works: impl FnMut(u32, SocketAddr) -> bool) {
        for i in 0..self.broken.len() {
            let broken = &mut self.broken[i];
            if broken.retry_at.is_none_or(|at| at > now) {
                continue;
            }
            if works(broken.socket, broken.remote) {
                self.mend(now, i);
            } else {
                broken.retry_at = Some(now + RETRY);
            }
        }
        self.broken.retain(|b| b.retry_at.is_some() || now.since(b.mended) < PROBATION);
    }

    /// Removes the destinations of a closed socket.
    pub(crate) fn forget(&mut self, socket: u32) {
        self.retain(|other| other != socket);
    }

    /// Removes the destinations of all sockets for which `exists` returns false.
    pub(crate) fn retain(&mut self, exists: impl Fn(u32) -> bool) {
        self.broken.retain(|b| exists(b.socket));
    }

    pub(crate) fn take_changes(&mut self) -> Vec<LinkChange> {
        std::mem::take(&mut self.changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote() -> SocketAddr {
        ([192, 0, 2, 1], 6511).into()
    }

    fn ups(links: &mut Links) -> Vec<bool> {
        links.take_changes().into_iter().map(|c| c.up).collect()
    }

    #[test]
    fn each_change_is_told_once() {
        let mut links = Links::default();
        let t = Time::from_millis(5);
        for _ in 0..3 {
            links.mark(t, 0, remote(), "no route".into());
        }
        assert_eq!(ups(&mut links), [false]);
        assert_eq!(links.next_retry(), Some(t + RETRY));
        links.retry(t + RETRY, |_, _| false);
        assert!(ups(&mut links).is_empty());
        links.retry(t + RETRY * 2, |_, _| true);
        assert_eq!(ups(&mut links), [true]);
        assert_eq!(links.next_retry(), None);
    }

    #[test]
    fn a_link_that_fails_repeatedly_waits_longer() {
        let mut links = Links::default();
        let mut t = Time::from_millis(5);
        let mut waits = Vec::new();
        for _ in 0..8 {
            links.mark(t, 0, remote(), "refused".into());
            let next = links.next_retry().unwrap();
            waits.push(next.since(t).as_millis());
            t = next;
            links.retry(t, |_, _| true);
        }
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
        // After [`PROBATION`], the interval starts at its minimum again.
        t += PROBATION;
        links.retry(t, |_, _| true);
        links.mark(t, 0, remote(), "refused".into());
        assert_eq!(links.next_retry(), Some(t + RETRY));
    }

    #[test]
    fn the_list_is_bounded() {
        let mut links = Links::default();
        for port in 0..1000 {
            links.mark(Time::ZERO, 0, ([192, 0, 2, 1], port).into(), "no route".into());
        }
        assert_eq!(links.take_changes().len(), MAX_BROKEN);
        links.forget(0);
        assert_eq!(links.next_retry(), None);
    }
}
