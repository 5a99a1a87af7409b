//! Creates new inputs by mutating existing ones.

use mpdccp_fuzz::MAX_LEN;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

pub(crate) struct Dice(ChaCha8Rng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(ChaCha8Rng::seed_from_u64(seed))
    }

    pub(crate) fn number(&mut self) -> u32 {
        self.0.next_u32()
    }

    fn below(&mut self, n: usize) -> usize {
        self.0.next_u32() as usize % n.max(1)
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.below(most) + 1];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// Returns a mutated copy of one of the inputs. Prefers the newest inputs, because they have reached new
    /// coverage.
    pub(crate) fn mutate(&mut self, stories: &[Vec<u8>]) -> Vec<u8> {
        let at = if self.below(3) == 0 {
            stories.len() - 1 - self.below(stories.len().min(20))
        } else {
            self.below(stories.len())
        };
        let mut bytes = stories[at].clone();
        for _ in 0..1 << self.below(5) {
            let (at, len) = (self.below(bytes.len() + 1), self.below(16) + 1);
            let end = (at + len).min(bytes.len());
            match self.below(8) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = self.number() as u8,
                2 if at < bytes.len() => {
                    bytes[at] = bytes[at].wrapping_add((self.below(9) as u8).wrapping_sub(4))
                }
                3 => drop(bytes.drain(at..end)),
                4 => {
                    let more = self.bytes(16);
                    bytes.splice(at..at, more).for_each(drop);
                }
                5 => {
                    let copy = bytes[at..end].to_vec();
                    let to = self.below(bytes.len() + 1);
                    bytes.splice(to..to, copy).for_each(drop);
                }
                6 => {
                    let other = &stories[self.below(stories.len())];
                    let from = self.below(other.len() + 1);
                    bytes.truncate(at);
                    bytes.extend(&other[from..]);
                }
                _ => bytes.extend(self.bytes(64)),
            }
        }
        bytes.truncate(MAX_LEN);
        bytes
    }
}
