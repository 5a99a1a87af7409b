//! Connections: made, used, ended.

use crate::errno::{Outcome, answer, answer_size, failure, invalid};
use crate::handles::{Table, output};
use crate::memory::{bytes, room, take};
use crate::options::{addresses, dccp_options, dccp_path, path, peer, read};
use dccp_sockets::{
    ConnectError, Connection, Connector, Delivery, FinishError, PathId, PublicKey, Rate, RecvError, SendError,
};
use rustix::io::Errno;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::ptr::null;
use std::sync::Arc;
use std::time::Duration;

/// A connection.
pub struct dccp_conn {
    _opaque: [u8; 0],
}

/// Makes connections that share one thread and, to the same peer, one socket.
pub struct dccp_connector {
    _opaque: [u8; 0],
}

/// One datagram of dccp_sendmmsg() and dccp_recvmmsg().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dccp_msg {
    /// Its bytes.
    pub data: *mut c_void,
    /// How many; to dccp_recvmmsg() the room there is, and from it the bytes received.
    pub len: usize,
}

/// In dccp_events(): dccp_recv() does not wait.
pub const DCCP_READABLE: c_int = 1;
/// In dccp_events(): dccp_send() does not wait.
pub const DCCP_WRITABLE: c_int = 2;
/// In dccp_events(): dccp_next_event() does not wait.
pub const DCCP_EVENT: c_int = 4;
/// In dccp_events(): the connection is over. Datagrams that arrived before may still wait.
pub const DCCP_CLOSED: c_int = 8;

/// In dccp_events(): dccp_accept_stream() does not wait.
pub const DCCP_STREAM: c_int = 16;

static CONNECTIONS: Table<Connection> = Table::new();
static CONNECTORS: Table<(Connector, bool)> = Table::new();

/// The connection of a handle.
pub(crate) fn connection(conn: *const dccp_conn) -> Outcome<Arc<Connection>> {
    CONNECTIONS.get(conn)
}

/// Hands a new connection to the caller.
///
/// # Safety
/// `into` can be written.
pub(crate) unsafe fn put(connection: Connection, into: *mut *mut dccp_conn) {
    // SAFETY: the caller says so.
    unsafe { CONNECTIONS.put(connection, into) };
}

/// How long to wait at most.
pub(crate) fn limit(timeout_ms: c_int) -> Duration {
    u64::try_from(timeout_ms).map_or(Duration::MAX, Duration::from_millis)
}

/// The errno value of a wait without result.
pub(crate) fn expired(timeout_ms: c_int) -> Errno {
    if timeout_ms == 0 { Errno::AGAIN } else { Errno::TIMEDOUT }
}

/// Version of the library, as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn dccp_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => panic!(),
        };
    VERSION.as_ptr()
}

fn connect(
    connector: &Connector,
    to: &[SocketAddr],
    peer: Option<PublicKey>,
    wait: bool,
) -> Outcome<Connection> {
    let mut last = failure(Errno::HOSTUNREACH, "no address of that name");
    for to in to {
        let connection = connector.start(*to, peer);
        if !wait {
            return Ok(connection);
        }
        match connection.opened(Duration::MAX) {
            Some(Err(e)) => last = e.into(),
            _ => return Ok(connection),
        }
    }
    Err(last)
}

/// Connects to a listener at an address such as "example.org:6511", "192.0.2.1:6511" or "[2001:db8::1]:6511"; options may be NULL. Of
/// several addresses of a name, to the first that answers; with DCCP_NONBLOCK to the first. Names are looked up meanwhile, which takes
/// time even then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_connect(
    address: *const c_char,
    options: *const dccp_options,
    conn: *mut *mut dccp_conn,
) -> c_int {
    answer(|| {
        output(conn)?;
        // SAFETY: the header has the caller see to it.
        let ((options, wait), to) = unsafe { (read(options)?, addresses(address)?) };
        let connection = connect(&Connector::new(options)?, &to, None, wait)?;
        // SAFETY: as above.
        unsafe { put(connection, conn) };
        Ok(0)
    })
}

