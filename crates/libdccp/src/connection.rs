//! Functions that open, use and end connections.

use crate::errno::{Outcome, answer, answer_size, failure, invalid};
use crate::handles::{Table, output};
use crate::memory::{bytes, needed_text, room, take};
use crate::options::{addresses, dccp_options, dccp_path, path, peer, read};
use dccp_sockets::{
    ConnectError, Connection, Connector, Delivery, FinishError, Named, PathId, PublicKey, Rate, RecvError,
    SchedulerKind, SendError,
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

/// Opens connections that share one thread. Connections to the same peer also share one socket.
pub struct dccp_connector {
    _opaque: [u8; 0],
}

/// A datagram for dccp_sendmmsg() or dccp_recvmmsg().
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dccp_msg {
    /// The bytes of the datagram.
    pub data: *mut c_void,
    /// Number of bytes. For dccp_recvmmsg(): size of the buffer, and afterwards the number of bytes received.
    pub len: usize,
}

/// In dccp_events(): dccp_recv() would not wait.
pub const DCCP_READABLE: c_int = 1;
/// In dccp_events(): dccp_send() would not wait.
pub const DCCP_WRITABLE: c_int = 2;
/// In dccp_events(): dccp_next_event() would not wait.
pub const DCCP_EVENT: c_int = 4;
/// In dccp_events(): the connection has ended. Datagrams that arrived earlier may still be available.
pub const DCCP_CLOSED: c_int = 8;

/// In dccp_events(): dccp_accept_stream() would not wait.
pub const DCCP_STREAM: c_int = 16;

pub(crate) static CONNECTIONS: Table<Connection> = Table::new();
static CONNECTORS: Table<(Connector, bool)> = Table::new();

/// Returns the connection of a handle. Fails if the connection was opened before a fork, and this is the
/// child.
pub(crate) fn connection(conn: *const dccp_conn) -> Outcome<Arc<Connection>> {
    let connection = CONNECTIONS.get(conn)?;
    if connection.is_forked() { Err(SendError::Forked.into()) } else { Ok(connection) }
}

/// Stores a new connection and writes its handle to `into`.
///
/// # Safety
/// `into` must be writable.
pub(crate) unsafe fn put(connection: Connection, into: *mut *mut dccp_conn) {
    // SAFETY: the caller guarantees this.
    unsafe { CONNECTIONS.put(connection, into) };
}

/// Converts a timeout in milliseconds. A negative timeout means no limit.
pub(crate) fn limit(timeout_ms: c_int) -> Duration {
    u64::try_from(timeout_ms).map_or(Duration::MAX, Duration::from_millis)
}

/// Returns the errno value for a call that timed out.
pub(crate) fn expired(timeout_ms: c_int) -> Errno {
    if timeout_ms == 0 { Errno::AGAIN } else { Errno::TIMEDOUT }
}

/// Version of the library, such as "0.1.0".
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
    let mut last = failure(Errno::HOSTUNREACH, "the name has no address");
    for to in to {
        let connection = connector.start(*to, peer);
        if connection.is_forked() {
            return Err(SendError::Forked.into());
        }
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

/// Connects to a listener at an address such as "example.org:6511", "192.0.2.1:6511" or "[2001:db8::1]:6511";
/// options may be NULL. If a name has several addresses, they are tried until one answers; with
/// DCCP_NONBLOCK, only the first is tried. The name lookup blocks, even with DCCP_NONBLOCK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_connect(
    address: *const c_char,
    options: *const dccp_options,
    conn: *mut *mut dccp_conn,
) -> c_int {
    answer(|| {
        output(conn)?;
        // SAFETY: dccp.h requires valid pointers from the caller.
        let ((options, wait), to) = unsafe { (read(options)?, addresses(address)?) };
        let connection = connect(&Connector::new(options)?, &to, None, wait)?;
        // SAFETY: as above.
        unsafe { put(connection, conn) };
        Ok(0)
    })
}

/// State of a connection opened with DCCP_NONBLOCK: -EINPROGRESS until the peer answers, then 0 if the
/// connection is open, or the error. The descriptor becomes readable when the state changes.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_connected(conn: *const dccp_conn) -> c_int {
    answer(|| match connection(conn)?.opened(Duration::ZERO) {
        Some(opened) => Ok(opened.map(|()| 0)?),
        None => Err(failure(Errno::INPROGRESS, "the peer has not answered yet")),
    })
}

/// Creates a connector, for programs with many connections. All connections of a connector share one thread,
/// whereas each dccp_connect() starts a thread of its own. options may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_connector_new(
    options: *const dccp_options,
    connector: *mut *mut dccp_connector,
) -> c_int {
    answer(|| {
        output(connector)?;
        // SAFETY: dccp.h requires valid pointers from the caller.
        let (options, wait) = unsafe { read(options) }?;
        let made = Connector::new(options)?;
        // SAFETY: as above.
        unsafe { CONNECTORS.put((made, wait), connector) };
        Ok(0)
    })
}

