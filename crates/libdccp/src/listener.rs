//! Listeners.

use crate::connection::{dccp_conn, expired, limit, put};
use crate::errno::{Outcome, answer, failure};
use crate::handles::{Table, output};
use crate::memory::give_text;
use crate::options::{addresses, dccp_options, peer, read};
use dccp_sockets::{AcceptError, ConnectError, Listener};
use std::ffi::{c_char, c_int};
use std::os::fd::AsRawFd;
use std::ptr::null;
use std::sync::Arc;

/// A listener.
pub struct dccp_listener {
    _opaque: [u8; 0],
}

static LISTENERS: Table<Listener> = Table::new();

/// Returns the listener of a handle. Fails if the listener was opened before a fork, and this is the child.
fn open(listener: *const dccp_listener) -> Outcome<Arc<Listener>> {
    let listener = LISTENERS.get(listener)?;
    if listener.is_forked() { Err(ConnectError::Forked.into()) } else { Ok(listener) }
}

/// Listens on an address of this host, such as "0.0.0.0:6511". Port 0 selects any free port. options may be
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_listen(
    address: *const c_char,
    options: *const dccp_options,
    listener: *mut *mut dccp_listener,
) -> c_int {
    answer(|| {
        output(listener)?;
        // SAFETY: dccp.h requires valid pointers from the caller.
        let ((options, _), at) = unsafe { (read(options)?, addresses(address)?) };
        let made = Listener::bind(&at[..], options)?;
        // SAFETY: as above.
        unsafe { LISTENERS.put(made, listener) };
        Ok(0)
    })
}

/// Waits for the next connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_accept(
    listener: *mut dccp_listener,
    timeout_ms: c_int,
    conn: *mut *mut dccp_conn,
) -> c_int {
    answer(|| {
        output(conn)?;
        match LISTENERS.get(listener)?.accept_timeout(limit(timeout_ms)) {
            Ok(accepted) => {
                // SAFETY: dccp.h requires valid pointers from the caller.
                unsafe { put(accepted, conn) };
                Ok(0)
            }
            Err(e @ AcceptError::TimedOut) => Err(failure(expired(timeout_ms), e.to_string())),
            Err(e) => Err(LISTENERS.unless_closed(listener, e.into())),
        }
    })
}

/// A descriptor for poll() and epoll, readable while a connection is waiting to be accepted. Do not read,
/// write or close it.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_listener_fd(listener: *mut dccp_listener) -> c_int {
    answer(|| Ok(open(listener)?.descriptor().map_err(ConnectError::Io)?.as_raw_fd() as usize))
}

/// Writes the listening address, such as "192.0.2.1:6511", and a terminating null byte; DCCP_ADDRESS_SIZE
/// bytes are enough. Returns the length of the address, or -ERANGE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_listener_address(
    listener: *const dccp_listener,
    into: *mut c_char,
    size: usize,
) -> c_int {
    answer(|| {
        let address = open(listener)?.local_addr().to_string();
        // SAFETY: dccp.h requires valid pointers from the caller.
        unsafe { give_text(into, size, &address) }
    })
}

/// Accepts a peer by its public key from now on. preshared_key may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_add_peer(
    listener: *mut dccp_listener,
    public_key: *const c_char,
    preshared_key: *const c_char,
) -> c_int {
    answer(|| {
        // SAFETY: dccp.h requires valid pointers from the caller.
        let (public, preshared) = unsafe { peer(public_key, preshared_key) }?;
        LISTENERS.get(listener)?.add_peer(public, preshared)?;
        Ok(0)
    })
}

/// Stops accepting a peer and ends its connections. Returns -EINVAL if the listener has no key and therefore
/// accepts every client.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_remove_peer(listener: *mut dccp_listener, public_key: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: dccp.h requires valid pointers from the caller.
        let (public, _) = unsafe { peer(public_key, null()) }?;
        LISTENERS.get(listener)?.remove_peer(public)?;
        Ok(0)
    })
}

/// Closes the listener. Accepted connections continue. A dccp_accept() call in another thread returns
/// -ECONNABORTED.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_listener_close(listener: *mut dccp_listener) -> c_int {
    answer(|| {
        LISTENERS.remove(listener)?.close();
        Ok(0)
    })
}
