//! Limits the data of a host that waits in a socket's receive buffer.
//!
//! By itself, the kernel enlarges a receive buffer to twice the most data that was read in a round-trip time,
//! and never shrinks it. The proxy reads a connection's first data at the speed of memory, until its stream
//! is full. So the buffer would grow to several megabytes, and at 10 Mbit/s, data would wait in it for
//! seconds.

use mpdccp_units::Time;
use std::time::Duration;

/// Time between two changes of the size, unless the round trip of the handshake took longer. A later
/// measurement does not count here, because it is too long at first if the host has been silent.
const PERIOD: Duration = Duration::from_millis(50);
/// How long data may wait in the buffer at the rate at which it is read. If this rate doubles, the data still
/// lasts for a [`PERIOD`], after which the size follows.
const WAIT: Duration = Duration::from_millis(100);
/// Shortest time between a change of the size and a smaller size. The kernel discards data that the host may
/// send but that no longer fits, and the host then slows down for some round trips.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest round-trip time that counts. In a handshake that takes longer, a segment was probably repeated
/// (RFC 6298).
const LONGEST: Duration = Duration::from_secs(1);
/// Smallest size, which is the kernel's initial one.
const LEAST: u32 = 64 << 10;
/// Largest size, which is the largest one of recent kernels (half of `tcp_rmem`, because the other half is
/// overhead). With a round trip of 200 ms, it allows 670 Mbit/s.
const MOST: u32 = 16 << 20;
/// Largest part of the size that counts for [`WAIT`]. At 1 Gbit/s, this still lasts for 25 ms.
const MOST_WAITING: u32 = 3 << 20;

/// Computes the size of a receive buffer.
#[derive(Debug)]
pub struct ReceiveBuffer {
    /// Round-trip time to the host during the handshake, and as measured since.
    first_rtt: Duration,
    rtt: Duration,
    /// Start of the running period, and number of bytes read in it.
    since: Time,
    read: u64,
    /// Whether reading had to stop in this period although the host may have sent more.
    stopped: bool,
    size: u32,
    /// Time at which the size last changed.
    changed: Time,
}

impl ReceiveBuffer {
    /// Creates the buffer of a connection that was established at `now`, after a handshake of `rtt`.
    #[must_use]
    pub fn new(now: Time, rtt: Duration) -> ReceiveBuffer {
        let rtt = rtt.min(LONGEST);
        ReceiveBuffer { first_rtt: rtt, rtt, since: now, read: 0, stopped: false, size: LEAST, changed: now }
    }

