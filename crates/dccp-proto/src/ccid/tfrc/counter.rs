//! The window counter in CCVal (RFC 4342 section 8.1): a clock that ticks every quarter of a round-trip time.

use mpdccp_units::{Duration, Time};

/// The counter wraps at this value.
const MODULUS: u8 = 16;
/// Ticks of the counter per round trip.
const ROUND_TRIP: u64 = 4;
/// The counter advances by at most this much from one packet to the next.
const MOST: u64 = 5;

/// The sender's side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter {
    /// The counter (last_WC), unwrapped.
    value: u64,
    /// Time at which the counter last changed (last_WC_time), or `None` before the first packet.
    since: Option<Time>,
}

impl Counter {
    /// Returns the unwrapped counter of a packet that is sent now.
    pub(super) fn at(&self, now: Time, rtt: Option<Duration>) -> u64 {
        let (Some(since), Some(rtt)) = (self.since, rtt) else { return self.value };
        let quarters = now.since(since).as_nanos() * 4 / rtt.as_nanos().max(1);
        self.value.saturating_add(u64::try_from(quarters).unwrap_or(MOST).min(MOST))
    }

    /// Records that a data packet is sent, and returns its counter.
    pub(super) fn on_sent(&mut self, now: Time, rtt: Option<Duration>) -> u64 {
        let value = self.at(now, rtt);
        if value > self.value || self.since.is_none() {
            self.since = Some(now);
        }
        self.value = value;
        value
    }

    /// A packet with this counter was acknowledged, so a round trip has passed since it left.
    pub(super) fn on_acked(&mut self, now: Time, value: u64) {
        if self.value < value.saturating_add(ROUND_TRIP) {
            self.value = value.saturating_add(ROUND_TRIP);
            self.since = Some(now);
        }
    }
}

/// Returns the counter as CCVal.
pub(super) fn wrapped(value: u64) -> u8 {
    (value % u64::from(MODULUS)) as u8
}

/// The receiver's side, which estimates the round-trip time from the times at which the first packets of two
/// counter values arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CounterClock {
    newest: Option<u8>,
    /// Time at which the first packet of each recent counter value arrived.
    first_at: [Option<Time>; MODULUS as usize],
    rtt: Option<Duration>,
}

impl CounterClock {
    /// A data packet with `counter` arrived, later in sequence than all previous ones.
    pub(super) fn on_packet(&mut self, now: Time, counter: u8) {
        let counter = counter % MODULUS;
        let ahead = self.newest.map_or(MODULUS, |newest| counter.wrapping_sub(newest) % MODULUS);
        if ahead == 0 {
            return;
        }
        // No packet with the skipped values has arrived in this cycle, so drop the arrival times that these
        // values had in the previous cycle.
        for skipped in 0..ahead {
            self.first_at[usize::from(counter.wrapping_sub(skipped) % MODULUS)] = None;
        }
        self.newest = Some(counter);
        self.first_at[usize::from(counter)] = Some(now);
        // RFC 4342 section 8.1: a distance of four between the two values is best, and two or three is
        // acceptable.
        for distance in [4, 3, 2u8] {
            if let Some(then) = self.first_at[usize::from(counter.wrapping_sub(distance) % MODULUS)] {
                let sample = now.since(then) * 4 / u32::from(distance);
                self.rtt = Some(self.rtt.map_or(sample, |rtt| (rtt * 7 + sample) / 8));
                return;
            }
        }
    }

    /// Returns the smoothed estimate.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }
}

/// Returns whether `counter` is at least a round trip after `last`, modulo 16.
pub(super) fn is_round_trip_later(counter: u8, last: u8) -> bool {
    u64::from(counter.wrapping_sub(last) % MODULUS) >= ROUND_TRIP
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ccid::ms;

    const RTT: Option<Duration> = Some(Duration::from_millis(100));

    #[test]
    fn ticks_every_quarter_and_by_five_at_most() {
        let mut counter = Counter::default();
        let sent: alloc::vec::Vec<u64> =
            [1000, 1024, 1025, 1049, 1050, 1110, 9000].map(|at| counter.on_sent(ms(at), RTT)).into();
        assert_eq!(sent, [0, 0, 1, 1, 2, 4, 9]);
        assert_eq!(Counter::default().on_sent(ms(500), None), 0);
        assert_eq!(wrapped(35), 3);
    }

    #[test]
    fn an_acknowledgement_is_a_round_trip() {
        let mut counter = Counter::default();
        counter.on_sent(ms(0), RTT);
        counter.on_acked(ms(10), 0);
        assert_eq!(counter.at(ms(34), RTT), 4);
        assert_eq!(counter.at(ms(35), RTT), 5);
        counter.on_acked(ms(20), 0);
        assert_eq!(counter.at(ms(35), RTT), 5);
    }

    #[test]
    fn the_receiver_learns_the_round_trip_time() {
        let mut clock = CounterClock::default();
        let mut counter = Counter::default();
        for at in 0..400 {
            let value = counter.on_sent(ms(at), RTT);
            clock.on_packet(ms(at + 50), wrapped(value));
        }
        assert_eq!(clock.rtt(), RTT);
    }

    #[test]
    fn sparse_packets_teach_nothing_wrong() {
        let mut clock = CounterClock::default();
        for i in 0..100u64 {
            clock.on_packet(ms(i * 1000), wrapped(i * 5));
        }
        assert_eq!(clock.rtt(), None);
        assert!(is_round_trip_later(2, 14) && !is_round_trip_later(1, 14));
    }
}
