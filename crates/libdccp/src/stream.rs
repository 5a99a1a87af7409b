//! Reliable streams alongside a connection's datagrams.

use crate::connection::{CONNECTIONS, connection, dccp_conn, expired};
use crate::errno::{Outcome, answer, answer_size, failure};
use crate::handles::{Table, output};
use crate::memory::{bytes, room};
use dccp_sockets::{ByteStream, ConnectError, StreamError};
use rustix::io::Errno;
use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

/// A reliable, bidirectional byte stream.
pub struct dccp_stream {
    _opaque: [u8; 0],
}

static STREAMS: Table<ByteStream> = Table::new();

/// Returns the stream of a handle. Fails if the stream was opened before a fork, and this is the child.
fn open(stream: *const dccp_stream) -> Outcome<Arc<ByteStream>> {
    let stream = STREAMS.get(stream)?;
    if stream.is_forked() { Err(StreamError::Forked.into()) } else { Ok(stream) }
}

fn limit(timeout_ms: c_int) -> Option<Duration> {
    u64::try_from(timeout_ms).ok().map(Duration::from_millis)
}

/// Converts a stream error. The errno value of a timeout depends on `timeout_ms`.
fn after<T>(result: Result<T, StreamError>, timeout_ms: c_int) -> Outcome<T> {
    result.map_err(|e| match e {
        StreamError::TimedOut => failure(expired(timeout_ms), e.to_string()),
        e => e.into(),
    })
}

/// Like [`after`], for a stream that another thread may have closed in the meantime.
fn unless_closed<T>(
    stream: *const dccp_stream,
    result: Result<T, StreamError>,
    timeout_ms: c_int,
) -> Outcome<T> {
    after(result, timeout_ms).map_err(|e| STREAMS.unless_closed(stream, e))
}

/// Opens a stream, which the peer accepts. Returns -EOPNOTSUPP unless both ends have set DCCP_STREAMS, and
/// -EAGAIN while the peer allows no more streams.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_open_stream(conn: *mut dccp_conn, stream: *mut *mut dccp_stream) -> c_int {
    answer(|| {
        output(stream)?;
        let opened = connection(conn)?.open_stream()?;
        // SAFETY: dccp.h requires valid pointers from the caller.
        unsafe { STREAMS.put(opened, stream) };
        Ok(0)
    })
}

/// Waits for the peer to open a stream. dccp_events() includes DCCP_STREAM while one is available.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_accept_stream(
    conn: *mut dccp_conn,
    timeout_ms: c_int,
    stream: *mut *mut dccp_stream,
) -> c_int {
    answer(|| {
        output(stream)?;
        let accepted = after(connection(conn)?.accept_stream(limit(timeout_ms)), timeout_ms);
        let accepted = accepted.map_err(|e| CONNECTIONS.unless_closed(conn, e))?;
        // SAFETY: dccp.h requires valid pointers from the caller.
        unsafe { STREAMS.put(accepted, stream) };
        Ok(0)
    })
}

/// Reads bytes, and waits until some are available. Returns the number of bytes read, or 0 after the last;
/// -ECONNRESET if the peer has reset the stream, or has closed the connection before the end of the stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_stream_read(
    stream: *mut dccp_stream,
    buffer: *mut c_void,
    len: usize,
    timeout_ms: c_int,
) -> isize {
    answer_size(|| {
        // SAFETY: dccp.h requires valid pointers from the caller.
        let into = unsafe { room(buffer.cast(), len) }?;
        match STREAMS.get(stream)?.read_timeout(into, limit(timeout_ms)) {
            Err(e @ StreamError::Closed(_)) => {
                let e = failure(Errno::from_raw_os_error(e.read_errno()), e.to_string());
                Err(STREAMS.unless_closed(stream, e))
            }
            read => unless_closed(stream, read, timeout_ms),
        }
    })
}

/// Writes bytes, and waits until there is room for some. Returns the number of bytes accepted, at least one;
/// -EPIPE if the peer has stopped reading or this end has ended the stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_stream_write(
    stream: *mut dccp_stream,
    data: *const c_void,
    len: usize,
    timeout_ms: c_int,
) -> isize {
    answer_size(|| {
        // SAFETY: dccp.h requires valid pointers from the caller.
        let data = unsafe { bytes(data.cast(), len) }?;
        unless_closed(stream, STREAMS.get(stream)?.write_timeout(data, limit(timeout_ms)), timeout_ms)
    })
}

/// Ends writing. The peer can read all bytes before the end, and this end can still read.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_stream_end(stream: *mut dccp_stream) -> c_int {
    answer(|| {
        open(stream)?.end();
        Ok(0)
    })
}

/// Ends writing, and waits until the peer has received everything. Returns -EPIPE if the peer stopped reading
/// before that.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_stream_finish(stream: *mut dccp_stream, timeout_ms: c_int) -> c_int {
    answer(|| {
        let finished = STREAMS.get(stream)?.finish_timeout(limit(timeout_ms));
        unless_closed(stream, finished, timeout_ms).map(|()| 0)
    })
}

/// Closes the handle and immediately resets both directions. The peer receives this application error code.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_stream_reset(stream: *mut dccp_stream, code: u16) -> c_int {
    answer(|| {
        STREAMS.remove(stream)?.reset(code);
        Ok(0)
    })
}

/// Closes the handle. Bytes that were written still arrive as long as the connection lives. Bytes from the
/// peer are discarded.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_stream_close(stream: *mut dccp_stream) -> c_int {
    answer(|| {
        STREAMS.remove(stream)?.close();
        Ok(0)
    })
}

/// A descriptor for poll() and epoll, for reading only. It is readable while bytes are available, and at the
/// end. Two changes also make it readable. One is that the peer has received everything, until the next call
/// for this stream. The other is that there is room after a dccp_stream_write() found too little, until the
/// next dccp_stream_write() or dccp_stream_end(). Do not read, write or close it.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_stream_fd(stream: *mut dccp_stream) -> c_int {
    answer(|| Ok(open(stream)?.descriptor().map_err(ConnectError::Io)?.as_raw_fd() as usize))
}
