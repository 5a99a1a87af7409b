//! This end's indices, which peers write into records for this end.

use crate::header::NO_SLOT;
use rand_core::RngCore;
use std::collections::BTreeMap;

/// Maximum number of indices in use: half of all possible ones, so that a free one is found quickly.
const MOST: usize = 1 << 23;

/// Maps each index in use to its channel. Indices are random, so that they reveal neither how many there are
/// nor the order in which they were assigned.
#[derive(Debug, Default)]
pub(crate) struct Indices(BTreeMap<u32, u32>);

impl Indices {
    /// Allocates a 24-bit index. Returns `None` if too many are in use.
    pub(crate) fn insert(&mut self, channel: u32, rng: &mut impl RngCore) -> Option<u32> {
        if self.0.len() >= MOST {
            return None;
        }
        loop {
            let index = rng.next_u32() & NO_SLOT;
            if index != NO_SLOT && !self.0.contains_key(&index) {
                self.0.insert(index, channel);
                return Some(index);
            }
        }
    }

    pub(crate) fn remove(&mut self, index: u32) {
        self.0.remove(&index);
    }

    pub(crate) fn get(&self, index: u32) -> Option<u32> {
        self.0.get(&index).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    #[test]
    fn indices_tell_nothing_of_their_order() {
        let mut rng = ChaCha20Rng::from_seed([7; 32]);
        let mut indices = Indices::default();
        let all: Vec<u32> = (0..1_000).map(|channel| indices.insert(channel, &mut rng).unwrap()).collect();
        assert!(all.iter().all(|index| *index < NO_SLOT));
        assert!((0..).zip(&all).all(|(channel, index)| indices.get(*index) == Some(channel)));
        // Increases and decreases are equally frequent, so the order is random, and the indices cover the
        // whole range.
        let up = all.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((400..600).contains(&up), "{up}");
        assert!(all.iter().any(|index| *index > 1 << 22), "indices must not all be small numbers");
        indices.remove(all[3]);
        assert_eq!((indices.get(all[3]), indices.get(all[4])), (None, Some(4)));
    }
}
