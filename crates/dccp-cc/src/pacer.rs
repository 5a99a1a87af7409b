use core::time::Duration;
use mpdccp_units::{Rate, Time};

/// Spaces packets according to a rate: a token bucket of one quantum.
///
/// A quantum may be sent at once. When another packet no longer fits into the quantum, it waits until the
/// bytes sent so far would have left at exactly the rate. This is the rule
/// `next_send_time = now + size / rate` of draft-cardwell-iccrg-bbr-congestion-control-00 section 4.2.1,
/// applied to bursts instead of single packets, so a driver wakes once per quantum instead of once per
/// packet. If a packet is sent late by less than the time of a quantum, the following one may be sent
/// earlier, so late timers and irregular sources do not reduce the rate. Longer idle time earns no credit.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    /// Time at which all bytes sent so far would have left if sent at exactly the rate.
    paid: Time,
    /// Time at which the next packet may be sent.
    next: Time,
    last_bytes: u32,
}

impl Pacer {
    /// Returns when the next packet may be sent. A result of `now` or earlier means at once.
    pub fn next_send(&self, now: Time) -> Time {
        self.next.max(now)
    }

    /// Returns the number of bytes that may be sent in one burst now. The limit is `quantum`, but at least
    /// one packet may be sent once `next_send` has passed.
    pub fn burst(&self, now: Time, rate: Rate, quantum: u32) -> u32 {
        if self.next > now {
            return 0;
        }
        if self.paid <= now {
            return quantum;
        }
        let owed = rate.bytes_in(self.paid.since(now));
        let left = u64::from(quantum).saturating_sub(owed);
        u32::try_from(left).unwrap_or(u32::MAX).max(self.last_bytes.min(quantum))
    }

    /// Records that `bytes` were sent.
    pub fn on_sent(&mut self, now: Time, bytes: u32, rate: Rate, quantum: u32) {
        let room = rate.time_for(u64::from(quantum));
        let from = if now.since(self.paid) < room { self.paid } else { now };
        let packet = rate.time_for(u64::from(bytes));
        self.paid = from + packet;
        self.last_bytes = bytes;
        let owed = self.paid.since(now);
        // Each time is rounded up, so allow a nanosecond per packet.
        let full =
            rate == Rate::ZERO || owed.saturating_add(packet) > room.saturating_add(Duration::from_nanos(64));
        self.next = if full { self.paid } else { now };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn one_packet_quantum_spaces_packets_exactly() {
        let rate = Rate::from_mbps(10.0);
        let mut p = Pacer::default();
        let mut now = Time::from_millis(5);
        for i in 0..100u32 {
            assert_eq!(p.next_send(now), now);
            assert_eq!(p.burst(now, rate, 1250), 1250);
            p.on_sent(now, 1250, rate, 1250);
            let next = p.next_send(now);
            assert_eq!(next, Time::from_millis(6 + u64::from(i)));
            assert_eq!(p.burst(now, rate, 1250), 0);
            now = next;
        }
    }

    #[test]
    fn a_quantum_leaves_at_once_and_is_then_paid_for() {
        let rate = Rate::from_mbps(100.0);
        let mut p = Pacer::default();
        let t = Time::from_millis(1);
        for left in [12_500, 11_250, 10_000] {
            assert_eq!(p.burst(t, rate, 12_500), left);
            p.on_sent(t, 1250, rate, 12_500);
        }
        for _ in 0..7 {
            assert_eq!(p.next_send(t), t);
            p.on_sent(t, 1250, rate, 12_500);
        }
        assert_eq!(p.next_send(t), t + MS);
        // A second of idle time earns one quantum and no more.
        assert_eq!(p.burst(Time::from_millis(1_001), rate, 12_500), 12_500);
    }

    #[test]
    fn lateness_below_a_quantum_is_caught_up() {
        // The sender wakes every 0.7 ms on a path that carries one packet per 1 ms, and still uses the full
        // rate.
        let rate = Rate::from_mbps(10.0);
        let mut p = Pacer::default();
        let mut sent = 0;
        for i in 0..10_000u64 {
            let now = Time::from_micros(700 * i);
            if p.next_send(now) <= now {
                p.on_sent(now, 1250, rate, 1250);
                sent += 1;
            }
        }
        assert!((6_990..=7_001).contains(&sent), "{sent}");
    }

    #[test]
    fn long_run_rate_is_exact_for_any_quantum_and_size() {
        for (quantum, bytes) in [(1500, 1500), (3000, 1400), (64_000, 999), (1500, 40)] {
            let rate = Rate::from_mbps(37.0);
            let mut p = Pacer::default();
            let (mut now, mut sent) = (Time::ZERO, 0u64);
            while now < Time::from_millis(2_000) {
                now = p.next_send(now);
                p.on_sent(now, bytes, rate, quantum);
                sent += u64::from(bytes);
            }
            let expected = rate.bytes_in(now.since(Time::ZERO));
            assert!(
                sent.abs_diff(expected) <= u64::from(quantum) + 200,
                "{quantum} {bytes}: {sent} {expected}"
            );
        }
    }

    /// A driver wakes 60 us late each time, at 10 Gbit/s with a quantum of a millisecond. It reaches the rate
    /// with about a thousand wake-ups per second, each of which sends at most a quantum and the rest of the
    /// previous one.
    #[test]
    fn ten_gigabits_a_second_hold_with_late_wake_ups() {
        let (rate, quantum) = (Rate::from_bps(10_000_000_000), 1_250_000);
        let mut p = Pacer::default();
        let (mut now, mut sent, mut wakeups) = (Time::ZERO, 0u64, 0u64);
        while now < Time::from_millis(1_000) {
            let mut burst = 0;
            while p.next_send(now) <= now {
                p.on_sent(now, 1250, rate, quantum);
                burst += 1250;
            }
            // Each wake-up is 60 us late, and the pacing rate allows more bytes to be sent for that time.
            assert!(burst <= u64::from(quantum) + rate.bytes_in(Duration::from_micros(60)), "{burst}");
            sent += burst;
            wakeups += 1;
            now = p.next_send(now) + Duration::from_micros(60);
        }
        let expected = rate.bytes_in(now.since(Time::ZERO));
        assert!(sent.abs_diff(expected) <= 2 * u64::from(quantum), "{sent} {expected}");
        assert!(wakeups <= 1_100, "{wakeups}");
    }

    #[test]
    fn rate_zero_never_sends_again_but_does_not_overflow() {
        let mut p = Pacer::default();
        p.on_sent(Time::from_millis(1), 1500, Rate::ZERO, 1500);
        assert_eq!(p.next_send(Time::from_millis(2)), Time::MAX);
        p.on_sent(Time::MAX, u32::MAX, Rate::from_bps(1), u32::MAX);
    }
}
