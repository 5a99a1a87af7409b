//! Pool of packet buffers. It exists because allocating and freeing a buffer for a large packet takes longer
//! than copying the packet, and because the pool's most recently used buffer is still in the cache.

use alloc::vec::Vec;

/// Size of a block, large enough for packets on most links.
const SIZE: usize = 2_048;
/// Packets smaller than this get an allocation of their own, which is cheap. In full blocks, a queue of small
/// packets would take many times its nominal memory.
const LEAST: usize = 1_024;
/// Maximum number of blocks kept.
const MOST: usize = 256;

/// Blocks ready for reuse.
#[derive(Debug, Default)]
pub(crate) struct Blocks(Vec<Vec<u8>>);

impl Blocks {
    /// Returns a block with arbitrary contents.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| Vec::with_capacity(SIZE))
    }

    /// Copies a packet, into a block unless the packet is too small or too large.
    pub(crate) fn copy(&mut self, packet: &[u8]) -> Vec<u8> {
        if !(LEAST..=SIZE).contains(&packet.len()) {
            return packet.to_vec();
        }
        let mut block = self.take();
        block.clear();
        block.extend_from_slice(packet);
        block
    }

    /// Keeps a buffer for reuse if it has the size of a block.
    pub(crate) fn put(&mut self, block: Vec<u8>) {
        if (SIZE..2 * SIZE).contains(&block.capacity()) && self.0.len() < MOST {
            self.0.push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_serves_packet_after_packet() {
        let mut blocks = Blocks::default();
        let first = blocks.copy(&[1; 1_400]);
        let at = first.as_ptr();
        blocks.put(first);
        let second = blocks.copy(&[2; 1_100]);
        assert_eq!((second.as_ptr(), &second[..]), (at, &[2; 1_100][..]));
    }

    #[test]
    fn only_so_many_are_kept_and_none_of_another_size() {
        let mut blocks = Blocks::default();
        for _ in 0..2 * MOST {
            blocks.put(Vec::with_capacity(SIZE));
            blocks.put(Vec::with_capacity(2 * SIZE));
        }
        assert_eq!(blocks.0.len(), MOST);
        assert!(blocks.0.iter().all(|block| block.capacity() == SIZE));
    }

    #[test]
    fn a_small_packet_takes_little() {
        assert!(Blocks::default().copy(&[0; 60]).capacity() < LEAST);
    }
}
