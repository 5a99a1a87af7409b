//! Socket settings that need CAP_NET_ADMIN. A process without the capability lets another process make them.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::sockopt;
use socket2::SockRef;
use std::io;
use std::sync::OnceLock;

/// Buffer size requested from the kernel for each socket and direction; the kernel grants less to a
/// process without privileges.
const BUFFER: usize = 4 << 20;

type Granter = dyn Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync;

static ELSEWHERE: OnceLock<Box<Granter>> = OnceLock::new();

/// From now on, passes this process's sockets to `granter`, which lets another process call [`grant_socket`].
/// Only the first call has an effect.
pub fn grant_sockets_by(granter: impl Fn(BorrowedFd<'_>) -> io::Result<()> + Send + Sync + 'static) {
    let _ = ELSEWHERE.set(Box::new(granter));
}

/// Gives a socket this mark (SO_MARK) for policy routing, and buffers beyond the limits net.core.*mem_max.
///
/// # Errors
/// The system's error; `PermissionDenied` for a mark without CAP_NET_ADMIN. Without this capability, buffers
/// only stay within the limits.
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

/// Calls the granter if one is set (it knows the mark), otherwise [`grant_socket`].
///
/// # Errors
/// As for [`grant_socket`].
pub fn prepare_socket(socket: &impl AsFd, mark: Option<u32>) -> io::Result<()> {
    match ELSEWHERE.get() {
        Some(granter) => granter(socket.as_fd()),
        None => grant_socket(socket.as_fd(), mark),
    }
}
