/// Wall-clock time in TAI64N format, in which timestamps can be compared bytewise. The timestamps in a peer's
/// handshakes must increase, so that a recorded handshake cannot be replayed later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp(pub(crate) [u8; 12]);

/// TAI64 label for 1970-01-01, including the ten seconds by which TAI was ahead of UTC at that time.
const EPOCH: u64 = 0x4000_0000_0000_000a;

impl Timestamp {
    /// Converts the time since 1970.
    pub(crate) fn from_unix(seconds: u64, nanos: u32) -> Timestamp {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&EPOCH.wrapping_add(seconds).to_be_bytes());
        bytes[8..].copy_from_slice(&nanos.to_be_bytes());
        Timestamp(bytes)
    }

    /// Returns the next higher timestamp, because two handshakes within one clock tick must have different
    /// timestamps.
    pub(crate) fn next(self) -> Timestamp {
        let mut bytes = self.0;
        for byte in bytes.iter_mut().rev() {
            let (sum, carried) = byte.overflowing_add(1);
            *byte = sum;
            if !carried {
                break;
            }
        }
        Timestamp(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_with_time() {
        let early = Timestamp::from_unix(1_700_000_000, 999_999_999);
        let late = Timestamp::from_unix(1_700_000_001, 0);
        assert!(early < late && early < early.next() && late < late.next());
        assert_eq!(Timestamp::from_unix(0, 0).0, [0x40, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0]);
    }
}
