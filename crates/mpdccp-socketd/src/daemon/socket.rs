//! The daemon's part of a program's DCCP socket.

use mpdccp_proto::SessionId;
use mpdccp_units::Time;
use rustix::cmsg_space;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg, send};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};

/// Maximum length of a datagram in bytes. No path carries longer datagrams.
const LONGEST: usize = 9216;
/// Maximum number of datagrams in a send queue. A program cannot set a higher limit, because the queue uses
/// the daemon's memory.
const MOST_QUEUED: u32 = 256;
/// Maximum number of filler messages sent to make a socket unwritable. The small send buffer holds fewer
/// messages than this.
const MOST_FILLER: u32 = 64;

/// State of a socket.
pub(super) enum State {
    Fresh,
    Listening,
    /// The socket is waiting for the peer's answer. `asker` is the blocking connect call that is waiting for
    /// it, if any.
    Connecting {
        session: SessionId,
        asker: Option<u64>,
    },
    Open(SessionId),
    /// The connection has ended, and the daemon has closed its end of the pair.
    Ended,
}

/// The options that a program can set with setsockopt.
#[derive(Clone, Default)]
pub(super) struct Options {
    /// The Service Codes in host byte order. A client uses the first one.
    pub(super) services: Vec<u32>,
    /// The CCIDs for sending and for receiving, in order of preference.
    pub(super) tx_ccids: Vec<u8>,
    pub(super) rx_ccids: Vec<u8>,
    pub(super) send_coverage: u8,
    pub(super) receive_coverage: u8,
    pub(super) server_timewait: bool,
    /// Whether datagrams with a higher priority are sent first.
    pub(super) priority: bool,
    /// Maximum number of queued datagrams. 0 means the daemon's maximum.
    pub(super) queue: u32,
    /// The TOS byte of the IP headers.
    pub(super) tos: u8,
    /// The interface to which the socket is bound, if any.
    pub(super) device: Option<String>,
    /// The values of SO_SNDBUF and SO_RCVBUF. They have no effect, but programs check whether the values that
    /// they set were stored.
    pub(super) buffers: (i32, i32),
}

pub(super) struct Socket {
    /// The daemon's end of the pair. The daemon closes it once the connection has ended, or once the program
    /// has closed its end and all data has been read.
    pub(super) fd: Option<OwnedFd>,
    pub(super) uid: u32,
    pub(super) v6: bool,
    pub(super) local: Option<SocketAddr>,
    /// The port that this socket reserves. An accepted socket reserves none, because its port belongs to the
    /// listening socket. A connection uses another port if this one is in TIMEWAIT.
    pub(super) reserved: Option<u16>,
    pub(super) peer: Option<SocketAddr>,
    pub(super) options: Options,
    pub(super) state: State,
    /// The time at which the connection opened.
    pub(super) opened: Time,
    /// The errno value that the next SO_ERROR returns.
    pub(super) error: i32,
    /// Whether the connection opened while no connect call waited for it, so that the next call succeeds.
    pub(super) untold: bool,
    /// Number of filler messages that currently make the program's end unwritable.
    filler: u32,
    /// The datagrams waiting to be sent, with their priorities. Empty if the socket does not use priorities.
    pub(super) waiting: Vec<(u32, Vec<u8>)>,
}

impl Socket {
    pub(super) fn new(fd: OwnedFd, uid: u32, v6: bool, ccid: u8) -> Socket {
        // Like the kernel, offer all CCIDs and put the default CCID first.
        let ccids: Vec<u8> =
            std::iter::once(ccid).chain(known_ccids().filter(|other| *other != ccid)).collect();
        let options = Options {
            services: vec![0],
            tx_ccids: ccids.clone(),
            rx_ccids: ccids,
            // The kernel has the same default.
            queue: 5,
            // Most hosts have these values in net.core.wmem_default and rmem_default.
            buffers: (212_992, 212_992),
            ..Options::default()
        };
        Socket {
            fd: Some(fd),
            uid,
            v6,
            local: None,
            reserved: None,
            peer: None,
            options,
            state: State::Fresh,
            opened: Time::ZERO,
            error: 0,
            untold: false,
            filler: 0,
            waiting: Vec::new(),
        }
    }

