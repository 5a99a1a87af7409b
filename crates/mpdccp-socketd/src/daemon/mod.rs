//! The daemon: one endpoint serves all programs of a network namespace.

mod ccid_info;
mod control;
mod marks;
mod network;
mod pump;
mod requests;
mod settings;
mod socket;

pub use settings::Settings;

use crate::NAME;
use control::Control;
use dccp_net::{App, Core, Driver};
use marks::Marks;
use mpdccp_proto::{Endpoint, Reason, SessionEvent, SessionId};
use mpdccp_units::Time;
use network::Network;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::time::Timespec;
use socket::{Socket, State};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

/// Maximum number of ended sockets whose errors and addresses are kept for later queries.
const MOST_ENDED: usize = 4096;
/// Maximum number of sockets per user.
const MOST_OF_A_USER: usize = 1024;
/// Size of the send buffer at a program's end, which the kernel raises to its minimum. Because this buffer is
/// small, datagrams wait in the send queue, whose length the program can limit.
const SMALL: usize = 1;

/// The daemon. It runs as an application of the data loop.
pub struct Daemon {
    settings: Settings,
    epoll: OwnedFd,
    control: Control,
    network: Network,
    marks: Marks,
    /// The sockets, keyed by the inode of the program's end.
    sockets: BTreeMap<u64, Socket>,
    sessions: BTreeMap<SessionId, u64>,
    /// Open sockets that `pump` reads in each turn. They are not watched until they have been emptied.
    full: BTreeSet<u64>,
    /// The sockets that have ended, oldest first.
    ended: VecDeque<u64>,
}

impl Daemon {
    /// Opens the daemon's sockets. The daemon serves programs while the returned driver runs.
    ///
    /// # Errors
    /// The operating system's error, with its context.
    pub fn driver(settings: Settings) -> io::Result<Driver<Daemon>> {
        let endpoint = Endpoint::new(dccp_net::random_seed()?);
        Driver::new(endpoint, |core| {
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            let control = Control::open(&settings.control, &epoll)?;
            core.net.heed_refusals = true;
            let network = Network::open(core, &settings)?;
            let marks = Marks::default();
            core.net.marking = Some(Box::new(marks.clone()));
            Ok(Daemon {
                settings,
                epoll,
                control,
                network,
                marks,
                sockets: BTreeMap::new(),
                sessions: BTreeMap::new(),
                full: BTreeSet::new(),
                ended: VecDeque::new(),
            })
        })
    }

    /// Creates a pair of Unix sockets. Returns the inode of the program's end, the daemon's end, and the
    /// program's end.
    fn pair() -> rustix::io::Result<(u64, OwnedFd, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        // With this option, each message comes with credentials, so that an empty message can be told from
        // the end of the data.
        sockopt::set_socket_passcred(&ours, true)?;
        sockopt::set_socket_send_buffer_size(&theirs, SMALL)?;
        let inode = rustix::fs::fstat(&theirs)?.st_ino;
        // Another user could take a name that can be predicted, so that this one would be in use.
        let mut number = [0; 8];
        getrandom(&mut number, GetRandomFlags::empty())?;
        let name = [&NAME[1..], format!("{:x}", u64::from_ne_bytes(number)).as_bytes()].concat();
        rustix::net::bind(&ours, &SocketAddrUnix::new_abstract_name(&name)?)?;
        Ok((inode, ours, theirs))
    }

    /// Adds a new socket. Returns its inode, and the end of the pair for the program.
    fn create(&mut self, uid: u32, v6: bool) -> rustix::io::Result<(u64, OwnedFd)> {
        let open = |socket: &&Socket| socket.uid == uid && socket.fd.is_some();
        if self.sockets.values().filter(open).count() >= MOST_OF_A_USER {
            return Err(Errno::NFILE);
        }
        let (inode, ours, theirs) = Daemon::pair()?;
        let data = EventData::new_u64(inode);
        epoll::add(&self.epoll, &ours, data, EventFlags::RDHUP)?;
        self.sockets.insert(inode, Socket::new(ours, uid, v6, self.settings.ccid));
        Ok((inode, theirs))
    }

    /// Starts watching for data from the program. Before this call, the daemon notices only if the program
    /// closes its end.
    fn watch(&self, inode: u64) {
        let Some(fd) = self.sockets.get(&inode).and_then(|socket| socket.fd.as_ref()) else { return };
        let data = EventData::new_u64(inode);
        if epoll::modify(&self.epoll, fd, data, EventFlags::IN) == Err(Errno::NOENT) {
            let _ = epoll::add(&self.epoll, fd, data, EventFlags::IN);
        }
    }

