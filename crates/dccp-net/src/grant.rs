//! Socket settings that need CAP_NET_ADMIN. A process without this capability can have another process make
//! these settings.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::sockopt;
use socket2::SockRef;
use std::io;
use std::sync::OnceLock;

/// Buffer size that each socket requests for each direction. An unprivileged process gets less from the
/// kernel.
const BUFFER: usize = 4 << 20;

type Granter = dyn Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync;

static ELSEWHERE: OnceLock<Box<Granter>> = OnceLock::new();

/// From now on, makes this process pass each new socket to `granter`. With `granter`, another process can
/// call [`grant_socket`] for the socket. Only the first call has an effect.
pub fn grant_sockets_by(granter: impl Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync + 'static) {
    let _ = ELSEWHERE.set(Box::new(granter));
}

/// Sets the mark of a socket (SO_MARK) for policy routing. Also sets buffers that are larger than
/// net.core.rmem_max and wmem_max.
///
/// # Errors
/// The error of the system, for example `PermissionDenied` for a mark without CAP_NET_ADMIN. Without this
/// capability, the buffers stay within the limits, which is not an error.
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

/// If [`grant_sockets_by`] was called, passes the socket to that granter, which already knows the mark, and
/// ignores `mark`. Otherwise calls [`grant_socket`].
///
/// # Errors
/// As for [`grant_socket`].
pub fn prepare_socket(socket: &impl AsFd, mark: Option<u32>) -> io::Result<()> {
    match ELSEWHERE.get() {
        Some(granter) => granter(socket.as_fd()),
        None => grant_socket(socket.as_fd(), mark),
    }
}
