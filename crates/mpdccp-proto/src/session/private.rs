//! Private options between two ends of ours, in MP_EXP (RFC 9897 section 3.2.12).

use dccp_wire::MpOption;
use units::Duration;

/// First bytes of ours: MP_EXP is everybody's.
const MAGIC: [u8; 4] = *b"mpd1";

/// What we tell an end of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Private {
    /// In Request and Response: what this end understands.
    Hello {
        /// Waits for repairs if it is told how long, and drops duplicates.
        repairs: bool,
    },
    /// What a path loses comes again within this time after it was missed, or not at all.
    Repair(Duration),
    /// Nothing comes from the peer on paths between these Address IDs, ours first.
    Silent(u8, u8),
}

impl Private {
    pub(super) fn read(bytes: &[u8]) -> Option<Private> {
        Some(match *bytes.strip_prefix(&MAGIC)? {
            [0, flags, ..] => Private::Hello { repairs: flags & 1 != 0 },
            [1, high, low] => Private::Repair(Duration::from_millis(u16::from_be_bytes([high, low]).into())),
            [2, ours, theirs] => Private::Silent(ours, theirs),
            _ => return None,
        })
    }

    /// Whether an option is one of ours, known or not.
    pub(super) fn is_ours(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    fn write(self) -> [u8; 7] {
        let body = match self {
            Private::Hello { repairs } => [0, repairs.into(), 0],
            Private::Repair(wait) => {
                let [high, low] = u16::try_from(wait.as_millis()).unwrap_or(u16::MAX).to_be_bytes();
                [1, high, low]
            }
            Private::Silent(ours, theirs) => [2, ours, theirs],
        };
        let [m0, m1, m2, m3] = MAGIC;
        let [kind, a, b] = body;
        [m0, m1, m2, m3, kind, a, b]
    }

    /// Hands out the option.
    pub(super) fn with<T>(self, take: impl FnOnce(MpOption<'_>) -> T) -> T {
        take(MpOption::Exp(&self.write()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let all = [
            Private::Hello { repairs: true },
            Private::Hello { repairs: false },
            Private::Repair(Duration::from_millis(300)),
            Private::Silent(0, 255),
        ];
        for private in all {
            assert_eq!(Private::read(&private.write()), Some(private));
        }
        assert_eq!(Private::Repair(Duration::from_secs(100)).write()[5..], [255, 255]);
        for other in [&b""[..], b"mpd", b"mpd1", b"mpd1\x01\x02", b"mpd2\x00\x01", b"mpd1\x09\x01\x01"] {
            assert_eq!(Private::read(other), None);
        }
    }
}
