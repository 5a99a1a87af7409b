use std::collections::BTreeMap;
use std::ops::Range;

/// Stretches of a stream: disjoint, never adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds a stretch; gives how many bytes of it were new.
    pub(super) fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let Range { mut start, mut end } = range;
        let mut new = end - start;
        while let Some((&s, &e)) = self.0.range(..=end).next_back().filter(|(_, e)| **e >= start) {
            new -= e.min(range.end).saturating_sub(s.max(range.start));
            start = start.min(s);
            end = end.max(e);
            self.0.remove(&s);
        }
        self.0.insert(start, end);
        new
    }

    /// Takes a stretch away.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&s, &e)) = self.0.range(..range.end).next_back().filter(|(_, e)| **e > range.start) {
            self.0.remove(&s);
            if e > range.end {
                self.0.insert(range.end, e);
            }
            if s < range.start {
                self.0.insert(s, range.start);
            }
        }
    }

    /// The lowest one.
    pub(super) fn first(&self) -> Option<Range<u64>> {
        self.0.first_key_value().map(|(&start, &end)| start..end)
    }

    /// The whole stretch is in it.
    pub(super) fn contains(&self, range: &Range<u64>) -> bool {
        range.is_empty() || self.0.range(..=range.start).next_back().is_some_and(|(_, &e)| e >= range.end)
    }

    /// Those that have a part of `range`, from the highest on.
    pub(super) fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let below = self.0.range(..range.end).rev().map(|(&start, &end)| start..end);
        below.take_while(move |stretch| stretch.end > range.start)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From the lowest on.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(&start, &end)| start..end)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_set(steps in proptest::collection::vec((any::<bool>(), 0u64..60, 0u64..20), 0..40)) {
            let (mut ranges, mut set) = (Ranges::default(), [false; 80]);
            for (add, start, length) in steps {
                let range = start..start + length;
                let slice = &mut set[start as usize..(start + length) as usize];
                if add {
                    let new = slice.iter().filter(|there| !**there).count() as u64;
                    prop_assert_eq!(ranges.insert(range.clone()), new);
                } else {
                    ranges.remove(range.clone());
                }
                slice.fill(add);
                prop_assert_eq!(ranges.contains(&range), add || length == 0);
            }
            let mut there = [false; 80];
            for range in ranges.iter() {
                there[range.start as usize..range.end as usize].fill(true);
            }
            prop_assert_eq!(there, set);
            prop_assert!(ranges.iter().zip(ranges.iter().skip(1)).all(|(a, b)| a.end < b.start));
        }
    }
}