    /// Returns whether the next read ends the running period.
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        now.since(self.since) >= self.first_rtt.max(PERIOD)
    }

    /// Handles a new measurement of the round-trip time. Other traffic of the host may make it much longer
    /// than it was during the handshake.
    pub fn on_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt.min(LONGEST).max(self.first_rtt);
    }

    /// Returns the number of bytes of the host that fit into the buffer.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Adds `bytes` that were read. `stops` says whether no more may be read now. Returns whether the size
    /// has changed.
    ///
    /// The buffer is twice what is read in a round-trip time, so that the host's rate can double, plus what
    /// is read in a tenth of a second. It shrinks rarely, by at most a quarter, because of what the kernel
    /// discards. It does not shrink while everything is read as it arrives: no data waits then, and if the
    /// round-trip time is longer than known, a smaller buffer would slow the host down, and therefore shrink
    /// again.
    pub fn on_read(&mut self, now: Time, bytes: u64, stops: bool) -> bool {
        self.read += bytes;
        self.stopped |= stops;
        if !self.is_due(now) {
            return false;
        }
        let elapsed = now.since(self.since);
        let read_in = |time: Duration| (self.read as f64 * time.div_duration_f64(elapsed)) as u32;
        let wanted = read_in(WAIT).min(MOST_WAITING).saturating_add(read_in(2 * self.rtt));
        let may_shrink = self.stopped && now.since(self.changed) >= PATIENCE;
        let least = if may_shrink { self.size / 4 * 3 } else { self.size };
        let size = wanted.max(least).clamp(LEAST, MOST);
        (self.since, self.read, self.stopped) = (now, 0, false);
        if size == self.size {
            return false;
        }
        (self.size, self.changed) = (size, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `rate` bytes per second, a thousand times a second, from `from` to `to` ms.
    fn read(buffer: &mut ReceiveBuffer, rate: u64, from: u64, to: u64) {
        for at in from..to {
            buffer.on_read(Time::from_millis(at + 1), rate / 1_000, true);
        }
    }

    #[test]
    fn data_waits_for_a_tenth_of_a_second_after_a_first_burst() {
        let mut buffer = ReceiveBuffer::new(Time::ZERO, Duration::from_millis(1));
        assert!(!buffer.on_read(Time::ZERO, 256 << 10, true));
        read(&mut buffer, 1_250_000, 0, 50);
        assert!(buffer.size() > 512 << 10, "{}", buffer.size());
        read(&mut buffer, 1_250_000, 50, 10_000);
        assert!((125_000..130_000).contains(&buffer.size()), "{}", buffer.size());
        read(&mut buffer, 12_500, 10_000, 15_000);
        assert_eq!(buffer.size(), LEAST);
    }

    #[test]
    fn a_host_whose_way_becomes_longer_keeps_its_buffer() {
        let mut buffer = ReceiveBuffer::new(Time::ZERO, Duration::from_millis(1));
        read(&mut buffer, 5_000_000, 0, 100);
        let size = buffer.size();
        assert!(size > 500_000, "{size}");
        // From now on, a round trip takes 300 ms, so the host sends a whole buffer in this time.
        for at in 1..100 {
            buffer.on_read(Time::from_millis(100 + 300 * at), size.into(), false);
        }
        assert_eq!(buffer.size(), size);
    }

    #[test]
    fn a_host_whose_round_trip_has_become_longer_can_still_double_its_rate() {
        let mut buffer = ReceiveBuffer::new(Time::ZERO, Duration::from_millis(2));
        buffer.on_rtt(Duration::from_millis(300));
        for round in 1..9 {
            let size = u64::from(buffer.size());
            buffer.on_read(Time::from_millis(300 * round), size, false);
            assert!(u64::from(buffer.size()) >= (2 * size).min(u64::from(MOST)), "{round}");
        }
        assert_eq!(buffer.size(), MOST);
        // The measurement is not the largest one for good.
        buffer.on_rtt(Duration::ZERO);
        assert_eq!(buffer.rtt, Duration::from_millis(2));
    }

    /// The host's answer was lost several times.
    #[test]
    fn a_long_handshake_does_not_keep_the_buffer_small_or_make_it_large() {
        let mut buffer = ReceiveBuffer::new(Time::ZERO, Duration::from_secs(60));
        read(&mut buffer, 100_000, 0, 1_000);
        assert!((200_000..220_000).contains(&buffer.size()), "{}", buffer.size());
    }

    #[test]
    fn a_distant_host_can_double_its_rate_each_round_trip() {
        let (mut buffer, rtt) = (ReceiveBuffer::new(Time::ZERO, Duration::from_millis(200)), 200);
        for round in 0..10 {
            let size = u64::from(buffer.size());
            read(&mut buffer, size * 1_000 / rtt, round * rtt, (round + 1) * rtt);
            let wanted = (2 * size - size / 100).min(u64::from(MOST));
            assert!(u64::from(buffer.size()) >= wanted, "{round}: {}", buffer.size());
        }
        assert_eq!(buffer.size(), MOST);
        // A near host needs no more than 3 MiB at any rate.
        let mut near = ReceiveBuffer::new(Time::ZERO, Duration::ZERO);
        read(&mut near, 1_000_000_000, 0, 1_000);
        assert_eq!(near.size(), MOST_WAITING);
    }
}
