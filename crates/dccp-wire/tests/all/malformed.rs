//! Malformed input yields the named error. Other options are still read or ignored after a malformed one, as
//! the RFC requires.

use dccp_wire::{MpOption, Opt, OptionError, Options, Packet, PacketType, ParseError, Seq};

/// Creates a packet of type `ptype` with Data Offset `offset`. All other bytes are zero.
fn packet(ptype: PacketType, long: bool, offset: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let head = [0, 1, 0, 2, offset, 0, 0, 0, ptype.number() << 1 | u8::from(long)];
    let n = len.min(head.len());
    bytes[..n].copy_from_slice(&head[..n]);
    bytes
}

#[test]
fn packets() {
    use PacketType::*;
    let table = [
        ("empty", packet(Data, false, 3, 0), ParseError::Truncated),
        ("half a generic header", packet(Data, false, 3, 8), ParseError::Truncated),
        ("eleven of twelve bytes", packet(Data, false, 3, 11), ParseError::Truncated),
        ("long number cut", packet(Data, true, 4, 15), ParseError::Truncated),
        ("no room for the ack", packet(Ack, false, 4, 12), ParseError::Truncated),
        ("ack cut", packet(Ack, true, 6, 23), ParseError::Truncated),
        ("service code cut", packet(Request, true, 5, 19), ParseError::Truncated),
        ("service code of a Listen cut", packet(Listen, true, 5, 19), ParseError::Truncated),
        ("reset code cut", packet(Reset, true, 7, 27), ParseError::Truncated),
        ("offset zero", packet(Data, true, 0, 16), ParseError::BadDataOffset),
        ("offset inside the header", packet(Response, true, 6, 28), ParseError::BadDataOffset),
        ("offset beyond the packet", packet(Data, true, 5, 19), ParseError::BadDataOffset),
        ("short request", packet(Request, false, 5, 20), ParseError::ShortNotAllowed),
        ("short response", packet(Response, false, 7, 28), ParseError::ShortNotAllowed),
        ("short CloseReq", packet(CloseReq, false, 6, 24), ParseError::ShortNotAllowed),
        ("short Close", packet(Close, false, 6, 24), ParseError::ShortNotAllowed),
        ("short Reset", packet(Reset, false, 7, 28), ParseError::ShortNotAllowed),
        ("short Sync", packet(Sync, false, 6, 24), ParseError::ShortNotAllowed),
        ("short SyncAck", packet(SyncAck, false, 6, 24), ParseError::ShortNotAllowed),
        ("short Listen", packet(Listen, false, 5, 20), ParseError::ShortNotAllowed),
        ("reserved type", packet(Reserved(11), true, 7, 28), ParseError::ReservedType),
        ("last reserved type", packet(Reserved(15), false, 7, 28), ParseError::ReservedType),
    ];
    for (what, bytes, error) in table {
        assert_eq!(Packet::parse(&bytes).err(), Some(error), "{what}");
    }
}

#[test]
fn coverage_beyond_the_packet() {
    for (payload, cscov, good) in [
        (0, 0, true),
        (0, 1, true),
        (0, 2, false),
        (8, 3, true),
        (8, 4, false),
        (55, 15, false),
        (56, 15, true),
    ] {
        let mut bytes = packet(PacketType::Data, true, 4, 16 + payload);
        bytes[5] = 0xa0 | cscov;
        let parsed = Packet::parse(&bytes);
        assert_eq!(parsed.err(), (!good).then_some(ParseError::BadCoverage), "{payload} {cscov}");
        assert!(parsed.is_err() || parsed.is_ok_and(|p| p.header.ccval == 10 && p.header.cscov == cscov));
    }
}

#[test]
fn reserved_bits_are_ignored() {
    let mut bytes = packet(PacketType::Ack, true, 6, 24);
    bytes[8] |= 0xe0;
    bytes[9] = 0xff;
    bytes[16..18].fill(0xff);
    let header = Packet::parse(&bytes).unwrap().header;
    assert_eq!((header.ptype, header.seq, header.ack), (PacketType::Ack, Seq::new(0), Some(Seq::new(0))));
    let mut bytes = packet(PacketType::Ack, false, 4, 16);
    bytes[12] = 0xff;
    assert_eq!(Packet::parse(&bytes).unwrap().header.ack, Some(Seq::new(0)));
}

fn read(bytes: &[u8]) -> Vec<Result<Opt<'_>, OptionError>> {
    Options::new(bytes).collect()
}

