//! Limits the rate of packets from a peer by dropping packets over the rate (policing).

use mpdccp_units::{Duration, Rate, Time};

/// Burst size, as a duration at the configured rate. It is about one round trip, because TCP overshoots by
/// that much.
const BURST: Duration = Duration::from_millis(100);

/// Bounds on how far the accepted bytes are ahead of the rate, as durations at the rate. Streams stop at the
/// second bound, and continue once the lead has fallen to the first. The rest of `BURST` is reserved for
/// packets, which would otherwise be dropped.
const STREAMS: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(50));

/// A token bucket. `paid` is the time by which all accepted packets would have passed if sent at exactly the
/// configured rate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Policer {
    paid: Time,
    /// Number of packets dropped.
    pub(crate) dropped: u64,
}

impl Policer {
    /// Returns whether to accept a packet. If not, counts it as dropped.
    pub(crate) fn takes(&mut self, now: Time, rate: Option<Rate>, bytes: usize) -> bool {
        let Some(rate) = rate else { return true };
        let paid = self.paid.max(now);
        if paid.since(now) >= BURST {
            self.dropped += 1;
            return false;
        }
        self.pay(now, rate, bytes);
        true
    }

    /// Forgets the accepted packets, because the rate has changed. At a very low rate, a single packet takes
    /// minutes.
    pub(crate) fn restart(&mut self) {
        self.paid = Time::ZERO;
    }

    fn pay(&mut self, now: Time, rate: Rate, bytes: usize) {
        self.paid = self.paid.max(now) + rate.time_for(bytes as u64);
    }

    /// Returns how many bytes streams may receive now. Data over the limit stays in the streams instead of
    /// being dropped.
    pub(crate) fn room(&self, now: Time, rate: Option<Rate>) -> usize {
        // At a very low rate, a byte takes longer than both bounds.
        let least = usize::from(self.again() <= now);
        let left = |rate: Rate| rate.bytes_in(STREAMS.1.saturating_sub(self.paid.since(now))) as usize;
        rate.map_or(usize::MAX, |rate| left(rate).max(least))
    }

    /// Counts bytes that streams received.
    pub(crate) fn had(&mut self, now: Time, rate: Option<Rate>, bytes: usize) {
        if let Some(rate) = rate {
            self.pay(now, rate, bytes);
        }
    }

    /// Returns when streams that had no [`room`](Self::room) should try again.
    pub(crate) fn again(&self) -> Time {
        Time::from_nanos(self.paid.as_nanos().saturating_sub(STREAMS.0.as_nanos() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_the_rate_and_a_burst() {
        let mut policer = Policer::default();
        let rate = Some(Rate::from_bps(8_000_000));
        let at = |ms: u64| Time::from_millis(1_000 + ms);
        // At this rate, 1,000 bytes take one millisecond.
        let taken = (0..500).filter(|_| policer.takes(at(0), rate, 1_000)).count();
        assert_eq!((taken, policer.dropped), (100, 400));
        // For one second, packets arrive at twice the rate.
        let taken = (0..2_000).filter(|n| policer.takes(at(n / 2), rate, 1_000)).count();
        assert!((999..=1_001).contains(&taken), "{taken}");
        assert!((0..500).all(|_| policer.takes(at(1_000), None, 1_000)));
    }

    #[test]
    fn streams_leave_a_part_of_the_burst_to_packets_and_have_what_is_left_of_the_rate() {
        let mut policer = Policer::default();
        let rate = Some(Rate::from_bps(8_000_000));
        let (mut now, end) = (Time::from_millis(1_000), Time::from_millis(3_000));
        let (mut streams, mut packets) = (0, 0);
        while now < end {
            // 100 bytes per millisecond are one tenth of the rate.
            packets += usize::from(policer.takes(now, rate, 100));
            let room = policer.room(now, rate);
            if room > 0 && policer.again() <= now {
                policer.had(now, rate, room);
                streams += room;
            }
            now += Duration::from_millis(1);
        }
        assert_eq!((packets, policer.dropped), (2_000, 0));
        assert!((1_790_000..=1_850_000).contains(&streams), "{streams}");
        assert_eq!(policer.room(now, None), usize::MAX);
    }

    #[test]
    fn streams_have_room_when_they_should_try_again() {
        for rate in [1, 100, 200, 1_000_000].map(|bps| Some(Rate::from_bps(bps))) {
            let mut policer = Policer::default();
            let mut now = Time::from_millis(1_000);
            for _ in 0..10 {
                let room = policer.room(now, rate);
                assert!(room > 0, "{rate:?}");
                policer.had(now, rate, room);
                assert!(policer.room(now, rate) == 0 && policer.again() > now, "{rate:?}");
                now = policer.again();
            }
        }
    }
}