    /// Handles data from a program, or the end of a program's socket. If the connection is open, `pump` reads
    /// the socket from now on, and the socket is not watched again until it has been emptied.
    fn on_program(&mut self, core: &mut Core, now: Time, inode: u64) {
        let Some(socket) = self.sockets.get_mut(&inode) else { return };
        if let Some(fd) = &socket.fd {
            let _ = epoll::delete(&self.epoll, fd);
        }
        match socket.state {
            State::Open(_) => {
                self.full.insert(inode);
            }
            State::Connecting { session, .. } => {
                socket.fd = None;
                core.endpoint.abort(now, session);
            }
            State::Listening => {
                socket.local.iter().for_each(|local| core.endpoint.unlisten(local.port()));
                self.forget(inode);
            }
            State::Fresh | State::Ended => self.forget(inode),
        }
    }

    fn forget(&mut self, inode: u64) {
        self.full.remove(&inode);
        if let Some(socket) = self.sockets.remove(&inode) {
            self.network.release(&socket);
        }
    }

    fn on_opened(&mut self, core: &mut Core, now: Time, session: SessionId) {
        match self.sessions.get(&session).copied() {
            None => self.accept(core, now, session),
            Some(inode) => {
                let local = self.network.local(core, now, session);
                let Some(socket) = self.sockets.get_mut(&inode) else { return };
                let State::Connecting { asker, .. } = socket.state else { return };
                (socket.state, socket.opened, socket.untold) = (State::Open(session), now, asker.is_none());
                socket.local = local.or(socket.local);
                socket.take_filler();
                self.watch(inode);
                if let Some(asker) = asker {
                    self.control.answer(asker, &Ok(crate::Answer::Done), None);
                }
            }
        }
    }

    /// Accepts a session from a client: creates a socket for the session, and sends its descriptor to the
    /// program through the listening socket.
    fn accept(&mut self, core: &mut Core, now: Time, session: SessionId) {
        if self.hand_over(core, now, session).is_none() {
            // No socket has this inode, so the session's data and events are ignored until it has ended.
            self.sessions.insert(session, 0);
            core.endpoint.abort(now, session);
        }
    }

    fn hand_over(&mut self, core: &mut Core, now: Time, session: SessionId) -> Option<()> {
        let (local, peer) = (self.network.local(core, now, session)?, network::peer(core, now, session)?);
        let listening = self.network.listening(local.port())?;
        let listener = self.sockets.get(&listening)?;
        let bound = listener.local?;
        let here = bound.ip().is_unspecified() || bound.ip().to_canonical() == local.ip();
        let device = listener.options.device.as_ref();
        let here = here && device.is_none_or(|name| network::has_address(name, local.ip()));
        if !here || (!listener.v6 && peer.is_ipv6()) {
            return None;
        }
        let (uid, v6, options) = (listener.uid, listener.v6, listener.options.clone());
        let tos = options.tos;
        let (inode, theirs) = self.create(uid, v6).ok()?;
        let socket = self.sockets.get_mut(&inode)?;
        (socket.options, socket.state, socket.opened) = (options, State::Open(session), now);
        (socket.local, socket.peer) = (Some(local), Some(peer));
        self.sessions.insert(session, inode);
        self.watch(inode);
        let peer = self.sockets.get(&inode)?.shown(peer);
        let sent = self
            .sockets
            .get(&listening)?
            .fd
            .as_ref()
            .map(|fd| crate::send(fd, &crate::Place::from(peer), Some(theirs.as_fd())));
        if !matches!(sent, Some(Ok(()))) {
            self.forget(inode);
            return None;
        }
        self.marks.set(local.port(), peer.port(), tos);
        Some(())
    }