/// Whether a connection made with DCCP_NONBLOCK is open: 0 then, -EINPROGRESS before, or why it failed. The descriptor becomes readable
/// when this changes.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_connected(conn: *const dccp_conn) -> c_int {
    answer(|| match connection(conn)?.opened(Duration::ZERO) {
        Some(opened) => Ok(opened.map(|()| 0)?),
        None => Err(failure(Errno::INPROGRESS, "the peer has not answered yet")),
    })
}

/// Makes a connector, for programs with many connections: each dccp_connect() has a thread of its own. options may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_connector_new(
    options: *const dccp_options,
    connector: *mut *mut dccp_connector,
) -> c_int {
    answer(|| {
        output(connector)?;
        // SAFETY: the header has the caller see to it.
        let (options, wait) = unsafe { read(options) }?;
        let made = Connector::new(options)?;
        // SAFETY: as above.
        unsafe { CONNECTORS.put((made, wait), connector) };
        Ok(0)
    })
}

/// As dccp_connect(), with the connector's options. With keys, peer is the public key of the peer in base64, or NULL for the first of the
/// options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_connector_connect(
    connector: *mut dccp_connector,
    address: *const c_char,
    peer_key: *const c_char,
    conn: *mut *mut dccp_conn,
) -> c_int {
    answer(|| {
        output(conn)?;
        let made = CONNECTORS.get(connector)?;
        // SAFETY: the header has the caller see to it.
        let to = unsafe { addresses(address) }?;
        // SAFETY: as above.
        let key = if peer_key.is_null() { None } else { Some(unsafe { peer(peer_key, null()) }?.0) };
        let connection = connect(&made.0, &to, key, made.1)?;
        // SAFETY: as above.
        unsafe { put(connection, conn) };
        Ok(0)
    })
}

/// Closes a connector. Its connections go on.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_connector_close(connector: *mut dccp_connector) -> c_int {
    answer(|| CONNECTORS.remove(connector).map(|_| 0))
}

/// Queues a datagram and waits while the queue is full; its bytes. -EMSGSIZE above dccp_max_datagram(), -EINVAL if it is empty, -EPIPE
/// after the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_send(
    conn: *mut dccp_conn,
    data: *const c_void,
    len: usize,
    timeout_ms: c_int,
) -> isize {
    // SAFETY: the header has the caller see to it.
    unsafe { dccp_send_with(conn, data, len, timeout_ms, 0, 0) }
}

/// As dccp_send(), with a priority for DCCP_SEND_PRIORITY, 0 to 255, and, unless it is 0, a time in milliseconds after which the datagram is
/// dropped if it has not left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_send_with(
    conn: *mut dccp_conn,
    data: *const c_void,
    len: usize,
    timeout_ms: c_int,
    priority: c_uint,
    expires_ms: c_uint,
) -> isize {
    answer_size(|| {
        let priority =
            priority.try_into().map_err(|_| invalid(format!("priority {priority} is above 255")))?;
        let expires_in = (expires_ms > 0).then(|| Duration::from_millis(expires_ms.into()));
        // SAFETY: the header has the caller see to it.
        let data = unsafe { bytes(data.cast(), len) }?;
        send(conn, data, Delivery { priority, expires_in }, timeout_ms)
    })
}

fn send(conn: *const dccp_conn, data: &[u8], delivery: Delivery, timeout_ms: c_int) -> Outcome<usize> {
    match connection(conn)?.send_timeout(data, delivery, limit(timeout_ms)) {
        Ok(()) => Ok(data.len()),
        Err(e @ SendError::Full) => Err(failure(expired(timeout_ms), e.to_string())),
        Err(e) => Err(CONNECTIONS.unless_closed(conn, e.into())),
    }
}

