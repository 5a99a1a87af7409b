//! Format of a message: its number, the ID of the sender's clock, the send time, then zeros or a part of a
//! file (`--file`). An echo also contains the time when the message arrived at the server. Receivers need
//! only the number.

use mpdccp_units::{Duration, Time};

/// Size of the smallest message.
pub(crate) const MIN_LEN: usize = 4;
/// Size of the largest message. No IP packet carries more.
pub(crate) const MAX_LEN: usize = u16::MAX as usize;
/// How many numbers there are for messages. The next message has the number 0 again. Control datagrams have
/// the number that is left.
pub(crate) const NUMBERS: u64 = u32::MAX as u64;
/// Combined size of the number, clock ID and send time.
pub(crate) const STAMPED: usize = 16;

/// Position of the arrival time in an echo.
const ECHOED: std::ops::Range<usize> = STAMPED..STAMPED + 8;

/// Identifies a machine's monotonic clock. Times from different clocks cannot be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClockId(u32);

impl ClockId {
    /// Returns the ID of this machine's clock, which changes at each boot. If the system has no boot ID,
    /// returns zero, which means that the clock is unknown.
    pub(crate) fn here() -> ClockId {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        // The boot ID is a UUID, so it begins with eight hexadecimal digits.
        ClockId(boot.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0))
    }
}

/// Creates message `number` with a size of `size` bytes, which must be between [`MIN_LEN`] and [`MAX_LEN`].
pub(crate) fn write(number: u32, size: usize, clock: ClockId, now: Time) -> Vec<u8> {
    let mut out = Vec::with_capacity(size.max(STAMPED));
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&clock.0.to_be_bytes());
    out.extend_from_slice(&now.as_nanos().to_be_bytes());
    out.resize(size.max(MIN_LEN), 0);
    out
}

/// Send time of a message, and the clock it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    clock: ClockId,
    at: Time,
}

impl Stamp {
    /// Returns the age of the message if it was stamped by this machine's clock.
    pub(crate) fn age(&self, clock: ClockId, now: Time) -> Option<Duration> {
        (clock.0 != 0 && clock == self.clock).then(|| now.since(self.at))
    }

    /// Returns the transit time plus the offset between the two clocks, in nanoseconds.
    pub(crate) fn transit(&self, now: Time) -> i64 {
        now.as_nanos().wrapping_sub(self.at.as_nanos()) as i64
    }
}

/// Server: writes the arrival time into a message before echoing it, if the message is long enough.
pub(crate) fn note_arrival(bytes: &mut [u8], now: Time) {
    if let Some(place) = bytes.get_mut(ECHOED) {
        place.copy_from_slice(&now.as_nanos().to_be_bytes());
    }
}

/// Returns when an echoed message arrived at the server, by the server's clock, if the echo contains that
/// time.
pub(crate) fn arrival(bytes: &[u8]) -> Option<Time> {
    let at = u64::from_be_bytes(bytes.get(ECHOED)?.try_into().ok()?);
    (at != 0).then(|| Time::from_nanos(at))
}

/// Returns the number of a message, and its stamp if there is one.
pub(crate) fn read(bytes: &[u8]) -> Option<(u32, Option<Stamp>)> {
    let (number, rest) = bytes.split_first_chunk()?;
    let stamp = || {
        let (id, rest) = rest.split_first_chunk()?;
        let at = u64::from_be_bytes(*rest.first_chunk()?);
        Some(Stamp { clock: ClockId(u32::from_be_bytes(*id)), at: Time::from_nanos(at) })
    };
    Some((u32::from_be_bytes(*number), stamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_tells_its_number_and_age() {
        let (sent, now) = (Time::from_millis(5), Time::from_millis(12));
        let clock = ClockId(7);
        let message = write(9, 100, clock, sent);
        assert_eq!(message.len(), 100);
        let (number, stamp) = read(&message).unwrap();
        let stamp = stamp.unwrap();
        assert_eq!((number, stamp.age(clock, now)), (9, Some(Duration::from_millis(7))));
        assert_eq!(stamp.age(ClockId(8), now), None, "another machine's clock");
        assert_eq!(stamp.transit(now), 7_000_000);
    }

    #[test]
    fn an_echo_tells_when_it_came() {
        let mut message = write(9, 24, ClockId(7), Time::ZERO);
        assert_eq!(arrival(&message), None);
        note_arrival(&mut message, Time::from_millis(3));
        assert_eq!(arrival(&message), Some(Time::from_millis(3)));
        let mut short = write(9, 23, ClockId(7), Time::ZERO);
        note_arrival(&mut short, Time::from_millis(3));
        assert_eq!((short.len(), arrival(&short)), (23, None));
    }

    #[test]
    fn short_messages_have_a_number_or_nothing() {
        let clock = ClockId(7);
        assert_eq!(write(9, 4, clock, Time::ZERO), [0, 0, 0, 9]);
        assert_eq!(read(&[0, 0, 0, 9]), Some((9, None)));
        assert_eq!(read(&[0, 0, 9]), None);
        let (_, stamp) = read(&[0; 1000]).unwrap();
        assert_eq!(stamp.unwrap().age(ClockId(0), Time::ZERO), None, "a message without a clock has no age");
    }
}