/// Like dccp_connect(), but with the connector's options. With keys, peer is the peer's public key in base64,
/// or NULL for the first peer in the options.
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
        // SAFETY: dccp.h requires valid pointers from the caller.
        let to = unsafe { addresses(address) }?;
        // SAFETY: as above.
        let key = if peer_key.is_null() { None } else { Some(unsafe { peer(peer_key, null()) }?.0) };
        let connection = connect(&made.0, &to, key, made.1)?;
        // SAFETY: as above.
        unsafe { put(connection, conn) };
        Ok(0)
    })
}

/// Closes a connector. Its connections continue.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_connector_close(connector: *mut dccp_connector) -> c_int {
    answer(|| CONNECTORS.remove(connector).map(|_| 0))
}

/// Queues a datagram. Waits while the queue is full or the connection is not open yet. Returns the length of
/// the datagram; -EMSGSIZE if it is larger than dccp_max_datagram(), -EINVAL if it is empty, -EPIPE after the
/// end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_send(
    conn: *mut dccp_conn,
    data: *const c_void,
    len: usize,
    timeout_ms: c_int,
) -> isize {
    // SAFETY: dccp.h requires valid pointers from the caller.
    unsafe { dccp_send_with(conn, data, len, timeout_ms, 0, 0) }
}

/// Like dccp_send(), with a priority from 0 to 255 for DCCP_SEND_PRIORITY. If expires_ms is not 0, the
/// datagram is dropped unless it is sent within that many milliseconds.
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
        let priority = priority
            .try_into()
            .map_err(|_| invalid(format!("invalid priority {priority}; expected 0 to 255")))?;
        let expires_in = (expires_ms > 0).then(|| Duration::from_millis(expires_ms.into()));
        // SAFETY: dccp.h requires valid pointers from the caller.
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

/// Waits for a datagram and copies it into the buffer. Returns its length; 0 after an orderly end;
/// -ECONNRESET or -ETIMEDOUT after any other end; -EMSGSIZE if the datagram is larger than the buffer, in
/// which case it stays for the next call; -ECONNABORTED if another thread closes the connection. -ETIMEDOUT
/// can also mean that no datagram arrived in time; after the end, dccp_events() includes DCCP_CLOSED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_recv(
    conn: *mut dccp_conn,
    buffer: *mut c_void,
    len: usize,
    timeout_ms: c_int,
) -> isize {
    answer_size(|| {
        // SAFETY: dccp.h requires valid pointers from the caller.
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

/// Queues several datagrams, and returns the number queued. Waits only for room for the first datagram. If a
/// later datagram does not fit into the queue, the call returns without queueing it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_sendmmsg(
    conn: *mut dccp_conn,
    datagrams: *const dccp_msg,
    count: c_uint,
    timeout_ms: c_int,
) -> c_int {
    answer(|| {
        connection(conn)?;
        // SAFETY: dccp.h requires valid pointers from the caller.
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

/// Waits for a datagram, then receives up to count available datagrams. Returns the number received, or 0
/// after an orderly end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_recvmmsg(
    conn: *mut dccp_conn,
    datagrams: *mut dccp_msg,
    count: c_uint,
    timeout_ms: c_int,
) -> c_int {
    answer(|| {
        connection(conn)?;
        // SAFETY: dccp.h requires valid pointers from the caller.
        let all = unsafe { messages(datagrams, count) }?;
        for (n, message) in all.iter().enumerate() {
            // SAFETY: as above.
            let into = unsafe { room(message.data.cast(), message.len) };
            let received = into.and_then(|into| recv(conn, into, if n == 0 { timeout_ms } else { 0 }));
            match received {
                Ok(0) => return Ok(n),
                Err(e) if n == 0 => return Err(e),
                Err(_) => return Ok(n),
                // SAFETY: `messages` has checked that there are `count` of them.
                Ok(len) => unsafe { (*datagrams.add(n)).len = len },
            }
        }
        Ok(all.len())
    })
}

/// Returns copies of the caller's messages.
///
/// # Safety
/// `datagrams` must be null or point to `count` messages.
unsafe fn messages(datagrams: *const dccp_msg, count: c_uint) -> Outcome<Vec<dccp_msg>> {
    if datagrams.is_null() && count > 0 {
        return Err(invalid("the array of messages is null"));
    }
    // SAFETY: the caller guarantees this.
    Ok((0..count as usize).map(|n| unsafe { datagrams.add(n).read() }).collect())
}

/// A descriptor for poll() and epoll, for reading only. It is readable while datagrams are available, and
/// after the end. Two changes also make it readable until dccp_events() is called: a new event, and room in
/// the queue after a sender found none. It works edge-triggered or level-triggered. It belongs to the
/// connection: do not read, write or close it.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_fd(conn: *mut dccp_conn) -> c_int {
    answer(|| Ok(connection(conn)?.descriptor().map_err(ConnectError::Io)?.as_raw_fd() as usize))
}

/// Returns which operations would not wait now: DCCP_READABLE and similar flags.
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

/// Adds a path to a client's multipath session, and returns the number of the path. An event reports when the
/// path is up. -EINVAL for a plain connection; see DCCP_MULTIPATH.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_add_path(conn: *mut dccp_conn, path_to_add: *const dccp_path) -> c_int {
    answer(|| {
        let connection = connection(conn)?;
        // SAFETY: dccp.h requires valid pointers from the caller.
        let added = unsafe { path(&take(path_to_add)?)? };
        let PathId(number) = connection.add_path(added)?;
        Ok(number as usize)
    })
}

/// Returns the number of a path, if the connection has a path with this number.
fn path_of(connection: &Connection, number: c_uint) -> Outcome<PathId> {
    let known = connection.stats().paths.iter().any(|path| path.id == PathId(number));
    known
        .then_some(PathId(number))
        .ok_or_else(|| failure(Errno::NOENT, format!("the connection has no path {number}")))
}

/// Closes a path gracefully. -ENOENT if there is no such path.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_remove_path(conn: *mut dccp_conn, number: c_uint) -> c_int {
    answer(|| {
        let connection = connection(conn)?;
        connection.remove_path(path_of(&connection, number)?);
        Ok(0)
    })
}

/// Changes the priority of a path at both ends: 0 never, 1 standby, 2 overflow, 3 to 15 primary. -ENOENT if
/// there is no such path.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_set_priority(conn: *mut dccp_conn, number: c_uint, priority: c_uint) -> c_int {
    answer(|| {
        let priority = u8::try_from(priority).ok().filter(|p| *p <= 15);
        let priority = priority.ok_or_else(|| invalid("invalid priority; expected 0 to 15"))?;
        let connection = connection(conn)?;
        connection.set_priority(path_of(&connection, number)?, priority);
        Ok(0)
    })
}