    /// Converts an address to the address family of the socket.
    pub(super) fn shown(&self, addr: SocketAddr) -> SocketAddr {
        match addr.ip() {
            IpAddr::V4(ip) if self.v6 => SocketAddr::new(ip.to_ipv6_mapped().into(), addr.port()),
            _ => addr,
        }
    }

    /// Sends filler messages until the program's end is unwritable, so that poll reports the right state
    /// while the connection is opening.
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

    /// Drops the datagrams that the program has already sent. A program that keeps sending may get some past
    /// this call.
    pub(super) fn discard(&self) {
        (0..MOST_FILLER).take_while(|_| matches!(self.next(), Some(Some(_)))).for_each(drop);
    }

    /// Returns the next datagram from the program. `Some(None)` means that there is none yet, and `None` that
    /// the program has closed its end.
    pub(super) fn next(&self) -> Option<Option<Vec<u8>>> {
        let fd = self.fd.as_ref()?;
        let mut bytes = [0; LONGEST];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmCredentials(1), ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        match recvmsg(fd, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(read) => {
                // The loop also closes any descriptors that came with the message. It must read all control
                // messages to their end, because rustix cannot continue after one that was read in part.
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

    /// Returns the maximum number of datagrams in the send queue.
    pub(super) fn most_queued(&self) -> u32 {
        match self.options.queue {
            0 => MOST_QUEUED,
            queue => queue.min(MOST_QUEUED),
        }
    }

    /// Delivers a datagram to the program. If the program is not reading, the datagram is dropped, as in the
    /// kernel.
    pub(super) fn deliver(&self, data: &[u8]) {
        if let Some(fd) = &self.fd
            && let Err(e) = send(fd, data, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
        {
            tracing::debug!("cannot deliver a datagram to its program: {e}");
        }
    }

    /// Queues a datagram by its priority. If the queue is full, drops the last datagram with the lowest
    /// priority.
    pub(super) fn enqueue(&mut self, priority: u32, data: Vec<u8>) {
        let behind = self.waiting.iter().position(|(other, _)| *other < priority);
        self.waiting.insert(behind.unwrap_or(self.waiting.len()), (priority, data));
        self.waiting.truncate(self.most_queued() as usize);
    }

    /// Implements setsockopt(2).
    pub(super) fn set(&mut self, level: i32, name: i32, value: &[u8]) -> Result<(), Errno> {
        match (level, name) {
            (libc::SOL_DCCP, name) => self.set_dccp(name, value),
            (libc::SOL_SOCKET, libc::SO_BINDTODEVICE) => self.set_device(value),
            (libc::SOL_SOCKET, name) => {
                let size = value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)).ok_or(Errno::INVAL)?;
                // Like the kernel, double the value and apply a minimum.
                let size = size.saturating_mul(2).max(4608);
                match name {
                    libc::SO_SNDBUF | libc::SO_SNDBUFFORCE => self.options.buffers.0 = size,
                    libc::SO_RCVBUF | libc::SO_RCVBUFFORCE => self.options.buffers.1 = size,
                    _ => return Err(Errno::NOPROTOOPT),
                }
                Ok(())
            }
            (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                // The value is an integer or a byte, with -1 for the default. The ECN bits are cleared,
                // because congestion control sets them.
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

    /// Implements SO_BINDTODEVICE. The value is the name of an interface, with or without a null byte. An
    /// empty name removes the binding.
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
                let few = (1..=libc::DCCP_SERVICE_LIST_MAX_LEN as usize).contains(&codes.len());
                if !few || !rest.is_empty() || codes.contains(&u32::MAX) {
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
            // As in the kernel, only for accepted connections.
            libc::DCCP_SOCKOPT_SERVER_TIMEWAIT => match self.state {
                State::Open(_) if self.reserved.is_none() => self.options.server_timewait = number()? != 0,
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

/// Returns the CCIDs that this implementation has.
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
