/// Windowed maximum over an increasing position, such as a round count or a time. This is Kathleen Nichols'
/// three-sample filter.
///
/// The filter keeps the best sample of the window and two younger runners-up. When the maximum expires, a
/// runner-up replaces it, so the filter needs no history of samples.
#[derive(Clone, Debug)]
pub struct WindowedMax<T> {
    samples: [(u64, T); 3],
}

impl<T: Copy + PartialOrd + Default> WindowedMax<T> {
    /// Creates an empty filter. Its maximum is `T::default()`.
    pub fn new() -> Self {
        WindowedMax { samples: [(0, T::default()); 3] }
    }

    /// Returns the maximum.
    pub fn get(&self) -> T {
        self.samples[0].1
    }

    /// Removes all samples except `value`, seen at `pos`.
    pub fn reset(&mut self, pos: u64, value: T) {
        self.samples = [(pos, value); 3];
    }

    /// Adds `value` at `pos` and returns the maximum of the last `window` positions. `pos` must not be less
    /// than the previous position.
    pub fn update(&mut self, window: u64, pos: u64, value: T) -> T {
        let newest = (pos, value);
        let [best, second, third] = &mut self.samples;
        if value >= best.1 || pos.saturating_sub(third.0) > window {
            self.reset(pos, value);
            return value;
        }
        if value >= second.1 {
            *second = newest;
            *third = newest;
        } else if value >= third.1 {
            *third = newest;
        }
        let age = pos.saturating_sub(best.0);
        if age > window {
            // The best sample has expired, so the runners-up move up by one place, or by two if the next
            // sample has expired as well.
            self.samples = [*second, *third, newest];
            if pos.saturating_sub(self.samples[0].0) > window {
                self.samples = [self.samples[1], self.samples[2], newest];
            }
        } else if second.0 == best.0 && age > window / 4 {
            // A quarter of the window has passed without a runner-up, so the newest sample becomes one.
            *second = newest;
            *third = newest;
        } else if third.0 == second.0 && age > window / 2 {
            *third = newest;
        }
        self.get()
    }
}

impl<T: Copy + PartialOrd + Default> Default for WindowedMax<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rising_maximum_is_taken_at_once_and_a_falling_one_after_the_window() {
        let mut f = WindowedMax::new();
        assert_eq!(f.get(), 0);
        assert_eq!(f.update(10, 0, 100), 100);
        assert_eq!(f.update(10, 1, 150), 150);
        for pos in 2..=11 {
            assert_eq!(f.update(10, pos, 60), 150, "position {pos}");
        }
        assert_eq!(f.update(10, 12, 60), 60);
        f.reset(13, 7);
        assert_eq!(f.get(), 7);
    }

    #[test]
    fn runner_up_follows_the_expired_best() {
        let mut f = WindowedMax::new();
        f.update(10, 0, 100);
        f.update(10, 4, 80);
        f.update(10, 8, 70);
        assert_eq!(f.update(10, 11, 10), 80);
        assert_eq!(f.update(10, 15, 10), 70);
        assert_eq!(f.update(10, 40, 5), 5);
    }

    #[test]
    fn never_below_the_true_maximum_of_its_window_by_more_than_the_samples_it_forgot() {
        // A full history serves as reference. The estimate is between the newest sample and the true maximum.
        let mut f = WindowedMax::new();
        let mut history = alloc::vec::Vec::new();
        let mut x = 12345u64;
        for pos in 0..5_000u64 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let v = x >> 50;
            history.push((pos, v));
            let est = f.update(20, pos, v);
            let max = history.iter().rev().take_while(|(p, _)| pos - p <= 20).map(|(_, v)| *v).max().unwrap();
            assert!(est >= v && est <= max, "position {pos}: {est}, newest {v}, maximum {max}");
        }
    }
}
