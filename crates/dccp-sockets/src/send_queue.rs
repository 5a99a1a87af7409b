//! The send queue. It decides which datagram to drop when it is full.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Behaviour when the send queue is full ([`Options::queue`](crate::Options::queue)). Datagrams dropped for
/// this reason are counted in [`Stats::displaced`](crate::Stats::displaced).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendPolicy {
    /// Make the sender wait: `send` waits until there is room, and `try_send` returns `Full`. Nothing is
    /// dropped.
    #[default]
    Wait,
    /// Drop the oldest datagram. For data whose value declines with age.
    DropOldest,
    /// Drop the new datagram. Older datagrams are still sent.
    DropNewest,
    /// Drop the oldest datagram of the lowest priority, which may be the new one. Higher priorities are sent
    /// first; datagrams of equal priority are sent in order.
    Priority,
}

/// How to send a datagram; see [`Connection::send_with`](crate::Connection::send_with).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Used with [`SendPolicy::Priority`]. A higher number is more important.
    pub priority: u8,
    /// A datagram that has not been sent within this time is dropped and counted
    /// ([`Stats::expired`](crate::Stats::expired)).
    pub expires_in: Option<Duration>,
}

#[derive(Debug)]
struct Waiting {
    data: Vec<u8>,
    priority: u8,
    queued: Instant,
    expires: Option<Instant>,
}

/// The send queue.
#[derive(Debug)]
pub(crate) struct Outgoing {
    policy: SendPolicy,
    most: usize,
    /// Longest time that a datagram may wait.
    longest: Option<Duration>,
    /// Number of datagrams that the session has taken but not sent yet. They count as part of the queue, but
    /// can no longer be reordered.
    pub(crate) below: usize,
    /// The waiting datagrams, sorted by decreasing priority with [`SendPolicy::Priority`], and otherwise by
    /// arrival.
    waiting: VecDeque<Waiting>,
    pub(crate) displaced: u64,
    pub(crate) expired: u64,
}

impl Outgoing {
    pub(crate) fn new(policy: SendPolicy, most: usize, longest: Option<Duration>) -> Outgoing {
        Outgoing { policy, most, longest, below: 0, waiting: VecDeque::new(), displaced: 0, expired: 0 }
    }

    /// Returns whether a further datagram would have to wait or would displace one.
    pub(crate) fn is_full(&self) -> bool {
        // A policy that drops datagrams must have at least one in `waiting` to choose from.
        let chosen = self.policy == SendPolicy::Wait || !self.waiting.is_empty();
        chosen && self.waiting.len() + self.below >= self.most
    }

    /// Returns whether another datagram would have to wait.
    pub(crate) fn would_wait(&self) -> bool {
        self.policy == SendPolicy::Wait && self.is_full()
    }

    /// Returns when the oldest waiting datagram was queued.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.queued).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Queues a datagram, or drops one instead. Returns false if the sender has to wait.
    pub(crate) fn push(&mut self, now: Instant, delivery: Delivery, data: impl FnOnce() -> Vec<u8>) -> bool {
        if self.is_full() {
            self.expire(now);
        }
        let by_priority = self.policy == SendPolicy::Priority;
        let mut at = match by_priority {
            true => self.waiting.partition_point(|other| other.priority >= delivery.priority),
            false => self.waiting.len(),
        };
        if self.is_full() {
            let lowest = self.waiting.back().map_or(0, |last| last.priority);
            let victim = match self.policy {
                SendPolicy::Wait => return false,
                SendPolicy::DropOldest => Some(0),
                SendPolicy::DropNewest => None,
                SendPolicy::Priority if delivery.priority < lowest => None,
                SendPolicy::Priority => self.waiting.iter().position(|other| other.priority == lowest),
            };
            self.displaced += 1;
            let Some(victim) = victim else { return true };
            self.waiting.remove(victim);
            at -= usize::from(victim < at);
        }
        let longest = [delivery.expires_in, self.longest].into_iter().flatten().min();
        let expires = longest.and_then(|time| now.checked_add(time));
        let priority = if by_priority { delivery.priority } else { 0 };
        self.waiting.insert(at, Waiting { data: data(), priority, queued: now, expires });
        true
    }

    /// Removes and returns up to `most` datagrams.
    pub(crate) fn take(&mut self, now: Instant, most: usize) -> Vec<Vec<u8>> {
        self.expire(now);
        let some = most.min(self.waiting.len());
        self.waiting.drain(..some).map(|waiting| waiting.data).collect()
    }

