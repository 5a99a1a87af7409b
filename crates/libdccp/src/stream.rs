//! Reliable streams beside the datagrams of a connection.

use crate::connection::{connection, dccp_conn, expired};
use crate::errno::{Outcome, answer, answer_size, failure};
use crate::handles::{Table, output};
use crate::memory::{bytes, room};
use dccp_sockets::{ByteStream, ConnectError, StreamError};
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// A reliable stream of bytes both ways.
pub struct dccp_stream {
    _opaque: [u8; 0],
}

static STREAMS: Table<ByteStream> = Table::new();

fn limit(timeout_ms: c_int) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

/// What a call gives that waited for so long.
fn after<T>(result: Result<T, StreamError>, timeout_ms: c_int) -> Outcome<T> {
    result.map_err(|e| match e {
        StreamError::TimedOut => failure(expired(timeout_ms), e.to_string()),
        e => e.into(),
    })
}

/// As [`after`], of a stream that another thread may have closed meanwhile.
fn unless_closed<T>(
    stream: *const dccp_stream,
    result: Result<T, StreamError>,
    timeout_ms: c_int,
) -> Outcome<T> {
    after(result, timeout_ms).map_err(|e| STREAMS.unless_closed(stream, e))
}

/// Opens a stream to the peer, which accepts it. Both ends need DCCP_STREAMS: otherwise -EOPNOTSUPP. -EAGAIN while the peer allows no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_open_stream(conn: *mut dccp_conn, stream: *mut *mut dccp_stream) -> c_int {
    answer(|| {
        output(stream)?;
        let opened = connection(conn)?.open_stream()?;
        // SAFETY: the header has the caller see to it.
        unsafe { STREAMS.put(opened, stream) };
        Ok(0)
    })
}

/// Waits for a stream that the peer opens. dccp_events() has DCCP_STREAM while one waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_accept_stream(
    conn: *mut dccp_conn,
    timeout_ms: c_int,
    stream: *mut *mut dccp_stream,
) -> c_int {
    answer(|| {
        output(stream)?;
        let accepted = after(connection(conn)?.accept_stream(limit(timeout_ms)), timeout_ms)?;
        // SAFETY: the header has the caller see to it.
        unsafe { STREAMS.put(accepted, stream) };
        Ok(0)
    })
}

/// Waits for bytes; how many were read, 0 after the last. -ECONNRESET if the peer gave the stream up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_stream_read(
    stream: *mut dccp_stream,
    buffer: *mut c_void,
    len: usize,
    timeout_ms: c_int,
) -> isize {
    answer_size(|| {
        // SAFETY: the header has the caller see to it.
        let into = unsafe { room(buffer.cast(), len) }?;
        unless_closed(stream, STREAMS.get(stream)?.read_timeout(into, limit(timeout_ms)), timeout_ms)
    })
}

/// Waits for room; how many of the bytes were taken, at least one. -EPIPE if the peer wants no more, or this end ended the stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_stream_write(
    stream: *mut dccp_stream,
    data: *const c_void,
    len: usize,
    timeout_ms: c_int,
) -> isize {
    answer_size(|| {
        // SAFETY: the header has the caller see to it.
        let data = unsafe { bytes(data.cast(), len) }?;
        unless_closed(stream, STREAMS.get(stream)?.write_timeout(data, limit(timeout_ms)), timeout_ms)
    })
}

/// Writes no more: the peer reads to the end. Reading goes on.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_stream_end(stream: *mut dccp_stream) -> c_int {
    answer(|| {
        STREAMS.get(stream)?.end();
        Ok(0)
    })
}

/// Writes no more, and waits until the peer has everything.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_stream_finish(stream: *mut dccp_stream, timeout_ms: c_int) -> c_int {
    answer(|| {
        let finished = STREAMS.get(stream)?.finish_timeout(limit(timeout_ms));
        unless_closed(stream, finished, timeout_ms).map(|()| 0)
    })
}

/// Closes the handle, and gives both directions up at once. The peer is told the number, which is the application's.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_stream_reset(stream: *mut dccp_stream, code: u16) -> c_int {
    answer(|| {
        STREAMS.remove(stream)?.reset(code);
        Ok(0)
    })
}

/// Closes the handle. What was written still arrives while the connection lives; what the peer writes is not wanted any more.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_stream_close(stream: *mut dccp_stream) -> c_int {
    answer(|| {
        STREAMS.remove(stream)?.close();
        Ok(0)
    })
}

/// A descriptor for poll() and epoll, for reading only: readable while there are bytes or the end, and until the next call when room came
/// that a dccp_stream_write() did not find, or when the peer has everything. Do not read, write or close it.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_stream_fd(stream: *mut dccp_stream) -> c_int {
    answer(|| Ok(STREAMS.get(stream)?.descriptor().map_err(ConnectError::Io)?.as_raw_fd() as usize))
}
