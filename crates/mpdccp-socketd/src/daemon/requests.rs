//! Handles the requests that programs send.

use super::Daemon;
use super::control::Control;
use super::socket::{State, known_ccids};
use crate::{Answer, FORMAT, MOST, Request, SOCK_DCCP};
use dccp_net::Core;
use libc::{SOL_DCCP, SOL_SOCKET};
use mpdccp_proto::SessionStatus;
use mpdccp_units::Time;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, sockopt};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Once;

/// The maximum datagram size that the kernel reports for a socket that is not connected.
const MPS_BEFORE: i32 = 536;

/// The daemon says only once that a program has a library of another version.
static OTHER_VERSION: Once = Once::new();
const OTHER_VERSION_TEXT: &str = "mpdccp: a program runs with the library of another version of mpdccp, \
    so it cannot open DCCP sockets (EPROTO); restart the program with this version of `mpdccp run`";

/// The result of a request.
enum Outcome {
    Done,
    Addr(SocketAddr),
    Value(Vec<u8>),
    Socket(OwnedFd),
    /// The daemon answers the request when the connection has opened or failed.
    Later,
}

impl Daemon {
    pub(super) fn on_control(&mut self, core: &mut Core, now: Time, asker: u64) {
        let mut bytes = [0; MOST];
        if Control::is_listener(asker) {
            return self.control.accept(now, &self.epoll);
        }
        let Some((len, uid, fd)) = self.control.receive(asker, &mut bytes) else {
            return self.on_asker_gone(asker);
        };
        let Ok((format, request)) = postcard::take_from_bytes::<u32>(&bytes[..len]) else {
            return self.control.forget(asker);
        };
        if format != FORMAT {
            // Ignore the error: nobody may read the daemon's messages.
            OTHER_VERSION.call_once(|| drop(writeln!(std::io::stderr(), "{OTHER_VERSION_TEXT}")));
            // A socket that the program has was one of the previous daemon.
            let error = if fd.is_some() { Errno::CONNRESET } else { Errno::PROTO };
            return self.control.answer(asker, &Err(error.raw_os_error()), None);
        }
        let Ok(request) = postcard::from_bytes::<Request<'_>>(request) else {
            return self.control.forget(asker);
        };
        let outcome = match (request, fd) {
            (Request::Socket { v6 }, _) => self.create(uid, v6).map(|(_, theirs)| Outcome::Socket(theirs)),
            (request, Some(fd)) => self.answer(core, now, (asker, uid), request, &fd),
            (_, None) => Err(Errno::BADF),
        };
        let (reply, fd) = match &outcome {
            Ok(Outcome::Later) => return,
            Ok(Outcome::Done) => (Ok(Answer::Done), None),
            Ok(Outcome::Addr(addr)) => (Ok(Answer::Addr((*addr).into())), None),
            Ok(Outcome::Value(value)) => (Ok(Answer::Value(value)), None),
            Ok(Outcome::Socket(fd)) => (Ok(Answer::Done), Some(fd.as_fd())),
            Err(e) => (Err(e.raw_os_error()), None),
        };
        self.control.answer(asker, &reply, fd);
    }

    /// Handles a blocking connect call that ended without an answer, for example because of a signal. If the
    /// connection attempt fails, SO_ERROR will return the error.
    fn on_asker_gone(&mut self, gone: u64) {
        for socket in self.sockets.values_mut() {
            if let State::Connecting { asker, .. } = &mut socket.state
                && *asker == Some(gone)
            {
                *asker = None;
            }
        }
    }

    fn answer(
        &mut self,
        core: &mut Core,
        now: Time,
        (asker, uid): (u64, u32),
        request: Request<'_>,
        fd: &OwnedFd,
    ) -> Result<Outcome, Errno> {
        // The descriptor must be a socket. A socket file in a file system, opened with O_PATH, looks like one
        // to fstat, but its inode number may be that of another program's socket.
        sockopt::socket_type(fd)?;
        let inode = rustix::fs::fstat(fd)?.st_ino;
        let socket = self.sockets.get_mut(&inode).ok_or(Errno::CONNRESET)?;
        match request {
            Request::Socket { .. } => Err(Errno::INVAL),
            Request::Bind(addr) => {
                let addr = SocketAddr::from(addr);
                if socket.local.is_some() || !matches!(socket.state, State::Fresh) {
                    return Err(Errno::INVAL);
                }
                if addr.is_ipv6() != socket.v6 {
                    return Err(Errno::AFNOSUPPORT);
                }
                let local = self.network.bind(uid, addr)?;
                (socket.local, socket.reserved) = (Some(local), Some(local.port()));
                Ok(Outcome::Done)
            }
            Request::Listen => {
                match socket.state {
                    State::Listening => return Ok(Outcome::Done),
                    State::Fresh => {}
                    _ => return Err(Errno::INVAL),
                }
                let local = self.bound(uid, inode)?;
                // The name tells the preload library that the socket listens.
                rustix::net::bind(fd, &SocketAddrUnix::new_unnamed())?;
                let socket = self.sockets.get_mut(&inode).ok_or(Errno::BADF)?;
                socket.state = State::Listening;
                self.network.listen(core, inode, local.port(), &socket.options);
                Ok(Outcome::Done)
            }
            Request::Connect { to, wait } => {
                let to = SocketAddr::from(to);
                match &mut socket.state {
                    // As in the kernel, a further call returns the error of an attempt that a signal has
                    // interrupted or that was not blocking. If the attempt is not over, the call waits for
                    // it.
                    State::Fresh if socket.error != 0 => {
                        return Err(Errno::from_raw_os_error(std::mem::take(&mut socket.error)));
                    }
                    State::Fresh => {}
                    State::Connecting { asker: waiting, .. } if wait && waiting.is_none() => {
                        *waiting = Some(asker);
                        return Ok(Outcome::Later);
                    }
                    State::Connecting { .. } => return Err(Errno::ALREADY),
                    // The first call after the attempt has succeeded in the background succeeds, too.
                    State::Open(_) => {
                        let news = std::mem::take(&mut socket.untold);
                        return news.then_some(Outcome::Done).ok_or(Errno::ISCONN);
                    }
                    State::Listening | State::Ended => return Err(Errno::ISCONN),
                }
                if to.is_ipv6() != socket.v6 {
                    return Err(Errno::AFNOSUPPORT);
                }
                let local = self.bound(uid, inode)?;
                let socket = self.sockets.get_mut(&inode).ok_or(Errno::BADF)?;
                // The kernel would have refused datagrams that the program sent before.
                socket.discard();
                let (session, local) = self.network.connect((core, now), local, to, &socket.options)?;
                self.marks.set(local.port(), to.port(), socket.options.tos);
                self.sessions.insert(session, inode);
                (socket.local, socket.peer) = (Some(local), Some(to));
                socket.state = State::Connecting { session, asker: wait.then_some(asker) };
                // Fill the socket for blocking calls too: if a signal interrupts the call, the program may
                // wait with poll.
                socket.fill(fd.as_fd());
                if wait { Ok(Outcome::Later) } else { Err(Errno::INPROGRESS) }
            }
            Request::Get { level, name } => self.get(core, now, inode, level, name).map(Outcome::Value),
            Request::Set { level, name, value } => {
                socket.set(level, name, value)?;
                // The mark is removed when the connection ends.
                if matches!(socket.state, State::Connecting { .. } | State::Open(_))
                    && let (Some(local), Some(peer)) = (socket.local, socket.peer)
                {
                    self.marks.set(local.port(), peer.port(), socket.options.tos);
                }
                if matches!(socket.state, State::Listening)
                    && let Some(local) = socket.local
                {
                    self.network.listen(core, inode, local.port(), &socket.options);
                }
                Ok(Outcome::Done)
            }
            Request::Local => {
                let any: IpAddr =
                    if socket.v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
                Ok(Outcome::Addr(socket.shown(socket.local.unwrap_or(SocketAddr::new(any, 0)))))
            }
            Request::Peer => match (&socket.state, socket.peer) {
                (State::Open(_), Some(peer)) => Ok(Outcome::Addr(socket.shown(peer))),
                _ => Err(Errno::NOTCONN),
            },
            Request::Ended { keep } => {
                let error = if keep { socket.error } else { std::mem::take(&mut socket.error) };
                match error {
                    0 => Ok(Outcome::Done),
                    error => Err(Errno::from_raw_os_error(error)),
                }
            }
            Request::Send { priority, data } => match socket.state {
                State::Open(_) if !socket.options.priority => Err(Errno::INVAL),
                State::Open(_) => {
                    socket.enqueue(priority, data.to_vec());
                    self.full.insert(inode);
                    Ok(Outcome::Done)
                }
                _ => Err(Errno::NOTCONN),
            },
        }
    }

    /// Returns the local address of a socket, after binding the socket to a free port if it has none.
    fn bound(&mut self, uid: u32, inode: u64) -> Result<SocketAddr, Errno> {
        let socket = self.sockets.get_mut(&inode).ok_or(Errno::BADF)?;
        if let Some(local) = socket.local {
            return Ok(local);
        }
        let any = if socket.v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let local = self.network.bind(uid, SocketAddr::new(any, 0))?;
        (socket.local, socket.reserved) = (Some(local), Some(local.port()));
        Ok(local)
    }

    fn get(&mut self, core: &Core, now: Time, inode: u64, level: i32, name: i32) -> Result<Vec<u8>, Errno> {
        let socket = self.sockets.get_mut(&inode).ok_or(Errno::BADF)?;
        let status = match socket.state {
            State::Open(session) => core.endpoint.status(now, session),
            _ => None,
        };
        let ccids = |status: Option<SessionStatus>| status?.paths.first()?.ccids;
        let options = &socket.options;
        let value = match (level, name) {
            (SOL_SOCKET, libc::SO_ERROR) => std::mem::take(&mut socket.error),
            (SOL_SOCKET, libc::SO_DOMAIN) if socket.v6 => libc::AF_INET6,
            (SOL_SOCKET, libc::SO_DOMAIN) => libc::AF_INET,
            (SOL_SOCKET, libc::SO_TYPE) => SOCK_DCCP,
            (SOL_SOCKET, libc::SO_PROTOCOL) => libc::IPPROTO_DCCP,
            (SOL_SOCKET, libc::SO_BINDTODEVICE) => {
                let name = options.device.iter().flat_map(|name| name.bytes().chain([0]));
                return Ok(name.collect());
            }
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => options.tos.into(),
            (SOL_SOCKET, libc::SO_SNDBUF) => options.buffers.0,
            (SOL_SOCKET, libc::SO_RCVBUF) => options.buffers.1,
            (SOL_SOCKET, libc::SO_ACCEPTCONN) => i32::from(matches!(socket.state, State::Listening)),
            (SOL_DCCP, libc::DCCP_SOCKOPT_PACKET_SIZE) => 0,
            (SOL_DCCP, libc::DCCP_SOCKOPT_SERVICE) => {
                return Ok(options.services.iter().flat_map(|code| code.to_be_bytes()).collect());
            }
            (SOL_DCCP, libc::DCCP_SOCKOPT_GET_CUR_MPS) => {
                let mps = status.and_then(|status| status.max_payload);
                mps.map_or(MPS_BEFORE, |mps| mps.try_into().unwrap_or(i32::MAX))
            }
            (SOL_DCCP, libc::DCCP_SOCKOPT_SERVER_TIMEWAIT) => i32::from(options.server_timewait),
            (SOL_DCCP, libc::DCCP_SOCKOPT_SEND_CSCOV) => options.send_coverage.into(),
            (SOL_DCCP, libc::DCCP_SOCKOPT_RECV_CSCOV) => options.receive_coverage.into(),
            (SOL_DCCP, libc::DCCP_SOCKOPT_AVAILABLE_CCIDS) => return Ok(known_ccids().collect()),
            (SOL_DCCP, libc::DCCP_SOCKOPT_TX_CCID) => ccids(status).ok_or(Errno::NOPROTOOPT)?.0.into(),
            (SOL_DCCP, libc::DCCP_SOCKOPT_RX_CCID) => ccids(status).ok_or(Errno::NOPROTOOPT)?.1.into(),
            (SOL_DCCP, libc::DCCP_SOCKOPT_QPOLICY_ID) => options.priority.into(),
            (SOL_DCCP, libc::DCCP_SOCKOPT_QPOLICY_TXQLEN) => options.queue.try_into().unwrap_or(i32::MAX),
            (SOL_DCCP, libc::DCCP_SOCKOPT_CCID_TX_INFO) => {
                return super::ccid_info::sender(status.as_ref()).ok_or(Errno::NOPROTOOPT);
            }
            (SOL_DCCP, libc::DCCP_SOCKOPT_CCID_RX_INFO) => {
                return super::ccid_info::receiver(status.as_ref(), now.since(socket.opened))
                    .ok_or(Errno::NOPROTOOPT);
            }
            (SOL_DCCP, name) if name >= libc::DCCP_SOCKOPT_CCID_RX_INFO => return Err(Errno::OPNOTSUPP),
            _ => return Err(Errno::NOPROTOOPT),
        };
        Ok(value.to_ne_bytes().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use dccp_net::Marking;
    use mpdccp_units::Ecn;

    /// Nothing would remove the mark, so a program could use up the daemon's memory.
    #[test]
    fn a_socket_without_a_connection_has_no_mark() {
        let control = std::env::temp_dir().join(format!("mpdccp-socketd-mark-{}.sock", std::process::id()));
        let mut driver = Daemon::driver(Settings { control, udp_port: Some(0), ccid: 2 }).unwrap();
        driver.with(|core, daemon| {
            let (inode, theirs) = daemon.create(0, false).unwrap();
            let at = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
            let mut mark = |state: State, tos: i32| {
                let socket = daemon.sockets.get_mut(&inode).unwrap();
                (socket.local, socket.peer, socket.state) = (at(0x1234), at(0x5678), state);
                let value = &tos.to_ne_bytes();
                let set = Request::Set { level: libc::IPPROTO_IP, name: libc::IP_TOS, value };
                assert!(daemon.answer(core, Time::ZERO, (0, 0), set, &theirs).is_ok());
                daemon.marks.outer_of(&[0x12, 0x34, 0x56, 0x78], Ecn::NotEct).dscp
            };
            assert_eq!(mark(State::Fresh, 46 << 2), 0);
            assert_eq!(mark(State::Open(mpdccp_proto::SessionId(1)), 46 << 2), 46);
            daemon.forget(inode);
        });
    }
}
