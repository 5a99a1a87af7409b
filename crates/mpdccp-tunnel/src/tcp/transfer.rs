//! Copies bytes between a stream and the queue of its socket.

use dccp_streams::{StreamError, StreamId, Streams};
use std::collections::VecDeque;

/// Priority of all streams that carry TCP connections.
pub(super) const PRIORITY: u8 = 3;
/// Maximum number of bytes passed to a socket at once.
pub(super) const CHUNK: usize = 64 << 10;

/// Writes as many blocks as the stream accepts. If `finished` is set, ends the stream after the last block.
/// Returns the number of bytes written or dropped, and whether the stream was ended.
pub(super) fn write(
    streams: &mut Streams,
    stream: StreamId,
    waiting: &mut VecDeque<Vec<u8>>,
    taken: &mut usize,
    finished: bool,
) -> (u64, bool) {
    let mut written = 0;
    while let Some(first) = waiting.front() {
        match streams.write(stream, &first[*taken..]) {
            Ok(n) => {
                written += n as u64;
                *taken += n;
            }
            Err(StreamError::Blocked) => return (written, false),
            // The far host takes no more data. Another event reports the reset, so drop the data.
            Err(_) => {
                written += (first.len() - *taken) as u64;
                *taken = first.len();
            }
        }
        if *taken == first.len() {
            waiting.pop_front();
            *taken = 0;
        }
    }
    if finished {
        let _ = streams.finish(stream);
    }
    (written, finished)
}

/// Reads at most `most` bytes from a stream. Also returns whether the stream has ended.
pub(super) fn read(streams: &mut Streams, stream: StreamId, most: usize) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    loop {
        let Ok(next) = streams.peek(stream) else { return (bytes, false) };
        let n = next.len().min(most - bytes.len());
        bytes.extend_from_slice(&next[..n]);
        if n == 0 && bytes.len() == most {
            return (bytes, false);
        }
        match streams.consume(stream, n) {
            Ok(()) if n == 0 => return (bytes, true),
            Ok(()) => {}
            Err(_) => return (bytes, false),
        }
    }
}
