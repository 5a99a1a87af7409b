//! Sends packets in pieces that the other end reassembles. The tunnel does this with two kinds of packets:
//! IPv6 packets of up to 1280 bytes, if the paths carry less, because the senders may ignore a smaller MTU;
//! and large packets, as long as it is unknown whether a path carries them.
//!
//! A piece is a message of the tunnel. It starts with the bytes `10 06`. The next two bytes are the packet
//! number, which is the same in all pieces of a packet. The byte after that holds the index of the piece
//! (upper half) and the index of the last piece (lower half).

use super::mtu;
use std::collections::VecDeque;

const PIECE: [u8; 2] = [0x10, 6];
const HEADER: usize = 5;
/// Highest index of a piece.
const MOST_LAST: usize = 15;
/// Maximum number of incomplete packets per peer.
const MOST: usize = 16;

/// A peer's incomplete packets, oldest first. Each has its number and the pieces that have arrived.
#[derive(Debug, Default)]
pub(crate) struct Pieces(VecDeque<(u16, Vec<Option<Vec<u8>>>)>);

/// Result of adding a piece.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// The packet is complete.
    Whole(Vec<u8>),
    /// Pieces are still missing. The value is the number of older packets that were dropped to make room.
    Partial(u64),
    /// The message is not a valid piece.
    Wrong,
}

/// Cuts a packet into equal pieces of at most `room` bytes. All pieces get `number`. Returns `None` if there
/// would be too many pieces.
pub(crate) fn cut(number: u16, packet: &[u8], room: usize) -> Option<Vec<Vec<u8>>> {
    let count = packet.len().div_ceil(room.checked_sub(HEADER).filter(|room| *room > 0)?);
    let last = count.checked_sub(1).filter(|last| *last <= MOST_LAST)?;
    let piece = |(i, data): (usize, &[u8])| {
        [&PIECE[..], &number.to_be_bytes(), &[(i << 4 | last) as u8], data].concat()
    };
    Some(packet.chunks(packet.len().div_ceil(count)).enumerate().map(piece).collect())
}

impl Pieces {
    /// Returns whether a message is a piece.
    pub(crate) fn is_piece(message: &[u8]) -> bool {
        message.starts_with(&PIECE)
    }

    /// Adds a piece to its packet.
    pub(crate) fn join(&mut self, message: &[u8]) -> Joined {
        let Some((&[_, _, high, low, place], data)) = message.split_first_chunk::<HEADER>() else {
            return Joined::Wrong;
        };
        let (number, which, last) = (u16::from_be_bytes([high, low]), place >> 4, place & 15);
        let (which, count) = (usize::from(which), usize::from(last) + 1);
        let known = |(theirs, parts): &(u16, Vec<Option<Vec<u8>>>)| *theirs == number && parts.len() == count;
        if which >= count || data.is_empty() {
            return Joined::Wrong;
        }
        let at = self.0.iter().position(known).unwrap_or_else(|| {
            self.0.push_back((number, vec![None; count]));
            self.0.len() - 1
        });
        let parts = &mut self.0[at].1;
        parts[which] = Some(data.to_vec());
        // A reassembled packet must not exceed the largest MTU.
        if parts.iter().flatten().map(Vec::len).sum::<usize>() > usize::from(mtu::MOST) {
            self.0.remove(at);
            return Joined::Wrong;
        }
        if parts.iter().all(Option::is_some) {
            let whole = self.0.remove(at).map(|(_, parts)| parts.into_iter().flatten().flatten().collect());
            return whole.map_or(Joined::Wrong, Joined::Whole);
        }
        let full = self.0.len() > MOST;
        if full {
            self.0.pop_front();
        }
        Joined::Partial(full.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_the_same_again_in_whatever_order_its_pieces_come() {
        let packet: Vec<u8> = (0..1280u16).map(|n| n as u8).collect();
        for room in [86, 488, 644, 645, 1112, 1279] {
            let mut other = Pieces::default();
            let mut pieces = cut(7, &packet, room).unwrap();
            assert!(
                pieces.len() > 1 && pieces.iter().all(|piece| piece.len() <= room && Pieces::is_piece(piece))
            );
            pieces.reverse();
            let last = pieces.pop().unwrap();
            // A duplicate piece has no effect.
            assert!(pieces.iter().chain(&pieces).all(|piece| other.join(piece) == Joined::Partial(0)));
            assert_eq!((other.join(&last), other.0.len()), (Joined::Whole(packet.clone()), 0));
        }
        assert!([0, 4, 5, 6, 84].iter().all(|room| cut(7, &packet, *room).is_none()));
        assert_eq!(cut(1, &[0, 1], 7).unwrap(), [[0x10, 6, 0, 1, 0, 0, 1]], "as docs/tunnel.md says");
    }

    #[test]
    fn kept_pieces_are_bounded() {
        let mut pieces = Pieces::default();
        let lost: u64 = (0..100)
            .map(|number| match pieces.join(&cut(number, &[7; 1280], 1000).unwrap()[1]) {
                Joined::Partial(lost) => lost,
                other => panic!("{other:?}"),
            })
            .sum();
        assert_eq!((pieces.0.len(), lost), (MOST, 100 - MOST as u64));
        for wrong in [&[0x10, 6][..], &[0x10, 6, 0, 0, 0x01], &[0x10, 6, 0, 0, 0x21, 7]] {
            assert_eq!(pieces.join(wrong), Joined::Wrong, "{wrong:?}");
        }
        let large = [&[0x10, 6, 9, 9, 0x01][..], &[0; 9001]].concat();
        assert_eq!((pieces.join(&large), pieces.0.len()), (Joined::Wrong, MOST));
    }
}
