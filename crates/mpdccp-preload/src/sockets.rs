//! Calls that create, bind and connect sockets, and calls that read or set socket addresses and options.

use crate::address;
use crate::ask::{ask, borrow, fail, is_ours, next, note_server, tell};
use libc::{c_int, c_void, sockaddr, socklen_t};
use mpdccp_socketd::{Answer, MOST, Place, Request, SOCK_DCCP, receive};
use rustix::fd::{IntoRawFd, OwnedFd};
use rustix::io::{Errno, FdFlags};

/// Applies the flags of socket(2) or accept4(2) to a descriptor, and returns it to the program.
fn hand_out(fd: OwnedFd, flags: c_int) -> c_int {
    if flags & libc::SOCK_CLOEXEC == 0 {
        let _ = rustix::io::fcntl_setfd(&fd, FdFlags::empty());
    }
    if flags & libc::SOCK_NONBLOCK != 0 {
        let _ = rustix::io::ioctl_fionbio(&fd, true);
    }
    fd.into_raw_fd()
}

#[unsafe(no_mangle)]
extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let next = || -> c_int { next!(c"socket", domain, kind, protocol) };
    let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let ip = domain == libc::AF_INET || domain == libc::AF_INET6;
    if !ip || kind & !flags != SOCK_DCCP || (protocol != 0 && protocol != libc::IPPROTO_DCCP) {
        return next();
    }
    match ask(&Request::Socket { v6: domain == libc::AF_INET6 }, None, &mut [0; MOST]) {
        Ok((_, Some(fd))) => hand_out(fd, kind),
        // The request took the last free descriptor of the process.
        Ok((_, None)) => fail(libc::EMFILE),
        // No daemon is running for this program, so return what the kernel itself returns for DCCP.
        Err(libc::ECONNRESET) => next(),
        Err(errno) => fail(errno),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    if !is_ours(fd) {
        return next!(c"bind", fd, addr, len);
    }
    // SAFETY: as for bind(2).
    match unsafe { address::read(addr, len) } {
        Ok(addr) => tell(&Request::Bind(addr.into()), fd),
        Err(errno) => fail(errno),
    }
}

