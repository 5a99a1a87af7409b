//! Functions that return the state of a connection: counters, paths, events, addresses and keys.

use crate::connection::{connection, dccp_conn, expired, limit};
use crate::errno::{answer, failure};
use crate::memory::{Structure, give, give_text};
use dccp_sockets::{Event, FinishError, PathId, PathState, Rate, Reason};
use rustix::io::Errno;
use std::ffi::{c_char, c_int, c_uint};
use std::time::Duration;

/// Size of a buffer for any address, with its port and a null byte.
pub const DCCP_ADDRESS_SIZE: usize = 64;
/// Size of a buffer for any key in base64, with a null byte.
pub const DCCP_KEY_SIZE: usize = 45;
/// Size of a buffer for any reason.
pub const DCCP_REASON_SIZE: usize = 32;

/// A path is up, or up again.
pub const DCCP_EVENT_PATH_UP: u32 = 1;
/// A path is suspect: no packets arrive on it, or its link is down. The connection continues without it.
pub const DCCP_EVENT_PATH_SUSPECT: u32 = 2;
/// A path was closed.
pub const DCCP_EVENT_PATH_DOWN: u32 = 3;
/// dccp_max_datagram() has changed.
pub const DCCP_EVENT_SIZE: u32 = 4;
/// The connection has ended.
pub const DCCP_EVENT_CLOSED: u32 = 5;
/// The rate that congestion control allows has changed by the percentage set in dccp_options.tell_rate.
pub const DCCP_EVENT_RATE: u32 = 6;
/// The packets of a path leave through the interface of another path, not through the interface that has
/// their source address. Both paths therefore use the same Internet connection.
pub const DCCP_EVENT_PATH_STRAYS: u32 = 7;
/// A session of a dccp_endpoint has opened. For connections see dccp_connected().
pub const DCCP_EVENT_OPENED: u32 = 8;
/// In dccp_event.kind: the peer opened a stream in a session of a dccp_endpoint. The stream can be read and
/// written.
pub const DCCP_EVENT_STREAM_OPENED: u32 = 9;
/// In dccp_event.kind: a stream of a dccp_endpoint has bytes to read, or has ended.
pub const DCCP_EVENT_STREAM_READABLE: u32 = 10;
/// In dccp_event.kind: a stream of a dccp_endpoint that was full has room again.
pub const DCCP_EVENT_STREAM_WRITABLE: u32 = 11;
/// In dccp_event.kind: the peer has received all data of a dccp_endpoint's stream, including the end.
pub const DCCP_EVENT_STREAM_DELIVERED: u32 = 12;
/// In dccp_event.kind: the peer reset a stream of a dccp_endpoint. Bytes that arrived before can still be
/// read. A program that does not read them must reset the stream.
pub const DCCP_EVENT_STREAM_RESET: u32 = 13;

/// The handshake is in progress.
pub const DCCP_PATH_CONNECTING: u32 = 1;
/// The path is up.
pub const DCCP_PATH_UP: u32 = 2;
/// The path is suspect: no packets arrive on it, or its link is down.
pub const DCCP_PATH_SUSPECT: u32 = 3;
/// The path is closed.
pub const DCCP_PATH_DOWN: u32 = 4;
/// The path carries data only while no other path can.
pub const DCCP_PATH_STANDBY: u32 = 5;

