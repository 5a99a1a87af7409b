//! What travels in the datagrams of a channel, in network byte order:
//!
//! | frame | bytes |
//! |---|---|
//! | data | 1, offset (8), bytes |
//! | end | 2, length of the whole stream (8) |
//! | acknowledgement | 3, up to where everything is there (8; one more once the end is), up to where there is room (8), frames that came twice (4), then for each stretch beyond, from the lowest on: its offset (8), its length (4) |

use std::ops::Range;

const DATA: u8 = 1;
const END: u8 = 2;
const ACK: u8 = 3;
/// Bytes of a data frame before its data.
pub(super) const DATA_HEADER: usize = 9;
/// Most stretches in an acknowledgement.
pub(super) const MAX_STRETCHES: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    Data { offset: u64, bytes: &'a [u8] },
    End { length: u64 },
    Ack(Ack),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ack {
    /// All before is there. The end counts as one byte.
    pub(super) next: u64,
    /// There is room for what lies before.
    pub(super) room: u64,
    /// Frames that came although their data was there, so far.
    pub(super) duplicates: u32,
    /// What is there beyond `next`.
    pub(super) beyond: Vec<Range<u64>>,
}

impl Frame<'_> {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Frame::Data { offset, bytes } => [&[DATA][..], &offset.to_be_bytes(), bytes].concat(),
            Frame::End { length } => [&[END][..], &length.to_be_bytes()].concat(),
            Frame::Ack(ack) => {
                let mut out = [&[ACK][..], &ack.next.to_be_bytes(), &ack.room.to_be_bytes()].concat();
                out.extend(ack.duplicates.to_be_bytes());
                for stretch in ack.beyond.iter().take(MAX_STRETCHES) {
                    let length = u32::try_from(stretch.end - stretch.start).unwrap_or(u32::MAX);
                    out.extend(stretch.start.to_be_bytes());
                    out.extend(length.to_be_bytes());
                }
                out
            }
        }
    }

    /// `None` for what is no frame.
    pub(super) fn decode(bytes: &[u8]) -> Option<Frame<'_>> {
        let (kind, rest) = bytes.split_first()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let number = u64::from_be_bytes(*number);
        Some(match *kind {
            DATA => {
                number.checked_add(rest.len() as u64).filter(|_| !rest.is_empty())?;
                Frame::Data { offset: number, bytes: rest }
            }
            END if rest.is_empty() && number < u64::MAX => Frame::End { length: number },
            ACK => {
                let (room, rest) = rest.split_first_chunk::<8>()?;
                let (duplicates, rest) = rest.split_first_chunk::<4>()?;
                let duplicates = u32::from_be_bytes(*duplicates);
                let (stretches, []) = rest.as_chunks::<12>() else { return None };
                let stretch = |bytes: &[u8; 12]| {
                    let (start, length) = bytes.split_first_chunk::<8>()?;
                    let start = u64::from_be_bytes(*start);
                    let length = u32::from_be_bytes(*length.first_chunk()?);
                    Some(start..start.checked_add(length.into())?)
                };
                let beyond = stretches.iter().map(stretch).collect::<Option<Vec<_>>>()?;
                Frame::Ack(Ack { next: number, room: u64::from_be_bytes(*room), duplicates, beyond })
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn comes_back_as_it_was() {
        let ack = Ack { next: 7, room: 99, duplicates: 3, beyond: vec![9..20, 30..31] };
        for frame in [
            Frame::Data { offset: 1 << 40, bytes: b"x" },
            Frame::End { length: 12 },
            Frame::Ack(ack),
            Frame::Ack(Ack::default()),
        ] {
            assert_eq!(Frame::decode(&frame.encode()), Some(frame));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_none(bytes: Vec<u8>, kind in 0u8..5) {
            if let Some(frame) = Frame::decode(&[&[kind][..], &bytes].concat()) {
                prop_assert!(Frame::decode(&frame.encode()).is_some());
            }
        }
    }
}