/// Waits for a datagram and copies it; its bytes. 0 after the end in good order, -ECONNRESET or -ETIMEDOUT after any other; -EMSGSIZE if it
/// is larger than the buffer: it is still there then. -ECONNABORTED if another thread closes the connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_recv(
    conn: *mut dccp_conn,
    buffer: *mut c_void,
    len: usize,
    timeout_ms: c_int,
) -> isize {
    answer_size(|| {
        // SAFETY: the header has the caller see to it.
        let into = unsafe { room(buffer.cast(), len) }?;
        recv(conn, into, timeout_ms)
    })
}

fn recv(conn: *const dccp_conn, into: &mut [u8], timeout_ms: c_int) -> Outcome<usize> {
    let error = match connection(conn)?.recv_into_timeout(into, limit(timeout_ms)) {
        Ok(len) => return Ok(len),
        Err(e) => e,
    };
    match error {
        RecvError::TimedOut => Err(failure(expired(timeout_ms), error.to_string())),
        RecvError::Closed(reason) if reason.is_orderly() && connection(conn).is_ok() => Ok(0),
        _ => Err(CONNECTIONS.unless_closed(conn, error.into())),
    }
}

/// Queues several datagrams; how many. Waits for the first alone: a later one that is not taken ends the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_sendmmsg(
    conn: *mut dccp_conn,
    datagrams: *const dccp_msg,
    count: c_uint,
    timeout_ms: c_int,
) -> c_int {
    answer(|| {
        // SAFETY: the header has the caller see to it.
        let all = unsafe { messages(datagrams, count) }?;
        let mut data = Vec::with_capacity(all.len());
        for message in all {
            // SAFETY: as above.
            data.push(unsafe { bytes(message.data.cast(), message.len) }?);
        }
        let Some((first, rest)) = data.split_first() else { return Ok(0) };
        send(conn, first, Delivery::default(), timeout_ms)?;
        Ok(1 + connection(conn)?.try_send_many(rest.iter().copied()).unwrap_or(0))
    })
}

/// Waits for a datagram and receives all that are there, count at most; how many, 0 after the end in good order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_recvmmsg(
    conn: *mut dccp_conn,
    datagrams: *mut dccp_msg,
    count: c_uint,
    timeout_ms: c_int,
) -> c_int {
    answer(|| {
        // SAFETY: the header has the caller see to it.
        let all = unsafe { messages(datagrams, count) }?;
        for (n, message) in all.iter().enumerate() {
            // SAFETY: as above.
            let into = unsafe { room(message.data.cast(), message.len) };
            let received = into.and_then(|into| recv(conn, into, if n == 0 { timeout_ms } else { 0 }));
            match received {
                Ok(0) => return Ok(n),
                Err(e) if n == 0 => return Err(e),
                Err(_) => return Ok(n),
                // SAFETY: `messages` saw that there are `count` of them.
                Ok(len) => unsafe { (*datagrams.add(n)).len = len },
            }
        }
        Ok(all.len())
    })
}

/// The caller's messages, copied, so that they can be written to.
///
/// # Safety
/// `datagrams` is null or points to `count` of them.
unsafe fn messages(datagrams: *const dccp_msg, count: c_uint) -> Outcome<Vec<dccp_msg>> {
    if datagrams.is_null() && count > 0 {
        return Err(invalid("the array of messages is null"));
    }
    // SAFETY: the caller says so.
    Ok((0..count as usize).map(|n| unsafe { datagrams.add(n).read() }).collect())
}

/// A descriptor for poll() and epoll, for reading only: readable while datagrams wait and after the end, and after an event or when room came
/// that a sender did not find, until dccp_events() was called. Use it edge- or level-triggered. It belongs to the connection: do not read,
/// write or close it.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_fd(conn: *mut dccp_conn) -> c_int {
    answer(|| Ok(connection(conn)?.descriptor().map_err(ConnectError::Io)?.as_raw_fd() as usize))
}

/// What the connection is ready for: DCCP_READABLE and the like.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_events(conn: *mut dccp_conn) -> c_int {
    answer(|| {
        let ready = connection(conn)?.ready();
        let bits = [
            (ready.readable, DCCP_READABLE),
            (ready.writable, DCCP_WRITABLE),
            (ready.event, DCCP_EVENT),
            (ready.closed, DCCP_CLOSED),
            (ready.stream, DCCP_STREAM),
        ];
        Ok(bits.into_iter().filter(|(set, _)| *set).map(|(_, bit)| bit as usize).sum())
    })
}

