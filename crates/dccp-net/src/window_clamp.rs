//! Limits the receive window of a TCP socket, and returns the round-trip time that its receiving side sees.
#![expect(unsafe_code, reason = "no crate offers TCP_WINDOW_CLAMP and TCP_INFO")]

use nix::libc;
use rustix::fd::{AsFd, AsRawFd};
use std::io;
use std::time::Duration;

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

/// Returns the round-trip time that the kernel has measured with the data that it received (TCP_INFO), or
/// zero if it has not measured one.
///
/// # Errors
/// The kernel's error, for example if this is no TCP socket.
pub fn receive_rtt(socket: impl AsFd) -> io::Result<Duration> {
    // SAFETY: the structure has only numbers, for which zero is a valid value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`, which lives until the call returns.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    if result == 0 {
        Ok(Duration::from_micros(info.tcpi_rcv_rtt.into()))
    } else {
        Err(io::Error::last_os_error())
    }
}
