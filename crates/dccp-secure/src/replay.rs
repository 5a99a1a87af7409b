/// Size of the largest window, in counters below the highest one. At 1 Gbit/s, about 18,000 full-size records
/// are sent in 200 ms.
pub(crate) const MAX_WINDOW: u64 = 32_768;
const MIN_WINDOW: u64 = 256;

/// The counters received under a key, as a ring of bits. The ring starts small and grows with the counters,
/// so that an idle path needs only a few bytes.
#[derive(Debug)]
pub(crate) struct Replay {
    /// Highest counter that was received, plus one.
    next: u64,
    /// Bit `c % bits` is set if counter `c` was received. The ring covers the last `bits` counters before
    /// `next`.
    ring: Vec<u64>,
}

impl Replay {
    pub(crate) fn new() -> Replay {
        Replay { next: 0, ring: vec![0; (MIN_WINDOW / 64) as usize] }
    }

    /// Returns the highest counter that was received, plus one.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    fn bits(&self) -> u64 {
        self.ring.len() as u64 * 64
    }

    fn bit(&self, counter: u64) -> (usize, u64) {
        let at = counter % self.bits();
        ((at / 64) as usize, 1 << (at % 64))
    }

    /// Returns whether a record with this counter may still be accepted. Call this before opening the record,
    /// and call [`take`](Self::take) only once the record has proved authentic.
    pub(crate) fn is_new(&self, counter: u64) -> bool {
        if counter >= self.next {
            return true;
        }
        let (word, bit) = self.bit(counter);
        self.next - counter <= self.bits() && self.ring[word] & bit == 0
    }

    /// Marks a counter as received. Returns true if it is the highest so far.
    pub(crate) fn take(&mut self, counter: u64) -> bool {
        let highest = counter >= self.next;
        if highest {
            self.grow(counter);
            let fresh = (counter + 1 - self.next).min(self.bits());
            for skipped in counter + 1 - fresh..=counter {
                let (word, bit) = self.bit(skipped);
                self.ring[word] &= !bit;
            }
            self.next = counter + 1;
        }
        let (word, bit) = self.bit(counter);
        self.ring[word] |= bit;
        highest
    }

    /// Doubles the ring until it covers this counter or has its maximum size.
    fn grow(&mut self, counter: u64) {
        let wanted = (counter.saturating_add(1)).clamp(MIN_WINDOW, MAX_WINDOW).next_power_of_two();
        if wanted <= self.bits() {
            return;
        }
        let mut larger = Replay { next: self.next, ring: vec![0; (wanted / 64) as usize] };
        for old in self.next.saturating_sub(self.bits())..self.next {
            let (word, bit) = self.bit(old);
            if self.ring[word] & bit != 0 {
                let (word, bit) = larger.bit(old);
                larger.ring[word] |= bit;
            }
        }
        // Counters that the small ring no longer covered must not look new in the larger ring.
        for forgotten in self.next.saturating_sub(wanted)..self.next.saturating_sub(self.bits()) {
            let (word, bit) = larger.bit(forgotten);
            larger.ring[word] |= bit;
        }
        *self = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn edges_of_the_full_window() {
        let mut window = Replay::new();
        window.take(2 * MAX_WINDOW - 1);
        assert!(window.is_new(MAX_WINDOW), "the oldest counter in the window must be accepted");
        assert!(!window.is_new(MAX_WINDOW - 1), "a counter below the window must be refused");
        window.take(MAX_WINDOW);
        assert!(!window.is_new(MAX_WINDOW));
        window.take(2 * MAX_WINDOW);
        assert!(!window.is_new(MAX_WINDOW), "a counter that has left the window must be refused");
        assert!(window.is_new(MAX_WINDOW + 1));
        assert!(!window.is_new(2 * MAX_WINDOW) && window.is_new(2 * MAX_WINDOW + 1));
    }

    #[test]
    fn stays_small_until_used() {
        let mut window = Replay::new();
        (0..200).for_each(|c| assert!(window.take(c)));
        assert_eq!(window.bits(), MIN_WINDOW);
        window.take(100 * MAX_WINDOW);
        assert_eq!(window.bits(), MAX_WINDOW);
    }

    proptest! {
        /// No counter is accepted twice, and all new counters within the smallest window are accepted.
        #[test]
        fn takes_each_once(steps in prop::collection::vec((0u64..70_000, any::<bool>()), 1..400)) {
            let mut window = Replay::new();
            let mut taken = BTreeSet::new();
            let mut high = 0u64;
            for (step, ahead) in steps {
                let counter = if ahead { high + step % 300 } else { high.saturating_sub(step) };
                let new = window.is_new(counter);
                prop_assert!(!(new && taken.contains(&counter)), "{} twice", counter);
                if !taken.contains(&counter) && counter + MIN_WINDOW > high {
                    prop_assert!(new, "new counter {} refused; the highest was {}", counter, high);
                }
                if new {
                    window.take(counter);
                    taken.insert(counter);
                    high = high.max(counter);
                }
            }
        }
    }
}
