//! The Unix socket on which the daemon receives the requests of the preload library.

use crate::{MOST, Reply};
use mpdccp_units::{Duration, Time};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// This bit distinguishes the epoll tokens of this module from those of program sockets, which are inode
/// numbers.
const FLAG: u64 = 1 << 63;
/// Maximum number of pending requests per user. Each thread waiting for a connection, for example, has a
/// pending request.
const MOST_OF_A_USER: usize = 256;
/// Time without new requests after descriptors or memory were short.
const PAUSE: Duration = Duration::from_millis(100);

/// A program that has sent a request and is waiting for the answer.
struct Asker {
    fd: OwnedFd,
    uid: u32,
}

pub(super) struct Control {
    listener: OwnedFd,
    /// The end of the pause during which the listener is not watched.
    pub(super) paused: Option<Time>,
    path: PathBuf,
    namespace: Option<u64>,
    askers: BTreeMap<u64, Asker>,
    next: u64,
}

/// Returns the number of a socket's network namespace, or `None` before Linux 5.14.
fn namespace(fd: impl AsFd) -> Option<u64> {
    let (mut cookie, mut len) = (0u64, size_of::<u64>() as libc::socklen_t);
    let fd = fd.as_fd().as_raw_fd();
    let to = (&raw mut cookie).cast();
    #[allow(unsafe_code, reason = "no crate offers this socket option")]
    // SAFETY: the kernel writes at most `len` bytes, and `cookie` has that size.
    let result = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, to, &raw mut len) };
    (result == 0).then_some(cookie)
}

fn seqpacket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

impl Control {
    pub(super) fn open(path: &Path, epoll: &OwnedFd) -> io::Result<Control> {
        let about = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir).map_err(about)?;
        }
        let (listener, addr) = (seqpacket()?, SocketAddrUnix::new(path)?);
        // A daemon that was killed leaves its socket file behind, so check whether a daemon answers.
        if rustix::net::connect(seqpacket()?, &addr).is_ok() {
            return Err(io::Error::new(
                io::ErrorKind::AddrInUse,
                format!(
                    "{}: another daemon uses this socket; choose another socket with --socket",
                    path.display()
                ),
            ));
        }
        if std::fs::symlink_metadata(path).is_ok_and(|file| FileType::from_raw_mode(mode(&file)).is_socket())
        {
            std::fs::remove_file(path).map_err(about)?;
        }
        rustix::net::bind(&listener, &addr).map_err(|e| about(e.into()))?;
        // Programs of all users may connect, because each program can use only its own sockets.
        rustix::fs::chmod(path, Mode::from_raw_mode(0o666))?;
        rustix::net::listen(&listener, 128)?;
        let namespace = namespace(&listener);
        let (path, askers) = (path.to_owned(), BTreeMap::new());
        let control = Control { listener, paused: None, path, namespace, askers, next: FLAG };
        control.watch(epoll)?;
        Ok(control)
    }

    fn watch(&self, epoll: &OwnedFd) -> rustix::io::Result<()> {
        epoll::add(epoll, &self.listener, EventData::new_u64(FLAG), EventFlags::IN)
    }

    /// Ends the pause if it is over.
    pub(super) fn resume(&mut self, now: Time, epoll: &OwnedFd) {
        if self.paused.is_some_and(|until| until <= now) {
            self.paused = self.watch(epoll).is_err().then_some(now + PAUSE);
        }
    }

    pub(super) fn is(token: u64) -> bool {
        token & FLAG != 0
    }

    pub(super) fn is_listener(token: u64) -> bool {
        token == FLAG
    }

    /// Receives a request into `bytes`. Returns the length of the request, the user, and the descriptor that
    /// came with it. Returns `None` if the program has closed the request.
    pub(super) fn receive(
        &mut self,
        token: u64,
        bytes: &mut [u8; MOST],
    ) -> Option<(usize, u32, Option<OwnedFd>)> {
        let asker = self.askers.get(&token)?;
        match crate::receive(&asker.fd, bytes, false) {
            Ok((len, fd)) if len > 0 => Some((len, asker.uid, fd)),
            // The program has closed the request, possibly because a signal interrupted it. The connection
            // attempt continues.
            _ => {
                self.forget(token);
                None
            }
        }
    }

    pub(super) fn forget(&mut self, asker: u64) {
        self.askers.remove(&asker);
    }

    pub(super) fn accept(&mut self, now: Time, epoll: &OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            let fd = match rustix::net::accept_with(&self.listener, flags) {
                Ok(fd) => fd,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    // The program still waits, so the listener would keep the daemon busy.
                    self.paused = epoll::delete(epoll, &self.listener).is_ok().then_some(now + PAUSE);
                    return;
                }
                Err(_) => return,
            };
            let Ok(peer) = sockopt::socket_peercred(&fd) else { continue };
            let uid = peer.uid.as_raw();
            // A program in another network namespace has other interfaces and addresses, so this daemon does
            // not serve it.
            let here = namespace(&fd) == self.namespace;
            if !here || self.askers.values().filter(|asker| asker.uid == uid).count() >= MOST_OF_A_USER {
                continue;
            }
            self.next += 1;
            if epoll::add(epoll, &fd, EventData::new_u64(self.next), EventFlags::IN).is_ok() {
                self.askers.insert(self.next, Asker { fd, uid });
            }
        }
    }

    /// Sends the answer to a request, and closes the Unix socket of the request.
    pub(super) fn answer(&mut self, asker: u64, reply: &Reply<'_>, fd: Option<BorrowedFd<'_>>) {
        if let Some(asker) = self.askers.remove(&asker) {
            // Ignore errors, because the program may have ended.
            let _ = crate::send(&asker.fd, reply, fd);
        }
    }
}

fn mode(file: &std::fs::Metadata) -> u32 {
    std::os::unix::fs::MetadataExt::mode(file)
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
#[path = "../../../../tests/limited.rs"]
mod limited;

#[cfg(test)]
mod tests {
    use super::limited::is_limited;
    use super::*;
    use rustix::event::epoll::{CreateFlags, Event};
    use rustix::time::Timespec;

    #[test]
    fn a_lack_of_descriptors_neither_keeps_the_daemon_busy_nor_stops_it() {
        let name = "a_lack_of_descriptors_neither_keeps_the_daemon_busy_nor_stops_it";
        if !is_limited("ulimit -n 64", &format!("daemon::control::tests::{name}")) {
            return;
        }
        let path = std::env::temp_dir().join(format!("mpdccp-control-{}.sock", std::process::id()));
        let epoll = epoll::create(CreateFlags::CLOEXEC).unwrap();
        let mut control = Control::open(&path, &epoll).unwrap();
        let ready = || {
            let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }];
            epoll::wait(&epoll, &mut events[..], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap()
        };
        let program = seqpacket().unwrap();
        rustix::net::connect(&program, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        assert_eq!(ready(), 1);
        let all: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        control.accept(Time::ZERO, &epoll);
        assert_eq!(ready(), 0);
        drop(all);
        let over = control.paused.unwrap();
        control.resume(Time::ZERO, &epoll);
        assert_eq!(ready(), 0);
        control.resume(over, &epoll);
        assert_eq!((ready(), control.paused), (1, None));
        control.accept(over, &epoll);
        assert_eq!(control.askers.len(), 1);
    }
}
