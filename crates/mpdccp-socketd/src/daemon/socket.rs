//! The socket of a program.

use mpdccp_proto::SessionId;
use mpdccp_units::Time;
use rustix::cmsg_space;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};

/// Size of the longest datagram in bytes. No path carries longer datagrams.
const LONGEST: usize = 9216;
/// Maximum number of datagrams in a send queue, even if a program requests more, because they use the
/// daemon's memory.
const MOST_QUEUED: u32 = 256;
/// Number of messages that make a socket unwritable. It is more than the small send buffer can hold.
pub(super) const MOST_FILLER: u32 = 64;

/// State of a socket.
pub(super) enum State {
    Fresh,
    Listening,
    /// The socket waits for the peer's answer, and a blocking connect waits with it.
    Connecting {
        session: SessionId,
        asker: Option<u64>,
    },
    Open(SessionId),
    /// The connection has ended, and the socket to the program is closed.
    Ended,
}

/// The options that the program has set with setsockopt.
#[derive(Clone)]
pub(super) struct Options {
    /// Service Codes in host byte order. A client uses the first.
    pub(super) services: Vec<u32>,
    /// CCIDs for sending and for receiving, in order of preference.
    pub(super) tx_ccids: Vec<u8>,
    pub(super) rx_ccids: Vec<u8>,
    pub(super) send_coverage: u8,
    pub(super) receive_coverage: u8,
    pub(super) server_timewait: bool,
    /// Whether datagrams of higher priority are sent first.
    pub(super) priority: bool,
    /// Maximum number of queued datagrams. 0 selects the largest possible queue.
    pub(super) queue: u32,
    /// TOS byte of IP headers.
    pub(super) tos: u8,
    /// The interface to which the socket is bound.
    pub(super) device: Option<String>,
    /// Values of SO_SNDBUF and SO_RCVBUF, because programs check whether their values were accepted.
    pub(super) buffers: (i32, i32),
}

pub(super) struct Socket {
    /// The daemon's end. It exists until the program has closed its end and the data was read, or until the
    /// connection has ended.
    pub(super) fd: Option<OwnedFd>,
    pub(super) uid: u32,
    pub(super) v6: bool,
    pub(super) local: Option<SocketAddr>,
    /// Whether the port belongs to this socket, and not to a listening socket.
    pub(super) owns_port: bool,
    pub(super) peer: Option<SocketAddr>,
    pub(super) options: Options,
    pub(super) state: State,
    /// When the connection opened.
    pub(super) opened: Time,
    /// The errno that SO_ERROR returns.
    pub(super) error: i32,
    /// Number of messages from the daemon that make the program's end unwritable.
    filler: u32,
    /// Datagrams sorted by priority, if priorities are in use.
    pub(super) waiting: Vec<(u32, Vec<u8>)>,
}

impl Socket {
    pub(super) fn new(fd: OwnedFd, uid: u32, v6: bool, ccid: u8) -> Socket {
        // The kernel offers all CCIDs, its default first. Do the same.
        let ccids: Vec<u8> =
            std::iter::once(ccid).chain(known_ccids().filter(|other| *other != ccid)).collect();
        let options = Options {
            services: vec![0],
            tx_ccids: ccids.clone(),
            rx_ccids: ccids,
            send_coverage: 0,
            receive_coverage: 0,
            server_timewait: false,
            priority: false,
            // This is the kernel's default.
            queue: 5,
            tos: 0,
            device: None,
            // These are net.core.wmem_default and rmem_default on most hosts.
            buffers: (212_992, 212_992),
        };
        Socket {
            fd: Some(fd),
            uid,
            v6,
            local: None,
            owns_port: false,
            peer: None,
            options,
            state: State::Fresh,
            opened: Time::ZERO,
            error: 0,
            filler: 0,
            waiting: Vec::new(),
        }
    }

    /// An address in the form of the socket's address family.
    pub(super) fn shown(&self, addr: SocketAddr) -> SocketAddr {
        match addr.ip() {
            IpAddr::V4(ip) if self.v6 => SocketAddr::new(ip.to_ipv6_mapped().into(), addr.port()),
            _ => addr,
        }
    }

