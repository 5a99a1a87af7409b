//! Calls that read and write. The kernel carries the data; this library handles only the cases in which a
//! Unix socket behaves differently: errors at the end of a connection, sender addresses, datagrams that are
//! too long, and priorities.

use crate::ask::{ask, fail, is_ours, listens, next, number, tell};
use libc::{
    c_int, c_void, cmsghdr, iovec, mmsghdr, msghdr, size_t, sockaddr, sockaddr_storage, socklen_t, ssize_t,
    timespec,
};
use mpdccp_socketd::{Answer, DCCP_SCM_PRIORITY, MOST, Request};
use rustix::time::{ClockId, clock_gettime};
use std::ptr::null_mut;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A datagram up to this size fits into the packets of every path.
const SHORT: usize = 256;
/// The maximum datagram size that the daemon reports while the connection is not open.
const UNKNOWN: u64 = 536;

/// The maximum datagram sizes of sockets. Each entry holds the lower half of the socket's number, the size
/// and the second it was stored in, and is valid for up to a second. The descriptor would not identify the
/// socket, because the program may close it and get it again for another socket.
static SIZES: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

fn largest(fd: c_int, number: u64) -> u64 {
    let slot = &SIZES[number as usize % SIZES.len()];
    let second = clock_gettime(ClockId::MonotonicCoarse).tv_sec as u64 & 0xffff;
    let kept = slot.load(Relaxed);
    if kept >> 32 == number & 0xffff_ffff && kept & 0xffff == second {
        return kept >> 16 & 0xffff;
    }
    let size = Request::Get { level: libc::SOL_DCCP, name: libc::DCCP_SOCKOPT_GET_CUR_MPS };
    match ask(&size, Some(fd), &mut [0; MOST]) {
        Ok((Answer::Value(&[a, b, c, d]), _)) => {
            let size = u64::from(u32::from_ne_bytes([a, b, c, d])).min(0xffff);
            if size == UNKNOWN {
                return u64::MAX;
            }
            slot.store(number << 32 | size << 16 | second, Relaxed);
            size
        }
        _ => u64::MAX,
    }
}

/// Returns the error of a send call that must not write to the Unix socket: nobody would read a listening
/// socket, and no packet carries a datagram that is too long.
fn unsendable(fd: c_int, len: usize) -> Option<c_int> {
    if listens(fd) {
        return Some(libc::EPIPE);
    }
    let too_long = len > SHORT && number(fd).is_some_and(|number| len as u64 > largest(fd, number));
    too_long.then_some(libc::EMSGSIZE)
}

/// Returns the error of a receive call that must not read the Unix socket: the data of a listening socket are
/// its connections, and DCCP's error queue is always empty, while Unix sockets have none.
fn refusal(fd: c_int, flags: c_int) -> Option<c_int> {
    if listens(fd) {
        return Some(libc::ENOTCONN);
    }
    (flags & libc::MSG_ERRQUEUE != 0 && is_ours(fd)).then_some(libc::EAGAIN)
}

/// Returns the result of a read. If the read has returned 0 because the connection ended with an error,
/// returns that error.
fn finish(fd: c_int, read: ssize_t) -> ssize_t {
    finish_or_keep(fd, read, false)
}

/// Like `finish`, but if `keep` is set, the next read returns the error again.
fn finish_or_keep(fd: c_int, read: ssize_t, keep: bool) -> ssize_t {
    if read != 0 || !is_ours(fd) {
        return read;
    }
    // If the call has read an empty datagram, the error must wait for the datagrams that follow.
    let (mut following, flags) = (Sender::default(), libc::MSG_PEEK | libc::MSG_DONTWAIT);
    let peeked: ssize_t = next!(
        c"recvfrom",
        fd,
        null_mut::<c_void>(),
        0_usize,
        flags,
        following.addr(),
        &raw mut following.len
    );
    if peeked < 0 || following.is_some() {
        return 0;
    }
    match ask(&Request::Ended { keep }, Some(fd), &mut [0; MOST]) {
        Ok(_) => 0,
        Err(errno) => fail(errno) as ssize_t,
    }
}

/// Returns the program's buffers, or none if there are more than the kernel allows.
///
/// # Safety
/// `parts` must be null or point to `count` elements.
unsafe fn buffers<'a>(parts: *const iovec, count: usize) -> &'a [iovec] {
    if parts.is_null() || count > libc::UIO_MAXIOV as usize {
        return &[];
    }
    // SAFETY: the caller guarantees that `parts` points to `count` elements.
    unsafe { slice::from_raw_parts(parts, count) }
}

