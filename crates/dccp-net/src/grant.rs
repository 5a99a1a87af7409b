//! What a socket needs that takes CAP_NET_ADMIN. A process without the capability has another process grant it.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::sockopt;
use socket2::SockRef;
use std::io;
use std::sync::OnceLock;

/// Asked of the kernel for each socket and direction; it grants less without privilege.
const BUFFER: usize = 4 << 20;

type Granter = dyn Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync;

static ELSEWHERE: OnceLock<Box<Granter>> = OnceLock::new();

/// Has sockets of this process from now on sent to `granter`, which has another process call [`grant_socket`]. The first call counts.
pub fn grant_sockets_by(granter: impl Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync + 'static) {
    let _ = ELSEWHERE.set(Box::new(granter));
}

/// Gives a socket this mark (SO_MARK) for policy routing, and buffers beyond the limits net.core.*mem_max.
///
/// # Errors
/// What the system says; `PermissionDenied` for a mark without CAP_NET_ADMIN. Buffers stay within the limits without it.
pub fn grant_socket(socket: BorrowedFd<'_>, mark: Option<u32>) -> io::Result<()> {
    let plain = SockRef::from(&socket);
    mark.map_or(Ok(()), |mark| plain.set_mark(mark))?;
    if sockopt::set_socket_recv_buffer_size_force(socket, BUFFER).is_err() {
        plain.set_recv_buffer_size(BUFFER)?;
    }
    if sockopt::set_socket_send_buffer_size_force(socket, BUFFER).is_err() {
        plain.set_send_buffer_size(BUFFER)?;
    }
    Ok(())
}

/// [`grant_socket`], here or elsewhere; there the mark is known.
pub(crate) fn ask(socket: &impl AsFd, mark: Option<u32>) -> io::Result<()> {
    match ELSEWHERE.get() {
        Some(granter) => granter(socket.as_fd()),
        None => grant_socket(socket.as_fd(), mark),
    }
}