/// Adds a path to a client's multipath session; its number. Events tell when it is up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_add_path(conn: *mut dccp_conn, path_to_add: *const dccp_path) -> c_int {
    answer(|| {
        let connection = connection(conn)?;
        // SAFETY: the header has the caller see to it.
        let added = unsafe { path(&take(path_to_add)?)? };
        let PathId(number) = connection.add_path(added)?;
        Ok(number as usize)
    })
}

/// Closes a path in good order.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_remove_path(conn: *mut dccp_conn, number: c_uint) -> c_int {
    answer(|| {
        connection(conn)?.remove_path(PathId(number));
        Ok(0)
    })
}

/// Changes a path's priority at both ends: 0 never, 1 standby, 2 overflow, 3 to 15 primary.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_set_priority(conn: *mut dccp_conn, number: c_uint, priority: c_uint) -> c_int {
    answer(|| {
        let priority = u8::try_from(priority).ok().filter(|p| *p <= 15);
        let priority = priority.ok_or_else(|| invalid("a priority is 0 to 15"))?;
        connection(conn)?.set_priority(PathId(number), priority);
        Ok(0)
    })
}

/// Changes the congestion control of what this end sends, on all paths, while data flows.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_set_ccid(conn: *mut dccp_conn, ccid: c_uint) -> c_int {
    answer(|| {
        let ccid = u8::try_from(ccid).map_err(|_| invalid(format!("there is no CCID {ccid}")))?;
        Ok(connection(conn)?.set_ccid(ccid).map(|()| 0)?)
    })
}

/// Sends rate bits per second for a while, padding where there is nothing else to send, so that dccp_stats.allowed tells what the path carries
/// before the program sends more. Congestion control bounds it. The newest probe replaces one that is under way.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_probe(conn: *mut dccp_conn, rate: u64, duration_ms: c_uint) -> c_int {
    answer(|| {
        connection(conn)?.probe(Rate::from_bps(rate), Duration::from_millis(duration_ms.into()));
        Ok(0)
    })
}

/// Sends what is queued and waits until it is acknowledged or given up for lost, and the connection closed. What came in can still be
/// received. The handle stays valid until dccp_close().
#[unsafe(no_mangle)]
pub extern "C" fn dccp_finish(conn: *mut dccp_conn, timeout_ms: c_int) -> c_int {
    answer(|| match connection(conn)?.finish_timeout(limit(timeout_ms)) {
        Some(finished) => Ok(finished.map(|_| 0)?),
        None => Err(failure(expired(timeout_ms), "not everything was acknowledged in time")),
    })
}

/// Closes the handle, and the connection as dccp_finish() does, in the background: it takes as long as the process lives. Calls of other
/// threads that wait on it return -ECONNABORTED.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_close(conn: *mut dccp_conn) -> c_int {
    answer(|| {
        CONNECTIONS.remove(conn)?.close();
        Ok(0)
    })
}

/// Closes the handle and ends the connection at once: what is queued is dropped. The peer gets the text, unless it is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_abort(conn: *mut dccp_conn, why: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: the header has the caller see to it.
        let why = unsafe { crate::memory::text(why, "the reason") }?;
        let connection = CONNECTIONS.remove(conn)?;
        match why {
            Some(why) => connection.abort_with(why),
            None => connection.abort(),
        }
        connection.close();
        Ok(0)
    })
}

/// Why it ended: 0 if it did in good order, -EINPROGRESS while it has not, or the negative errno value of the reason.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_end(conn: *const dccp_conn) -> c_int {
    answer(|| match connection(conn)?.end() {
        None => Err(failure(Errno::INPROGRESS, "the connection is not over")),
        Some(reason) if reason.is_orderly() => Ok(0),
        Some(reason) => Err(FinishError(reason).into()),
    })
}
