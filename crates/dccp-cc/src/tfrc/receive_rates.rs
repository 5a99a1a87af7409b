use alloc::vec::Vec;
use mpdccp_units::{Duration, Time};

/// Maximum number of values kept (RFC 5348 section 8.2.2).
const MOST: usize = 3;

/// X_recv_set: the receive rates of the last two round-trip times, bytes per second (RFC 5348 section 4.3).
#[derive(Clone, Debug)]
pub(super) struct ReceiveRates {
    /// Newest last.
    values: Vec<(Time, f64)>,
    infinity: Infinity,
}

/// State of the initial infinite value, which counts until two round trips after the first data packet is
/// sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Infinity {
    Waiting,
    Since(Time),
    Gone,
}

impl ReceiveRates {
    /// Creates a set that contains only infinity.
    pub(super) fn new() -> ReceiveRates {
        ReceiveRates { values: Vec::new(), infinity: Infinity::Waiting }
    }

    /// Records that data is sent. The first data packet starts the period in which the infinite value counts.
    pub(super) fn on_sent(&mut self, now: Time) {
        if self.infinity == Infinity::Waiting {
            self.infinity = Infinity::Since(now);
        }
    }

    /// Returns the largest value.
    pub(super) fn max(&self) -> f64 {
        match self.infinity {
            Infinity::Gone => self.values.iter().map(|(_, rate)| *rate).fold(0.0, f64::max),
            _ => f64::INFINITY,
        }
    }

    /// Implements "Update X_recv_set" of the RFC: adds `rate`, and drops values older than two round trips.
    pub(super) fn update(&mut self, now: Time, rate: f64, rtt: Duration) {
        self.values.push((now, rate));
        // RFC 5348 section 4.3: keep the last two round trips.
        self.values.retain(|(at, _)| now.since(*at) <= rtt * 2);
        if self.values.len() > MOST {
            self.values.remove(0);
        }
        // RFC 5348 section 4.3: for the first two round trips, the receive rate does not limit the sender.
        if matches!(self.infinity, Infinity::Since(at) if now.since(at) > rtt * 2) {
            self.infinity = Infinity::Gone;
        }
    }

    /// Implements "Maximize X_recv_set" of the RFC: keeps only the largest value, with the time `now`.
    pub(super) fn maximize(&mut self, now: Time, rate: f64) {
        let largest = self.values.iter().map(|(_, rate)| *rate).fold(rate, f64::max);
        self.replace(now, largest);
    }

    /// Halves all values.
    pub(super) fn halve(&mut self) {
        self.values.iter_mut().for_each(|(_, rate)| *rate /= 2.0);
    }

    /// Replaces all values by this one.
    pub(super) fn replace(&mut self, now: Time, rate: f64) {
        self.values.clear();
        self.values.push((now, rate));
        self.infinity = Infinity::Gone;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn nothing_limits_for_two_round_trips_of_data() {
        let mut rates = ReceiveRates::new();
        assert_eq!(rates.max(), f64::INFINITY);
        rates.update(ms(5_000), 1.0, RTT);
        rates.on_sent(ms(5_000));
        rates.on_sent(ms(5_100));
        rates.update(ms(5_200), 10.0, RTT);
        assert_eq!(rates.max(), f64::INFINITY);
        rates.update(ms(5_201), 5.0, RTT);
        assert_eq!(rates.max(), 10.0);
        rates.on_sent(ms(5_300));
        assert_eq!(rates.max(), 10.0);
    }

    #[test]
    fn old_and_surplus_values_go() {
        let mut rates = ReceiveRates::new();
        rates.replace(ms(0), 50.0);
        rates.update(ms(200), 20.0, RTT);
        assert_eq!(rates.max(), 50.0);
        rates.update(ms(201), 10.0, RTT);
        assert_eq!(rates.max(), 20.0);
        rates.update(ms(202), 11.0, RTT);
        rates.update(ms(203), 12.0, RTT);
        assert_eq!(rates.max(), 12.0);
    }

    #[test]
    fn a_data_limited_sender_keeps_its_best() {
        let mut rates = ReceiveRates::new();
        rates.replace(ms(0), 50.0);
        rates.maximize(ms(900), 20.0);
        assert_eq!(rates.max(), 50.0);
        rates.update(ms(1_000), 1.0, RTT);
        assert_eq!(rates.max(), 50.0, "its time stamp was renewed");
        rates.halve();
        assert_eq!(rates.max(), 25.0);
        rates.maximize(ms(1_000), 30.0);
        assert_eq!(rates.max(), 30.0);
    }
}