    /// Makes the program's end unwritable while the connection is opening, so that poll reports the right
    /// state.
    pub(super) fn fill(&mut self, theirs: BorrowedFd<'_>) {
        while self.filler < MOST_FILLER
            && send(theirs, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).is_ok()
        {
            self.filler += 1;
        }
    }

    pub(super) fn take_filler(&mut self) {
        for _ in 0..std::mem::take(&mut self.filler) {
            self.next();
        }
    }

    /// The next datagram from the program. `Some(None)` if there is none yet, `None` at the end of the
    /// program's data.
    pub(super) fn next(&self) -> Option<Option<Vec<u8>>> {
        let fd = self.fd.as_ref()?;
        let mut bytes = [0; LONGEST];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmCredentials(1), ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        match recvmsg(fd, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(read) => {
                // Descriptors that came with the message are closed here. The loop must read all messages,
                // because rustix cannot continue after a message whose rest was dropped.
                let mut message = false;
                for part in control.drain() {
                    message |= matches!(part, RecvAncillaryMessage::ScmCredentials(_));
                }
                (message || read.bytes > 0).then(|| Some(bytes[..read.bytes].to_vec()))
            }
            Err(Errno::AGAIN | Errno::INTR) => Some(None),
            Err(_) => None,
        }
    }

    /// Maximum number of datagrams in the send queue.
    pub(super) fn most_queued(&self) -> u32 {
        match self.options.queue {
            0 => MOST_QUEUED,
            queue => queue.min(MOST_QUEUED),
        }
    }

