use std::collections::VecDeque;

/// Number of freed slots that must be waiting before one of them is reused. A late datagram for the previous
/// owner, such as an answer to a retransmitted handshake, then does not reach the next owner.
const REST: usize = 256;

/// Assigns small, reusable numbers to entries.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    entries: Vec<Option<T>>,
    free: VecDeque<u32>,
    most: u32,
}

impl<T> Slots<T> {
    /// Creates slots for at most `most` entries.
    pub(crate) fn new(most: u32) -> Slots<T> {
        Slots { entries: Vec::new(), free: VecDeque::new(), most }
    }

    /// Adds an entry and returns its number. Returns `None` if there are too many entries.
    pub(crate) fn insert(&mut self, thing: T) -> Option<u32> {
        let new = u32::try_from(self.entries.len()).ok().filter(|at| *at < self.most);
        if (self.free.len() > REST || new.is_none())
            && let Some(at) = self.free.pop_front()
        {
            self.entries[at as usize] = Some(thing);
            return Some(at);
        }
        let at = new?;
        self.entries.push(Some(thing));
        Some(at)
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let thing = self.entries.get_mut(at as usize)?.take()?;
        self.free.push_back(at);
        Some(thing)
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.entries.get(at as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.entries.get_mut(at as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_and_bounded() {
        let mut slots = Slots::new(2);
        assert_eq!((slots.insert('a'), slots.insert('b'), slots.insert('c')), (Some(0), Some(1), None));
        assert_eq!((slots.remove(0), slots.remove(0), slots.get(0)), (Some('a'), None, None));
        assert_eq!((slots.insert('d'), slots.get(0)), (Some(0), Some(&'d')));
        assert_eq!(slots.get_mut(1), Some(&mut 'b'));
    }

    #[test]
    fn numbers_rest_before_they_are_used_again() {
        let mut slots = Slots::new(10_000);
        let used = (0..1_000).map(|_| {
            let at = slots.insert(()).unwrap();
            slots.remove(at);
            at
        });
        let used: Vec<u32> = used.collect();
        assert!(used.windows(REST).all(|few| few[1..].iter().all(|at| *at != few[0])), "{used:?}");
        assert!(used.iter().all(|at| *at <= REST as u32), "{used:?}");
    }
}