/// Changes the scheduler, which chooses the path of each datagram that this end sends; see
/// dccp_options.scheduler. The peer has its own scheduler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_set_scheduler(conn: *mut dccp_conn, scheduler: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: dccp.h requires valid pointers from the caller.
        let name = unsafe { needed_text(scheduler, "the scheduler") }?;
        connection(conn)?.set_scheduler(SchedulerKind::named(name).map_err(invalid)?);
        Ok(0)
    })
}

/// Changes the congestion control for data that this end sends, on all paths, while data flows.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_set_ccid(conn: *mut dccp_conn, ccid: c_uint) -> c_int {
    answer(|| {
        let ccid = u8::try_from(ccid).map_err(|_| invalid(format!("unknown CCID {ccid}")))?;
        Ok(connection(conn)?.set_ccid(ccid).map(|()| 0)?)
    })
}

/// Sends at this rate, in bits per second, for duration_ms, with padding when there is no other data. In this
/// way, dccp_stats.allowed shows the capacity of the path before the program sends more. The padding is
/// subject to congestion control. A new probe replaces a running one.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_probe(conn: *mut dccp_conn, rate: u64, duration_ms: c_uint) -> c_int {
    answer(|| {
        connection(conn)?.probe(Rate::from_bps(rate), Duration::from_millis(duration_ms.into()));
        Ok(0)
    })
}

/// Sends the queue, waits until everything has been acknowledged or given up as lost, and closes the
/// connection. Received data can still be read. The handle stays valid until dccp_close().
#[unsafe(no_mangle)]
pub extern "C" fn dccp_finish(conn: *mut dccp_conn, timeout_ms: c_int) -> c_int {
    answer(|| match connection(conn)?.finish_timeout(limit(timeout_ms)) {
        Some(finished) => Ok(finished.map(|_| 0)?),
        None => Err(failure(expired(timeout_ms), "the peer did not acknowledge all data in time")),
    })
}

/// Closes the handle, and finishes the connection in the background like dccp_finish(), as long as the
/// process lives. Calls waiting in other threads return -ECONNABORTED, except dccp_finish(), which
/// continues to wait.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_close(conn: *mut dccp_conn) -> c_int {
    answer(|| {
        CONNECTIONS.remove(conn)?.close();
        Ok(0)
    })
}

/// Closes the handle, ends the connection immediately and drops the queue. Unless the text is NULL, it is
/// sent to the peer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_abort(conn: *mut dccp_conn, why: *const c_char) -> c_int {
    answer(|| {
        // SAFETY: dccp.h requires valid pointers from the caller.
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

/// The reason for the end: 0 if the end was orderly, -EINPROGRESS before the end, or a negative errno value.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_end(conn: *const dccp_conn) -> c_int {
    answer(|| match connection(conn)?.end() {
        None => Err(failure(Errno::INPROGRESS, "the connection has not ended")),
        Some(reason) if reason.is_orderly() => Ok(0),
        Some(reason) => Err(FinishError(reason).into()),
    })
}