    /// Drops expired datagrams.
    fn expire(&mut self, now: Instant) {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.expires.is_none_or(|at| at > now));
        self.expired += (before - self.waiting.len()) as u64;
    }

    /// Drops all datagrams and returns their number.
    pub(crate) fn clear(&mut self) -> u64 {
        let dropped = self.waiting.len() as u64;
        self.waiting.clear();
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(policy: SendPolicy) -> (Outgoing, Instant) {
        (Outgoing::new(policy, 3, None), Instant::now())
    }

    fn put(queue: &mut Outgoing, now: Instant, name: u8, priority: u8) -> bool {
        queue.push(now, Delivery { priority, ..Delivery::default() }, || vec![name])
    }

    fn rest(queue: &mut Outgoing, now: Instant) -> Vec<u8> {
        queue.take(now, 99).concat()
    }

    #[test]
    fn the_policy_chooses_the_datagram_to_drop() {
        for (policy, left, displaced, taken) in [
            (SendPolicy::Wait, vec![1, 2, 3], 0, false),
            (SendPolicy::DropOldest, vec![3, 4, 5], 2, true),
            (SendPolicy::DropNewest, vec![1, 2, 3], 2, true),
        ] {
            let (mut queue, now) = queue(policy);
            (1..=3).for_each(|name| assert!(put(&mut queue, now, name, name)));
            assert_eq!(
                (put(&mut queue, now, 4, 0), put(&mut queue, now, 5, 9)),
                (taken, taken),
                "{policy:?}"
            );
            assert_eq!((rest(&mut queue, now), queue.displaced), (left, displaced), "{policy:?}");
        }
    }

    #[test]
    fn higher_priorities_leave_first_and_lower_ones_give_way() {
        let (mut queue, now) = queue(SendPolicy::Priority);
        for (name, priority) in [(1, 5), (2, 1), (3, 1)] {
            assert!(put(&mut queue, now, name, priority));
        }
        // First, the older of the two datagrams with the lowest priority is dropped. Next, a new datagram is
        // dropped because its priority is the lowest. Then the remaining one of the two is dropped.
        assert!(put(&mut queue, now, 4, 5) && put(&mut queue, now, 5, 0) && put(&mut queue, now, 6, 7));
        assert_eq!((rest(&mut queue, now), queue.displaced), (vec![6, 1, 4], 3));
        // If the priorities are equal, the oldest datagram is dropped.
        for name in 1..=4 {
            put(&mut queue, now, name, 2);
        }
        assert_eq!(rest(&mut queue, now), [2, 3, 4]);
    }

    #[test]
    fn expired_datagrams_are_dropped_and_make_room() {
        let (mut queue, now) = queue(SendPolicy::Wait);
        let short = Delivery { expires_in: Some(Duration::from_millis(10)), ..Delivery::default() };
        assert!(
            queue.push(now, short, || vec![1])
                && put(&mut queue, now, 2, 0)
                && queue.push(now, short, || vec![3])
        );
        let later = now + Duration::from_millis(10);
        assert!(!put(&mut queue, now, 4, 0) && put(&mut queue, later, 5, 0));
        assert_eq!((rest(&mut queue, later), queue.expired, queue.displaced), (vec![2, 5], 2, 0));
    }

    #[test]
    fn datagrams_that_the_session_has_taken_are_part_of_the_queue() {
        let (mut queue, now) = queue(SendPolicy::Wait);
        (queue.most, queue.below) = (1, 1);
        assert!(!put(&mut queue, now, 1, 0));
        queue.below = 0;
        assert!(put(&mut queue, now, 1, 0) && !put(&mut queue, now, 2, 0));
        // With a policy that drops datagrams, the queue accepts one more even if those in the session already
        // use up the limit.
        (queue.policy, queue.below) = (SendPolicy::DropOldest, 1);
        assert!(put(&mut queue, now, 3, 0));
        assert_eq!((rest(&mut queue, now), queue.displaced), (vec![3], 1));
    }

    #[test]
    fn no_datagram_waits_longer_than_the_queue_may_be_old() {
        let now = Instant::now();
        let mut queue = Outgoing::new(SendPolicy::Wait, 3, Some(Duration::from_millis(10)));
        assert!(put(&mut queue, now, 1, 0) && put(&mut queue, now + Duration::from_millis(5), 2, 0));
        assert_eq!(queue.oldest(), Some(now));
        assert_eq!((rest(&mut queue, now + Duration::from_millis(10)), queue.expired), (vec![2], 1));
    }
}
