//! Limits the receive window of a TCP socket.
#![expect(unsafe_code, reason = "no crate offers TCP_WINDOW_CLAMP")]

use nix::libc;
use rustix::fd::{AsFd, AsRawFd};
use std::io;

/// Sets the largest receive window of a TCP socket in bytes (TCP_WINDOW_CLAMP).
///
/// # Errors
/// The kernel's error, for example if this is no TCP socket.
pub fn set_window_clamp(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    let value = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    // SAFETY: the kernel reads an int, which lives until the call returns.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_WINDOW_CLAMP,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
