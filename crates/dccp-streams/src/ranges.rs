use alloc::collections::VecDeque;
use core::ops::Range;

/// Disjoint, non-adjacent ranges of numbers in ascending order. Most changes are at the ends, where they are
/// cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet(VecDeque<(u64, u64)>);

impl RangeSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.0.front().map(|&(start, end)| start..end)
    }

    pub(crate) fn last(&self) -> Option<Range<u64>> {
        self.0.back().map(|&(start, end)| start..end)
    }

    /// Returns the ranges in descending order.
    pub(crate) fn descending(&self) -> impl Iterator<Item = Range<u64>> + Clone {
        self.0.iter().rev().map(|&(start, end)| start..end)
    }

    /// Returns the first part of `range` that is in the set.
    pub(crate) fn first_within(&self, range: Range<u64>) -> Option<Range<u64>> {
        let at = self.0.partition_point(|r| r.1 <= range.start);
        let &(start, end) = self.0.get(at)?;
        let part = start.max(range.start)..end.min(range.end);
        (!part.is_empty()).then_some(part)
    }

    /// Adds a range, and returns the number of new elements.
    pub(crate) fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let (mut start, mut end) = (range.start, range.end);
        // Merge the ranges that overlap or touch `range`.
        let from = self.0.partition_point(|r| r.1 < start);
        let to = from + self.0.range(from..).take_while(|r| r.0 <= end).count();
        let known: u64 = self.0.range(from..to).map(|r| r.1.min(end).saturating_sub(r.0.max(start))).sum();
        let new = end - start - known;
        if from == to {
            self.0.insert(from, (start, end));
            return new;
        }
        start = start.min(self.0[from].0);
        end = end.max(self.0[to - 1].1);
        self.0[from] = (start, end);
        if to - from > 1 {
            self.0.drain(from + 1..to);
        }
        new
    }

    pub(crate) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let mut at = self.0.partition_point(|r| r.1 <= range.start);
        while let Some(&(start, end)) = self.0.get(at).filter(|r| r.0 < range.end) {
            let (left, right) = (start < range.start, end > range.end);
            match (left, right) {
                (true, true) => {
                    self.0[at].1 = range.start;
                    self.0.insert(at + 1, (range.end, end));
                }
                (true, false) => self.0[at].1 = range.start,
                (false, true) => self.0[at].0 = range.end,
                (false, false) => {
                    self.0.remove(at);
                    continue;
                }
            }
            at += 1;
        }
    }

    pub(crate) fn pop_first(&mut self) {
        self.0.pop_front();
    }

    pub(crate) fn clear(&mut self) {
        self.0 = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(steps in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 1..80)) {
            let (mut set, mut model) = (RangeSet::default(), BTreeSet::new());
            for (add, start, len) in steps {
                let range = start..start + len;
                if add {
                    let new = range.clone().filter(|n| !model.contains(n)).count() as u64;
                    model.extend(range.clone());
                    prop_assert_eq!(set.insert(range.clone()), new);
                } else {
                    model.retain(|n| !range.contains(n));
                    set.remove(range.clone());
                }
                let mut ranges: Vec<_> = set.descending().collect();
                ranges.reverse();
                prop_assert!(ranges.windows(2).all(|w| w[0].end < w[1].start), "{:?}", ranges);
                prop_assert!(ranges.iter().all(|r| !r.is_empty()));
                let numbers: BTreeSet<u64> = ranges.iter().cloned().flatten().collect();
                prop_assert_eq!(&numbers, &model);
                let first = set.first_within(range.clone());
                prop_assert_eq!(first.map(|r| r.start), range.clone().find(|n| model.contains(n)));
            }
        }
    }
}
