//! Converts the socket addresses of C programs.

use libc::{c_int, sockaddr, socklen_t};
use socket2::{SockAddr, SockAddrStorage};
use std::net::SocketAddr;

/// Reads an IP address and a port from a C structure.
///
/// # Errors
/// EFAULT, EINVAL or EAFNOSUPPORT if the structure is not a valid address.
///
/// # Safety
/// `addr` must be null or point to `len` bytes.
pub(crate) unsafe fn read(addr: *const sockaddr, len: socklen_t) -> Result<SocketAddr, i32> {
    if addr.is_null() {
        return Err(libc::EFAULT);
    }
    let mut storage = SockAddrStorage::zeroed();
    if len < size_of::<libc::sa_family_t>() as socklen_t || len > storage.size_of() {
        return Err(libc::EINVAL);
    }
    // SAFETY: the caller guarantees `len` bytes, and the storage has room for that many.
    let given = unsafe {
        std::ptr::copy_nonoverlapping(
            addr.cast::<u8>(),
            std::ptr::from_mut(&mut storage).cast::<u8>(),
            len as usize,
        );
        SockAddr::new(storage, len)
    };
    let least = match c_int::from(given.family()) {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>() - size_of::<u32>(),
        _ => return Err(libc::EAFNOSUPPORT),
    };
    given.as_socket().filter(|_| len as usize >= least).ok_or(libc::EINVAL)
}

/// Writes an address to a C structure, truncating it to the structure's length. Sets `len` to the full length
/// of the address.
///
/// # Safety
/// `len` must be null or point to the number of bytes available at `addr`. `addr` may be null.
pub(crate) unsafe fn write(from: SocketAddr, addr: *mut sockaddr, len: *mut socklen_t) {
    if addr.is_null() || len.is_null() {
        return;
    }
    let from = SockAddr::from(from);
    // SAFETY: the caller guarantees both pointers.
    unsafe {
        let room = (*len).min(from.len()) as usize;
        std::ptr::copy_nonoverlapping(from.as_ptr().cast::<u8>(), addr.cast::<u8>(), room);
        *len = from.len();
    }
}