/// # Safety
/// As for [`buffers`].
unsafe fn total(parts: *const iovec, count: usize) -> usize {
    // SAFETY: as above.
    unsafe { buffers(parts, count) }.iter().fold(0, |sum, part| sum.saturating_add(part.iov_len))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
    if listens(fd) {
        return fail(libc::ENOTCONN) as ssize_t;
    }
    let read = next!(c"read", fd, to, len);
    // Unlike recv, a read of no bytes does not look at the socket.
    if len == 0 { read } else { finish(fd, read) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    if listens(fd) {
        return fail(libc::ENOTCONN) as ssize_t;
    }
    let read = next!(c"readv", fd, parts, count);
    // SAFETY: as for readv(2).
    let asked = unsafe { total(parts, count.max(0) as usize) };
    if asked == 0 { read } else { finish(fd, read) }
}

/// The sender of a message. The daemon's end of a DCCP socket has a name, so all messages have a sender, and
/// the end of the data has none. The result 0 alone does not tell that the data has ended: the message or the
/// buffer may be empty.
struct Sender {
    storage: sockaddr_storage,
    len: socklen_t,
}

impl Default for Sender {
    fn default() -> Sender {
        // SAFETY: all zeros are a valid address.
        let storage: sockaddr_storage = unsafe { std::mem::zeroed() };
        Sender { storage, len: size_of::<sockaddr_storage>() as socklen_t }
    }
}

impl Sender {
    fn addr(&mut self) -> *mut sockaddr {
        (&raw mut self.storage).cast()
    }

    /// Returns whether a call has stored a sender. A call that fails changes nothing.
    fn is_some(&self) -> bool {
        (1..size_of::<sockaddr_storage>() as socklen_t).contains(&self.len)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recv(fd: c_int, to: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    if let Some(errno) = refusal(fd, flags) {
        return fail(errno) as ssize_t;
    }
    let mut from = Sender::default();
    let read = next!(c"recvfrom", fd, to, len, flags, from.addr(), &raw mut from.len);
    if from.is_some() { read } else { finish(fd, read) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    if addr.is_null() || is_ours(fd) {
        if !addr.is_null() && !addr_len.is_null() {
            // SAFETY: as for recvfrom(2). The kernel's DCCP does not return the sender either.
            unsafe { *addr_len = 0 };
        }
        // SAFETY: the caller's own arguments.
        return unsafe { recv(fd, to, len, flags) };
    }
    next!(c"recvfrom", fd, to, len, flags, addr, addr_len)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's own arguments.
    unsafe { receive(fd, message, flags, false) }
}

/// # Safety
/// As for recvmsg(2).
unsafe fn receive(fd: c_int, message: *mut msghdr, flags: c_int, keep: bool) -> ssize_t {
    if let Some(errno) = refusal(fd, flags) {
        return fail(errno) as ssize_t;
    }
    // SAFETY: the caller's own arguments, as for recvmsg(2).
    let given = unsafe { message.as_mut() };
    let Some(given) = given.filter(|given| given.msg_name.is_null() || is_ours(fd)) else {
        return next!(c"recvmsg", fd, message, flags);
    };
    let (mut own, mut from) = (*given, Sender::default());
    (own.msg_name, own.msg_namelen) = (from.addr().cast::<c_void>(), from.len);
    let read = next!(c"recvmsg", fd, &raw mut own, flags);
    from.len = own.msg_namelen;
    (given.msg_controllen, given.msg_flags) = (own.msg_controllen, own.msg_flags);
    if !given.msg_name.is_null() {
        given.msg_namelen = 0;
    }
    if from.is_some() { read } else { finish_or_keep(fd, read, keep) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: libc::c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if !is_ours(fd) {
        return next!(c"recvmmsg", fd, messages, count, flags, timeout);
    }
    // SAFETY: as for recvmmsg(2).
    let mut limit = unsafe { timeout.as_mut() };
    let until = match limit.as_deref() {
        None => None,
        Some(timespec { tv_sec: seconds @ 0.., tv_nsec: nanos @ 0..1_000_000_000, .. }) => {
            Instant::now().checked_add(Duration::new(*seconds as u64, *nanos as u32))
        }
        Some(_) => return fail(libc::EINVAL),
    };
    let count = count.min(libc::UIO_MAXIOV as libc::c_uint);
    let mut each = flags & !libc::MSG_WAITFORONE;
    for done in 0..count {
        // SAFETY: the caller passed `count` messages.
        unsafe {
            let message = messages.add(done as usize);
            // Like the kernel, report an error that follows a datagram at the next call.
            match receive(fd, &raw mut (*message).msg_hdr, each, done > 0) {
                -1 if done == 0 => return -1,
                -1 => return done as c_int,
                read => (*message).msg_len = read as libc::c_uint,
            }
        }
        // Like the kernel, check the time limit only after each datagram, and return the time that is left.
        if let (Some(limit), Some(until)) = (limit.as_deref_mut(), until) {
            let left = until.saturating_duration_since(Instant::now());
            (limit.tv_sec, limit.tv_nsec) = (left.as_secs() as _, left.subsec_nanos() as _);
            if left.is_zero() {
                return done as c_int + 1;
            }
        }
        if flags & libc::MSG_WAITFORONE != 0 {
            each |= libc::MSG_DONTWAIT;
        }
    }
    count as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __read_chk(fd: c_int, to: *mut c_void, len: size_t, room: size_t) -> ssize_t {
    if len > room {
        std::process::abort();
    }
    // SAFETY: the caller's own arguments.
    unsafe { read(fd, to, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    if len > room {
        std::process::abort();
    }
    // SAFETY: the caller's own arguments.
    unsafe { recv(fd, to, len, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    to: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    if len > room {
        std::process::abort();
    }
    // SAFETY: the caller's own arguments.
    unsafe { recvfrom(fd, to, len, flags, addr, addr_len) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    if let Some(errno) = unsendable(fd, len) {
        return fail(errno) as ssize_t;
    }
    next!(c"write", fd, from, len)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: as for writev(2).
    if let Some(errno) = unsendable(fd, unsafe { total(parts, count.max(0) as usize) }) {
        return fail(errno) as ssize_t;
    }
    next!(c"writev", fd, parts, count)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn send(fd: c_int, from: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    if let Some(errno) = unsendable(fd, len) {
        return fail(errno) as ssize_t;
    }
    next!(c"send", fd, from, len, flags)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    from: *const c_void,
    len: size_t,
    flags: c_int,
    addr: *const sockaddr,
    addr_len: socklen_t,
) -> ssize_t {
    if let Some(errno) = unsendable(fd, len) {
        return fail(errno) as ssize_t;
    }
    next!(c"sendto", fd, from, len, flags, addr, addr_len)
}

/// Returns the priority of a datagram if its control messages contain one.
///
/// # Safety
/// As for sendmsg(2).
unsafe fn priority(message: &msghdr) -> Option<u32> {
    // SAFETY: the CMSG macros stay within the control messages.
    unsafe {
        let mut at: *mut cmsghdr = libc::CMSG_FIRSTHDR(message);
        while let Some(control) = at.as_ref() {
            let whole = control.cmsg_len >= libc::CMSG_LEN(size_of::<u32>() as u32) as usize;
            if control.cmsg_level == libc::SOL_DCCP && control.cmsg_type == DCCP_SCM_PRIORITY && whole {
                return Some(libc::CMSG_DATA(at).cast::<u32>().read_unaligned());
            }
            at = libc::CMSG_NXTHDR(message, at);
        }
    }
    None
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's own arguments, as for sendmsg(2).
    unsafe {
        if let Some(given) = message.as_ref() {
            let len = total(given.msg_iov, given.msg_iovlen);
            if let Some(errno) = unsendable(fd, len) {
                return fail(errno) as ssize_t;
            }
            if given.msg_controllen > 0
                && let Some(priority) = priority(given)
                && is_ours(fd)
            {
                return send_first(fd, given, len, priority);
            }
        }
    }
    next!(c"sendmsg", fd, message, flags)
}

/// # Safety
/// As for sendmsg(2).
unsafe fn send_first(fd: c_int, message: &msghdr, len: usize, priority: u32) -> ssize_t {
    let (mut bytes, mut filled) = ([0; MOST], 0);
    let few = message.msg_iovlen <= libc::UIO_MAXIOV as usize;
    let Some(room) = bytes.get_mut(..len).filter(|_| few) else {
        return fail(libc::EMSGSIZE) as ssize_t;
    };
    // SAFETY: sendmsg(2) has the same requirements.
    for part in unsafe { buffers(message.msg_iov, message.msg_iovlen) } {
        if part.iov_len > 0 {
            // SAFETY: as above.
            let part = unsafe { slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) };
            room[filled..filled + part.len()].copy_from_slice(part);
            filled += part.len();
        }
    }
    match tell(&Request::Send { priority, data: room }, fd) {
        0 => len as ssize_t,
        _ => -1,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: libc::c_uint,
    flags: c_int,
) -> c_int {
    if !is_ours(fd) {
        return next!(c"sendmmsg", fd, messages, count, flags);
    }
    let count = count.min(libc::UIO_MAXIOV as libc::c_uint);
    for done in 0..count {
        // SAFETY: the caller passed `count` messages.
        unsafe {
            let message = messages.add(done as usize);
            match sendmsg(fd, &raw const (*message).msg_hdr, flags) {
                -1 if done == 0 => return -1,
                -1 => return done as c_int,
                sent => (*message).msg_len = sent as libc::c_uint,
            }
        }
    }
    count as c_int
}
