//! Sends packets in pieces that the other end reassembles. The tunnel does this with two kinds of packets:
//! IPv6 packets of up to 1280 bytes, if the paths carry less, because the senders may ignore a smaller MTU;
//! and large packets, as long as it is unknown whether a path carries them.
//!
//! A piece is a message of the tunnel. It starts with the bytes `10 06`. The next two bytes are the packet
//! number, which is the same in all pieces of a packet. The byte after that holds the index of the piece
//! (upper half) and the index of the last piece (lower half).

use super::mtu;
use mpdccp_proto::SessionId;
use mpdccp_units::{Duration, Time};
use std::collections::VecDeque;

const PIECE: [u8; 2] = [0x10, 6];
const HEADER: usize = 5;
/// Highest index of a piece.
const MOST_LAST: usize = 15;
/// Maximum number of incomplete packets per peer.
const MOST: usize = 16;

/// The missing pieces of a packet are not awaited longer than this. A busy sender uses the same number again
/// after a few seconds.
const MAX_AGE: Duration = Duration::from_secs(2);

/// A peer's incomplete packets, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Pieces(VecDeque<Incomplete>);

#[derive(Debug)]
struct Incomplete {
    /// The session and the number of the packet. A peer that restarts uses the same numbers again.
    id: (SessionId, u16),
    since: Time,
    /// The pieces that have arrived.
    parts: Vec<Option<Vec<u8>>>,
}

/// Result of adding a piece.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// The packet is complete.
    Whole(Vec<u8>),
    /// Pieces are still missing.
    Partial,
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

    /// Adds a piece to its packet. Also returns the number of incomplete packets that were dropped.
    pub(crate) fn join(&mut self, now: Time, session: SessionId, message: &[u8]) -> (Joined, u64) {
        let Some((&[_, _, high, low, place], data)) = message.split_first_chunk::<HEADER>() else {
            return (Joined::Wrong, 0);
        };
        let (id, which, last) = ((session, u16::from_be_bytes([high, low])), place >> 4, place & 15);
        let (which, count) = (usize::from(which), usize::from(last) + 1);
        if which >= count || data.is_empty() {
            return (Joined::Wrong, 0);
        }
        let before = self.0.len();
        self.0.retain(|old| {
            // If a piece contradicts an earlier one, its sender has used the number again.
            let again =
                old.parts.len() != count || old.parts[which].as_ref().is_some_and(|part| part != data);
            now.since(old.since) < MAX_AGE && !(old.id == id && again)
        });
        let lost = (before - self.0.len()) as u64;
        let at = self.0.iter().position(|old| old.id == id).unwrap_or_else(|| {
            self.0.push_back(Incomplete { id, since: now, parts: vec![None; count] });
            self.0.len() - 1
        });
        let parts = &mut self.0[at].parts;
        parts[which] = Some(data.to_vec());
        // A reassembled packet must not exceed the largest MTU.
        if parts.iter().flatten().map(Vec::len).sum::<usize>() > usize::from(mtu::MOST) {
            self.0.remove(at);
            return (Joined::Wrong, lost);
        }
        if parts.iter().all(Option::is_some) {
            let whole = self.0.remove(at).map(|whole| whole.parts.into_iter().flatten().flatten().collect());
            return (whole.map_or(Joined::Wrong, Joined::Whole), lost);
        }
        let full = self.0.len() > MOST;
        if full {
            self.0.pop_front();
        }
        (Joined::Partial, lost + u64::from(full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: SessionId = SessionId(1);

    fn join(pieces: &mut Pieces, piece: &[u8]) -> (Joined, u64) {
        pieces.join(Time::ZERO, SESSION, piece)
    }

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
            let twice = pieces.iter().chain(&pieces);
            assert!(twice.into_iter().all(|piece| join(&mut other, piece) == (Joined::Partial, 0)));
            assert_eq!(join(&mut other, &last), (Joined::Whole(packet.clone()), 0));
            assert!(other.0.is_empty());
        }
        assert!([0, 4, 5, 6, 84].iter().all(|room| cut(7, &packet, *room).is_none()));
        assert_eq!(cut(1, &[0, 1], 7).unwrap(), [[0x10, 6, 0, 1, 0, 0, 1]], "as docs/tunnel.md says");
    }

    #[test]
    fn kept_pieces_are_bounded() {
        let mut pieces = Pieces::default();
        let lost: u64 = (0..100)
            .map(|number| match join(&mut pieces, &cut(number, &[7; 1280], 1000).unwrap()[1]) {
                (Joined::Partial, lost) => lost,
                other => panic!("{other:?}"),
            })
            .sum();
        assert_eq!((pieces.0.len(), lost), (MOST, 100 - MOST as u64));
        for wrong in [&[0x10, 6][..], &[0x10, 6, 0, 0, 0x01], &[0x10, 6, 0, 0, 0x21, 7]] {
            assert_eq!(join(&mut pieces, wrong), (Joined::Wrong, 0), "{wrong:?}");
        }
        let large = [&[0x10, 6, 9, 9, 0x01][..], &[0; 9001]].concat();
        assert_eq!((join(&mut pieces, &large), pieces.0.len()), ((Joined::Wrong, 0), MOST));
    }

    /// Two packets have the same number, and only the first piece of the first packet arrives.
    #[test]
    fn pieces_of_different_packets_are_never_joined() {
        let [old, new] = [1, 2].map(|byte| cut(7, &[byte; 1280], 1000).unwrap());
        for (later, session, first, lost) in
            [(MAX_AGE, SESSION, 1, 1), (Duration::ZERO, SessionId(2), 1, 0), (Duration::ZERO, SESSION, 0, 1)]
        {
            let (mut pieces, now) = (Pieces::default(), Time::ZERO + later);
            assert_eq!(join(&mut pieces, &old[0]), (Joined::Partial, 0));
            assert_eq!(pieces.join(now, session, &new[first]), (Joined::Partial, lost));
            assert_eq!(pieces.join(now, session, &new[1 - first]), (Joined::Whole(vec![2; 1280]), 0));
        }
        // The second packet consists of a different number of pieces.
        let mut pieces = Pieces::default();
        assert_eq!(join(&mut pieces, &old[0]), (Joined::Partial, 0));
        let new = cut(7, &[2; 1280], 500).unwrap();
        assert_eq!([1, 0, 2].map(|n| join(&mut pieces, &new[n]).1), [1, 0, 0]);
        assert!(pieces.0.is_empty());
    }
}
