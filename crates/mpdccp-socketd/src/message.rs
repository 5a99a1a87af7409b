//! The requests of the preload library and the answers of the daemon, each of which is one message. The
//! library opens a new Unix socket for each request.

use rustix::cmsg_space;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, Result};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg,
    socket_with,
};
use serde::{Deserialize, Serialize};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::Path;

/// The default path of the daemon's Unix socket.
pub const CONTROL: &str = "/run/mpdccp-socketd/control.sock";
/// The environment variable that overrides the default path.
pub const CONTROL_VARIABLE: &str = "MPDCCP_SOCKETD";
/// Prefix of the abstract name of the daemon's end. A program's descriptor is a DCCP socket if its peer has
/// such a name. The program's end has a name too, which the kernel chooses, if the socket listens.
pub const NAME: &[u8] = b"\0mpdccp.socket.";
/// The socket type of DCCP (linux/net.h), which the libc crate does not define.
pub const SOCK_DCCP: i32 = 6;
/// The type of the control message that contains the priority of a datagram (linux/dccp.h). The control
/// message has level SOL_DCCP and a 32-bit number as its value.
pub const DCCP_SCM_PRIORITY: i32 = 1;
/// Maximum size of a message in bytes.
pub const MOST: usize = 8192;
/// Each request begins with this number, a hash of this file. It tells the daemon whether the library that
/// sent the request has the same messages.
pub const FORMAT: u32 = fnv1a(include_bytes!("message.rs"));

const fn fnv1a(bytes: &[u8]) -> u32 {
    let (mut hash, mut at) = (0x811c_9dc5_u32, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    hash
}

/// An address including the scope of a link-local address, which Serde does not serialize.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    ip: IpAddr,
    port: u16,
    scope: u32,
}

impl From<SocketAddr> for Place {
    fn from(addr: SocketAddr) -> Place {
        let scope = if let SocketAddr::V6(addr) = addr { addr.scope_id() } else { 0 };
        Place { ip: addr.ip(), port: addr.port(), scope }
    }
}

impl From<Place> for SocketAddr {
    fn from(place: Place) -> SocketAddr {
        match place.ip {
            IpAddr::V6(ip) => SocketAddrV6::new(ip, place.port, 0, place.scope).into(),
            ip => SocketAddr::new(ip, place.port),
        }
    }
}

/// A request. In its message, it follows [`FORMAT`]. All requests except [`Socket`](Self::Socket) come with
/// the descriptor to which they apply, which proves that the program may use the socket.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request<'a> {
    /// Create a socket for IPv6 or IPv4. The answer contains the descriptor of the new socket.
    Socket {
        /// Whether the address family is AF_INET6.
        v6: bool,
    },
    /// bind(2).
    Bind(Place),
    /// listen(2).
    Listen,
    /// connect(2).
    Connect {
        /// Address of the peer.
        to: Place,
        /// If true, the daemon answers when the connection has opened or failed. If false, it answers
        /// EINPROGRESS immediately.
        wait: bool,
    },
    /// getsockopt(2).
    Get {
        /// SOL_SOCKET, SOL_DCCP, or a level of IPv4 or IPv6.
        level: i32,
        /// Number of the option.
        name: i32,
    },
    /// setsockopt(2).
    Set {
        /// The same levels as in `Get`.
        level: i32,
        /// Number of the option.
        name: i32,
        /// The value that the program passed.
        value: &'a [u8],
    },
    /// getsockname(2).
    Local,
    /// getpeername(2).
    Peer,
    /// Return the reason why a read has returned 0. [`Answer::Done`] means a clean end or an empty datagram;
    /// otherwise, the answer is the connection's error.
    Ended {
        /// If true, the next request returns the error again.
        keep: bool,
    },
    /// Send a datagram with a priority.
    Send {
        /// The priority. Larger numbers are more urgent.
        priority: u32,
        /// The datagram.
        data: &'a [u8],
    },
}

/// The result of a successful request.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer<'a> {
    /// Success without a value.
    Done,
    /// An address.
    Addr(Place),
    /// The value of an option.
    Value(#[serde(borrow)] &'a [u8]),
}

/// The answer to a request, or an errno value.
pub type Reply<'a> = core::result::Result<Answer<'a>, i32>;

/// Sends a message and optionally a descriptor. Never raises SIGPIPE.
///
/// # Errors
/// Errors of the operating system. EMSGSIZE if the message is longer than [`MOST`].
pub fn send(to: impl AsFd, message: &impl Serialize, fd: Option<BorrowedFd<'_>>) -> Result<()> {
    let mut bytes = [0; MOST];
    let message = postcard::to_slice(message, &mut bytes).map_err(|_| Errno::MSGSIZE)?;
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = fd.as_slice();
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(fds));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(to, &[IoSlice::new(message)], &mut control, flags).map(|_| ())
}

/// Receives a message into `bytes`. Returns the length of the message and the descriptor that came with it.
///
/// # Errors
/// Errors of the system.
pub fn receive(from: impl AsFd, bytes: &mut [u8], wait: bool) -> Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let wait = if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
    let read = recvmsg(from, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC | wait)?;
    let mut fd = None;
    // Read all control messages to their end, because rustix cannot continue after one that was read in part.
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            fd = fds.next();
        }
    }
    Ok((read.bytes, fd))
}

/// Asks the daemon at `path` for a socket, as a program would, to find out whether the daemon serves programs
/// that run here.
///
/// # Errors
/// The daemon's error, such as EPROTO if the daemon is of another version. ECONNREFUSED or ENOENT if there is
/// no daemon. ECONNRESET or EPIPE if the daemon does not answer, for example because it serves another
/// network namespace.
pub fn try_daemon(path: &Path) -> Result<()> {
    let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    connect(&fd, &SocketAddrUnix::new(path)?)?;
    send(&fd, &(FORMAT, Request::Socket { v6: false }), None)?;
    let mut bytes = [0; MOST];
    let (len, _) = receive(&fd, &mut bytes, true)?;
    match postcard::from_bytes::<Reply<'_>>(&bytes[..len]) {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(errno)) => Err(Errno::from_raw_os_error(errno)),
        Err(_) => Err(Errno::CONNRESET),
    }
}
