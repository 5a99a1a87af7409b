/// Things by small numbers, which are used again.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    entries: Vec<Option<T>>,
    free: Vec<u32>,
    most: u32,
}

impl<T> Slots<T> {
    /// Of at most `most` things.
    pub(crate) fn new(most: u32) -> Slots<T> {
        Slots { entries: Vec::new(), free: Vec::new(), most }
    }

    /// The thing's number, unless there are too many.
    pub(crate) fn insert(&mut self, thing: T) -> Option<u32> {
        // The oldest free number first would outlive stray packets longer, but they do not authenticate anyway.
        if let Some(at) = self.free.pop() {
            self.entries[at as usize] = Some(thing);
            return Some(at);
        }
        let at = u32::try_from(self.entries.len()).ok().filter(|at| *at < self.most)?;
        self.entries.push(Some(thing));
        Some(at)
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let thing = self.entries.get_mut(at as usize)?.take()?;
        self.free.push(at);
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
}