/// Counters and state of a connection.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dccp_stats {
    /// sizeof(struct dccp_stats)
    pub size: usize,
    /// Datagrams accepted from the application.
    pub sent: u64,
    /// Number of bytes in the accepted datagrams.
    pub sent_bytes: u64,
    /// Accepted datagrams waiting in the queue.
    pub queued: u64,
    /// Accepted datagrams that were dropped because no path could carry them any more, because the peer's
    /// application no longer listens, or because the connection failed.
    pub dropped: u64,
    /// Accepted datagrams that were dropped because the queue was full.
    pub displaced: u64,
    /// Accepted datagrams that expired in the queue.
    pub expired: u64,
    /// Data packets that congestion control considers lost. With several paths, some may have been
    /// retransmitted. CCIDs 3 and 4 count loss events instead of packets: all losses within one round-trip
    /// time are one event.
    pub lost: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Number of bytes in the datagrams that arrived.
    pub received_bytes: u64,
    /// Datagrams that arrived but were dropped because the application did not fetch them.
    pub unread: u64,
    /// Measured rate of all paths together, in bits per second. It is 0 while app_limited is 1, because the
    /// capacity of the paths is then unknown.
    pub rate: u64,
    /// Rate that congestion control currently allows, in bits per second.
    pub allowed: u64,
    /// Age of the oldest datagram in the queue, in microseconds; 0 if the queue is empty.
    pub oldest_us: u64,
    /// 1 if the application sends less than congestion control allows.
    pub app_limited: u32,
    /// Number of paths for dccp_get_path_stats().
    pub path_count: u32,
}

/// A path of a connection.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dccp_path_stats {
    /// sizeof(struct dccp_path_stats)
    pub size: usize,
    /// Number of the path.
    pub path: u32,
    /// State: DCCP_PATH_UP and similar.
    pub state: u32,
    /// Congestion control for data that this end sends; 0 until it is negotiated.
    pub ccid: u32,
    /// Congestion control for data that the peer sends.
    pub peer_ccid: u32,
    /// Smoothed round-trip time, in microseconds; 0 until it is known.
    pub rtt_us: u64,
    /// Congestion window, bytes.
    pub window: u64,
    /// Measured rate, in bits per second; 0 while the application limits the rate.
    pub rate: u64,
    /// Rate that congestion control currently allows, in bits per second.
    pub allowed: u64,
    /// Number of data packets sent.
    pub sent: u64,
    /// Data packets that congestion control considers lost. For CCIDs 3 and 4, see dccp_stats.lost.
    pub lost: u64,
    /// Address of the peer.
    pub peer: [c_char; DCCP_ADDRESS_SIZE],
    /// Largest IP packet that the path is known to carry, in bytes.
    pub path_mtu: u32,
}

/// An event of a connection.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct dccp_event {
    /// sizeof(struct dccp_event)
    pub size: usize,
    /// Kind of event: DCCP_EVENT_PATH_UP and similar.
    pub kind: u32,
    /// Number of the path: its index in dccp_options.paths, or the result of dccp_add_path().
    pub path: u32,
    /// Largest datagram, bytes; for DCCP_EVENT_SIZE.
    pub max_datagram: u64,
    /// Negative errno value if the connection ended with an error; 0 if the end was orderly.
    pub error: i32,
    /// Name of the reason for the end, such as "closed_by_peer".
    pub reason: [c_char; DCCP_REASON_SIZE],
    /// Rate that congestion control allows, bits per second; for DCCP_EVENT_RATE.
    pub rate: u64,
    /// The path whose interface is used; for DCCP_EVENT_PATH_STRAYS.
    pub other_path: u32,
    /// The session of a dccp_endpoint.
    pub session: u64,
    /// The stream of a dccp_endpoint's session; for DCCP_EVENT_STREAM_OPENED and similar.
    pub stream: u64,
    /// Application error code of the peer; for DCCP_EVENT_STREAM_RESET.
    pub code: u32,
}

/// Converts an event to the C structure.
pub(crate) fn event_of(event: Event) -> dccp_event {
    let empty = dccp_event::default();
    let ended = |reason: Reason| dccp_event {
        error: if reason.is_orderly() { 0 } else { -FinishError(reason).errno() },
        reason: array(reason.name()),
        ..empty
    };
    match event {
        Event::PathUp(PathId(path)) => dccp_event { kind: DCCP_EVENT_PATH_UP, path, ..empty },
        Event::PathSuspect(PathId(path)) => dccp_event { kind: DCCP_EVENT_PATH_SUSPECT, path, ..empty },
        Event::PathDown(PathId(path), why) => dccp_event { kind: DCCP_EVENT_PATH_DOWN, path, ..ended(why) },
        Event::Size(bytes) => dccp_event { kind: DCCP_EVENT_SIZE, max_datagram: bytes as u64, ..empty },
        Event::Rate(rate) => dccp_event { kind: DCCP_EVENT_RATE, rate: rate.bps(), ..empty },
        Event::PathStrays(PathId(path), PathId(other_path)) => {
            dccp_event { kind: DCCP_EVENT_PATH_STRAYS, path, other_path, ..empty }
        }
        Event::Closed(why) => dccp_event { kind: DCCP_EVENT_CLOSED, ..ended(why) },
        // This version of the header has no number for this kind of event.
        _ => empty,
    }
}

