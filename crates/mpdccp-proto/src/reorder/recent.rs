use mpdccp_units::{Duration, Time};

/// A value is remembered for at least this long, and for at most twice as long.
const HALF: Duration = Duration::from_secs(5);

/// The largest value of the last 5 to 10 seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentMax<T> {
    old: Option<T>,
    new: Option<T>,
    /// Time at which the period of `new` began.
    since: Time,
}

impl<T: Copy + Ord> RecentMax<T> {
    pub(super) fn add(&mut self, now: Time, value: T) {
        self.forget(now);
        self.new = self.new.max(Some(value));
    }

    /// Returns the largest recent value, if any.
    pub(super) fn get(&self) -> Option<T> {
        self.old.max(self.new)
    }

    /// Forgets old values.
    pub(super) fn forget(&mut self, now: Time) {
        let age = now.since(self.since);
        if age >= HALF {
            self.old = self.new.take().filter(|_| age < HALF * 2);
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_for_five_to_ten_seconds() {
        let mut max = RecentMax::default();
        let at = Time::from_millis;
        assert_eq!(max.get(), None);
        max.add(at(6_000), 7);
        max.add(at(6_100), 3);
        max.add(at(11_500), 4);
        assert_eq!(max.get(), Some(7));
        max.forget(at(16_600));
        assert_eq!(max.get(), Some(4));
        max.forget(at(30_000));
        assert_eq!(max.get(), None);
    }
}