    fn on_closed(&mut self, session: SessionId, reason: Reason) {
        let Some(inode) = self.sessions.remove(&session) else { return };
        let Some(socket) = self.sockets.get_mut(&inode) else { return };
        if let (Some(local), Some(peer)) = (socket.local, socket.peer) {
            self.marks.set(local.port(), peer.port(), 0);
        }
        let error = network::errno(reason);
        match socket.state {
            State::Connecting { asker, .. } if socket.fd.is_some() => {
                // The program may call connect again, perhaps with a different peer.
                socket.state = State::Fresh;
                socket.take_filler();
                if let (Some(local), Some(port)) = (&mut socket.local, socket.reserved) {
                    local.set_port(port);
                }
                match asker {
                    Some(asker) => self.control.answer(asker, &Err(error.raw_os_error()), None),
                    None => socket.error = error.raw_os_error(),
                }
            }
            State::Open(_) if socket.fd.is_some() => {
                if !reason.is_orderly() {
                    socket.error = error.raw_os_error();
                }
                socket.state = State::Ended;
                // Many ended sockets are kept, so they must not keep datagrams that can no longer be sent.
                socket.waiting = Vec::new();
                // If the daemon closed its end with datagrams from the program unread, the program would get
                // an error before it has read everything.
                socket.discard();
                socket.fd = None;
                // The daemon will not notice when the program closes this socket, so the port is free now.
                self.network.release(socket);
                socket.reserved = None;
                self.full.remove(&inode);
                self.ended.push_back(inode);
                if self.ended.len() > MOST_ENDED {
                    self.ended.pop_front().into_iter().for_each(|oldest| self.forget_ended(oldest));
                }
            }
            State::Connecting { asker: Some(asker), .. } => {
                // Another thread has closed the descriptor.
                self.control.answer(asker, &Err(Errno::CONNABORTED.raw_os_error()), None);
                self.forget(inode);
            }
            _ => self.forget(inode),
        }
    }

    /// Removes an ended socket. If a newer socket has the same inode, that socket stays.
    fn forget_ended(&mut self, inode: u64) {
        if self.sockets.get(&inode).is_some_and(|socket| matches!(socket.state, State::Ended)) {
            self.forget(inode);
        }
    }
}

impl App for Daemon {
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.epoll.as_fd()]
    }

    fn on_readable(&mut self, core: &mut Core, now: Time, _: u32) {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 64];
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = epoll::wait(&self.epoll, &mut events[..], Some(&zero)).unwrap_or(0);
        for event in &events[..ready] {
            let token = event.data.u64();
            match Control::is(token) {
                true => self.on_control(core, now, token),
                false => self.on_program(core, now, token),
            }
        }
    }

    fn on_deliver(&mut self, core: &mut Core, now: Time, session: SessionId, data: Vec<u8>) {
        // Data can arrive in the same turn in which its connection opens, before the event that reports the
        // opening. The connection may even have ended in this turn.
        if !self.sessions.contains_key(&session) {
            self.accept(core, now, session);
        }
        let inode = self.sessions.get(&session);
        if let Some(socket) = inode.and_then(|inode| self.sockets.get(inode)) {
            socket.deliver(&data);
        }
    }

    fn on_event(&mut self, core: &mut Core, now: Time, session: SessionId, event: SessionEvent) {
        match event {
            SessionEvent::Opened { .. } => self.on_opened(core, now, session),
            SessionEvent::Closed(reason) => self.on_closed(session, reason),
            _ => {}
        }
    }

    fn fill(&mut self, core: &mut Core, now: Time) -> bool {
        let mut any = false;
        for inode in self.full.clone() {
            any |= self.pump(core, now, inode);
        }
        any
    }

    fn next_timeout(&self) -> Option<Time> {
        self.control.paused
    }

    fn on_timeout(&mut self, _: &mut Core, now: Time) {
        self.control.resume(now, &self.epoll);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another user binds the names that would follow if they contained inode numbers.
    #[test]
    fn names_cannot_be_taken_in_advance() {
        let (inode, ..) = Daemon::pair().unwrap();
        let squat = |n: u64| {
            let flags = SocketFlags::CLOEXEC;
            let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
            let socket = socket.unwrap();
            let name = [&NAME[1..], format!("{:x}", inode + 100 + n).as_bytes()].concat();
            let _ = rustix::net::bind(&socket, &SocketAddrUnix::new_abstract_name(&name).unwrap());
            socket
        };
        let _squatted: Vec<_> = (0..100).map(squat).collect();
        for _ in 0..10 {
            Daemon::pair().unwrap();
        }
    }

    #[test]
    fn an_ended_socket_keeps_no_datagrams() {
        let control = std::env::temp_dir().join(format!("mpdccp-socketd-{}.sock", std::process::id()));
        let mut driver = Daemon::driver(Settings { control, udp_port: Some(0), ccid: 2 }).unwrap();
        driver.with(|_, daemon| {
            let (inode, _theirs) = daemon.create(0, false).unwrap();
            let session = SessionId(1);
            daemon.sessions.insert(session, inode);
            let socket = daemon.sockets.get_mut(&inode).unwrap();
            socket.state = State::Open(session);
            socket.enqueue(0, vec![0; 1000]);
            daemon.on_closed(session, Reason::Silent);
            let socket = &daemon.sockets[&inode];
            assert!(matches!(socket.state, State::Ended) && socket.waiting.is_empty());
        });
    }
}