#[unsafe(no_mangle)]
extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    if !is_ours(fd) {
        return next!(c"listen", fd, backlog);
    }
    note_server();
    tell(&Request::Listen, fd)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int {
    if !is_ours(fd) {
        return next!(c"connect", fd, addr, len);
    }
    let nonblocking =
        |fd| rustix::fs::fcntl_getfl(fd).is_ok_and(|f| f.contains(rustix::fs::OFlags::NONBLOCK));
    let wait = !borrow(fd).is_some_and(nonblocking);
    // SAFETY: as for connect(2).
    match unsafe { address::read(addr, len) } {
        Ok(to) => tell(&Request::Connect { to: to.into(), wait }, fd),
        Err(errno) => fail(errno),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    if !is_ours(fd) {
        return next!(c"accept", fd, addr, len);
    }
    // SAFETY: as for accept(2).
    unsafe { accept4(fd, addr, len, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    if !is_ours(fd) {
        return next!(c"accept4", fd, addr, len, flags);
    }
    note_server();
    // Without a free descriptor, the request fails. The connection then stays in the queue.
    let mut bytes = [0; MOST];
    let listening = Request::Get { level: libc::SOL_SOCKET, name: libc::SO_ACCEPTCONN };
    match ask(&listening, Some(fd), &mut bytes) {
        Ok((Answer::Value([0, 0, 0, 0]), _)) => return fail(libc::EINVAL),
        Ok(_) => {}
        Err(errno) => return fail(errno),
    }
    let Some(listener) = borrow(fd) else { return fail(libc::EBADF) };
    match receive(listener, &mut bytes, true) {
        Ok((read, Some(accepted))) => {
            if let Ok(peer) = postcard::from_bytes::<Place>(&bytes[..read]) {
                // SAFETY: as for accept4(2).
                unsafe { address::write(peer.into(), addr, len) };
            }
            hand_out(accepted, flags)
        }
        // The message announced a connection, but its descriptor did not arrive, usually because the process
        // has no free descriptor.
        Ok((1.., None)) => fail(libc::EMFILE),
        // The program has shut the socket down, or the daemon has ended.
        Ok((0, None)) => fail(ask(&listening, Some(fd), &mut bytes).err().unwrap_or(libc::EINVAL)),
        Err(e) => fail(Errno::raw_os_error(e)),
    }
}

/// Implements getsockname(2) and getpeername(2).
unsafe fn name(fd: c_int, which: &Request<'_>, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    match ask(which, Some(fd), &mut [0; MOST]) {
        Ok((Answer::Addr(known), _)) => {
            // SAFETY: as for getsockname(2).
            unsafe { address::write(known.into(), addr, len) };
            0
        }
        Ok(_) => fail(libc::ENOTCONN),
        Err(errno) => fail(errno),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    if !is_ours(fd) {
        return next!(c"getsockname", fd, addr, len);
    }
    // SAFETY: as for getsockname(2).
    unsafe { name(fd, &Request::Local, addr, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int {
    if !is_ours(fd) {
        return next!(c"getpeername", fd, addr, len);
    }
    // SAFETY: as for getpeername(2).
    unsafe { name(fd, &Request::Peer, addr, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let differs = matches!(
        option,
        libc::SO_ERROR
            | libc::SO_DOMAIN
            | libc::SO_TYPE
            | libc::SO_PROTOCOL
            | libc::SO_ACCEPTCONN
            | libc::SO_BINDTODEVICE
            | libc::SO_SNDBUF
            | libc::SO_RCVBUF
    );
    if level == libc::SOL_SOCKET && !differs || !is_ours(fd) {
        return next!(c"getsockopt", fd, level, option, value, len);
    }
    if value.is_null() || len.is_null() {
        return fail(libc::EFAULT);
    }
    // SAFETY: as for getsockopt(2).
    let Ok(room) = usize::try_from(unsafe { *len } as c_int) else { return fail(libc::EINVAL) };
    let mut bytes = [0; MOST];
    match ask(&Request::Get { level, name: option }, Some(fd), &mut bytes) {
        Ok((Answer::Value(known), _)) => {
            // As in the kernel, a short array gets the first CCIDs and the number of all of them.
            let ccids = level == libc::SOL_DCCP && option == libc::DCCP_SOCKOPT_AVAILABLE_CCIDS;
            let written = known.len().min(room);
            let (least, told) = if ccids { (0, known.len()) } else { (known.len(), written) };
            if level == libc::SOL_DCCP && room < least.max(size_of::<c_int>()) {
                return fail(libc::EINVAL);
            }
            // SAFETY: `value` has `room` bytes.
            unsafe {
                std::ptr::copy_nonoverlapping(known.as_ptr(), value.cast::<u8>(), written);
                *len = told as socklen_t;
            }
            0
        }
        Ok(_) => fail(libc::ENOPROTOOPT),
        Err(errno) => fail(errno),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    option: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // These options must not be set on the Unix socket; the daemon stores or applies them. SO_REUSEPORT is
    // ignored, because Unix sockets refuse it since Linux 6.13.
    let differs = matches!(
        option,
        libc::SO_REUSEPORT
            | libc::SO_SNDBUF
            | libc::SO_RCVBUF
            | libc::SO_SNDBUFFORCE
            | libc::SO_RCVBUFFORCE
            | libc::SO_BINDTODEVICE
    );
    if level == libc::SOL_SOCKET && !differs || !is_ours(fd) {
        return next!(c"setsockopt", fd, level, option, value, len);
    }
    let known = match level {
        libc::SOL_DCCP => true,
        libc::SOL_SOCKET => option != libc::SO_REUSEPORT,
        libc::IPPROTO_IP => option == libc::IP_TOS,
        libc::IPPROTO_IPV6 => option == libc::IPV6_TCLASS,
        _ => false,
    };
    let Ok(len) = usize::try_from(len as c_int) else { return fail(libc::EINVAL) };
    if !known {
        return 0;
    }
    if value.is_null() {
        return fail(libc::EFAULT);
    }
    // SAFETY: as for setsockopt(2).
    let value = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len) };
    tell(&Request::Set { level, name: option, value: &value[..value.len().min(1024)] }, fd)
}

/// Ends only the receiving direction of a DCCP socket, which wakes threads that wait in accept or receive
/// calls. The kernel's DCCP does not support half-close either.
#[unsafe(no_mangle)]
extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    match how {
        libc::SHUT_WR if is_ours(fd) => 0,
        libc::SHUT_RDWR if is_ours(fd) => next!(c"shutdown", fd, libc::SHUT_RD),
        _ => next!(c"shutdown", fd, how),
    }
}