// SAFETY: each structure begins with its size, and contains only numbers.
unsafe impl Structure for dccp_stats {
    const NAME: &'static str = "struct dccp_stats";
    const OLDEST: usize = 120;
}
// SAFETY: as above.
unsafe impl Structure for dccp_path_stats {
    const NAME: &'static str = "struct dccp_path_stats";
    const OLDEST: usize = 136;
}
// SAFETY: as above.
unsafe impl Structure for dccp_event {
    const NAME: &'static str = "struct dccp_event";
    const OLDEST: usize = 64;
}

fn microseconds(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| time.as_micros().try_into().unwrap_or(u64::MAX))
}

fn bits(rate: Option<Rate>) -> u64 {
    rate.map_or(0, Rate::bps)
}

/// Converts a text to a null-terminated array.
fn array<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    array.iter_mut().zip(text.bytes().take(N - 1)).for_each(|(to, from)| *to = from as c_char);
    array
}

/// Counters and state of a connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_get_stats(conn: *const dccp_conn, stats: *mut dccp_stats) -> c_int {
    answer(|| {
        let s = connection(conn)?.stats();
        let value = dccp_stats {
            size: 0,
            sent: s.sent,
            sent_bytes: s.sent_bytes,
            queued: s.queued,
            dropped: s.dropped,
            displaced: s.displaced,
            expired: s.expired,
            lost: s.lost,
            received: s.received,
            received_bytes: s.received_bytes,
            unread: s.unread,
            rate: bits(s.rate),
            allowed: bits(Some(s.allowed)),
            oldest_us: microseconds(s.oldest),
            app_limited: s.app_limited.into(),
            path_count: s.paths.len() as u32,
        };
        // SAFETY: dccp.h requires valid pointers from the caller.
        unsafe { give(stats, &value) }?;
        Ok(0)
    })
}

/// State of the path with this index, from 0 to dccp_stats.path_count - 1. -ENOENT for any other index.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_get_path_stats(
    conn: *const dccp_conn,
    index: c_uint,
    stats: *mut dccp_path_stats,
) -> c_int {
    answer(|| {
        let all = connection(conn)?.stats().paths;
        let p = all.get(index as usize);
        let p = p.ok_or_else(|| {
            failure(Errno::NOENT, format!("no path with index {index}; there are {} paths", all.len()))
        })?;
        let PathId(path) = p.id;
        let (ccid, peer_ccid) = p.ccids.unwrap_or_default();
        let value = dccp_path_stats {
            size: 0,
            path,
            state: match p.state {
                PathState::Connecting => DCCP_PATH_CONNECTING,
                PathState::Up => DCCP_PATH_UP,
                PathState::Suspect => DCCP_PATH_SUSPECT,
                PathState::Standby => DCCP_PATH_STANDBY,
                _ => DCCP_PATH_DOWN,
            },
            ccid: ccid.into(),
            peer_ccid: peer_ccid.into(),
            rtt_us: microseconds(p.rtt),
            window: p.window,
            rate: bits(p.rate),
            allowed: bits(Some(p.allowed)),
            sent: p.sent,
            lost: p.lost,
            peer: array(&p.peer.to_string()),
            path_mtu: p.path_mtu.into(),
        };
        // SAFETY: dccp.h requires valid pointers from the caller.
        unsafe { give(stats, &value) }?;
        Ok(0)
    })
}