#[test]
fn lengths_that_end_the_area() {
    // RFC 4340 section 5.8: the length byte of these options is below two, exceeds the area, or is missing.
    let table: [(&[u8], OptionError); 6] = [
        (&[37], OptionError { option: 37, data: [0, 0] }),
        (&[37, 0, 7, 8], OptionError { option: 37, data: [7, 8] }),
        (&[37, 1, 7, 8], OptionError { option: 37, data: [7, 8] }),
        (&[37, 5, 7, 8], OptionError { option: 37, data: [7, 8] }),
        (&[200, 255, 7], OptionError { option: 200, data: [7, 0] }),
        (&[46, 1, 2, 2], OptionError { option: 46, data: [2, 2] }),
    ];
    for (bytes, error) in table {
        assert_eq!(read(bytes), [Err(error)]);
        // Options before the malformed one are read, and options after it are ignored.
        let mut among = vec![2];
        among.extend(bytes);
        assert_eq!(read(&among), [Ok(Opt::SlowReceiver), Err(error)]);
    }
    let mut options = Options::new(&[37, 1, 2, 2, 2]);
    assert!(options.next().is_some_and(|o| o.is_err()));
    assert!(options.next().is_none());
}

#[test]
fn values_that_cannot_be() {
    // Type of each option and valid values of its length byte.
    let table: [(u8, &[u8]); 9] = [
        (32, &[3, 4, 5, 255]),
        (35, &[3, 4, 5, 255]),
        (37, &[3, 4, 5, 6, 7, 8]),
        (38, &[2, 3, 255]),
        (40, &[2, 3, 255]),
        (41, &[6]),
        (42, &[6, 8, 10]),
        (43, &[4, 6]),
        (44, &[6]),
    ];
    for (kind, good) in table {
        for len in 2..=255u8 {
            let mut bytes = vec![1; usize::from(len)];
            bytes[..2].copy_from_slice(&[kind, len]);
            let invalid =
                matches!(read(&bytes)[..], [Ok(Opt::Invalid(k, data))] if k == kind && data == &bytes[2..]);
            let named = good.contains(&len) || (good.contains(&255) && len >= good[0]);
            assert_eq!(invalid, !named, "type {kind} length {len}");
        }
    }
}

#[test]
fn mp_values_that_cannot_be() {
    // RFC 9897 section 3.2: valid values of each subtype's length byte. An empty list means that any length
    // is valid.
    let table: [(u8, &[u8]); 13] = [
        (0, &[]),
        (1, &[12]),
        (2, &[]),
        (3, &[8, 17, 26, 35]),
        (4, &[9]),
        (5, &[23]),
        (6, &[12]),
        (7, &[12, 14, 24, 26]),
        (8, &[8]),
        (9, &[4]),
        (10, &[]),
        (11, &[]),
        (12, &[]),
    ];
    for (subtype, good) in table {
        for len in 3..40u8 {
            let mut bytes = vec![0; usize::from(len)];
            bytes[..3].copy_from_slice(&[46, len, subtype]);
            let invalid = matches!(read(&bytes)[..], [Ok(Opt::Invalid(46, data))] if data == &bytes[2..]);
            assert_eq!(invalid, !(good.is_empty() || good.contains(&len)), "subtype {subtype} length {len}");
        }
    }
    assert_eq!(read(&[46, 2]), [Ok(Opt::Invalid(46, &[]))]);
    // A key of unknown type takes the rest of the list.
    assert_eq!(
        read(&[46, 11, 3, 9, 0, 0, 0, 5, 1, 2, 3]),
        [Ok(Opt::Mp(MpOption::Key { ci: 5, keys: &[1, 2, 3] }))]
    );
}

#[test]
fn padding_anywhere() {
    assert_eq!(
        read(&[0, 0, 2, 0, 44, 6, 4, 3, 2, 1, 0]),
        [Ok(Opt::SlowReceiver), Ok(Opt::DataChecksum(0x0102_0304))]
    );
    assert_eq!(read(&[0, 0, 0, 0]), []);
}

#[test]
fn mandatory() {
    // RFC 4340 section 5.8.2: a Mandatory before padding is padding. A Mandatory as the last option is an
    // error of the connection, so the parser returns it.
    assert_eq!(read(&[1, 0, 2]), [Ok(Opt::SlowReceiver)]);
    assert_eq!(read(&[1, 2, 0, 1]), [Ok(Opt::Mandatory), Ok(Opt::SlowReceiver), Ok(Opt::Mandatory)]);
    // A Mandatory before another is an error, too, even if padding follows.
    assert_eq!(read(&[1, 1, 0, 2]), [Ok(Opt::Mandatory), Ok(Opt::Mandatory), Ok(Opt::SlowReceiver)]);
}

#[test]
fn culprit_for_the_reset() {
    let mut options = Options::new(&[0, 32, 5, 99, 7, 8, 2, 32, 3, 9]);
    options.next();
    assert_eq!(options.culprit(), OptionError { option: 32, data: [99, 7] });
    options.next();
    assert_eq!(options.culprit(), OptionError { option: 2, data: [0, 0] });
    options.next();
    assert_eq!(options.culprit(), OptionError { option: 32, data: [9, 0] });
}
