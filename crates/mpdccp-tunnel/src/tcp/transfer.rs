//! Bytes between a stream and what waits for its socket.

use dccp_streams::{StreamError, StreamId, Streams};
use std::collections::VecDeque;

/// Priority of the streams, all the same.
pub(super) const PRIORITY: u8 = 3;
/// Most bytes handed to a socket in one piece.
pub(super) const CHUNK: usize = 64 << 10;

/// Writes what a stream takes, and its end once all is written. How many bytes that were, and whether the end is.
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
            // It was reset, and that is told.
            Err(_) => *taken = first.len(),
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

/// Reads a piece of a stream, of at most so many bytes, and whether it ends with that.
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
