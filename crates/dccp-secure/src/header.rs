//! The header that all messages have:
//!
//! ```text
//! 0     type, always 0x52
//! 1-3   number of the receiving server, big endian; 0: any
//! 4     shard of that server
//! 5-7   slot in that shard, big endian; 0xFFFFFF: no slot yet
//! 8-15  counter, big endian; its three largest values name the handshake messages
//! ```
//!
//! The type and the server number are where a layer-4 load balancer with stable UDP routing expects them.

/// Length of the header in bytes.
pub const HEADER: usize = 16;
/// Length of an AEAD tag in bytes.
pub const TAG: usize = 16;
/// Number of bytes that a record adds to a packet.
pub const OVERHEAD: usize = HEADER + TAG;

const TYPE: u8 = 0x52;
const INITIATION: u64 = u64::MAX;
const RESPONSE: u64 = u64::MAX - 1;
const COOKIE: u64 = u64::MAX - 2;
/// Slot number in an initiation, which has no slot yet.
pub(crate) const NO_SLOT: u32 = 0x00FF_FFFF;

/// Type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Initiation,
    Response,
    Cookie,
    /// A record, with its counter.
    Record(u64),
}

/// The receiver of a message: server, shard and slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Receiver {
    /// Number of the server, 24 bits.
    pub(crate) server: u32,
    /// Shard in the first 8 bits, and slot in the other 24.
    pub(crate) index: u32,
}

/// Returns whether a datagram is a handshake message. A sender that has not proved its key gets no other
/// answers: a cookie reply, or a response to a handshake that it may have recorded.
pub fn is_handshake(datagram: &[u8]) -> bool {
    read(datagram).is_some_and(|(_, kind)| !matches!(kind, Kind::Record(_)))
}

pub(crate) fn write(to: Receiver, kind: Kind, out: &mut [u8; HEADER]) {
    let counter = match kind {
        Kind::Initiation => INITIATION,
        Kind::Response => RESPONSE,
        Kind::Cookie => COOKIE,
        Kind::Record(n) => n,
    };
    let [_, s2, s1, s0] = to.server.to_be_bytes();
    let [i3, i2, i1, i0] = to.index.to_be_bytes();
    let [c7, c6, c5, c4, c3, c2, c1, c0] = counter.to_be_bytes();
    *out = [TYPE, s2, s1, s0, i3, i2, i1, i0, c7, c6, c5, c4, c3, c2, c1, c0];
}

pub(crate) fn read(datagram: &[u8]) -> Option<(Receiver, Kind)> {
    let header: &[u8; HEADER] = datagram.first_chunk()?;
    let [kind, server @ ..] = *header.first_chunk::<4>()?;
    if kind != TYPE {
        return None;
    }
    let index = u32::from_be_bytes(*header[4..].first_chunk()?);
    let server = u32::from_be_bytes([0, server[0], server[1], server[2]]);
    let kind = match u64::from_be_bytes(*header[8..].first_chunk()?) {
        INITIATION => Kind::Initiation,
        RESPONSE => Kind::Response,
        COOKIE => Kind::Cookie,
        n => Kind::Record(n),
    };
    Some((Receiver { server, index }, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let to = Receiver { server: 0x01_0203, index: 0x0405_0607 };
        for kind in [Kind::Initiation, Kind::Response, Kind::Cookie, Kind::Record(0), Kind::Record(1 << 60)] {
            let mut bytes = [0; HEADER];
            write(to, kind, &mut bytes);
            assert_eq!(bytes[..8], [0x52, 1, 2, 3, 4, 5, 6, 7]);
            assert_eq!(read(&bytes), Some((to, kind)));
            assert_eq!(is_handshake(&bytes), !matches!(kind, Kind::Record(_)));
        }
    }

    #[test]
    fn others_are_not_ours() {
        assert_eq!(read(&[0x52; 15]), None);
        assert_eq!(read(&[1; 32]), None);
    }
}
