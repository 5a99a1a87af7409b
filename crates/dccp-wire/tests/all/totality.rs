//! Every possible header and option, by length and type, is either parsed or refused, and every byte is read
//! exactly once.

use dccp_wire::{Options, Packet, PacketType, ParseError};

/// Checks which headers are malformed (RFC 4340 section 8.5 step 1). The test tries all types, both number
/// lengths, all Data Offsets and coverages, and packet lengths up to beyond the longest fixed header.
#[test]
fn every_header_is_read_or_refused() {
    let mut bytes = [0x5a; 48];
    let mut read = 0;
    for kind in 0..32u8 {
        bytes[8] = kind;
        let (ptype, short) = (PacketType::from_number(kind >> 1), kind & 1 == 0);
        for offset in 0..=255u8 {
            bytes[4] = offset;
            for cscov in 0..16u8 {
                bytes[5] = 0x70 | cscov;
                for len in 0..=bytes.len() {
                    match Packet::parse(&bytes[..len]) {
                        Ok(packet) => {
                            read += 1;
                            let fixed = packet.header.len();
                            assert_eq!(fixed + packet.option_bytes.len(), usize::from(offset) * 4);
                            assert_eq!(fixed + packet.option_bytes.len() + packet.payload.len(), len);
                            assert_eq!((packet.header.ptype, packet.header.short), (ptype, short));
                            assert_eq!(packet.header.ack.is_some(), ptype.has_ack());
                            assert!(!short || ptype.allows_short());
                            assert!(cscov == 0 || usize::from(cscov - 1) * 4 <= packet.payload.len());
                        }
                        Err(ParseError::ReservedType) => assert!(matches!(ptype, PacketType::Reserved(_))),
                        Err(ParseError::ShortNotAllowed) => assert!(short && !ptype.allows_short()),
                        Err(ParseError::BadCoverage) => assert!(cscov > 0),
                        Err(ParseError::BadDataOffset) => {
                            assert!(offset < 8 || usize::from(offset) * 4 > len)
                        }
                        Err(ParseError::Truncated) => assert!(len < 28),
                        Err(other) => panic!("unexpected error {other:?}"),
                    }
                }
            }
        }
    }
    assert!(read > 5_000, "{read}");
}

/// Checks where options begin and end (RFC 4340 section 5.8). Tries all option types with all lengths, in
/// areas of all lengths up to the longest option. No read goes beyond the area, and parsing ends.
#[test]
fn every_option_is_read_or_ends_the_area() {
    let mut area = [0u8; 257];
    for kind in 0..=255u8 {
        for length in 0..=255u8 {
            for byte in [0, 1, 0xff] {
                area.fill(byte);
                (area[0], area[1]) = (kind, length);
                for end in [1, 2, 3, 4, 9, usize::from(length), usize::from(length) + 1, area.len()] {
                    let end = end.min(area.len());
                    let mut options = Options::new(&area[..end]);
                    let count = options.by_ref().take(area.len() + 1).count();
                    assert!(count <= end, "{kind} {length} {end}");
                    assert!(options.next().is_none());
                }
            }
        }
    }
}
