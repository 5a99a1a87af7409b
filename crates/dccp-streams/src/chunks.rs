//! Bytes of one direction of a stream, stored in chunks that never move, so that bytes are copied only once
//! on input and once per transmission.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Bytes per chunk.
pub(crate) const CHUNK: usize = 16 << 10;
/// Maximum number of chunks kept for reuse.
const MAX_FREE: usize = 64;
/// Initial size of a stream's first chunk. The chunk grows when needed, so that a short stream needs little
/// memory.
const SMALLEST: usize = 256;

/// Unused chunks.
#[derive(Debug, Default)]
pub(crate) struct Pool(Vec<Vec<u8>>);

impl Pool {
    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| vec![0; CHUNK])
    }

    fn give(&mut self, chunk: Vec<u8>) {
        if chunk.len() == CHUNK && self.0.len() < MAX_FREE {
            self.0.push(chunk);
        }
    }
}

/// The stored bytes of a stream, starting at offset `start`. An empty chunk takes no memory.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    start: u64,
    chunks: VecDeque<Vec<u8>>,
}

impl Chunks {
    /// Locates an offset: returns the chunk's index counted from the start of the stream, and the offset
    /// within the chunk.
    fn place(offset: u64) -> (u64, usize) {
        (offset / CHUNK as u64, (offset % CHUNK as u64) as usize)
    }

    /// Returns the offset of the first stored byte.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the memory from `offset` to the end of its chunk, limited to `len` bytes.
    pub(crate) fn space(&mut self, pool: &mut Pool, offset: u64, len: usize) -> &mut [u8] {
        let (piece, at) = Chunks::place(offset);
        let index = (piece - Chunks::place(self.start).0) as usize;
        if index >= self.chunks.len() {
            self.chunks.resize_with(index + 1, Vec::new);
        }
        let chunk = &mut self.chunks[index];
        let end = CHUNK.min(at + len);
        if chunk.len() < end {
            if piece == 0 && end <= CHUNK / 2 {
                chunk.resize(end.next_power_of_two().max(SMALLEST), 0);
            } else if chunk.is_empty() {
                *chunk = pool.take();
            } else {
                chunk.resize(CHUNK, 0);
            }
        }
        &mut chunk[at..end]
    }

    /// Stores bytes. Their offset must not be below the start.
    pub(crate) fn store(&mut self, pool: &mut Pool, mut offset: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.space(pool, offset, bytes.len());
            let (now, later) = bytes.split_at(space.len());
            space.copy_from_slice(now);
            offset += now.len() as u64;
            bytes = later;
        }
    }

    /// Returns the bytes from the start of `range` to its end, or to the end of the chunk if that comes
    /// first. The whole range must have been stored.
    pub(crate) fn piece(&self, range: Range<u64>) -> &[u8] {
        let (piece, at) = Chunks::place(range.start);
        let index = (piece - Chunks::place(self.start).0) as usize;
        let end = (at as u64 + (range.end - range.start)).min(CHUNK as u64) as usize;
        &self.chunks[index][at..end]
    }

    /// Copies a stored range.
    pub(crate) fn copy(&self, mut range: Range<u64>, mut out: &mut [u8]) {
        while !range.is_empty() {
            let piece = self.piece(range.clone());
            let (now, later) = out.split_at_mut(piece.len());
            now.copy_from_slice(piece);
            out = later;
            range.start += piece.len() as u64;
        }
    }

    /// Frees the bytes below `offset`. `nothing_beyond` says that no bytes are stored from `offset` on, so
    /// that all chunks can be freed.
    pub(crate) fn release(&mut self, pool: &mut Pool, offset: u64, nothing_beyond: bool) {
        let pieces = Chunks::place(offset).0 - Chunks::place(self.start).0;
        let pieces =
            if nothing_beyond { self.chunks.len() } else { (pieces as usize).min(self.chunks.len()) };
        self.chunks.drain(..pieces).for_each(|chunk| pool.give(chunk));
        self.start = offset;
        if nothing_beyond && self.chunks.capacity() > 8 {
            self.chunks = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_whatever_the_order() {
        let (mut pool, mut chunks) = (Pool::default(), Chunks::default());
        let bytes: Vec<u8> = (0..5 * CHUNK).map(|n| (n * 7 / 3) as u8).collect();
        for part in (0..bytes.len()).step_by(1_400).collect::<Vec<_>>().into_iter().rev() {
            chunks.store(&mut pool, part as u64, &bytes[part..bytes.len().min(part + 1_400)]);
        }
        let mut out = vec![0; bytes.len()];
        chunks.copy(0..bytes.len() as u64, &mut out);
        assert!(out == bytes);
        chunks.release(&mut pool, 3 * CHUNK as u64 + 9, false);
        assert_eq!(pool.0.len(), 3);
        let mut out = vec![0; CHUNK];
        chunks.copy(3 * CHUNK as u64 + 9..4 * CHUNK as u64 + 9, &mut out);
        assert!(out == bytes[3 * CHUNK + 9..4 * CHUNK + 9]);
        chunks.release(&mut pool, bytes.len() as u64, true);
        assert_eq!((pool.0.len(), chunks.chunks.len()), (5, 0));
    }

    #[test]
    fn a_short_stream_takes_little_memory() {
        let (mut pool, mut chunks) = (Pool::default(), Chunks::default());
        chunks.store(&mut pool, 0, &[1; 200]);
        assert_eq!(chunks.chunks[0].len(), SMALLEST);
        chunks.store(&mut pool, 200, &[2; 200]);
        assert_eq!(chunks.piece(199..201), [1, 2]);
        assert_eq!(chunks.chunks[0].len(), 2 * SMALLEST);
    }
}
