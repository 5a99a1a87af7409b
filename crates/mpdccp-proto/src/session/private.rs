//! Private options between two mpdccp programs, encoded as MP_EXP options (RFC 9897 section 3.2.12).

use crate::PathName;
use dccp_wire::{MpOption, Seq};
use mpdccp_units::Duration;

/// First bytes of these options, which distinguish them from other uses of MP_EXP.
const MAGIC: [u8; 4] = *b"mpd1";
/// Length of the longest option, bytes.
const LONGEST: usize = 12;

/// A private option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Private {
    /// On Request and Response: the capabilities of the sender.
    Hello {
        /// Whether the sender drops duplicates. If so, it waits for repairs once it knows how long they take.
        repairs: bool,
        /// Whether the sender includes in each data packet the distance to its flow's previous packet, and
        /// makes use of received distances.
        flows: bool,
        /// Whether the sender restores lost packets from FEC packets.
        fec: bool,
        /// Whether the sender supports byte streams (docs/streams.md).
        streams: bool,
    },
    /// Lost packets are retransmitted within this time after the peer notices the loss, or not at all.
    Repair(Duration),
    /// The sender of this option receives no packets on the paths between these two Address IDs. The first ID
    /// belongs to the sender, the second to the receiver.
    Suspect(u8, u8),
    /// On a Request: the name of the path.
    Name(PathName),
    /// On an FEC packet, in place of MP_SEQ: the MP_SEQ of its newest protected packet, and the number of
    /// protected packets.
    Fec(Seq, u8),
}

impl Private {
    pub(super) fn read(bytes: &[u8]) -> Option<Private> {
        Some(match *bytes.strip_prefix(&MAGIC)? {
            [0, flags, ..] => {
                // Flag 4 must not be used: it stood for FEC packets in another format.
                Private::Hello {
                    repairs: flags & 1 != 0,
                    flows: flags & 2 != 0,
                    fec: flags & 8 != 0,
                    streams: flags & 16 != 0,
                }
            }
            [1, high, low] => Private::Repair(Duration::from_millis(u16::from_be_bytes([high, low]).into())),
            [2, ours, theirs] => Private::Suspect(ours, theirs),
            [4, count, a, b, c, d, e, f] => {
                Private::Fec(Seq::new(u64::from_be_bytes([0, 0, a, b, c, d, e, f])), count)
            }
            [3, a, b, c, d] => Private::Name(PathName(u32::from_be_bytes([a, b, c, d]))),
            _ => return None,
        })
    }

    /// Returns whether an option begins like the private options. Its kind may still be unknown.
    pub(super) fn is_ours(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Encodes the option and passes it to `take`.
    pub(super) fn with<T>(self, take: impl FnOnce(MpOption<'_>) -> T) -> T {
        let mut bytes = [0; LONGEST];
        let mut len = 0;
        let mut put = |more: &[u8]| {
            bytes[len..len + more.len()].copy_from_slice(more);
            len += more.len();
        };
        put(&MAGIC);
        match self {
            Private::Hello { repairs, flows, fec, streams } => {
                let flags = [(repairs, 1), (flows, 2), (fec, 8), (streams, 16)];
                put(&[0, flags.iter().map(|(on, flag)| u8::from(*on) * flag).sum(), 0]);
            }
            Private::Repair(wait) => {
                let [high, low] = u16::try_from(wait.as_millis()).unwrap_or(u16::MAX).to_be_bytes();
                put(&[1, high, low]);
            }
            Private::Suspect(ours, theirs) => put(&[2, ours, theirs]),
            Private::Fec(newest, count) => {
                put(&[4, count]);
                put(&newest.value().to_be_bytes()[2..]);
            }
            Private::Name(PathName(name)) => {
                put(&[3]);
                put(&name.to_be_bytes());
            }
        }
        take(MpOption::Exp(&bytes[..len]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_messages_are_decoded_unchanged() {
        let write = |private: Private| {
            private.with(|option| match option {
                MpOption::Exp(bytes) => bytes.to_vec(),
                _ => Default::default(),
            })
        };
        let all = [
            Private::Name(PathName::of("dsl")),
            Private::Fec(Seq::new(Seq::MODULUS - 2), 16),
            Private::Hello { repairs: true, flows: false, fec: true, streams: false },
            Private::Hello { repairs: false, flows: true, fec: false, streams: true },
            Private::Repair(Duration::from_millis(300)),
            Private::Suspect(0, 255),
        ];
        for private in all {
            assert_eq!(Private::read(&write(private)), Some(private));
        }
        assert_eq!(write(Private::Repair(Duration::from_secs(100)))[5..], [255, 255]);
        for other in [
            &b""[..],
            b"mpd",
            b"mpd1",
            b"mpd1\x01\x02",
            b"mpd2\x00\x01",
            b"mpd1\x09\x01\x01",
            b"mpd1\x03\x01\x01",
        ] {
            assert_eq!(Private::read(other), None);
        }
    }
}
