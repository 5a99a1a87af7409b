//! Sends requests to the daemon, and recognises the daemon's sockets. System calls here bypass libc, because
//! they would otherwise call this library again.

use libc::c_int;
use mpdccp_socketd::{Answer, CONTROL, CONTROL_VARIABLE, FORMAT, MOST, NAME, Reply, Request, receive, send};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::{CStr, CString};
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

/// Calls the function of this name that comes after this library's own in the search order. The arguments
/// must be those of this library's function, so that they have the right types.
macro_rules! next {
    (@type of $argument:expr) => { _ };
    ($name:literal, $($argument:expr),*) => {{
        static NEXT: std::sync::atomic::AtomicPtr<libc::c_void> =
            std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());
        let mut function = NEXT.load(std::sync::atomic::Ordering::Relaxed);
        if function.is_null() {
            // SAFETY: the name is a C string.
            function = unsafe { libc::dlsym(libc::RTLD_NEXT, $name.as_ptr()) };
            NEXT.store(function, std::sync::atomic::Ordering::Relaxed);
        }
        // SAFETY: libc has a function with this name and this type, and the arguments are the caller's own.
        unsafe {
            std::mem::transmute::<
                *mut libc::c_void,
                unsafe extern "C-unwind" fn($(next!(@type of $argument)),*) -> _,
            >(function)($($argument),*)
        }
    }};
}
pub(crate) use next;

/// Sets errno and returns -1.
pub(crate) fn fail(errno: i32) -> c_int {
    // SAFETY: the pointer refers to this thread's own errno.
    unsafe { *libc::__errno_location() = errno };
    -1
}

/// Converts a descriptor for use with rustix. Returns `None` if the descriptor is negative.
pub(crate) fn borrow<'a>(fd: c_int) -> Option<BorrowedFd<'a>> {
    // SAFETY: the descriptor is not -1. A closed descriptor only causes EBADF.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Returns the number of a DCCP socket, or `None` for any other descriptor. A DCCP socket has a peer with one
/// of the daemon's names, which end with the number.
pub(crate) fn number(fd: c_int) -> Option<u64> {
    let peer = borrow(fd).and_then(|fd| rustix::net::getpeername(fd).ok().flatten())?;
    if peer.address_family() != AddressFamily::UNIX {
        return None;
    }
    // `SocketAddrUnix::try_from` panics if a path fills the whole address. SAFETY: this many bytes of the
    // address are initialized.
    let bytes = unsafe { slice::from_raw_parts(peer.as_ptr().cast::<u8>(), peer.addr_len() as usize) };
    let digits = bytes.get(size_of::<libc::sa_family_t>()..)?.strip_prefix(NAME)?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Returns whether a descriptor is a DCCP socket.
pub(crate) fn is_ours(fd: c_int) -> bool {
    number(fd).is_some()
}

/// Whether this process or its parent has called listen or accept on a DCCP socket. Other processes need no
/// system call to know that a descriptor does not listen.
static SERVES: AtomicBool = AtomicBool::new(false);

/// Records that this process has a listening DCCP socket.
pub(crate) fn note_server() {
    SERVES.store(true, Ordering::Relaxed);
}

/// Returns whether a descriptor is a listening DCCP socket. Only then does the program's end have a name.
pub(crate) fn listens(fd: c_int) -> bool {
    if !SERVES.load(Ordering::Relaxed) {
        return false;
    }
    let own = borrow(fd).and_then(|fd| rustix::net::getsockname(fd).ok());
    let named = |own: SocketAddrAny| own.addr_len() as usize > size_of::<libc::sa_family_t>();
    own.filter(|own| own.address_family() == AddressFamily::UNIX).is_some_and(named) && is_ours(fd)
}

fn control() -> Result<OwnedFd, Errno> {
    let variable = CString::new(CONTROL_VARIABLE).unwrap_or_default();
    // SAFETY: the name is a C string. The result is a C string until the environment changes, and is copied
    // at once.
    let path = unsafe {
        let path = libc::getenv(variable.as_ptr());
        if path.is_null() { None } else { Some(CStr::from_ptr(path)) }
    };
    let addr = match path {
        Some(path) => SocketAddrUnix::new(path)?,
        None => SocketAddrUnix::new(CONTROL)?,
    };
    let flags = SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::connect(&fd, &addr)?;
    Ok(fd)
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// While this value exists, the thread cannot be cancelled, because a cancelled thread would not run the
/// destructors here. None of the caller's code runs during this time.
struct Uncancelled(c_int);

impl Uncancelled {
    fn new() -> Uncancelled {
        let mut old = 0;
        // SAFETY: 1 is PTHREAD_CANCEL_DISABLE in the C libraries of Linux, and `old` is a local variable.
        unsafe { pthread_setcancelstate(1, &raw mut old) };
        Uncancelled(old)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { pthread_setcancelstate(self.0, std::ptr::null_mut()) };
    }
}

/// Sends a request about a descriptor, and stores the answer in `bytes`.
///
/// # Errors
/// Returns the errno value for the caller. ECONNRESET means that the daemon and all its connections are gone.
/// EPROTO means that the daemon is of another version than this library.
/// EMFILE and ENFILE mean that there was no descriptor for the request.
pub(crate) fn ask<'a>(
    request: &Request<'_>,
    fd: Option<c_int>,
    bytes: &'a mut [u8; MOST],
) -> Result<(Answer<'a>, Option<OwnedFd>), i32> {
    let _uncancelled = Uncancelled::new();
    let control = control().map_err(|e| match e {
        Errno::MFILE | Errno::NFILE => e.raw_os_error(),
        _ => libc::ECONNRESET,
    })?;
    let fd = fd.and_then(borrow);
    let connects = matches!(request, Request::Connect { .. });
    if let Some(fd) = fd.filter(|_| connects)
        && let Ok(limit) = sockopt::socket_timeout(fd, Timeout::Send)
    {
        // As in the kernel, the time limit for sending (SO_SNDTIMEO) also limits connect.
        let _ = sockopt::set_socket_timeout(&control, Timeout::Recv, limit);
    }
    send(&control, &(FORMAT, request), fd).map_err(|_| libc::ECONNRESET)?;
    let (len, fd) = loop {
        match receive(&control, bytes, true) {
            // A signal or the time limit has ended connect. The connection attempt continues, as in the
            // kernel.
            Err(Errno::INTR) if connects => return Err(libc::EINTR),
            Err(Errno::AGAIN) if connects => return Err(libc::EINPROGRESS),
            Err(Errno::INTR) => {}
            Err(_) | Ok((0, _)) => return Err(libc::ECONNRESET),
            Ok(received) => break received,
        }
    };
    let reply: Reply<'a> = postcard::from_bytes(&bytes[..len]).map_err(|_| libc::ECONNRESET)?;
    reply.map(|answer| (answer, fd))
}

/// Sends a request whose answer has no value. Returns 0 or, if the request fails, sets errno and returns -1.
pub(crate) fn tell(request: &Request<'_>, fd: c_int) -> c_int {
    match ask(request, Some(fd), &mut [0; MOST]) {
        Ok(_) => 0,
        Err(errno) => fail(errno),
    }
}