    /// Delivers a datagram to the program. If the program does not read, the datagram is lost, as with the
    /// kernel's sockets.
    pub(super) fn deliver(&self, data: &[u8]) {
        if let Some(fd) = &self.fd
            && let Err(e) = send(fd, data, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
        {
            tracing::debug!("cannot deliver a datagram to its program: {e}");
        }
    }

    /// Queues a datagram by priority. If the queue is full, drops the datagram with the lowest priority.
    pub(super) fn enqueue(&mut self, priority: u32, data: Vec<u8>) {
        let behind = self.waiting.iter().position(|(other, _)| *other < priority);
        self.waiting.insert(behind.unwrap_or(self.waiting.len()), (priority, data));
        self.waiting.truncate(self.most_queued() as usize);
    }

    /// Implements setsockopt.
    pub(super) fn set(&mut self, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
        match (level, name) {
            (libc::SOL_DCCP, name) => self.set_dccp(name, value),
            (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) => self.set_device(value),
            (libc::SOL_SOCKET, name) => {
                let size = value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno::INVAL)?;
                // The kernel doubles the value, and has a minimum. Do the same.
                let size = size.saturating_mul(2).max(4608);
                match name {
                    libc::SO_SNDBUF | libc::SO_SNDBUFFORCE => self.options.buffers.0 = size,
                    libc::SO_RCVBUF | libc::SO_RCVBUFFORCE => self.options.buffers.1 = size,
                    _ => return Err(Errno::NOPROTOOPT),
                }
                Ok(())
            }
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // The value is an integer or a byte; -1 selects the default. Congestion control sets the ECN
                // bits.
                let tos = match value.first_chunk() {
                    Some(bytes) => i32::from_ne_bytes(*bytes),
                    None => (*value.first().ok_or(Errno::INVAL)?).into(),
                };
                self.options.tos = u8::try_from(tos.max(0)).map_err(|_| Errno::INVAL)? & !3;
                Ok(())
            }
            _ => Err(Errno::NOPROTOOPT),
        }
    }

    /// Implements SO_BINDTODEVICE. The value is a name, with or without a null byte. An empty name removes
    /// the binding.
    fn set_device(&mut self, value: &[u8]) -> Result<(), Errno> {
        let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
        let name = std::str::from_utf8(name).map_err(|_| Errno::NODEV)?;
        if !matches!(self.state, State::Fresh) {
            return Err(Errno::ISCONN);
        }
        if name.is_empty() {
            self.options.device = None;
            return Ok(());
        }
        if nix::net::if_::if_nametoindex(name).is_err() {
            return Err(Errno::NODEV);
        }
        self.options.device = Some(name.to_owned());
        Ok(())
    }

    fn set_dccp(&mut self, name: i32, value: &[u8]) -> Result<(), Errno> {
        let fresh = matches!(self.state, State::Fresh);
        let number = || value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno::INVAL);
        match name {
            libc::DCCP_SOCKOPT_PACKET_SIZE | libc::DCCP_SOCKOPT_CHANGE_L | libc::DCCP_SOCKOPT_CHANGE_R => {}
            libc::DCCP_SOCKOPT_CCID | libc::DCCP_SOCKOPT_TX_CCID | libc::DCCP_SOCKOPT_RX_CCID => {
                let known = |ccid: &u8| known_ccids().any(|known| known == *ccid);
                if value.is_empty() || value.len() > 16 || !value.iter().all(known) {
                    return Err(Errno::INVAL);
                }
                if !fresh {
                    return Err(Errno::ISCONN);
                }
                if name != libc::DCCP_SOCKOPT_RX_CCID {
                    self.options.tx_ccids = value.to_vec();
                }
                if name != libc::DCCP_SOCKOPT_TX_CCID {
                    self.options.rx_ccids = value.to_vec();
                }
            }
            libc::DCCP_SOCKOPT_SERVICE => {
                let (codes, rest) = value.as_chunks::<4>();
                let codes: Vec<u32> = codes.iter().map(|code| u32::from_be_bytes(*code)).collect();
                if codes.is_empty() || codes.len() > 33 || !rest.is_empty() || codes.contains(&u32::MAX) {
                    return Err(Errno::INVAL);
                }
                self.options.services = codes;
            }
            libc::DCCP_SOCKOPT_SEND_CSCOV | libc::DCCP_SOCKOPT_RECV_CSCOV => {
                let coverage = u8::try_from(number()?).ok().filter(|c| *c <= 15).ok_or(Errno::INVAL)?;
                if !fresh {
                    return Err(Errno::ISCONN);
                }
                match name {
                    libc::DCCP_SOCKOPT_SEND_CSCOV => self.options.send_coverage = coverage,
                    _ => self.options.receive_coverage = coverage,
                }
            }
            libc::DCCP_SOCKOPT_SERVER_TIMEWAIT => match self.state {
                State::Listening => self.options.server_timewait = number()? != 0,
                _ => return Err(Errno::OPNOTSUPP),
            },
            libc::DCCP_SOCKOPT_QPOLICY_ID => match number()? {
                _ if !fresh => return Err(Errno::ISCONN),
                policy @ 0..=1 => self.options.priority = policy == 1,
                _ => return Err(Errno::INVAL),
            },
            libc::DCCP_SOCKOPT_QPOLICY_TXQLEN => {
                self.options.queue = u32::try_from(number()?).map_err(|_| Errno::INVAL)?;
            }
            _ => {
                number()?;
                return Err(Errno::NOPROTOOPT);
            }
        }
        Ok(())
    }
}

/// The available CCIDs.
pub(super) fn known_ccids() -> impl Iterator<Item = u8> {
    mpdccp_proto::Ccid::known()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_urgent_leaves_first_and_the_least_urgent_is_dropped() {
        let (inode, ours, _theirs) = super::super::Daemon::pair().unwrap();
        assert!(inode > 0);
        let mut socket = Socket::new(ours, 0, false, 2);
        socket.options.queue = 4;
        for (priority, data) in [(1, b'a'), (0, b'b'), (2, b'c'), (1, b'd'), (2, b'e')] {
            socket.enqueue(priority, vec![data]);
        }
        assert_eq!(socket.most_queued(), 4);
        let queued: Vec<u8> = socket.waiting.iter().map(|(_, data)| data[0]).collect();
        assert_eq!(queued, b"cead");
        socket.options.queue = 0;
        (0..1000).for_each(|n| socket.enqueue(n, Vec::new()));
        assert_eq!(socket.waiting.len(), MOST_QUEUED as usize);
    }
}
