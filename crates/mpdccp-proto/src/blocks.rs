//! Memory of packets that are gone, for those to come: to get a block of that size from the allocator, and to give it back, takes longer than to copy
//! the packet, and what was used last is in the cache.

use alloc::vec::Vec;

/// Size of a block: a packet as most links carry it.
const SIZE: usize = 2_048;
/// Smaller packets get memory of their own, which allocators have at hand, or a queue of them would take many times what it says.
const LEAST: usize = 1_024;
/// Most that are kept.
const MOST: usize = 256;

/// Blocks that wait to be used again.
#[derive(Debug, Default)]
pub(crate) struct Blocks(Vec<Vec<u8>>);

impl Blocks {
    /// A block, with whatever is in it.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_else(|| Vec::with_capacity(SIZE))
    }

    /// A packet's copy.
    pub(crate) fn copy(&mut self, packet: &[u8]) -> Vec<u8> {
        if !(LEAST..=SIZE).contains(&packet.len()) {
            return packet.to_vec();
        }
        let mut block = self.take();
        block.clear();
        block.extend_from_slice(packet);
        block
    }

    /// Keeps a block, if it is one.
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
