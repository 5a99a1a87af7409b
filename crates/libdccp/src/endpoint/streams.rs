//! Byte streams of an endpoint's sessions. No call in this module waits.

use super::inner::{Loop, dccp_endpoint, with};
use crate::errno::{Failure, Outcome, answer, answer_size, failure, invalid};
use crate::memory::{bytes, room};
use crate::observe::{
    DCCP_EVENT_STREAM_DELIVERED, DCCP_EVENT_STREAM_OPENED, DCCP_EVENT_STREAM_READABLE,
    DCCP_EVENT_STREAM_RESET, DCCP_EVENT_STREAM_WRITABLE, dccp_event,
};
use dccp_streams::{Event, Reason, StreamError, StreamId, Streams};
use mpdccp_proto::SessionId;
use rustix::io::Errno;
use std::ffi::{c_int, c_void};

/// The priority of all streams that this library opens.
const PRIORITY: u8 = 1;

fn failed(error: StreamError) -> Failure {
    let errno = match error {
        StreamError::Blocked => Errno::AGAIN,
        StreamError::Reset => Errno::CONNRESET,
        StreamError::Finished => Errno::PIPE,
        StreamError::Unknown => Errno::BADF,
        _ => Errno::INVAL,
    };
    failure(errno, error.to_string())
}

/// Runs `act` on a session's streams. The error is EOPNOTSUPP if the session has no streams or is not open.
fn act<T>(
    endpoint: *const dccp_endpoint,
    now_ns: u64,
    session: u64,
    act: impl FnOnce(&mut Streams) -> Result<T, StreamError>,
) -> Outcome<T> {
    with(endpoint, |inner| {
        let now = inner.at(now_ns);
        let done = inner.endpoint.streams(now, SessionId(session), act);
        let none = "the session is not open, or one of its ends did not set DCCP_STREAMS";
        done.ok_or_else(|| failure(Errno::OPNOTSUPP, none))?.map_err(failed)
    })
}

/// Converts a stream event to the C structure, or returns `None` for an event that C programs do not receive.
/// Accepts a stream opened by the peer.
pub(super) fn told(inner: &mut Loop, session: SessionId, event: Event) -> Option<dccp_event> {
    let told = |kind, StreamId(stream)| dccp_event { kind, stream, ..dccp_event::default() };
    Some(match event {
        Event::Opened(stream) => {
            // Ignore an error: if the session is ending, the program can still read the data that has
            // arrived.
            inner.endpoint.streams(inner.now, session, |streams| streams.accept(stream, &[]));
            told(DCCP_EVENT_STREAM_OPENED, stream)
        }
        Event::Readable(stream) => told(DCCP_EVENT_STREAM_READABLE, stream),
        Event::Writable(stream) => told(DCCP_EVENT_STREAM_WRITABLE, stream),
        Event::Delivered(stream) => told(DCCP_EVENT_STREAM_DELIVERED, stream),
        Event::Reset(stream, why) | Event::Stopped(stream, why) => {
            let code = if let Reason::Application(code) = why { code } else { 0 };
            dccp_event { code: code.into(), ..told(DCCP_EVENT_STREAM_RESET, stream) }
        }
        Event::Accepted(_) => return None,
    })
}

/// Opens a stream in a session, and writes the stream's number. The peer accepts the stream. Returns
/// -EOPNOTSUPP unless both ends have set DCCP_STREAMS and the session is open, and -EAGAIN while the peer
/// allows no more streams.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_open_stream(
    endpoint: *mut dccp_endpoint,
    now_ns: u64,
    session: u64,
    stream: *mut u64,
) -> c_int {
    answer(|| {
        if stream.is_null() {
            return Err(invalid("the argument that receives the stream's number is null"));
        }
        let StreamId(number) = act(endpoint, now_ns, session, |streams| streams.open(&[], PRIORITY))?;
        // SAFETY: dccp.h requires valid pointers from the caller.
        unsafe { stream.write(number) };
        Ok(0)
    })
}

/// Reads bytes from a stream. Returns the number of bytes read, or 0 after the last; -EAGAIN if no bytes are
/// available, until DCCP_EVENT_STREAM_READABLE reports some; -ECONNRESET if this end has reset the stream, or
/// if the peer has and no bytes are left. Bytes that arrived before the session ended can be read until
/// DCCP_EVENT_CLOSED has been fetched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_stream_read(
    endpoint: *mut dccp_endpoint,
    now_ns: u64,
    session: u64,
    stream: u64,
    buffer: *mut c_void,
    len: usize,
) -> isize {
    answer_size(|| {
        // SAFETY: dccp.h requires valid pointers from the caller.
        let into = unsafe { room(buffer.cast(), len) }?;
        let (id, stream) = (SessionId(session), StreamId(stream));
        let ended = with(endpoint, |inner| {
            Ok(inner.endpoint.unread_streams(id, |streams| streams.read(stream, into)))
        })?;
        match ended {
            Some(read) => read.map_err(failed),
            None => act(endpoint, now_ns, session, |streams| streams.read(stream, into)),
        }
    })
}

/// Writes bytes to a stream. Returns the number of bytes accepted; -EAGAIN if there is no room, until
/// DCCP_EVENT_STREAM_WRITABLE reports some; -EPIPE if this end has ended the stream; -ECONNRESET if either
/// end has reset it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dccp_endpoint_stream_write(
    endpoint: *mut dccp_endpoint,
    now_ns: u64,
    session: u64,
    stream: u64,
    data: *const c_void,
    len: usize,
) -> isize {
    answer_size(|| {
        // SAFETY: dccp.h requires valid pointers from the caller.
        let data = unsafe { bytes(data.cast(), len) }?;
        act(endpoint, now_ns, session, |streams| streams.write(StreamId(stream), data))
    })
}

/// Ends writing on a stream. The peer can read all bytes before the end, and this end can still read.
/// DCCP_EVENT_STREAM_DELIVERED reports when the peer has received everything.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_endpoint_stream_end(
    endpoint: *mut dccp_endpoint,
    now_ns: u64,
    session: u64,
    stream: u64,
) -> c_int {
    answer(|| act(endpoint, now_ns, session, |streams| streams.finish(StreamId(stream))).map(|()| 0))
}

/// Resets both directions of a stream immediately. The peer receives this application error code.
#[unsafe(no_mangle)]
pub extern "C" fn dccp_endpoint_stream_reset(
    endpoint: *mut dccp_endpoint,
    now_ns: u64,
    session: u64,
    stream: u64,
    code: u16,
) -> c_int {
    answer(|| {
        act(endpoint, now_ns, session, |streams| streams.reset(StreamId(stream), Reason::Application(code)))?;
        Ok(0)
    })
}