/// Waits for the next event, stores it and returns 0; returns -EPIPE after DCCP_EVENT_CLOSED. Only the newest
/// 256 unread events are kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_next_event(
    conn: *mut dccp_conn,
    timeout_ms: c_int,
    event: *mut dccp_event,
) -> c_int {
    answer(|| {
        let connection = connection(conn)?;
        // Check first, so that no event is lost if the caller's structure is invalid. SAFETY: the header
        // requires this of the caller.
        unsafe { give(event, &dccp_event::default()) }?;
        let value = match connection.event_timeout(limit(timeout_ms)) {
            Some(event) => event_of(event),
            None if crate::connection::connection(conn).is_err() => {
                return Err(failure(Errno::CONNABORTED, "another thread closed the handle"));
            }
            // The connection may have ended just after the timeout, so look for its last events again.
            None if connection.end().is_some() => match connection.try_event() {
                Some(event) => event_of(event),
                None => return Err(failure(Errno::PIPE, "the connection has ended")),
            },
            _ => return Err(failure(expired(timeout_ms), "timed out")),
        };
        // SAFETY: as above.
        unsafe { give(event, &value) }?;
        Ok(0)
    })
}

/// Largest datagram that all paths can currently carry, in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_max_datagram(conn: *const dccp_conn) -> isize {
    crate::errno::answer_size(|| Ok(connection(conn)?.max_datagram_size()))
}

/// Returns 1 if the connection is a multipath session (RFC 9897), otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_is_multipath(conn: *const dccp_conn) -> c_int {
    answer(|| Ok(connection(conn)?.is_multipath().into()))
}

/// Writes the peer's address at the time the connection opened; DCCP_ADDRESS_SIZE bytes are enough. Returns
/// the length of the address, or -ERANGE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_peer_address(conn: *const dccp_conn, into: *mut c_char, size: usize) -> c_int {
    // SAFETY: dccp.h requires valid pointers from the caller.
    unsafe { tell(conn, into, size, |conn| conn.peer_addr().map(|addr| addr.to_string())) }
}

/// Writes the address of this host from which the connection was opened, or on which it was accepted. See
/// dccp_peer_address().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_local_address(conn: *const dccp_conn, into: *mut c_char, size: usize) -> c_int {
    // SAFETY: dccp.h requires valid pointers from the caller.
    unsafe { tell(conn, into, size, |conn| conn.local_addr().map(|addr| addr.to_string())) }
}

/// Writes the peer's public key in base64; DCCP_KEY_SIZE bytes are enough. Returns -ENODATA without
/// encryption.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_peer_key(conn: *const dccp_conn, into: *mut c_char, size: usize) -> c_int {
    // SAFETY: dccp.h requires valid pointers from the caller.
    unsafe { tell(conn, into, size, |conn| conn.peer_key().map(|key| key.to_string())) }
}

/// Writes the connection's Service Code.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_service(conn: *const dccp_conn, into: *mut c_char, size: usize) -> c_int {
    // SAFETY: dccp.h requires valid pointers from the caller.
    unsafe { tell(conn, into, size, |conn| conn.service().map(|code| code.to_string())) }
}

/// Writes the text with which the peer gave its reason for ending the connection. Returns -ENODATA if there
/// is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_peer_said(conn: *const dccp_conn, into: *mut c_char, size: usize) -> c_int {
    // SAFETY: dccp.h requires valid pointers from the caller.
    unsafe { tell(conn, into, size, |conn| conn.peer_said()) }
}

/// # Safety
/// As for [`give_text`].
unsafe fn tell(
    conn: *const dccp_conn,
    into: *mut c_char,
    size: usize,
    what: impl FnOnce(&dccp_sockets::Connection) -> Option<String>,
) -> c_int {
    answer(|| {
        let text = what(&*connection(conn)?);
        let text = text.ok_or_else(|| failure(Errno::NODATA, "the connection has no such value"))?;
        // SAFETY: the caller guarantees this.
        unsafe { give_text(into, size, &text) }
    })
}
